"""Stored observations of runs, at a server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from headwater.store.backend import ObservationRow
from headwater.store.collection_record import kind_of_index, record_doc
from headwater.store.commit import NewObservation
from headwater.store.observations import decode_observation
from headwater.store.resumption import FarRow, Listing
from headwater.store.span_resumption import SpanRow
from headwater.sync.client_session import Answer
from headwater.sync.frames import AskChanged, AskObservations, AskShifted, Changed, Observations, SeenSpan, Shifted
from headwater.values.address import Depth
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import Path

Ask: TypeAlias = Callable[[AskObservations | AskChanged | AskShifted], Answer | None]
"""None: unknown at the moment."""


class RemoteRunCache:
    """Each question waits for its answer. Without an answer, a document counts as changed."""

    def __init__(self, ask: Ask, note: Callable[[tuple[NewObservation, ...], tuple[DocKey, ...]], None]) -> None:
        self._ask = ask
        self._note = note

    def listing(self, branch: BranchId, prefix: str, besides: Iterable[DocKey]) -> Listing:
        return _listing(branch, self._ask(AskObservations(0, prefix, tuple(besides))))

    def heads_of(self, listed: Listing, row: ObservationRow, outputs: Sequence[DocKey]) -> Listing:
        docs = dict.fromkeys(_docs(row) + list(outputs))
        found = _listing(listed.branch, self._ask(AskObservations(0, "", tuple(docs))))
        # No answer: unknown.
        places = dict.fromkeys(docs) | found.heads
        return Listing(listed.branch, found.seq, {row.doc: row}, places, listed.inherited)

    def is_changed(self, branch: BranchId, doc: DocKey, places: Sequence[tuple[Path, Depth]], after: Seq) -> bool:
        del branch  # one connection, one branch
        told = tuple((path, depth is Depth.SHALLOW) for path, depth in places)
        answer = self._ask(AskChanged(0, doc, told, after))
        return not isinstance(answer, Changed) or answer.changed

    def changed_since(self, branch: BranchId, rows: Sequence[FarRow]) -> list[list[Path]]:
        return [
            [path for path, _ in places] if self.is_changed(branch, doc, places, after) else []
            for doc, places, after in rows
        ]

    def shifted(self, branch: BranchId, rows: Sequence[SpanRow]) -> Sequence[Sequence[DocKey]]:
        del branch
        asked = tuple(
            (tuple(SeenSpan(each.index, each.lo, each.hi, each.fields) for each in spans), after)
            for spans, after in rows
        )
        answer = self._ask(AskShifted(0, asked)) if asked else None
        if not isinstance(answer, Shifted):
            return [[record_doc(kind_of_index(spans[0].index))] for spans, _ in rows]
        return answer.rows

    def note(self, notes: Sequence[NewObservation]) -> None:
        self._note(tuple(notes), ())

    def forget(self, branch: BranchId, gone: Collection[DocKey], *, let_go: bool = False) -> None:
        del branch, let_go  # the server lets go of it by itself
        self._note((), tuple(gone))


def _listing(branch: BranchId, answer: Answer | None) -> Listing:
    if not isinstance(answer, Observations):
        return Listing(branch, Seq(0), {}, {})
    rows = {doc: ObservationRow(doc, seq, body) for doc, seq, body in answer.rows}
    places = dict(answer.places)
    for row in rows.values():
        if b"user:" in row.body or b"session:" in row.body:
            # Read by another user's run: its version is not disclosed, so it may be newer.
            places = dict.fromkeys(doc for doc in _docs(row) if not doc.startswith("space/")) | places
    return Listing(branch, answer.seq, rows, places, frozenset(answer.inherited))


def _docs(row: ObservationRow) -> list[DocKey]:
    observation = decode_observation(row.body)
    reads = () if observation is None else observation.reads
    return [read[0] if isinstance(read, tuple) else read for read in reads]
