"""The visible documents of a replica, and its listeners."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from headwater.cells.journal import Mark
from headwater.cells.pending_commit import PendingCommit, call_all, ranges
from headwater.cells.upstream import EVERYTHING, Upstream
from headwater.store.commit import PendingRead, Read
from headwater.store.document import StoredDocument
from headwater.store.wellformed import check_doc
from headwater.values.address import Depth
from headwater.values.ids import NEVER, DocKey, Seq
from headwater.values.notifications import Notification
from headwater.values.tree import ABSENT, Maybe, Path

Listener: TypeAlias = Callable[[Notification], None]

NO_LAYERS: Final[list[PendingCommit]] = []
"""Shared by all documents without layers, and therefore never appended to."""


@dataclass(slots=True, eq=False)
class Document:
    """One document here: what the store has confirmed, and what it looks like with our layers on top."""

    confirmed: Maybe
    seq: Seq
    visible: Maybe
    # Commits of ours that touch it and are not decided yet, oldest first. Most documents have none: no list is kept.
    layers: list[PendingCommit] = field(default_factory=lambda: NO_LAYERS)


class ReplicaView:
    """The documents of one branch as they look from here."""

    def __init__(self, upstream: Upstream, seq: Seq) -> None:
        self._upstream = upstream
        self._documents: dict[DocKey, Document] = {}
        # listen(): the listeners with what each cares for, and the same apart, for the quick way.
        self._entries: tuple[tuple[Listener, Container[DocKey] | None], ...] = ()
        self._listeners: tuple[Listener, ...] = ()
        self._readers: tuple[Container[DocKey], ...] = ()
        self.lock: AbstractContextManager[object] = nullcontext()
        """Held by who does several things with the replica that must not be torn apart; threads take turns by it."""
        self.version = 0
        """Grows with every change of what is visible: who finds it as it was needs not look at documents."""
        self.is_partial = False
        """Not every document is here at once: whoever looks at one asks whether it `is_missing`."""
        self.on_arrived: Callable[[list[DocKey]], None] = lambda _: None
        """Told of documents that were missing and have come."""
        self.seq = seq
        """The newest commit of the log that is taken in here: all confirmed documents are as of this place."""

    # -- reading -------------------------------------------------------------------------------------------

    def read(self, doc: DocKey) -> Maybe:
        """The document as it looks from here."""
        record = self._documents.get(doc)
        return (record if record is not None else self._load(doc)).visible

    def read_mark(self, doc: DocKey, path: Path, depth: Depth = Depth.DEEP) -> Read | PendingRead:
        """What a commit has to name when it is made from what `read` returned."""
        record = self._documents.get(doc) or self._load(doc)
        if not record.layers:
            return Read(doc, path, record.seq, depth)
        return PendingRead(doc, path, record.seq, ranges(record.layers), depth)

    def snapshot(self, doc: DocKey) -> tuple[Maybe, Mark]:
        """The document as it looks now, and which version that is: what a transaction keeps from its first look on."""
        record = self._documents.get(doc) or self._load(doc)
        return record.visible, Mark(record.seq, record.layers, len(record.layers))

    def is_unchanged(self, doc: DocKey, value: Maybe, mark: Mark) -> bool:
        """The document is the very one that was held."""
        record = self._documents.get(doc)
        return (
            record is not None
            and record.visible is value
            and record.layers is mark.layers
            and len(mark.layers) == mark.count
        )

    def _load(self, doc: DocKey) -> Document:
        check_doc(doc)
        found = self._upstream.load(doc, self.seq) or StoredDocument(ABSENT, NEVER)
        record = self._documents[doc] = Document(found.value, found.seq, found.value)
        return record

    def is_layered(self, doc: DocKey) -> bool:
        """Something of it is not decided yet."""
        record = self._documents.get(doc)
        return record is not None and bool(record.layers)

    def is_missing(self, _doc: DocKey) -> bool:
        """It is not here, and nobody can say what it is; it was asked for. Here: never."""
        return False

    def is_loaded(self, doc: DocKey) -> bool:
        """It can be read without asking anybody."""
        return doc in self._documents

    def is_as_of(self, doc: DocKey, seq: Seq) -> bool:
        """It is here, decided, and was not changed after a place of the log that was taken in."""
        record = self._documents.get(doc)
        return record is not None and not record.layers and record.seq <= seq <= self.seq

    def expect_new(self, doc: DocKey) -> None:
        """Nobody can have written this document, for its id was made just now: the store need not be asked."""
        if doc not in self._documents:
            self._documents[doc] = Document(ABSENT, NEVER, ABSENT)

    def release(self, doc: DocKey) -> None:
        """Hold a document no longer that nobody is going to look at: it is read again if somebody does."""
        record = self._documents.get(doc)
        if record is not None and not record.layers and not self._is_read(doc):
            del self._documents[doc]

    @property
    def document_count(self) -> int:
        """Documents held here."""
        return len(self._documents)

    def listen(self, listener: Listener, readers: Container[DocKey] | None = None) -> Callable[[], None]:
        """Be told of every change of what is visible here. Returns what ends it.

        `readers` says which documents the listener cares for, and is asked anew at every change: it may be the
        listener's own index. A change of a document that nobody cares for costs one look and is not told. A listener
        may hear of documents that only others care for.
        """
        entry = (listener, readers)
        self._set_listeners((*self._entries, entry))
        return lambda: self._set_listeners(tuple(other for other in self._entries if other is not entry))

    def _set_listeners(self, entries: tuple[tuple[Listener, Container[DocKey] | None], ...]) -> None:
        self._entries = entries
        self._listeners = tuple(listener for listener, _ in entries)
        everything = any(readers is None for _, readers in entries)
        self._readers = (EVERYTHING,) if everything else tuple(readers for _, readers in entries if readers is not None)

    def _is_read(self, doc: DocKey) -> bool:
        """Whether any listener cares for this document."""
        for readers in self._readers:
            if doc in readers:
                return True
        return False

    def _notify(self, notification: Notification) -> None:
        listeners = self._listeners
        if len(listeners) == 1:
            listeners[0](notification)
        else:
            call_all(listeners, notification)
