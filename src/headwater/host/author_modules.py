"""Which modules are part of the author's program, and which are libraries: for the fingerprints of functions."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from sysconfig import get_paths
from typing import Final

from headwater.declare.functions.fingerprint import FINGERPRINT_BYTES, Fingerprints
from headwater.machine import machine

_OWN: Final = __name__.partition(".")[0]
_INSTALLED: Final = {"site-packages", "dist-packages"}
_LIBRARIES: Final = [Path(root).resolve() for key, root in get_paths().items() if key in ("stdlib", "platstdlib")]


def new_fingerprints() -> Fingerprints:
    """The fingerprints of one opening."""
    return Fingerprints(machine().token_bytes(FINGERPRINT_BYTES), is_same_author)


@cache
def is_same_author(package: str, module: str | None) -> bool:
    """Whether a module is of the same package, or not installed at all, as a module beside a script.

    A change of such a module is a change of the program. Libraries count by name.
    """
    if module is None:
        return False
    top = module.partition(".")[0]
    if top == package:
        return True
    found = sys.modules.get(module) or sys.modules.get(top)
    file = getattr(found, "__file__", None)
    if top == _OWN or file is None:
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(root) for root in _LIBRARIES) and not _INSTALLED & set(path.parts)
