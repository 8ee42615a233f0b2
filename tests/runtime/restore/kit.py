"""A program that is edited, stopped and started: its text is a package that is imported anew for each start."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import headwater as hw


def outcome(space: hw.Space | hw.AsyncSpace) -> tuple[int, int, int]:
    """How many were restored, are dirty, are fresh."""
    found = space.explain_resume()
    return found.restored, found.dirty, found.fresh


def reason(space: hw.Space, name: str) -> str:
    """Why one of them was not simply restored."""
    return next(each.reason for each in space.explain_resume().missed if each.node.partition("#")[0] == name)


class Program:
    """A package `garden` of some modules, in a folder of its own, and the file that it keeps its data in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "program"
        self.data = folder / "garden.db"
        self._edits = 0

    def write(self, **modules: str) -> None:
        """What its modules say from now on. Compiled files of an older text must not be found: so a new folder."""
        self._edits += 1
        package = self._folder / str(self._edits) / "garden"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        for name, text in modules.items():
            file = package / f"{name}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)

    @contextmanager
    def start(self) -> Iterator[tuple[hw.Space, Any]]:
        """Import `garden.main`, open its `app`, and close it in the end."""
        place = str(self._folder / str(self._edits))
        sys.path.insert(0, place)
        importlib.invalidate_caches()
        try:
            main = importlib.import_module("garden.main")
            with main.app.open(self.data) as space:
                yield space, main
        finally:
            sys.path.remove(place)
            for name in [name for name in sys.modules if name.partition(".")[0] == "garden"]:
                del sys.modules[name]
