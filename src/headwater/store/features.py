"""Features: names of what a space uses beyond its format number. A program must know all of them to open the space.

A number that rises with every addition would lock older programs out of files that do not use the addition. A name is
in the file before the first commit that uses it, together with the first version of Headwater that knows it, so that an
older program can say which version to install.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headwater.errors import LimitError, MigrationError, UsageError

KNOWN: Final[Mapping[str, str]] = {"spaces": "0.1", "collections": "0.1"}
"""The features of this version, each with the first version that knows it.

`spaces`: entries of the outbox for other spaces. Older programs would never deliver them. `collections`: tables of the
keys of documents, which older programs would not maintain.
"""

COLLECTIONS: Final = "collections"

FEATURES_MAX: Final = 6
"""With more features, a new format is due."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


def parse(text: str) -> dict[str, str]:
    """The features of a file, each with the first version that knows it; an empty text if that is unknown."""
    pairs = (each.partition("=") for each in text.split())
    return {name: since for name, _, since in pairs}


def check_known(text: str, path: str, known: Mapping[str, str] = KNOWN) -> None:
    """Raise MigrationError if the file uses a feature that this version does not know."""
    for name, since in parse(text).items():
        if name not in known:
            newer = f"Headwater {since} or newer" if since else "a newer Headwater"
            message = f"{path} uses the feature {name!r}, which this Headwater does not know; install {newer}"
            raise MigrationError(message, path=path, feature=name, since=since)


def with_feature(text: str, name: str, known: Mapping[str, str] = KNOWN) -> str:
    """The value for the file with one more feature."""
    if not _NAME.fullmatch(name) or name not in known:
        raise UsageError(f"{name!r} is no feature that this Headwater knows", feature=name)
    found = parse(text)
    if name not in found and len(found) >= FEATURES_MAX:
        message = f"the space uses {len(found)} features; at most {FEATURES_MAX} are allowed, so {name!r} is refused"
        raise LimitError(message, feature=name)
    found[name] = known[name]
    return " ".join(f"{each}={since}" if since else each for each, since in sorted(found.items()))
