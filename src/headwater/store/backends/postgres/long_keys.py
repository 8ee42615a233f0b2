"""Keys that are too long for an index of PostgreSQL: stored as their beginning and a digest, with the whole key beside.

A row of an index has at most 2,704 bytes, and a document's key may have 4 KiB. Long keys with the same beginning are
stored together, but not in their order: a page that touches such a run reads all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final

SHORT_MAX: Final = 960
"""The longest key that is stored as it is."""

_STORED_LONG: Final = SHORT_MAX + 1 + 32
"""The length of every long key as it is stored, and of no short one."""

Page = Callable[[bytes, bytes, int], Sequence[tuple[Any, ...]]]
"""Rows with a stored key from the first up to the second, at most so many, in order. The first column has the key."""


def stored(key: bytes) -> bytes:
    """The key as tables have it."""
    return key if len(key) <= SHORT_MAX else key[:SHORT_MAX] + b"\xff" + sha256(key).digest()


def whole(key: bytes) -> bytes | None:
    """What the column beside it has."""
    return None if len(key) <= SHORT_MAX else key


def is_long(key: bytes) -> bool:
    """Whether this stored key is that of a long one."""
    return len(key) == _STORED_LONG


def pages(page: Page, lo: bytes, hi: bytes, limit: int, *, reverse: bool = False) -> list[tuple[Any, ...]]:
    """The first rows with `lo <= key < hi`, or the last ones backwards. The first column of each is the whole key.

    `page` gives rows in the order that is asked for; the last column of a row is the column beside the key.
    """
    low = lo if len(lo) <= SHORT_MAX else _start(lo)
    high = hi if len(hi) <= SHORT_MAX else _end(hi)
    found: list[tuple[Any, ...]] = []
    while low < high:
        rows = list(page(low, high, limit))
        is_full = len(rows) >= limit
        last: bytes = rows[-1][0] if rows else b""
        if is_full and is_long(last):
            # The rest of the run, whose keys may belong before.
            rest = (_start(last), last) if reverse else (last + b"\0", _end(last))
            rows += page(*rest, _ALL)
        taken = [(row[0] if row[-1] is None else row[-1], *row[1:-1]) for row in rows]
        found += [row for row in taken if lo <= row[0] < hi]
        if not is_full or len(found) >= limit:
            break
        if reverse:
            high = _start(last) if is_long(last) else last
        else:
            low = _end(last) if is_long(last) else last + b"\0"
    found.sort(key=_key_of, reverse=reverse)
    return found[:limit]


_ALL: Final = 1 << 40


def _start(key: bytes) -> bytes:
    return key[:SHORT_MAX] + b"\xff"


def _end(key: bytes) -> bytes:
    # Above every digest.
    return key[:SHORT_MAX] + b"\xff" * 40


def _key_of(row: tuple[Any, ...]) -> bytes:
    key: bytes = row[0]
    return key
