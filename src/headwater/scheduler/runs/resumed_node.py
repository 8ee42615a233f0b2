"""The record of a node that an opening could not restore as clean."""

from __future__ import annotations

from typing import Final

import msgspec


class Resumed(msgspec.Struct, frozen=True):
    """A node that an opening could not restore as clean, and why."""

    node: str
    outcome: str
    """dirty or fresh."""
    reason: str = ""
    """Why it was not restored as clean."""


NOTHING: Final = "nothing is kept of it"
"""The most common reason of a fresh node."""

FAILED: Final = "its last run failed: it is tried again"
"""The reason of a fresh node with a stored run."""

UNMADE: Final = "a function that it called with arguments does not exist any more, or takes others"
"""The reason of a fresh node whose calls cannot be repeated."""

CHANGED_CODE: Final = "its code, or something that it uses, has changed"
"""The reason of a fresh node with another fingerprint."""
