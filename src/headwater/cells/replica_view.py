"""The visible documents of a replica, and its listeners."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, TypeAlias

from headwater.cells.loaded_document import NO_LAYERS, Document
from headwater.cells.members import Members
from headwater.cells.pending_commit import Mark, PendingCommit, call_all, ranges
from headwater.cells.span_records import KeyQuestion, SpanKey
from headwater.cells.span_tallies import Tally
from headwater.cells.upstream import EVERYTHING, Upstream
from headwater.store.collection_record import CollectionRecord
from headwater.store.commit import PendingRead, Read
from headwater.store.document import StoredDocument
from headwater.store.wellformed import check_doc
from headwater.values.address import Depth
from headwater.values.ids import NEVER, DocKey, Seq
from headwater.values.native import mypyc_attr
from headwater.values.notifications import Notification
from headwater.values.tree import ABSENT, Maybe, Path

Listener: TypeAlias = Callable[[Notification], None]

NO_LOCK: Final = nullcontext()
"""Of a replica that one thread uses."""


@dataclass(slots=True, eq=False)
class _Subscription:
    """A listener, and the documents that it reads; None: all."""

    listener: Listener
    readers: Container[DocKey] | None


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaView:
    """The visible documents of one branch, in one process."""

    def __init__(self, upstream: Upstream, seq: Seq) -> None:
        self._upstream = upstream
        self._documents: dict[DocKey, Document] = {}
        # listen(): the listeners with their documents, and both separately for the fast path.
        self._entries: tuple[_Subscription, ...] = ()
        self._listeners: tuple[Listener, ...] = ()
        self._readers: tuple[Container[DocKey], ...] = ()
        self.lock: AbstractContextManager[object] = NO_LOCK
        """Held during several steps that must be atomic for other threads."""
        self.version = 0
        """Increases with every change of the visible state: if it is unchanged, so are all documents."""
        self.is_partial = False
        """Documents and keys are loaded on demand: a reader has to check `is_missing` and `missing_keys`."""
        # The documents of collections; None while the space has none here.
        self.members: Members | None = None
        self.span_kinds: Container[str] = ()
        """The kinds of documents whose indexes listeners read: changes of these are notified as shifts."""
        self._kinds: tuple[Container[str], ...] = ()
        self.live_tally: Callable[[SpanKey], Tally | None] = lambda _: None
        """The tally of a span that is kept current for the runs that read it. Set by the scheduler."""
        self.written_docs: Callable[[str], Iterable[DocKey]] = lambda _: ()
        """The documents of a kind that functions write: a handler makes them current before it reads an index."""
        self.read_spans: Callable[[], Iterable[tuple[str, bytes, bytes]]] = tuple
        """What functions read of indexes. Set by the scheduler."""
        self.requests: AbstractContextManager[object] = NO_LOCK
        """Missing documents that are read inside are requested together."""
        self.on_arrived: Callable[[list[DocKey]], None] = lambda _: None
        """Called with documents that were missing and have arrived."""
        self.seq = seq
        """The newest integrated commit: all confirmed documents are as of this sequence number."""

    # -- reading -------------------------------------------------------------------------------------------

    def read(self, doc: DocKey) -> Maybe:
        """The visible document."""
        record = self._documents.get(doc)
        return (record if record is not None else self._load(doc)).visible

    def read_mark(self, doc: DocKey, path: Path, depth: Depth = Depth.DEEP) -> Read | PendingRead:
        """The read that a commit names if it is based on what `read` returned."""
        record = self._documents.get(doc) or self._load(doc)
        if not record.layers:
            return Read(doc, path, record.seq, depth)
        return PendingRead(doc, path, record.seq, ranges(record.layers), depth)

    def snapshot(self, doc: DocKey) -> Mark:
        """The visible version of a document: the snapshot of a transaction."""
        record = self._documents.get(doc) or self._load(doc)
        mark = record.mark
        if mark is None:
            mark = record.mark = Mark(record.seq, record.layers, len(record.layers), record.visible)
        return mark

    def is_absent(self, doc: DocKey) -> bool:
        """Whether the visible document does not exist. No version is made of it, as `snapshot` does."""
        record = self._documents.get(doc)
        return (self.snapshot(doc).value if record is None else record.visible) is ABSENT

    def is_unchanged(self, doc: DocKey, mark: Mark) -> bool:
        """Whether the document is still the version of a snapshot."""
        record = self._documents.get(doc)
        return record is not None and record.mark is mark

    def _load(self, doc: DocKey) -> Document:
        check_doc(doc)
        found = self._upstream.load(doc, self.seq) or StoredDocument(ABSENT, NEVER)
        # Given, not left to the default: that is made by a call.
        record = self._documents[doc] = Document(found.value, found.seq, found.value, NO_LAYERS)
        return record

    def is_confirmed(self, doc: DocKey) -> bool:
        """Whether the document exists without the pending commits of this session."""
        record = self._documents.get(doc)
        return (record if record is not None else self._load(doc)).confirmed is not ABSENT

    def confirmed(self, doc: DocKey) -> Maybe:
        """The document without the pending commits of this session."""
        record = self._documents.get(doc)
        return (record if record is not None else self._load(doc)).confirmed

    def is_layered(self, doc: DocKey) -> bool:
        """Whether it has pending layers."""
        record = self._documents.get(doc)
        return record is not None and bool(record.layers)

    def is_missing(self, _doc: DocKey) -> bool:
        """Whether it is not loaded yet, and was requested. Never in a complete replica."""
        return False

    def is_loaded(self, doc: DocKey) -> bool:
        """Whether it is in memory."""
        return doc in self._documents

    def hold(self, docs: Iterable[DocKey]) -> Collection[DocKey]:
        """Load documents of whose changes a reader has to be notified. Returns those that are newer than all others.

        A complete replica is notified of all.
        """
        del docs
        return ()

    def hold_spans(self, spans: Iterable[SpanKey]) -> Collection[SpanKey]:
        """Load what a reader needs to be notified of changes in spans. Returns those that have changed meanwhile."""
        del spans
        return ()

    def is_as_of(self, doc: DocKey, seq: Seq) -> bool:
        """Whether it is loaded, without layers, and unchanged after an integrated sequence number."""
        record = self._documents.get(doc)
        return record is not None and not record.layers and record.seq <= seq <= self.seq

    def expect_new(self, doc: DocKey) -> None:
        """Add a document with a new id as absent: the store need not be asked."""
        if doc not in self._documents:
            self._documents[doc] = Document(ABSENT, NEVER, ABSENT)

    def release(self, doc: DocKey) -> None:
        """Release a document without layers and readers. It is loaded again when needed."""
        record = self._documents.get(doc)
        if record is not None and not record.layers and not self._is_read(doc):
            del self._documents[doc]

    def load_ahead(self, docs: Iterable[DocKey]) -> list[DocKey]:
        """Load together those of the documents that are not in memory. They are read soon. Returns them."""
        with self.lock:
            documents = self._documents
            missing = [doc for doc in docs if doc not in documents]
            if len(missing) > 1:
                for doc, found in self._upstream.load_many(missing, self.seq).items():
                    documents[doc] = Document(found.value, found.seq, found.value, NO_LAYERS)
        return missing

    def visible_many(self, docs: Iterable[DocKey]) -> dict[DocKey, Maybe]:
        """The visible documents. Those that are not in memory are read together, and are not in memory afterwards.

        Without those that the store cannot read together: `read` has each.
        """
        with self.lock:
            found: dict[DocKey, Maybe] = {}
            missing: list[DocKey] = []
            for doc in docs:
                record = self._documents.get(doc)
                if record is None:
                    missing.append(doc)
                else:
                    found[doc] = record.visible
            if missing:
                for doc, stored in self._upstream.load_many(missing, self.seq).items():
                    found[doc] = stored.value
        return found

    # -- collections ---------------------------------------------------------------------------------------

    def attach_collections(self, records: Mapping[str, CollectionRecord]) -> None:
        """The collections of the space, by kind: their indexes can be read from now on."""
        with self.lock:
            if self.members is None and records:
                self.members = Members(self._layered_documents)
            if self.members is not None:
                self.members.attach(records)

    @property
    def collections(self) -> Mapping[str, CollectionRecord]:
        """The collections of the space, by kind."""
        return {} if self.members is None else self.members.records

    def _layered_documents(self) -> list[tuple[DocKey, Document]]:
        """The documents with pending layers."""
        return [(doc, record) for doc, record in self._documents.items() if record.layers]

    def layers_of(self, doc: DocKey) -> list[PendingCommit]:
        """The pending commits that touch a document. Read-only for the caller."""
        record = self._documents.get(doc)
        return NO_LAYERS if record is None else record.layers

    def confirmed_keys(
        self, index: str, lo: bytes, hi: bytes, size: int, *, reverse: bool
    ) -> tuple[list[bytes], tuple[bytes, bytes] | None]:
        """The first confirmed keys of a span, and where the next ones begin; None: these are all."""
        found = self._upstream.span(index, lo, hi, limit=size, reverse=reverse, through=self.seq)
        if len(found) < size:
            return found, None
        return found, (lo, found[-1]) if reverse else (found[-1] + b"\0", hi)

    def missing_keys(self, question: KeyQuestion) -> DocKey | None:
        """The name that stands for keys that are not here yet: `is_missing` requests them, as it does documents.

        None: the first keys are here. Always so in a complete replica.
        """
        del question
        return None

    def knows_keys(self, index: str, lo: bytes, hi: bytes, *, docs: bool = False) -> bool:
        """Whether all keys of a span are here, and with `docs`, all documents that have them and that get them."""
        del index, lo, hi, docs
        return True

    def without_asking(self) -> AbstractContextManager[object]:
        """Inside, keys that are not here are not asked for: a read of them raises NotReadyError."""
        return NO_LOCK

    def pin_keys(self, index: str, lo: bytes, hi: bytes) -> None:
        """A transaction reads a span: what is known of it stays known until `unpin_keys`."""

    def unpin_keys(self, index: str, lo: bytes, hi: bytes) -> None:
        """The transaction has ended."""

    # -- memory and listeners ------------------------------------------------------------------------------

    @property
    def document_count(self) -> int:
        """The number of loaded documents."""
        return len(self._documents)

    def listen(self, listener: Listener, readers: Container[DocKey] | None = None) -> Callable[[], None]:
        """Subscribe to changes of the visible state. Returns the function that unsubscribes.

        `readers` contains the documents of interest, and is asked at every change: it may be the listener's own index.
        A change of a document without readers costs one lookup and is not reported. A notification may have
        changes of documents that only other listeners read.
        """
        entry = _Subscription(listener, readers)
        self._set_listeners((*self._entries, entry))
        return lambda: self._set_listeners(tuple(other for other in self._entries if other is not entry))

    def _set_listeners(self, entries: tuple[_Subscription, ...]) -> None:
        self._entries = entries
        self._listeners = tuple([entry.listener for entry in entries])
        chosen = [entry.readers for entry in entries if entry.readers is not None]
        self._readers = tuple(chosen) if len(chosen) == len(entries) else (EVERYTHING,)

    def _is_read(self, doc: DocKey) -> bool:
        """Whether any listener reads this document."""
        for readers in self._readers:
            if doc in readers:
                return True
        return False

    def read_kinds(self, kinds: Container[str]) -> Callable[[], None]:
        """Notify shifts of these kinds from now on. Returns what ends that."""

        def end() -> None:
            self._read_kinds(tuple(each for each in self._kinds if each is not kinds))

        self._read_kinds((*self._kinds, kinds))
        return end

    def _read_kinds(self, all_kinds: tuple[Container[str], ...]) -> None:
        self._kinds = all_kinds
        # Mostly those of the scheduler alone.
        self.span_kinds = all_kinds[0] if len(all_kinds) == 1 else _AnyOf(all_kinds)

    def _notify(self, notification: Notification) -> None:
        listeners = self._listeners
        if len(listeners) == 1:
            listeners[0](notification)
        else:
            told = [entry.listener for entry in self._entries if _reads(entry.readers, notification)]
            if len(told) == 1:
                told[0](notification)
            else:
                call_all(told, notification)


class _AnyOf:
    """What is in any of several containers."""

    def __init__(self, containers: tuple[Container[str], ...]) -> None:
        self._containers = containers

    def __contains__(self, item: object) -> bool:
        return any(item in each for each in self._containers)


def _reads(readers: Container[DocKey] | None, notification: Notification) -> bool:
    """Whether a listener reads one of the changed documents, or may read an index that has changed."""
    if readers is None or notification.shifts:
        return True
    for change in notification.changes:
        if change.doc in readers:
            return True
    return False
