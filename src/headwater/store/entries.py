"""The keys of one index on one branch: the table as of the last fold, with the moves since on top, in memory.

A query merges both. A query as of an earlier commit undoes the later moves within its span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from headwater.store.backend import Backend, EntryFold, IndexRow
from headwater.store.key_changes import KeyChanges, KeyPair, between, has_key
from headwater.values.ids import BranchId, Seq
from headwater.values.sortkey import AFTER

ALL: Final = (b"", AFTER)
"""The bounds of a whole index."""

_PAGE: Final = 1024
_SLACK: Final = 16
"""Keys that are asked for beyond the limit, since some of them may be gone."""


class Entries:
    """The keys of one index on one branch."""

    def __init__(self, backend: Backend, branch: BranchId, name: str, row: IndexRow | None, since: Seq) -> None:
        self._backend = backend
        self.branch = branch
        self.name = name
        # As of the last fold; None if it is not in the table, and all keys are in memory.
        self.row = row
        self.since = since
        # The newest commit whose moves are here.
        self.through = since if row is None else row.through
        # Relative to the table.
        self._changes = KeyChanges()

    @property
    def unfolded(self) -> int:
        """The number of keys that the next fold writes."""
        return len(self._changes.gone) + len(self._changes.added)

    def fill(self, keys: list[bytes], through: Seq) -> None:
        """Take all keys, sorted: they were made from the documents as of a commit."""
        self._changes.added, self.through = keys, through

    def lay(self, moves: Sequence[KeyPair], through: Seq) -> None:
        """Apply later moves, oldest first: keys before and after."""
        self.through = through
        self._changes.lay(moves)

    def span(
        self, lo: bytes, hi: bytes, limit: int | None, *, reverse: bool, undone: KeyChanges | None = None
    ) -> list[bytes]:
        """The first keys with `lo <= key < hi`, or the last, backwards; before the changes that are undone."""
        if limit is not None and limit <= 0:
            return []
        added = between(self._changes.added, lo, hi)
        out = set[bytes]()
        if undone is not None:
            out.update(between(undone.added, lo, hi))
            back = between(undone.gone, lo, hi)
            if out or back:
                added = sorted([key for key in added if key not in out] + back)
        if limit is not None:
            added = added[-limit:] if reverse else added[:limit]
        stored = self._stored(lo, hi, limit, out, reverse=reverse) if self.row is not None else []
        if not stored:
            return added[::-1] if reverse else added
        if added:
            stored += added
            stored.sort(reverse=reverse)
        return stored if limit is None else stored[:limit]

    def all_keys(self) -> list[bytes]:
        """All keys, in order."""
        return self.span(*ALL, None, reverse=False)

    def _stored(self, lo: bytes, hi: bytes, limit: int | None, out: set[bytes], *, reverse: bool) -> list[bytes]:
        """Keys of the table without those that are gone."""
        gone = between(self._changes.gone, lo, hi)
        is_without = bool(gone or out)
        found: list[bytes] = []
        while True:
            most = _PAGE if limit is None else limit - len(found) + (_SLACK if is_without else 0)
            page = self._backend.entries(self.branch, self.name, lo, hi, most, reverse=reverse)
            if is_without:
                found += [key for key in page if key not in out and not has_key(gone, key)]
            else:
                found += page
            if len(page) < most or (limit is not None and len(found) >= limit):
                return found
            if reverse:
                hi = page[-1]
            else:
                lo = page[-1] + b"\0"

    def build_fold(self, through: Seq) -> EntryFold:
        """What the next fold writes. All moves up to this commit are here."""
        return self._fold(through, self._changes.gone.copy(), self._changes.added.copy())

    def _fold(self, through: Seq, gone: list[bytes], added: list[bytes]) -> EntryFold:
        count, total = (0, 0) if self.row is None else (self.row.count, self.row.digest)
        self.through = through
        row = IndexRow(
            self.branch,
            self.name,
            self.since,
            through,
            count + len(added) - len(gone),
            total + sum(map(crc32, added)) - sum(map(crc32, gone)),
        )
        return EntryFold(row, gone, added, is_new=self.row is None)

    def after_fold(self, fold: EntryFold) -> None:
        """The fold is written. Nothing was laid since it was built."""
        self.row = fold.row
        self._changes = KeyChanges()
