"""The documents that a session may name.

A document of another user gets the same answer as a missing one. A key that no correct client sends ends the
connection.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import AccessError, NameRefusedError, RemoteProtocolError
from headwater.store.collection_record import CollectionRecord, kind_of, kind_of_index, user_prefix
from headwater.store.commit import PendingRead, Read, SpanRead
from headwater.store.observations import DIGEST_BYTES, collections_of, decode_observation, docs_of
from headwater.store.wellformed import check_doc
from headwater.sync.frame_limits import INDEX_NAME_MAX, OFFLINE_MAX, SPAN_BOUND_MAX
from headwater.values.address import SPACE_SCOPE, Scope, session_scope, user_scope
from headwater.values.ids import DocKey, LocalSeq, Seq, SessionId
from headwater.values.value_limits import KEY_BYTES_MAX

_LAST: int = 2**63 - 1


class SessionScope:
    """The scope of one session; empty before the session is open."""

    def __init__(
        self, actor: str = "", session: SessionId | None = None, may_read: Callable[[str], bool] | None = None
    ) -> None:
        """`may_read`: whether the session may read a collection, by its kind. None: there are no rules."""
        own: list[Scope] = [] if session is None else [SPACE_SCOPE]
        if actor and session is not None:
            own += [user_scope(actor), session_scope(actor, session)]
        # What the keys of the documents of its user begin with, in indexes. None: it has no user.
        self._user = user_prefix(actor) if actor and session is not None else None
        # The prefixes of the keys that it may see.
        self._own = tuple(f"{scope.text}/" for scope in own)
        self._may_read = may_read

    def holds(self, doc: DocKey) -> bool:
        """Whether a document is the space's, or of this user or session, and of no collection that is hidden."""
        return doc.startswith(self._own) and (self._may_read is None or self._may_read(kind_of(doc)))

    def check(self, doc: DocKey) -> None:
        """Raise RemoteProtocolError for an invalid key, AccessError for a document of another user."""
        try:
            check_doc(doc)
        except NameRefusedError as refused:
            raise RemoteProtocolError(refused.message) from None
        # A key is in every index: its length is bounded, as that of keys of maps.
        if len(doc) > KEY_BYTES_MAX or (not doc.isascii() and len(doc.encode()) > KEY_BYTES_MAX):
            raise RemoteProtocolError(f"the key of a document has at most {KEY_BYTES_MAX:,} bytes: {doc[:40]!r}...")
        if not doc.startswith(self._own):
            raise AccessError("there is no such document", doc=doc)

    def check_prefix(self, prefix: str) -> None:
        """As `check`, for all documents with a prefix."""
        if not prefix.startswith(self._own):
            raise AccessError("there are no such documents", prefix=prefix[:KEY_BYTES_MAX])

    def check_reads(
        self, reads: tuple[Read, ...], rests: tuple[PendingRead, ...], head: Seq, number: int = _LAST
    ) -> None:
        """As `check`, for the reads of a commit; `number` is its own."""
        for read in reads:
            self.check(read.doc)
            check_place(read.seq, head)
        for rest in rests:
            self.check(rest.doc)
            check_place(rest.basis, head)
            _check_layers(rest.layers, number, rest.doc)

    def check_span_reads(self, spans: tuple[SpanRead, ...], head: Seq, number: int = _LAST) -> None:
        """As `check_reads`, for the reads of indexes."""
        for span in spans:
            check_bounds(span.index, span.lo, span.hi)
            check_place(span.seq, head)
            _check_layers(span.layers, number, span.index)
            for doc in span.layered:
                self.check(doc)

    def is_own_span(self, record: CollectionRecord, lo: bytes, hi: bytes) -> bool:
        """Whether all keys of a span are of documents of the space, or of this user."""
        if record.scope == "space":
            return True
        return self._user is not None and lo.startswith(self._user) and hi.startswith(self._user)

    def holds_all_of(self, body: bytes) -> bool:
        """Whether the reads of a run are known and all may be seen. Otherwise its observation is not stored."""
        if len(body) == DIGEST_BYTES:
            return True
        found = decode_observation(body)
        return found is not None and all(map(self.holds, (*docs_of(found), *collections_of(found))))


def check_bounds(index: str, lo: bytes, hi: bytes) -> None:
    """Raise RemoteProtocolError for a span of what cannot be an index, or with bounds that no client needs."""
    if len(index) > INDEX_NAME_MAX or not kind_of_index(index) or "#" not in index:
        raise RemoteProtocolError(f"{index[:40]!r} is no name of an index, such as 'order#state'")
    if max(len(lo), len(hi)) > SPAN_BOUND_MAX:
        raise RemoteProtocolError(f"the bounds of a span of {index[:40]} have at most {SPAN_BOUND_MAX:,} bytes")


def _check_layers(layers: tuple[tuple[LocalSeq, LocalSeq], ...], number: int, what: str) -> None:
    # Each one is looked up. A client cannot have kept more while it was not connected, and all are earlier.
    count = sum(last - first + 1 for first, last in layers)
    if count > 2 * OFFLINE_MAX or any(not 0 < first <= last < number for first, last in layers):
        raise RemoteProtocolError(f"a read of {what!r} rests on commits that this client cannot have made")


def check_place(seq: Seq, head: Seq) -> None:
    """Raise RemoteProtocolError unless a client that was sent everything up to `head` can know this seq."""
    if not 0 <= seq <= head:
        raise RemoteProtocolError(f"{seq} is no place of the log that this client can know of")
