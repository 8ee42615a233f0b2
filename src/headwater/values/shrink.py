"""Dicts that have become much smaller are copied, because Python never shrinks the table of a dict."""

from __future__ import annotations

from sys import getsizeof
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

SLACK_BYTES: Final = 16 * 1024
"""Smaller tables are left as they are: a hundred entries, which come again soon."""

ENTRY_BYTES: Final = 200
"""More than an entry takes in any table, however full it is."""


def shrunk(table: dict[K, V]) -> dict[K, V]:
    """The same entries in a table of their size; the very same table, if it is not much larger than they need.

    Whoever has the old one keeps that: it is for an owner whom others ask for it each time.
    """
    size = getsizeof(table)
    return dict(table) if size > SLACK_BYTES and size > ENTRY_BYTES * (len(table) + 1) else table
