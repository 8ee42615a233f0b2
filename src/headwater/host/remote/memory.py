"""What is kept of runs, where that is a server's.

Must never know: connections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from headwater.store.backend import ObservationRow
from headwater.store.commit import Note
from headwater.store.resumption import Listing
from headwater.sync.client import Answer
from headwater.sync.frames import AskChanged, AskKept, Changed, Kept
from headwater.values.address import Depth
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import Path

Ask: TypeAlias = Callable[[AskKept | AskChanged], Answer]


class RemoteMemory:
    """Asked over the connection; each question waits for its answer."""

    def __init__(self, ask: Ask, note: Callable[[tuple[Note, ...], tuple[DocKey, ...]], None]) -> None:
        self._ask = ask
        self._note = note

    def listing(self, branch: BranchId, prefix: str, besides: Iterable[DocKey]) -> Listing:
        return _listing(branch, self._ask(AskKept(0, prefix, tuple(besides))))

    def places_of(self, listed: Listing, row: ObservationRow, outputs: Sequence[DocKey]) -> Listing:
        found = _listing(listed.branch, self._ask(AskKept(0, row.doc, tuple(outputs), (row.doc,))))
        return Listing(listed.branch, found.seq, {row.doc: row}, found.places, listed.inherited)

    def is_changed(self, branch: BranchId, doc: DocKey, places: Sequence[tuple[Path, Depth]], after: Seq) -> bool:
        del branch  # one connection, one branch
        told = tuple((path, depth is Depth.SHALLOW) for path, depth in places)
        answer = self._ask(AskChanged(0, doc, told, after))
        return not isinstance(answer, Changed) or answer.changed

    def note(self, notes: Sequence[Note]) -> None:
        self._note(tuple(notes), ())

    def forget(self, branch: BranchId, gone: Collection[DocKey], *, let_go: bool = False) -> None:
        del branch, let_go  # the server lets go of it by itself
        self._note((), tuple(gone))


def _listing(branch: BranchId, answer: Answer) -> Listing:
    if not isinstance(answer, Kept):
        return Listing(branch, Seq(0), {}, {})
    rows = {doc: ObservationRow(doc, seq, body) for doc, seq, body in answer.rows}
    return Listing(branch, answer.seq, rows, dict(answer.places), frozenset(answer.inherited))
