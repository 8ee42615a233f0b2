"""Compiles the hot modules with mypyc: `python tools/compiled/build.py INTO [--work FOLDER]`.

INTO gets what a compiled wheel has on top of a pure one: an extension module beside each compiled source, and the
shared library that all of them load. With `--whole` it gets the rest as well, and can be put on the path. With
`--analyse`, nothing is made: it fails if mypyc refuses the sources.

Needs mypy, setuptools and a C compiler. The sources are not changed: a copy of the package is compiled in a folder of
its own, so that nothing is left in the checkout and no setting of the project is read there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

if __package__ in (None, ""):  # started as a file, by the build backend
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import mypy.version
from setuptools import Distribution
from setuptools.command.build_ext import build_ext

from tools.compiled.docstrings import add_docstrings
from tools.compiled.modules import IMPORTED, compiled_modules
from tools.compiled.source_paths import add_source_path

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "src" / "headwater"
LIBRARY: Final = "headwater"
"""The name of the shared library, before `__mypyc`."""


def compile_into(target: Path, work: Path, *, opt_level: str = "3") -> None:
    """Compile into a folder; `work` keeps what makes the next time quicker."""
    target = target.resolve()
    extensions = _extensions(work, opt_level)
    for name in compiled_modules(SOURCES):
        code = Path("c", "__native_headwater___" + name.removesuffix(".py").replace("/", "___") + ".c")
        add_docstrings(SOURCES / name, code)
        add_source_path(code)
    distribution = Distribution({"name": "headwater", "ext_modules": extensions})
    command = _BuildExtensions(distribution)
    command.build_lib = str(target)
    command.build_temp = "objects"
    command.ensure_finalized()
    command.run()


def analyse(work: Path) -> None:
    """Translate the modules to C and no further. Needs no C compiler, and is quick if nothing has changed."""
    work = work.resolve()
    digest = hashlib.sha256(f"{sys.version} {mypy.version.__version__}".encode())
    imported = [path for name in IMPORTED for path in SOURCES.glob(name)]
    for path in sorted([*imported, *Path(__file__).parent.glob("*.py")]):
        digest.update(f"{path}\n".encode() + path.read_bytes())
    stamp = work / "stamp"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest.hexdigest():
        return
    _extensions(work, "0")
    stamp.write_text(digest.hexdigest(), encoding="utf-8")


def _extensions(work: Path, opt_level: str) -> list[Any]:
    """Translate the modules to C in a folder, which becomes the current one."""
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    _copy(SOURCES, work / "headwater")
    _open_limits(work / "headwater")
    os.chdir(work)  # the paths that mypyc writes are relative to here: `headwater/cells/replica.py`
    from mypyc.build import mypycify  # noqa: PLC0415  # it must come after setuptools

    # Optional libraries need not be here: no compiled module imports them.
    options = ["--config-file=", "--ignore-missing-imports"]
    paths = [f"headwater/{name}" for name in compiled_modules(SOURCES)]
    return mypycify(
        [*options, *paths],
        multi_file=True,
        opt_level=opt_level,
        debug_level="0",
        target_dir="c",
        group_name=LIBRARY,
    )


def _copy(folder: Path, into: Path) -> None:
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(folder, into, ignore=shutil.ignore_patterns("__pycache__"))


def _open_limits(package: Path) -> None:
    """Limits are read when they are needed, as in the sources: constants that are `Final` would be compiled in.

    The simulation and the tests set limits to small numbers. The modules of the limits are not compiled themselves.
    """
    for path in package.rglob("*_limits.py"):
        path.write_text(path.read_text(encoding="utf-8").replace(": Final = ", " = "), encoding="utf-8")


class _BuildExtensions(build_ext):  # type: ignore[misc]  # of a library without types
    """Compiles the files of one library at the same time: setuptools compiles them one after the other."""

    def build_extensions(self) -> None:
        compile_one = self.compiler.compile

        def compile_all(sources: Sequence[str], *args: Any, **options: Any) -> list[str]:  # noqa: ANN401
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = pool.map(lambda source: compile_one([source], *args, **options), sources)
                return [path for paths in made for path in paths]

        self.compiler.compile = compile_all
        super().build_extensions()


def main() -> None:
    """Compile as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("into", type=Path, nargs="?")
    parser.add_argument("--analyse", action="store_true", help="only find out whether it can be compiled; with --work")
    parser.add_argument("--work", type=Path, help="a folder that is kept; else a temporary one")
    parser.add_argument("--whole", action="store_true", help="with the sources, as a package that can be imported")
    parser.add_argument("--opt-level", default="3", help="of the C compiler")
    options = parser.parse_args()
    if options.analyse:
        analyse(options.work)
        return
    into = options.into.resolve()
    if options.whole:
        shutil.rmtree(into, ignore_errors=True)
        _copy(SOURCES, into / "headwater")
        _copy(ROOT / "docs" / "errors", into / "headwater" / "docs" / "errors")
    with tempfile.TemporaryDirectory() as folder:
        compile_into(into, options.work or Path(folder), opt_level=options.opt_level)


if __name__ == "__main__":
    main()
