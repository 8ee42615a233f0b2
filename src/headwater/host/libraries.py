"""The installed versions of the libraries that Headwater needs."""

from __future__ import annotations

from importlib import metadata
from typing import Final

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
