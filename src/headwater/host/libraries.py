"""The installed versions of the libraries that Headwater needs, and the form of its own core."""

from __future__ import annotations

from importlib import metadata
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from typing import Final, Literal

LIBRARIES: Final = ("apsw", "msgspec", "click", "rich")


def library_versions() -> dict[str, str | None]:
    """The version of each; None: it is not installed."""
    found: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def core_form() -> Literal["compiled", "pure"]:
    """Whether the core runs compiled, or from its sources. HEADWATER_PURE=1 asks for the sources."""
    # By any module of the core: all of it is compiled, or nothing. It need not be loaded for that.
    spec = find_spec("headwater.values.patching")
    return "compiled" if spec is not None and isinstance(spec.loader, ExtensionFileLoader) else "pure"
