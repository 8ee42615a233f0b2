"""Dicts that have become much smaller are copied, because Python never shrinks the table of a dict."""

from __future__ import annotations

from sys import getsizeof
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

SLACK_BYTES: Final = 16 * 1024
"""Smaller tables, of about a hundred entries, are left alone: they would grow again soon."""

ENTRY_BYTES: Final = 200
"""More than an entry takes in any table, at any load factor."""


def shrunk(table: dict[K, V]) -> dict[K, V]:
    """The same entries in a smaller table; the identical table if it is not much too large.

    Other references keep the old table: only for a dict that its owner alone refers to.
    """
    size = getsizeof(table)
    return dict(table) if size > SLACK_BYTES and size > ENTRY_BYTES * (len(table) + 1) else table
