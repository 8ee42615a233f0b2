"""An interpreter that has imported Headwater already, and runs commands in processes forked from it.

To start python and to import the command line takes ten times as long as most commands take. `Warm` is one process that
has done so; each command is a fork of it, with a folder, an environment and output of its own, and ends as programs
end. The first process has no threads, so that to fork it is safe, and nothing open.

Not for tests of how an interpreter starts: options and variables of python are those of the first process.
"""

from __future__ import annotations

import atexit
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import NoReturn, Self

import msgspec

import headwater

ROOT = Path(__file__).resolve().parents[2]
START = f"import sys; sys.path.append({str(ROOT)!r}); from {__name__} import serve; serve()"


class Command(msgspec.Struct, frozen=True):
    """What to run, where, and the file for what it prints to stdout and stderr."""

    words: list[str]
    """`headwater` or `python`, and what is behind it."""
    folder: str
    env: dict[str, str]
    out: str


class Warm:
    """The first process, as a test sees it."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-c", START]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, *words: str, folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
        """The exit code of a command, which has ended, and what it has printed."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        with tempfile.NamedTemporaryFile() as out:
            command = Command(list(words), str(folder), dict(env), out.name)
            asked.write(msgspec.json.encode(command) + b"\n")
            asked.flush()
            code = int(answered.readline())
            return code, Path(out.name).read_text(encoding="utf-8")


# --- in the first process ------------------------------------------------------------------------------------


def serve() -> None:
    """Import what commands need, and run them one after another until stdin ends."""
    for module in walk_packages(headwater.__path__, "headwater."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        command = msgspec.json.decode(line, type=Command)
        pid = os.fork()
        if not pid:
            end(become(command))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def become(command: Command) -> int:
    """Be the process of a command, as if it had been started for it; its exit code."""
    os.chdir(command.folder)
    os.environ.clear()
    os.environ.update(command.env)
    time.tzset()
    out, nothing = os.open(command.out, os.O_WRONLY | os.O_APPEND), os.open(os.devnull, os.O_RDONLY)
    for number, stream in enumerate((nothing, out, out)):
        os.dup2(stream, number)
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    name, *sys.argv = command.words
    try:
        if name == "headwater":
            sys.argv.insert(0, name)
            import_module("headwater.cli.main").main()
        else:
            sys.path.insert(0, command.folder)
            vars(module)["__file__"] = sys.argv[0]
            code = compile(Path(sys.argv[0]).read_bytes(), sys.argv[0], "exec", dont_inherit=True)
            exec(code, vars(module))  # noqa: S102  # as python does
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException as error:  # noqa: BLE001  # shown as python does: without the frames of this module
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error, trace)
        return 1
    return 0


def end(code: int) -> NoReturn:
    """End as python does, without the last step: to free everything one by one would copy the memory of the parent."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
