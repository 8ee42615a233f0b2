"""A command that runs a program on files that lose unsynced writes.

    python -m headwater.testing.powercut program.py ARGS
    python -m headwater.testing.powercut -m headwater serve --store spaces/
    python -m headwater.testing.powercut -c CODE ARGS

The files of its spaces are opened through `headwater.testing.powerloss`. A program that ends by itself loses nothing.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Final

from headwater.host.space_files import use_vfs
from headwater.testing.powerloss import register

_USAGE: Final = "usage: python -m headwater.testing.powercut (FILE | -m MODULE | -c CODE) [ARGS]"


def main(words: list[str]) -> None:
    """Become the program that is named as for python itself."""
    match words:
        case ["-m", name, *args]:
            use_vfs(register())
            sys.argv = [name, *args]
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        case ["-c", code, *args]:
            use_vfs(register())
            sys.argv = ["-c", *args]
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102  # as python -c does
        case [path, *args] if not path.startswith("-"):
            use_vfs(register())
            sys.argv = [path, *args]
            sys.path[0] = str(Path(path).resolve().parent)
            runpy.run_path(path, run_name="__main__")
        case _:
            sys.exit(_USAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
