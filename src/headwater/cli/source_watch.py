"""Which source files a program is made of, and which of them have changed since it was started."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from headwater.host.author_modules import is_same_author

POLL_S: Final = 0.25
"""Seconds between two checks of the files. A person does not notice it; some hundred files take a millisecond."""

_Mark = tuple[int, int]
_ABSENT: Final[_Mark] = (0, 0)


def own_sources(package: str = "") -> Iterator[Path]:
    """The files of the imported modules that belong to the author: no installed libraries, and not Headwater."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and name != "__main__" and is_same_author(package, name):
            yield Path(file)


def sources_of_failure(module: str, error: BaseException) -> Iterator[Path]:
    """The files that a failed import is about: those in the traceback, the one with the mistake, and the module."""
    found = PathFinder.find_spec(module.partition(".")[0], sys.path)
    if found is not None and found.origin is not None:
        yield Path(found.origin)
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, SyntaxError) and each.filename is not None:
            yield Path(each.filename)
        trace = each.__traceback__
        while trace is not None:
            yield Path(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        each = each.__cause__ or each.__context__


class SourceWatch:
    """The files of one program, as they were when they were first seen."""

    def __init__(self) -> None:
        self._seen: dict[Path, _Mark] = {}
        # The Python files in a folder, by name.
        self._folders: dict[Path, frozenset[str]] = {}

    def add(self, files: Iterable[Path]) -> None:
        """Watch further files. A watched file keeps its mark."""
        for file in files:
            if file.suffix == ".py" and file not in self._seen:
                self._seen[file] = _mark(file)

    def add_folder(self, folder: Path) -> None:
        """Watch the Python files that are in a folder, and those that come into it."""
        self._folders[folder] = _names(folder)
        self.add(folder / name for name in self._folders[folder])

    def changed(self) -> Path | None:
        """A file that was changed, removed or added; None if there is none."""
        # A copy, made at once: another thread adds what a failed start was about.
        for file, mark in tuple(self._seen.items()):
            if _mark(file) != mark:
                return file
        for folder, names in tuple(self._folders.items()):
            if added := _names(folder) - names:
                return folder / min(added)
        return None

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, file: Path) -> bool:
        return file in self._seen


def _mark(file: Path) -> _Mark:
    try:
        found = file.stat()
    except OSError:
        return _ABSENT
    return found.st_mtime_ns, found.st_size


def _names(folder: Path) -> frozenset[str]:
    return frozenset(file.name for file in folder.glob("*.py"))
