"""The spans of indexes that a transaction has read, as they were at the first read of each.

Keys are read in slices: confirmed ones, with pending commits of the session, without what has changed since the first
read, and with the transaction's own writes. A read that ended early is a read up to the last key that was seen.

Length: one record of what a transaction has read, by keys, by fields and by answers, checked together at its end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from headwater.cells.draft_keys import DraftKeys, key_in
from headwater.cells.drafts import Draft
from headwater.cells.members import Members
from headwater.cells.not_ready import not_ready
from headwater.cells.pending_commit import PendingCommit, ranges
from headwater.cells.replica import Replica
from headwater.cells.span_entries import SpanBasis, SpanEntry
from headwater.cells.span_records import KeyQuestion, SpanKey, SpanQuestion
from headwater.cells.span_tallies import Answer, CountTally, ExistsTally, Tally, answer_digest, tally_of
from headwater.cells.total_reads import total_for
from headwater.store.collection_record import CollectionRecord, NamedIndex, doc_of, docs_of
from headwater.store.commit import Conflict, SpanRead
from headwater.store.index_field import IndexField
from headwater.store.store_limits import BODIES_AT_ONCE
from headwater.store.totals import split_row
from headwater.values.ids import DocKey, LocalSeq
from headwater.values.sortkey import INEXACT, Ordered, fields_of
from headwater.values.tree import ABSENT, Maybe, Path

SLICE: Final = 256
"""Keys that are read together."""

SPARE: Final = 16
"""Keys that are read beyond a limit, as some may be taken away by pending commits."""

PASS_SLICE: Final = 4096
"""Keys that are read together where all of them are counted."""


def _nothing(_doc: DocKey, _path: Path) -> None:
    """Of a transaction that has ended, and of plain code."""


class WithSpans(Protocol):
    """The reads of a transaction in another space."""

    spans: SpanReads | None


def end_spans(spans: SpanReads | None, views: Mapping[object, WithSpans] | None) -> None:
    """A transaction has ended: neither here nor in other spaces are later shifts held for it."""
    for each in (spans, *[view.spans for view in (views or {}).values()]):
        if each is not None:
            each.end()


def span_reads_now(replica: Replica, keys: Iterable[SpanKey]) -> tuple[SpanRead, ...]:
    """Reads as a commit names them, as of now. The lock of the replica is held."""
    members = replica.members
    return () if members is None else tuple([named_now(replica, members, key) for key in keys])


def values_of(question: SpanQuestion, tree: Maybe) -> tuple[Ordered, Ordered]:
    """The values of a document in the two fields of a question."""
    return _ordered(question.field, tree), _ordered(question.by, tree)


def named_now(replica: Replica, members: Members, key: SpanKey) -> SpanRead:
    """A read as a commit names it, as of now. The lock of the replica is held."""
    docs = members.overlay(key.index).docs_between(key.lo, key.hi, unmoved=bool(key.fields))
    layers: dict[LocalSeq, PendingCommit] = {}
    for doc in docs:
        for layer in replica.layers_of(doc):
            layers[layer.commit.local_seq] = layer
    numbers = ranges([layers[number] for number in sorted(layers)]) if layers else ()
    return SpanRead(key.index, key.lo, key.hi, replica.seq, key.fields, numbers, tuple(sorted(docs)))


def _ordered(field: IndexField | None, tree: Maybe) -> Ordered:
    return None if field is None else field.of(tree)


class KeyValues:
    """The values that a question is about, in keys of documents."""

    __slots__ = ("_by_place", "_field_place", "_has_by", "_has_field", "are_in_keys")

    def __init__(self, record: CollectionRecord, named: NamedIndex, question: SpanQuestion) -> None:
        # A user is the first field of every key.
        first = 0 if record.scope == "space" else 1
        self._has_field, self._has_by = question.field is not None, question.by is not None
        self._field_place = _place_in(named, question.field, first)
        self._by_place = _place_in(named, question.by, first)
        # Unless a text is too long.
        self.are_in_keys = self._field_place is not None and self._by_place is not None

    def of(self, key: bytes) -> tuple[Ordered, Ordered] | None:
        """The values of one document; None if its key does not have them."""
        if not (self._has_field or self._has_by):
            return None, None
        if self._field_place is None or self._by_place is None:
            return None
        fields = fields_of(key)
        value = fields[self._field_place] if self._has_field else None
        group = fields[self._by_place] if self._has_by else None
        return None if value is INEXACT or group is INEXACT else (value, group)


class _Values:
    """The values that a question is about: from the keys of documents, or from those documents whose keys lack them."""

    def __init__(  # made in one place
        self,
        record: CollectionRecord,
        named: NamedIndex,
        question: SpanQuestion,
        drafts: Mapping[DocKey, Draft],
        reads: SpanReads,
    ) -> None:
        self._record = record
        self._fields = question.fields
        self._drafts = drafts
        self._reads = reads
        self._field = question.field
        self._by = question.by
        self._keys = KeyValues(record, named, question)
        self.are_in_keys = self._keys.are_in_keys

    def of(self, key: bytes) -> tuple[Ordered, Ordered]:
        """The values of one document, from its key if that has them."""
        known = self._keys.of(key)
        if known is not None:
            return known
        tree = self._reads.document(doc_of(self._record, key), self._fields, self._drafts)
        return _ordered(self._field, tree), _ordered(self._by, tree)

    def of_many(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, Ordered, Ordered]]:
        """Keys with the values of their documents, which are read together if the keys do not have them."""
        if self.are_in_keys or len(keys) == 1:
            for key in keys:
                yield key, *self.of(key)
            return
        docs, field, by = docs_of(self._record, keys), self._field, self._by
        trees = self._reads.visible_many(docs)
        for key, doc in zip(keys, docs, strict=True):
            tree = ABSENT if doc in self._drafts else trees.get(doc, ABSENT)
            if tree is ABSENT:
                # Written here, or newer than what the store reads together.
                tree = self._reads.document(doc, self._fields, self._drafts)
            yield key, _ordered(field, tree), _ordered(by, tree)


def values_in_key(
    record: CollectionRecord, named: NamedIndex, question: SpanQuestion, key: bytes
) -> tuple[Ordered, Ordered] | None:
    """The values of a document in the two fields of a question, if its key has them."""
    return KeyValues(record, named, question).of(key)


def _place_in(named: NamedIndex, field: IndexField | None, first: int) -> int | None:
    """The place of a field in the keys of an index; None if it is not there."""
    if field is None:
        return 0
    return first + named.index.fields.index(field) if field in named.index.fields else None


class SpanReads:
    """The reads of spans of one transaction."""

    def __init__(
        self,
        replica: Replica,
        members: Members,
        record: Callable[[DocKey, Path], object],
        gate: Callable[[DocKey], None] | None = None,
    ) -> None:
        self._replica = replica
        # Of a reader of a partial replica: waits for what is not here, or raises.
        self._gate = gate
        self.members = members
        # Records the read of a place of a document.
        self._record = record
        self._bases: dict[tuple[str, bytes, bytes], SpanBasis] = {}
        self.entries: dict[tuple[object, ...], SpanEntry] = {}
        self._drafted: dict[str, DraftKeys] = {}
        # The kinds whose writers were made current.
        self.kinds: dict[str, None] = {}

    def basis(self, index: str, lo: bytes, hi: bytes) -> SpanBasis:
        """A span as of its first read, which is now if there was none."""
        found = self._bases.get((index, lo, hi))
        if found is None:
            with self._replica.lock:
                found = SpanBasis(self.members.index(index)[1], lo, hi, self.members.log.last)
                if self._replica.is_partial:
                    self._replica.pin_keys(index, lo, hi)
            self._bases[index, lo, hi] = found
        return found

    def entry(  # the parts of a read
        self,
        basis: SpanBasis,
        fields: tuple[str, ...] = (),
        question: SpanQuestion | None = None,
        *,
        reverse: bool = False,
        tracked: bool = True,
    ) -> SpanEntry:
        """A read. The same read again extends the part that was seen."""
        key = (basis.named.name, basis.lo, basis.hi, fields, question, reverse, tracked)
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = SpanEntry(basis, fields, question, reverse, tracked)
        return found

    # -- keys ----------------------------------------------------------------------------------------------

    def slice(  # of what, from where to where, how
        self,
        basis: SpanBasis,
        lo: bytes,
        hi: bytes,
        size: int,
        drafts: Mapping[DocKey, Draft],
        *,
        reverse: bool,
        docs: int = 0,
        whole: bool = False,
    ) -> tuple[list[bytes], tuple[bytes, bytes] | None]:
        """Some keys of a part of a span, as this transaction sees it; and where the next ones are, if any.

        `docs`: how many of their documents are read next; `whole`: and those of later ones, if they are in the span.
        """
        replica, name = self._replica, basis.named.name
        with replica.lock:
            if replica.is_partial:
                limit = None if size == PASS_SLICE else size
                self._fetch(KeyQuestion(name, lo, hi, limit, reverse, docs, whole))
            chunk, rest = replica.confirmed_keys(name, lo, hi, size, reverse=reverse)
            if rest is not None:
                # Up to here, the slice is complete.
                lo, hi = (rest[1], hi) if reverse else (lo, rest[0])
            overlay = self.members.overlay(name)
            basis.advance()
            if not (overlay.gone or overlay.added or basis.undo or drafts):
                # As the store has them.
                return chunk, rest
            found = dict.fromkeys([key for key in chunk if key not in overlay.gone] if overlay.gone else chunk)
            if overlay.added:
                found.update(dict.fromkeys(overlay.between(lo, hi)))
            for first, newest in basis.undo.values():
                if newest is not None:
                    found.pop(newest, None)
                if first is not None and lo <= first < hi:
                    found[first] = None
            if drafts:
                self._draft(basis, drafts, lo, hi, found)
        return sorted(found, reverse=reverse), rest

    def _draft(
        self, basis: SpanBasis, drafts: Mapping[DocKey, Draft], lo: bytes, hi: bytes, found: dict[bytes, None]
    ) -> None:
        """Lay the transaction's own writes over the keys of a part of a span."""
        name = basis.named.name
        record, named = self.members.index(name)
        drafted = self._drafted.get(name)
        if drafted is None:
            drafted = self._drafted[name] = DraftKeys()
        drafted.update(drafts, record, named)
        for doc in drafted.docs:
            self.builds_on(doc, drafts[doc], [each.name for each in named.index.fields])
            undone = basis.undo.get(doc)
            for key in (
                undone[0] if undone is not None else key_in(record, named, doc, self._replica.read(doc)),
                key_in(record, named, doc, drafts[doc].mark.value),
            ):
                if key is not None:
                    found.pop(key, None)
        added = drafted.added
        found.update(dict.fromkeys(added[bisect_left(added, lo) : bisect_left(added, hi)]))

    def _fetch(self, question: KeyQuestion) -> None:
        """Have the first of these keys here. Raises NotReadyError where code does not wait."""
        missing = self._replica.missing_keys(question)
        if missing is None:
            return
        if self._gate is not None:
            self._gate(missing)
        if self._replica.is_missing(missing):
            raise not_ready(missing, "")

    def make_known(self, basis: SpanBasis, question: SpanQuestion) -> None:
        """Of a partial replica: have all keys here that the answer to a question needs, and the documents."""
        record, named = self.members.index(basis.named.name)
        lo, hi = basis.lo, basis.hi
        needs_docs = not KeyValues(record, named, question).are_in_keys
        if self._replica.knows_keys(named.name, lo, hi, docs=needs_docs):
            return
        is_one = question.kind == "exists"
        size = SPARE if is_one else PASS_SLICE
        while True:
            docs = size if needs_docs else 0
            keys, rest = self.slice(basis, lo, hi, size, {}, reverse=False, docs=docs, whole=needs_docs)
            if needs_docs:
                for doc in self._load(docs_of(record, keys)):
                    self._pass(doc)
            if rest is None or (is_one and keys):
                return
            lo, hi = rest

    def _load(self, docs: list[DocKey]) -> list[DocKey]:
        self._replica.load_ahead(docs)
        return [doc for doc in docs if not self._replica.is_loaded(doc)]

    def _pass(self, doc: DocKey) -> None:
        """Wait for a document of a partial replica, or raise."""
        if self._gate is not None and not self._replica.is_loaded(doc):
            self._gate(doc)

    def builds_on(self, doc: DocKey, draft: Draft, fields: Iterable[str]) -> None:
        """An edited document is seen: what it has besides the edits is a read, as of the version that was edited."""
        if not draft.whole:
            for name in fields:
                self._record(doc, (name,))

    def document(self, doc: DocKey, fields: tuple[str, ...], drafts: Mapping[DocKey, Draft]) -> Maybe:
        """A document of a span whose read covers these fields.

        As of now, even if the transaction has an older version: a later change is found in the span.
        """
        draft = drafts.get(doc)
        if draft is not None and (draft.whole or draft.ops):
            self.builds_on(doc, draft, fields)
            return draft.value
        replica = self._replica
        if replica.is_partial:
            self._pass(doc)
            return replica.read(doc)
        is_held = replica.is_loaded(doc)
        tree = replica.read(doc)
        if not is_held:
            # A pass over many documents does not fill the memory with them.
            replica.release(doc)
        return tree

    def visible_many(self, docs: Sequence[DocKey]) -> dict[DocKey, Maybe]:
        """Documents without the transaction's own writes, read together. They do not fill the memory."""
        return self._replica.visible_many(docs)

    # -- answers -------------------------------------------------------------------------------------------

    def tally(self, basis: SpanBasis, question: SpanQuestion, drafts: Mapping[DocKey, Draft]) -> Tally:
        """A tally of the documents of a span: of the rows of a declared total, or by one pass over its keys."""
        known = self._of_total(basis, question, drafts)
        if known is not None:
            return known
        found = tally_of(question)
        record, named = self.members.index(basis.named.name)
        is_one, size = question.kind == "exists", SPARE if question.kind == "exists" else PASS_SLICE
        values = _Values(record, named, question, drafts, self)
        lo, hi = basis.lo, basis.hi
        while True:
            keys, rest = self.slice(basis, lo, hi, size, drafts, reverse=False)
            if isinstance(found, CountTally):
                # No key is decoded.
                found.count += len(keys)
                keys = []
            for start in range(0, 1 if is_one else len(keys), BODIES_AT_ONCE):
                page = keys[: 1 if is_one else None][start : start + BODIES_AT_ONCE]
                for key, value, group in values.of_many(page):
                    found.put(key, value, group)
            if rest is None or (is_one and keys):
                return found
            lo, hi = rest

    def _of_total(self, basis: SpanBasis, question: SpanQuestion, drafts: Mapping[DocKey, Draft]) -> Tally | None:
        """A tally of the rows of a declared total; None if none has the answer, or if the span was read before."""
        replica, lo, hi = self._replica, basis.lo, basis.hi
        record, named = self.members.index(basis.named.name)
        total = None if replica.is_partial else total_for(record, named, lo, hi, question)
        if total is None:
            return None
        found = tally_of(question)
        with replica.lock:
            if basis.is_hit(lo, hi, question.fields):
                return None
            rest: tuple[bytes, bytes] | None = (total.lo, total.hi)
            while rest is not None:
                rows, rest = replica.confirmed_keys(total.name, *rest, PASS_SLICE, reverse=False)
                for row in rows:
                    try:
                        group = total.group(row)
                    except ValueError:
                        return None
                    if group is not None:
                        found.merge(group[0], split_row(row, len(total.wanted))[1])
            for doc in self.members.overlay(named.name).docs_between(lo, hi, unmoved=True):
                self._replace(found, basis, question, doc, replica.confirmed(doc), replica.read(doc))
            for doc, draft in drafts.items():
                if (draft.whole or draft.ops) and self.members.record_of(doc) is record:
                    self.builds_on(doc, draft, [*[each.name for each in named.index.fields], *question.fields])
                    self._replace(found, basis, question, doc, replica.read(doc), draft.value)
        return found

    def _replace(  # noqa: PLR0917  # a document before and after
        self, tally: Tally, basis: SpanBasis, question: SpanQuestion, doc: DocKey, before: Maybe, after: Maybe
    ) -> None:
        """Take a document out of a tally, and put in what it is afterwards, as far as the span has them."""
        record, named = self.members.index(basis.named.name)
        for step, tree in ((tally.take, before), (tally.put, after)):
            key = key_in(record, named, doc, tree)
            if key is not None and basis.lo <= key < basis.hi:
                step(key, *values_of(question, tree))

    def with_drafts(
        self, tally: Tally, basis: SpanBasis, question: SpanQuestion, drafts: Mapping[DocKey, Draft]
    ) -> Answer:
        """The answer of a shared tally, with the transaction's own writes on top. The tally is as before."""
        record, named = self.members.index(basis.named.name)
        lo, hi = basis.lo, basis.hi
        done: list[tuple[bool, bytes, Ordered, Ordered]] = []
        for doc, draft in drafts.items():
            if not (draft.whole or draft.ops) or self.members.record_of(doc) is not record:
                continue
            self.builds_on(doc, draft, [*[each.name for each in named.index.fields], *question.fields])
            for is_new, tree in ((False, self._replica.read(doc)), (True, draft.value)):
                key = key_in(record, named, doc, tree)
                if key is not None and lo <= key < hi:
                    done.append((is_new, key, _ordered(question.field, tree), _ordered(question.by, tree)))
        for is_new, key, value, group in done:
            (tally.put if is_new else tally.take)(key, value, group)
        answer = tally.answer()
        for is_new, key, value, group in reversed(done):
            (tally.take if is_new else tally.put)(key, value, group)
        return answer

    # -- the end -------------------------------------------------------------------------------------------

    def dependencies(self) -> dict[SpanKey, bytes]:
        """The reads whose change runs the function again, with the answers to questions."""
        found: dict[SpanKey, bytes] = {}
        for entry in self.entries.values():
            if entry.is_tracked and (key := entry.key) is not None:
                found[key] = entry.answer
        return found

    def overtaken(
        self, drafts: Mapping[DocKey, Draft], answer_now: Callable[[SpanKey], Tally | None] = lambda _: None
    ) -> SpanEntry | None:
        """A read that something else has changed since. An answer is asked again, and then one as of now.

        `answer_now` gives a tally that is kept current, if there is one.
        """
        for entry in self.entries.values():
            if not entry.is_hit():
                continue
            question = entry.question
            if question is None:
                return entry
            if self._replica.is_partial and not self._knows(entry.basis, question):
                # It would have to be asked for.
                return entry
            basis = entry.basis
            fresh = SpanBasis(basis.named, basis.lo, basis.hi, self.members.log.last)
            key = entry.key
            live = None if key is None or question.kind == "exists" else answer_now(key)
            if live is not None:
                answer = self.with_drafts(live, fresh, question, drafts)
            else:
                live = self.tally(fresh, question, drafts)
                answer = live.answer()
            if answer_digest(answer) != entry.answer:
                return entry
            entry.basis = fresh
            entry.end = live.witness if isinstance(live, ExistsTally) else None
        return None

    def _knows(self, basis: SpanBasis, question: SpanQuestion) -> bool:
        record, named = self.members.index(basis.named.name)
        in_keys = KeyValues(record, named, question).are_in_keys
        return self._replica.knows_keys(named.name, basis.lo, basis.hi, docs=not in_keys)

    def checked(self, drafts: Mapping[DocKey, Draft]) -> tuple[SpanRead, ...] | Conflict:
        """The reads as the commit names them, or the conflict with a later change. The lock is held."""
        entry = self.overtaken(drafts)
        if entry is None:
            return self.named()
        reason = f"what it has read of the index {entry.basis.named.name} changed while the transaction was open"
        return Conflict(reason, seq=self._replica.seq)

    def named(self) -> tuple[SpanRead, ...]:
        """The reads as a commit names them, as of now: nothing has changed in them since. The lock is held."""
        found: dict[SpanRead, None] = {}
        for entry in self.entries.values():
            covered = entry.covered
            if covered is not None:
                key = SpanKey(entry.basis.named.name, *covered, entry.fields)
                found[named_now(self._replica, self.members, key)] = None
        return tuple(found)

    def end(self) -> None:
        """The transaction has ended: later shifts are not held for it."""
        for basis in self._bases.values():
            if basis.last is not None and self._replica.is_partial:
                self._replica.unpin_keys(basis.named.name, basis.lo, basis.hi)
            basis.last = None
        self._drafted, self._record, self._gate = {}, _nothing, None
