"""`HEADWATER_PURE=1`: the sources are imported, although compiled modules lie beside them.

Installed before any other module of the package is imported. Imports nothing of the package, and is not compiled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Final

VARIABLE: Final = "HEADWATER_PURE"


def is_wanted() -> bool:
    """Whether the environment asks for the sources."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


class SourceFinder:
    """Finds modules of one package as sources alone."""

    def __init__(self, package: str) -> None:
        self._prefix = f"{package}."

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The source of a module; None for modules of other packages."""
        if not name.startswith(self._prefix):
            return None
        for folder in path or ():
            found = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)
            if found is not None and found.loader is not None:
                return found
        return None


def install() -> None:
    """Import sources from now on."""
    if not any(isinstance(finder, SourceFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, SourceFinder("headwater"))
