"""The feed of shifts: which commits moved which document of a collection from which key to which.

The newest are in memory, the others in the table, down to a floor. It serves conflict checks, reads as of an earlier
sequence number, and the proof at an opening that a stored answer is still current.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from headwater.store.backend import Backend, ShiftRow
from headwater.store.collection_record import KeyMove, Shift
from headwater.values.ids import BranchId, DocKey, LocalSeq, Seq, SessionId


class _StoredShift(msgspec.Struct, array_like=True, gc=False):
    """A shift in the body of a row, which has those of one commit."""

    doc: DocKey
    moves: tuple[KeyMove, ...]
    fields: tuple[str, ...] | None


class _Body(msgspec.Struct, array_like=True, gc=False):
    branch: BranchId
    session: SessionId
    local_seq: LocalSeq
    shifts: tuple[_StoredShift, ...]


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Body)


def encode_shifts(shifts: Iterable[Shift]) -> Iterator[ShiftRow]:
    """Rows, one for each commit."""
    for seq, of_commit in groupby(shifts, _seq_of):
        mine = list(of_commit)
        first = mine[0]
        parts = tuple([_StoredShift(each.doc, each.moves, each.fields) for each in mine])
        yield ShiftRow(seq, _encoder.encode(_Body(first.branch, first.session, first.local_seq, parts)))


def decode_shifts(row: ShiftRow) -> list[Shift]:
    """The exact inverse."""
    body = _decoder.decode(row.body)
    return [
        Shift(body.branch, row.seq, body.session, body.local_seq, each.doc, each.moves, each.fields)
        for each in body.shifts
    ]


def _seq_of(shift: Shift) -> Seq:
    return shift.seq


class Feed:
    """The shifts of all branches, oldest first."""

    def __init__(self, backend: Backend, start: Seq) -> None:
        self._backend = backend
        # Those of commits after `_floor`; up to `_folded` they are in the table, too.
        self._recent: list[Shift] = []
        self._floor = self._folded = start
        # How often commits were forgotten.
        self.undone = 0
        # Rows that the table should have were missing or damaged.
        self.is_damaged = False

    def add(self, shifts: Sequence[Shift]) -> None:
        """The shifts of a commit."""
        self._recent += shifts

    def undo(self, head: Seq) -> None:
        """Forget commits after the head: they were not written."""
        self.undone += 1
        del self._recent[bisect_right(self._recent, head, key=_seq_of) :]

    def after(self, seq: Seq) -> list[Shift] | None:
        """The shifts of later commits, of all branches, oldest first; None if they do not reach back so far."""
        if seq >= self._floor:
            return self._recent[bisect_right(self._recent, seq, key=_seq_of) :]
        rows = self._backend.shifts(seq, self._floor)
        if rows is None:
            self.is_damaged = self.is_damaged or seq >= self._backend.shift_floor()
            return None
        try:
            older = [shift for row in rows for shift in decode_shifts(row)]
        except msgspec.MsgspecError:
            # Damage: nothing is known.
            self.is_damaged = True
            return None
        return older + self._recent

    def newest(self, seq: Seq) -> Sequence[Shift]:
        """The shifts of a commit, if it is the newest commit with shifts."""
        recent = self._recent
        if not recent or recent[-1].seq != seq:
            return ()
        return recent[bisect_left(recent, seq, key=_seq_of) :]

    def unfolded(self) -> list[ShiftRow]:
        """The rows of a fold."""
        return list(encode_shifts(self._recent[bisect_right(self._recent, self._folded, key=_seq_of) :]))

    def after_fold(self, through: Seq) -> None:
        """Everything up to here is in the table. What the fold before had written leaves the memory."""
        if through <= self._folded:
            # Of indexes alone.
            return
        self._floor, self._folded = self._folded, through
        del self._recent[: bisect_right(self._recent, self._floor, key=_seq_of)]
