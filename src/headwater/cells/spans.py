"""Reading indexes of collections: the keys of a span, and answers about its documents, tracked like any other read.

In a transaction a read is recorded, and shows the transaction's own writes. In plain code it is not recorded, and shows
the span as of the beginning of the read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from headwater.cells.context import PEEKING, find
from headwater.cells.drafts import Draft
from headwater.cells.far import FarReads
from headwater.cells.members import Members
from headwater.cells.replica import Replica
from headwater.cells.space_port import SpacePort
from headwater.cells.span_reads import PASS_SLICE, SLICE, SPARE, SpanReads
from headwater.cells.span_records import Span, SpanKey, SpanQuestion, far_span
from headwater.cells.span_tallies import Answer, ExistsTally, Tally, answer_digest
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import ended_error
from headwater.errors import QueryError
from headwater.store.collection_record import RECORD_KIND, doc_of, docs_of
from headwater.store.store_limits import BODIES_AT_ONCE
from headwater.values.address import doc_key, user_scope
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe

_NOTHING: Final[Mapping[DocKey, Draft]] = {}


class _Reader:
    """Where one read takes place: in a transaction, or in plain code."""

    def __init__(self, space: SpacePort, index: str, *, tracked: bool) -> None:
        found, tx = find(space, f"the index {index}")
        if tx is None and found.inbox:
            found.runtime.catch_up()
        self.replica: Replica = space.replica
        self.tx: Transaction | None = tx
        self.members: Members = _members(space, tx)
        record = self.members.index(index)[0]
        if isinstance(tx, FarReads):
            tx.far.read_index(index)
            tx.near.has_far_spans = True
        if tx is None:
            self.reads = SpanReads(self.replica, self.members, lambda _doc, _path: None, space.gate)
        else:
            self.reads = _reads_of(tx, self.members, record.kind)
            if record.scope != "space" and space.actor is not None:
                # A result that depends on one user's documents is that user's: as of any read there.
                tx.read(doc_key(f"{RECORD_KIND}:{record.kind}", user_scope(space.actor)))
        self.is_tracked = tracked and not (tx is not None and tx.peeks and PEEKING.get())

    def live_tally(self, key: SpanKey) -> Tally | None:
        """The tally of a question that is kept current for the run that asks; None if there is none."""
        tx = self.tx
        if tx is None or not self.is_tracked:
            return None
        if isinstance(tx, FarReads):
            space = tx.far.span_space
            return tx.near.replica.live_tally(far_span(space, key)) if space and tx.near.is_running else None
        return self.replica.live_tally(key) if tx.is_running else None

    def end(self) -> None:
        """Plain code has read: what it has read need not stay known."""
        if self.tx is None:
            self.reads.end()

    @property
    def drafts(self) -> Mapping[DocKey, Draft]:
        return _NOTHING if self.tx is None else self.tx._drafts


def _reads_of(tx: Transaction, members: Members, kind: str) -> SpanReads:
    """The reads of a transaction, before one of this kind. What writes such documents is made current first (I4)."""
    if not tx.is_open:
        raise ended_error(tx.name, "read", tx.status)
    found = tx.spans
    if found is None:
        found = tx.spans = SpanReads(tx.replica, members, tx.read, partial(_pass_gate, tx))
    if kind not in found.kinds:
        found.kinds[kind] = None
        if tx.gate is not None:
            for doc in tx.replica.written_docs(kind):
                tx.gate(doc)
    return found


def _pass_gate(tx: Transaction, doc: DocKey) -> None:
    if tx.gate is not None:
        tx.gate(doc)


def _members(space: SpacePort, tx: Transaction | None) -> Members:
    replica = space.replica
    if replica.is_partial and isinstance(tx, FarReads):
        message = (
            f"space {space.name!r} is at a server, and functions of other spaces cannot query it in this version; read "
            "it in a function of an app that is open there, and read the result of that"
        )
        raise QueryError(message, space=space.name)
    if replica.members is None:
        message = f"space {space.name!r} has no collections; open it with the app that declares them"
        raise QueryError(message, space=space.name)
    return replica.members


def keys(
    space: SpacePort,
    span: Span,
    *,
    reverse: bool = False,
    limit: int | None = None,
    fields: tuple[str, ...] = (),
    tracked: bool = True,
) -> Iterator[bytes]:
    """The keys of a span in order, read in slices while they are taken.

    The read is invalid when a key moves into, out of or within the part of the span that was taken; with `fields`, also
    when one of these top-level fields changes in a document there. With `tracked=False` it is only checked for
    conflicts, as `peek` is; so it is in `hw.untracked()`.
    """
    for key, _ in rows(space, span, reverse=reverse, limit=limit, fields=fields, tracked=tracked):
        yield key


def rows(
    space: SpacePort,
    span: Span,
    *,
    reverse: bool = False,
    limit: int | None = None,
    fields: tuple[str, ...] = (),
    tracked: bool = True,
    loaded: bool = False,
    passing: dict[DocKey, Maybe] | None = None,
) -> Iterator[tuple[bytes, DocKey]]:
    """As `keys`, each with its document. With `loaded`, the documents are loaded together, slice by slice.

    With `passing`, plain code finds those of the current slice there, and they do not fill the memory.
    """
    if limit is not None and limit <= 0:
        return
    reader = _Reader(space, span.index, tracked=tracked)
    try:
        yield from _rows(reader, span, reverse, limit, fields, loaded, passing if reader.tx is None else None)
    finally:
        reader.end()


def _rows(  # noqa: PLR0917  # the parts of a read
    reader: _Reader,
    span: Span,
    reverse: bool,  # noqa: FBT001
    limit: int | None,
    fields: tuple[str, ...],
    loaded: bool,  # noqa: FBT001
    passing: dict[DocKey, Maybe] | None,
) -> Iterator[tuple[bytes, DocKey]]:
    reads, tx, left = reader.reads, reader.tx, limit
    # A loop that ends early has read few.
    most = SLICE
    basis = reads.basis(span.index, span.lo, span.hi)
    entry = reads.entry(basis, fields, reverse=reverse, tracked=reader.is_tracked)
    record = reader.members.index(span.index)[0]
    lo, hi = span.lo, span.hi
    while True:
        if tx is not None:
            _reads_of(tx, reader.members, record.kind)
        size = most if left is None else min(most, left + SPARE)
        ahead = 0 if not loaded else size if left is None else min(size, left)
        found, rest = reads.slice(basis, lo, hi, size, reader.drafts, reverse=reverse, docs=ahead, whole=bool(fields))
        docs = docs_of(record, found if left is None else found[:left])
        _read_together(reader.replica, docs, loaded, passing)
        for key, doc in zip(found, docs, strict=False):
            entry.saw(key)
            yield key, doc
        if passing:
            for doc in docs:
                passing.pop(doc, None)
        if left is not None:
            left -= len(docs)
            if not left:
                return
        if rest is None:
            entry.end = None
            return
        most = BODIES_AT_ONCE if loaded else SLICE
        lo, hi = rest


def _read_together(
    replica: Replica,
    docs: list[DocKey],
    loaded: bool,  # noqa: FBT001
    passing: dict[DocKey, Maybe] | None,
) -> None:
    """Read the documents of a slice together, if they are needed."""
    if passing is not None:
        passing.update(replica.visible_many(docs))
    elif loaded:
        replica.load_ahead(docs)


def all_keys(space: SpacePort, span: Span, *, reverse: bool, limit: int | None) -> list[bytes]:
    """The same keys, as one list: the calls do not depend on their number."""
    reader = _Reader(space, span.index, tracked=True)
    try:
        return _all_keys(reader, span, reverse, limit)
    finally:
        reader.end()


def _all_keys(reader: _Reader, span: Span, reverse: bool, limit: int | None) -> list[bytes]:  # noqa: FBT001
    reads, found = reader.reads, list[bytes]()
    basis = reads.basis(span.index, span.lo, span.hi)
    entry = reads.entry(basis, reverse=reverse, tracked=reader.is_tracked)
    lo, hi = span.lo, span.hi
    while True:
        size = PASS_SLICE if limit is None else min(PASS_SLICE, limit - len(found) + SPARE)
        # The elements are read next.
        ahead = size if limit is None else limit - len(found)
        keys, rest = reads.slice(basis, lo, hi, size, reader.drafts, reverse=reverse, docs=ahead)
        found += keys
        if limit is not None and len(found) >= limit:
            del found[limit:]
            if found:
                entry.saw(found[-1])
            return found
        if rest is None:
            entry.end = None
            return found
        lo, hi = rest


def document(space: SpacePort, span: Span, key: bytes, fields: tuple[str, ...]) -> Maybe:
    """The document of a key that a read of the span with these fields has given. Nothing more is recorded."""
    reader = _Reader(space, span.index, tracked=True)
    doc = doc_of(reader.members.index(span.index)[0], key)
    return reader.reads.document(doc, fields, reader.drafts)


def answer(space: SpacePort, span: Span, question: SpanQuestion, *, tracked: bool = True) -> Answer:
    """The answer to a question about the documents of a span. The read is invalid when the answer is another one.

    Values are in the form in which the index orders them (`IndexField.ordered`): an int, a text, an Instant. A sum of
    nothing is 0, an extreme of nothing is None; None and absent values are left out of both. Groups are pairs of a
    value and the answer for it, in the order of the values.
    """
    reader = _Reader(space, span.index, tracked=tracked)
    try:
        return _answer(reader, span, question)
    finally:
        reader.end()


def _answer(reader: _Reader, span: Span, question: SpanQuestion) -> Answer:
    reads, tx = reader.reads, reader.tx
    # Before the tally is made current: what has changed after this is found by the check at the end of the run.
    basis = reads.basis(span.index, span.lo, span.hi)
    if reader.replica.is_partial:
        reads.make_known(basis, question)
    live = reader.live_tally(SpanKey(span.index, span.lo, span.hi, question.fields, question))
    if live is not None and basis.is_hit(span.lo, span.hi, question.fields):
        # The span was read before, and shows its state of then.
        live = None
    if live is None or (question.kind == "exists" and reader.drafts):
        live = reads.tally(basis, question, reader.drafts)
        found = live.answer()
    elif reader.drafts:
        found = reads.with_drafts(live, basis, question, reader.drafts)
    else:
        found = live.answer()
    if tx is not None:
        entry = reads.entry(basis, question.fields, question, tracked=reader.is_tracked)
        # A witness is enough.
        entry.end = live.witness if isinstance(live, ExistsTally) else None
        entry.answer = answer_digest(found)
    return found
