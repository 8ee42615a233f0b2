"""The documents of collections of a server's space, read and written in batches: for migrations and checks.

Its own connection: what the server refuses here is no rejected write of an app. Keys come from the index by id, and
documents are watched only while their batch is worked on, so memory does not grow with the collection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from headwater.client.credentials import Credentials
from headwater.client.remote_replica import RemoteReplica
from headwater.client.remote_storage import RemoteStorage
from headwater.client.server_url import ServerUrl
from headwater.client.span_questions import SpanQuestions
from headwater.errors import NotFoundError
from headwater.runtime.migration import Refusal, refusal_of
from headwater.store.collection_record import (
    BY_ID,
    CollectionRecord,
    CollectionScope,
    docs_of,
    record_doc,
    record_of,
    user_prefix,
)
from headwater.store.commit import Operation, SpanRead
from headwater.sync.frame_limits import KEYS_MAX
from headwater.sync.frames import WatchSpan
from headwater.values.ids import DocKey, Seq
from headwater.values.sortkey import AFTER
from headwater.values.tree import ABSENT, Value


class ServerDocuments:
    """The documents that one connection reaches."""

    def __init__(self, storage: RemoteStorage, replica: RemoteReplica) -> None:
        self._replica = replica
        self._spans = SpanQuestions(storage.link)
        connection = storage.connection()
        self._actor = connection.actor
        self.owns = connection.can == "own"
        # Of each kind: whose its documents are, and where the log was when their keys were read.
        self._listed: dict[str, tuple[CollectionScope, Seq]] = {}

    @property
    def seq(self) -> Seq:
        """The newest commit that is known here."""
        return self._replica.seq

    def record(self, kind: str) -> CollectionRecord | None:
        """The record of a collection; None if it is not declared at the server."""
        doc = record_doc(kind)
        stored = self.read([doc]).get(doc, ABSENT)
        return None if stored is ABSENT else record_of(doc, stored)

    def keys(self, kind: str, scope: CollectionScope) -> list[DocKey]:
        """The keys of the documents of a declared collection; of those of each user, the keys of this one."""
        record = self.record(kind)
        if record is None:
            message = f"the space has no collection {kind!r} yet; `headwater collections deploy` declares it"
            raise NotFoundError(message, kind=kind)
        lo, hi = self._bounds(scope)
        replica, found = self._replica, list[DocKey]()
        replica.refresh()
        self._listed[kind] = scope, replica.seq
        self._spans.check()
        while lo < hi:
            answer = self._spans.ask(WatchSpan(0, BY_ID.name(kind), lo, hi, limit=KEYS_MAX, at=replica.seq))
            self._spans.release([answer.number])
            found += docs_of(record, answer.keys)
            lo = answer.end or hi
        return found

    def read(self, docs: Sequence[DocKey]) -> Mapping[DocKey, Value]:
        """Those of the documents that exist, as of now."""
        replica = self._replica
        replica.refresh()
        replica.hold(docs)
        return {doc: value for doc in docs if (value := replica.read(doc)) is not ABSENT}

    def commit(self, operations: Sequence[Operation], spans: Sequence[SpanRead] = ()) -> Refusal | None:
        """Commit, based on the documents as they were read, and wait for the verdict."""
        reads = [self._replica.read_mark(each.doc, ()) for each in operations]
        return refusal_of(self._replica, operations, reads=reads, spans=spans)

    def since_keys(self, kind: str, fields: Sequence[str]) -> list[SpanRead] | None:
        """The index by id, as of when the keys were read. None for documents of each user."""
        scope, place = self._listed[kind]
        if scope != "space":
            return None
        return [SpanRead(BY_ID.name(kind), *self._bounds(scope), place, tuple(fields))]

    def release(self, docs: Sequence[DocKey]) -> None:
        """Release documents from memory."""
        for doc in docs:
            self._replica.release(doc)

    def _bounds(self, scope: CollectionScope) -> tuple[bytes, bytes]:
        if scope == "space":
            return b"", AFTER
        prefix = user_prefix(self._actor)
        return prefix, prefix + AFTER


@contextmanager
def server_documents(url: ServerUrl, token: str | None, branch: str) -> Iterator[ServerDocuments]:
    """The documents of a space that exists. Raises OfflineError, AccessError."""
    storage = RemoteStorage(url, Credentials(token=token), create=False)
    try:
        yield ServerDocuments(storage, storage.attach(branch=branch))
    finally:
        storage.close()
