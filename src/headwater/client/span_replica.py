"""A replica whose store is a server: the parts of indexes that it knows, and how it asks for others.

A question that was asked has a name, which arrives as a document does: runs, handlers and callers wait for both in one
way.

Length: what is asked, known, kept and released is one record, with one writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from msgspec.structs import replace

from headwater.cells.loaded_document import Document
from headwater.cells.not_ready import not_ready
from headwater.cells.span_reads import KeyValues
from headwater.cells.span_records import KeyQuestion, SpanKey, span_mark
from headwater.client.document_fetch import is_in_loop
from headwater.client.known_spans import KnownSpans, new_span
from headwater.client.unread_documents import UnreadDocuments
from headwater.errors import HeadwaterError, OfflineError
from headwater.machine import machine
from headwater.runtime.attached_replica import AttachedReplica, ReplicaPort, ReplicaStorage
from headwater.store.collection_record import doc_of, docs_of, keys_of, moves_of
from headwater.store.commit import CommitOutcome, Effect
from headwater.store.document import StoredDocument
from headwater.sync.client_listener import SpanArrived
from headwater.sync.frame_limits import KEYS_MAX, SPANS_MAX
from headwater.sync.frames import SpanKeys, WatchSpan
from headwater.values.ids import BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT, Maybe

TakenIn: TypeAlias = Callable[[list[LocalSeq], list[tuple[DocKey, Seq, Maybe]], Seq], None]

UNREAD_SPAN_S: Final = 30.0
"""How long a part of an index is watched that nothing reads: a page that is left is often opened again."""

SWEEP_S: Final = 10.0
"""How often such parts are looked for, while parts are asked for."""

SPANS_HELD_MAX: Final = SPANS_MAX // 4
"""Watched parts above which unread ones are released before that. The rest is for those that functions read."""


class SpanLink(Protocol):
    """The questions about spans of one connection."""

    def check(self) -> None:
        """Raise QueryError if the server answers none."""

    def check_not_over(self) -> None:
        """Raise the error that has ended the session, if it has ended."""

    def ask(self, asked: WatchSpan) -> SpanKeys:
        """Ask, and wait for the answer."""
        ...

    def ask_all(self, asked: Sequence[WatchSpan]) -> list[SpanKeys | HeadwaterError]:
        """Ask several questions at once, and wait for the answers."""
        ...

    def want(self, asked: WatchSpan) -> None:
        """Ask without waiting. The answer is delivered with other changes."""

    def release(self, numbers: Sequence[int]) -> None:
        """Spans are not read any more."""


class SpanReplica(AttachedReplica):
    """The documents that have come, and the keys."""

    def __init__(
        self,
        storage: ReplicaStorage,
        port: ReplicaPort,
        session: SessionId,
        branch: BranchId,
        seq: Seq,
        *,
        keeps_walked: bool,
    ) -> None:
        super().__init__(storage, port, session, branch, seq)
        self._unread = UnreadDocuments(keeps_walked=keeps_walked)
        # The local folder's listener: decided commits, confirmed documents, sequence number.
        self.on_taken_in: TakenIn | None = None
        # Requested by code that does not wait, and not answered yet; and results of functions here, which never are.
        self.coming: set[DocKey] = set()
        # Read in vain while the server was away.
        self._unreached: dict[DocKey, None] = {}
        # The known keys of indexes; the questions for others, by the names that stand for them; and failed ones.
        self.spans = KnownSpans()
        self._questions: dict[DocKey, KeyQuestion] = {}
        self._failed: dict[DocKey, HeadwaterError] = {}
        self._pinned: Counter[tuple[str, bytes, bytes]] = Counter()
        self._asks = True
        self._swept_at = 0.0
        self.span_link: SpanLink

    def install(self, found: Iterable[tuple[DocKey, StoredDocument]]) -> None:
        """Install documents that arrived before the first read."""
        for doc, each in found:
            self._documents[doc] = Document(each.value, each.seq, each.value)

    # -- reading -------------------------------------------------------------------------------------------

    def missing_keys(self, question: KeyQuestion) -> DocKey | None:
        """As above. The name stands for the answer of the server."""
        known = self.spans.first(
            question.index, question.lo, question.hi, reverse=question.reverse, docs=question.whole
        )
        if known is not None and not known.is_short(question):
            return None
        name = span_mark(question)
        if not self._asks:
            raise not_ready(name, "")
        self.span_link.check()
        self._questions[name] = question
        return name

    def knows_keys(self, index: str, lo: bytes, hi: bytes, *, docs: bool = False) -> bool:
        """As above."""
        return self.spans.covers(index, lo, hi, docs=docs)

    @contextmanager
    def without_asking(self) -> Iterator[None]:
        """As above."""
        before, self._asks = self._asks, False
        try:
            yield
        finally:
            self._asks = before

    def pin_keys(self, index: str, lo: bytes, hi: bytes) -> None:
        """As above."""
        with self._turn:
            self._pinned[index, lo, hi] += 1

    def unpin_keys(self, index: str, lo: bytes, hi: bytes) -> None:
        """As above."""
        with self._turn:
            self._pinned[index, lo, hi] -= 1
            if not self._pinned[index, lo, hi]:
                del self._pinned[index, lo, hi]

    def confirmed_keys(
        self, index: str, lo: bytes, hi: bytes, size: int, *, reverse: bool
    ) -> tuple[list[bytes], tuple[bytes, bytes] | None]:
        """As above, of the known part: there may be less keys than asked for, and yet more behind them."""
        found = self.spans.keys(index, lo, hi, size, reverse=reverse)
        if found is None:
            raise not_ready(span_mark(KeyQuestion(index, lo, hi, size, reverse)), "")
        keys, rest, span = found
        span.used_at = machine().monotonic()
        return keys, rest

    def load_ahead(self, docs: Iterable[DocKey]) -> list[DocKey]:
        """As above, with one question; or without waiting for it, where code does not wait."""
        missing = [doc for doc in docs if not self.is_loaded(doc)]
        if missing and not self.waits and is_in_loop():
            with self.requests:
                for doc in missing:
                    self.is_missing(doc)
        elif missing:
            self.hold(missing)
        return missing

    def visible_many(self, docs: Iterable[DocKey]) -> dict[DocKey, Maybe]:
        """As above, of those that are here then."""
        wanted = list(docs)
        self.load_ahead(wanted)
        with self._turn:
            return {
                doc: self._documents[doc].visible for doc in wanted if doc in self._documents and self.is_loaded(doc)
            }

    # -- restored runs -------------------------------------------------------------------------------------

    def hold_spans(self, spans: Iterable[SpanKey]) -> Collection[SpanKey]:
        """As above, with one wait for all. Keys are asked for only where fields of the documents were read."""
        with self._turn:
            at, asked = self.seq, dict[SpanKey, WatchSpan]()
            for each in spans:
                watch = WatchSpan(0, each.index, each.lo, each.hi, limit=0, at=at, known=True)
                if self._needs_docs(each):
                    watch = replace(watch, limit=None, known=False, docs=KEYS_MAX)
                asked[each] = watch
            questions = list(dict.fromkeys(asked.values()))
            changed = {
                watch: self._held(watch, answer, at)
                for watch, answer in zip(questions, self.span_link.ask_all(questions), strict=True)
            }
            return {each for each, watch in asked.items() if changed[watch]}

    def _held(self, asked: WatchSpan, answer: SpanKeys | HeadwaterError, at: Seq) -> bool:
        """A span of a restored run is watched. Returns whether it has changed meanwhile, or may have."""
        if isinstance(answer, HeadwaterError):
            return True
        self._take_span(replace(asked, number=answer.number), answer)
        if answer.at != at or answer.gone or answer.came or answer.newer or answer.end:
            return True
        if asked.docs and self.members is not None and self.members.has(asked.index):
            record = self.members.index(asked.index)[0]
            return bool(self.hold([doc for doc in docs_of(record, answer.keys) if doc not in self._documents]))
        return False

    def _needs_docs(self, key: SpanKey) -> bool:
        """Whether a read depends on fields that are not in the keys."""
        if not key.fields or self.members is None or not self.members.has(key.index):
            return bool(key.fields)
        record, named = self.members.index(key.index)
        return key.question is None or not KeyValues(record, named, key.question).are_in_keys

    # -- asking --------------------------------------------------------------------------------------------

    def _are_missing(self, name: DocKey) -> bool:
        """Whether keys were asked for and have not come. Code that waits has them now."""
        failed = self._failed.pop(name, None)
        if failed is not None:
            raise failed
        question = self._questions.get(name)
        if question is None:
            return False
        self._sweep()
        asked = WatchSpan(0, question.index, question.lo, question.hi, question.limit, question.reverse, question.docs)
        if not self.waits and is_in_loop():
            if name not in self.coming:
                self.span_link.check_not_over()
                self.coming.add(name)
                self.span_link.want(asked)
            return True
        try:
            asked = replace(asked, at=self.seq)
            answer = self.span_link.ask(asked)
        except OfflineError:
            self._unreached[name] = None
            raise
        finally:
            self._questions.pop(name, None)
        self._take_span(replace(asked, number=answer.number), answer)
        self._have_come((name,))
        return False

    def _take_span(self, asked: WatchSpan, answer: SpanKeys) -> None:
        span = new_span(asked, answer, self.seq)
        span.used_at = machine().monotonic()
        self.spans.add(span)
        found = [(each.doc, StoredDocument(each.content, each.seq)) for each in answer.docs]
        new = [(doc, each) for doc, each in found if doc not in self._documents or doc in self.coming]
        self.install(new)
        self._have_come([doc for doc, _ in new])
        if self.on_taken_in is not None:
            self.on_taken_in([], [(doc, each.seq, each.value) for doc, each in new], self.seq)

    def _is_in_span(self, doc: DocKey) -> bool:
        """Whether it is in a known span whose documents have to be here."""
        if self.members is None or (record := self.members.record_of(doc)) is None:
            return False
        tree = self._documents[doc].confirmed
        return tree is not ABSENT and any(
            span.has_docs for index, key in keys_of(record, doc, tree) for span in self.spans.holding(index, key)
        )

    def _sweep(self) -> None:
        """Release what nothing reads any more: after a while, or the oldest of many."""
        now = machine().monotonic()
        if now - self._swept_at < SWEEP_S and len(self.spans) < SPANS_HELD_MAX:
            return
        self._swept_at = now
        unread = self.spans.unread((*self.read_spans(), *self._pinned))
        surplus = len(self.spans) - SPANS_HELD_MAX // 2
        gone = [
            span
            for place, span in enumerate(unread)
            if now - span.used_at > UNREAD_SPAN_S or (len(self.spans) >= SPANS_HELD_MAX and place < surplus)
        ]
        for span in gone:
            self.spans.remove(span.number)
            if span.has_docs and span.keys and self.members is not None:
                record = self.members.index(span.index)[0]
                self._unread.walked(doc for doc in docs_of(record, span.keys) if doc in self._documents)
        if gone:
            self.span_link.release([span.number for span in gone])

    # -- changes -------------------------------------------------------------------------------------------

    def _note_moves(self, outcome: CommitOutcome, seq: Seq, effects: Iterable[Effect]) -> None:
        """The moves of keys of a commit: those that the server has sent, and those of an own commit."""
        members = self.members
        if members is None or not self.spans.by_number:
            return
        found = [move for shift in outcome.shifts for move in shift.moves]
        if outcome.commit.session == self._session:
            for effect in effects:
                record, here = members.record_of(effect.doc), self._documents.get(effect.doc)
                if record is not None and here is not None and here.seq >= seq:
                    # As after a lost connection: the document has come with later commits already.
                    for index, key, has_come in self.spans.correct(record, effect.doc, here.confirmed, seq):
                        self._note_keys(index, [] if has_come else [key], [key] if has_come else [])
                elif record is not None:
                    found += moves_of(record, effect.doc, effect.before, effect.after)
        for move in found:
            lost, got = self.spans.move(move, seq)
            self._note_keys(move.index, [move.before] if lost else [], [move.after] if got else [])

    def _note_keys(self, index: str, gone: Iterable[bytes | None], came: Iterable[bytes | None]) -> None:
        """Keys have left known spans, and have come: changes, if their documents are not here."""
        assert self.members is not None
        moves = self.members.moves
        if moves is None or not self.members.has(index):
            return
        record = self.members.index(index)[0]
        for keys, note in ((gone, moves.take), (came, moves.put)):
            for key in keys:
                if key is not None and not self._was_here(doc_of(record, key)):
                    note(index, key)

    def _was_here(self, doc: DocKey) -> bool:
        """Whether a document was here before the present step."""
        assert self.members is not None
        moves = self.members.moves
        return doc in self._documents and doc not in self.coming and (moves is None or doc not in moves.come)

    def _take_arrived(self, arrived: SpanArrived) -> None:
        """An answer of the server, in its place among the commits."""
        self._questions.pop(arrived.doc, None)
        if arrived.error is not None and arrived.doc in self.coming:
            self._failed[arrived.doc] = arrived.error
        if self.members is not None and self.members.moves is not None:
            gone, came = self.spans.arrive(arrived, self.members.moves)
            self._note_keys(arrived.asked.index, gone, came)
            if arrived.asked.number not in self.spans.by_number:
                # The reader has not waited for it, or has released it.
                self.span_link.release([arrived.asked.number])

    def _have_come(self, docs: Iterable[DocKey]) -> None:
        come = [doc for doc in docs if doc in self.coming]
        if come:
            self.coming.difference_update(come)
            self.on_arrived(come)
