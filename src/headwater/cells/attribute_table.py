"""Places for the attributes that instances of a class get after `__init__`.

The instances of a class share one table of the names of their attributes, which Python closes after the first few
instances. An instance with another attribute has a dict of its own: slower, and larger by 300 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable


def reserve(kind: type, names: Iterable[str]) -> None:
    """Add names to the table of a class, before its first instance. A compiled class has no such table."""
    try:
        first: object = object.__new__(kind)
    except TypeError:
        return
    for name in names:
        setattr(first, name, None)
