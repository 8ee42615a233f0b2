"""The record of a node that an opening could not restore as clean."""

from __future__ import annotations

import msgspec


class Resumed(msgspec.Struct, frozen=True):
    """A node that an opening could not restore as clean, and why."""

    node: str
    outcome: str
    """dirty or fresh."""
    reason: str = ""
    """Why it was not restored as clean."""
