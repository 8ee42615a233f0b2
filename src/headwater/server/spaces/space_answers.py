"""Answers to questions of clients about a space, made while its storage is locked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, cast

import msgspec

from headwater.errors import ServerLimitError
from headwater.server.server_limits import SLICE_DOCS
from headwater.store import browsing, resumption
from headwater.store.backend import ObservationRow
from headwater.store.collection_record import kind_of, record_doc
from headwater.store.commit import Refused
from headwater.store.engine import Engine
from headwater.store.state_cache import DocState
from headwater.sync.frame_limits import FRAME_BYTES_MAX, LEFT_MAX, PREFETCH_BYTES_MAX
from headwater.sync.frames import (
    AskChanged,
    AskObservations,
    Changed,
    Docs,
    FoundDoc,
    FromServer,
    Observations,
    Pull,
    Watch,
    encode_frame,
)
from headwater.sync.server_session import ServerSession
from headwater.sync.watches import Watcher, closure
from headwater.values.address import Depth
from headwater.values.codec import encode
from headwater.values.ids import NEVER, BranchId, DocKey, Seq
from headwater.values.tree import ABSENT, Maybe, Value

_HEAD_BYTES: Final = 4096
"""Bytes of a frame besides documents."""

_ENTRY_BYTES: Final = 32
"""Bytes of a document in a frame besides its key and value."""


class ConnectionPort(Watcher, Protocol):
    """A connection as a channel uses it."""

    @property
    def talk(self) -> ServerSession:
        """Its protocol session."""
        ...

    def may(self, right: str) -> bool:
        """Whether it has the right now."""
        ...

    def refused(self, verdict: Refused) -> None:
        """A commit was refused; a lack of rights is recorded."""

    def push(self, frame: bytes) -> None:
        """Buffer an encoded frame until `flush`."""

    def flush(self) -> None:
        """Send what was buffered."""

    def reply(self, frame: bytes) -> None:
        """Send the answer to its oldest question."""


class SpaceAnswer(msgspec.Struct, frozen=True, eq=False):
    """The answer to a question, at its position among the outcomes."""

    connection: ConnectionPort
    frame: bytes
    docs: tuple[DocKey, ...] = ()
    prefixes: tuple[str, ...] = ()
    watches: bool = False
    # Its sequence number. Creating a branch takes one that is not sent to other clients.
    seq: Seq = NEVER


def made(
    engine: Engine,
    connection: ConnectionPort,
    asked: Watch | Pull | AskObservations | AskChanged,
    pause: Callable[[], None] = lambda: None,
) -> SpaceAnswer:
    """Answer a question, and evict the documents read for it. `pause` is called now and then."""
    made = answer(engine, connection, asked, pause)
    # Questions fill the cache, too.
    engine.states.evict()
    return made


def answer(
    engine: Engine,
    connection: ConnectionPort,
    asked: Watch | Pull | AskObservations | AskChanged,
    pause: Callable[[], None] = lambda: None,
) -> SpaceAnswer:
    """Answer a question as of the newest sequence number."""
    branch = connection.talk.branch
    if isinstance(asked, AskObservations):
        return SpaceAnswer(connection, encode_frame(_kept(engine, connection, asked)), seq=engine.head)
    if isinstance(asked, AskChanged) and not connection.may_see(asked.doc):
        # Hidden: nothing can be said about it.
        return SpaceAnswer(connection, encode_frame(Changed(asked.number, changed=True)), seq=engine.head)
    if isinstance(asked, AskChanged):
        places = [(path, Depth.SHALLOW if shallow else Depth.DEEP) for path, shallow in asked.places]
        found = resumption.overlapping_writes(engine, branch, asked.doc, places, Seq(asked.after))
        return SpaceAnswer(
            connection, encode_frame(Changed(asked.number, found is None or bool(found))), seq=engine.head
        )
    return _docs(engine, connection, asked, pause)


def _kept(engine: Engine, connection: ConnectionPort, asked: AskObservations) -> FromServer:
    branch = connection.talk.branch
    if not asked.prefix:
        besides = [doc for doc in asked.besides if connection.may_see(doc)]
        return Observations(asked.number, engine.head, (), resumption.heads(engine, branch, besides))
    besides = [doc for doc in asked.besides if connection.may_see(doc)]
    listed = resumption.listing(engine, branch, asked.prefix, besides)
    # Without observations of documents in another user's scope: their keys are private. Other users run the function.
    rows = tuple(_row(row) for row in listed.rows.values() if connection.talk.may_keep(row.body))
    # With many rows the list covers all documents, those of other users included.
    places = {doc: place for doc, place in listed.heads.items() if connection.may_see(doc)}
    return Observations(asked.number, listed.seq, rows, places, tuple(sorted(listed.inherited)))


def _row(row: ObservationRow) -> tuple[DocKey, Seq, bytes]:
    return row.doc, row.seq, row.body


class _Gathering:
    """Collects documents for an answer, within its size limit. Each is encoded once, for its size and for the frame."""

    def __init__(self, engine: Engine, branch: BranchId, asked: Watch | Pull, pause: Callable[[], None]) -> None:
        self._engine = engine
        self._pause = pause
        self._read = 0
        self._branch = branch
        self._at = asked.at
        self.found: dict[DocKey, FoundDoc] = {}
        self.newer: list[FoundDoc] = []
        self.left_bytes = PREFETCH_BYTES_MAX
        self._most_bytes = FRAME_BYTES_MAX - _HEAD_BYTES
        # For documents that the client has not named.
        self.room = (asked.room if isinstance(asked, Watch) else 0) or FRAME_BYTES_MAX
        # Unchanged documents: watched, but not sent.
        self.same: list[DocKey] = []

    def add(self, doc: DocKey, have: int = -1) -> Maybe:
        """Add a document that the client has named."""
        state = self._state(doc)
        if state.seq == have:
            self.same.append(doc)
        else:
            self._take(*_found(doc, state.seq, state.value))
        return state.value

    def add_hidden(self, doc: DocKey) -> None:
        """Add a document that the client may not see: it does not exist, as of the rules that hide it."""
        rules = self._engine.states.get(self._branch, record_doc(kind_of(doc)))
        self._take(*_found(doc, rules.seq, ABSENT))

    def add_if_room(self, doc: DocKey, size: int = 0) -> DocState | None:
        """Add a document of about this size. None if there is no room for it; a large one is not even loaded."""
        if size > self.room:
            return None
        state = self._state(doc)
        found, size = _found(doc, state.seq, state.value)
        if size > self.room:
            return None
        self.room -= size
        self._take(found, size)
        return state

    def _state(self, doc: DocKey) -> DocState:
        self._read += 1
        if not self._read % SLICE_DOCS:
            self._pause()
        return self._engine.states.get(self._branch, doc)

    def _take(self, now: FoundDoc, size: int) -> None:
        at, doc = self._at, now.doc
        if at is not None and now.seq > at >= self._engine.documents.horizon.seq:
            then = self._engine.documents.at(self._branch, doc, Seq(at))
            self.newer.append(now)
            self._spend(size)
            now, size = _found(doc, then.seq, then.value)
        self.found[doc] = now
        self._spend(size)

    def _spend(self, size: int) -> None:
        """Count a document. Requested documents may exceed the limit for linked ones, up to a frame."""
        self.left_bytes -= size
        self._most_bytes -= size
        if self._most_bytes < 0:
            message = f"the answer has more than {FRAME_BYTES_MAX:,} bytes; ask for fewer documents at once"
            raise ServerLimitError(message)


def _docs(engine: Engine, connection: ConnectionPort, asked: Watch | Pull, pause: Callable[[], None]) -> SpaceAnswer:
    gathered = _Gathering(engine, connection.talk.branch, asked, pause)
    start: list[tuple[DocKey, Maybe]] = []
    hidden: set[DocKey] = set()
    for each in asked.docs:
        doc, have = (each, -1) if isinstance(each, str) else each
        if connection.may_see(doc):
            start.append((doc, gathered.add(doc, have)))
        else:
            hidden.add(doc)
            gathered.add_hidden(doc)
    most = connection.talk.may_bring(asked)
    left = _by_prefix(engine, connection, asked, gathered, start)
    complete = left is not None
    if asked.follow and complete:
        allowed = min(asked.follow, most - len(gathered.found))

        def load(doc: DocKey) -> Maybe:
            if not connection.may_see(doc) or gathered.left_bytes < 0 or gathered.room <= 0:
                return ABSENT
            state = gathered.add_if_room(doc)
            return ABSENT if state is None else state.value

        for _ in closure(start, load, allowed):
            pass
    found, newer = tuple(gathered.found.values()), tuple(gathered.newer)
    frame = Docs(asked.number, engine.head, found, newer, complete, tuple(left or ()))
    watched = (*(doc for doc in gathered.found if doc not in hidden), *gathered.same)
    prefixes = asked.prefixes if complete else ()
    return SpaceAnswer(connection, encode_frame(frame), watched, prefixes, isinstance(asked, Watch), engine.head)


def _by_prefix(
    engine: Engine,
    connection: ConnectionPort,
    asked: Watch | Pull,
    gathered: _Gathering,
    start: list[tuple[DocKey, Maybe]],
) -> list[DocKey] | None:
    """Add the documents with a prefix. Returns those without room; None if not all documents can be named."""
    have_of = {} if isinstance(asked, Pull) else dict(asked.docs)
    most = connection.talk.may_bring(asked)
    left: list[DocKey] = []
    has_rules = connection.talk.has_rules
    for prefix in asked.prefixes:
        for doc, size in browsing.sized_keys(engine, connection.talk.branch, prefix):
            if doc in gathered.found or doc in have_of or (has_rules and not connection.may_see(doc)):
                continue
            if len(gathered.found) >= most or gathered.left_bytes < 0 or len(left) > LEFT_MAX:
                return None
            state = gathered.add_if_room(doc, size)
            if state is None:
                left.append(doc)
            else:
                start.append((doc, state.value))
    return left


def _found(doc: DocKey, seq: Seq, value: Maybe) -> tuple[FoundDoc, int]:
    """A document as it is sent, and its size in a frame."""
    if value is ABSENT:
        return FoundDoc(doc, seq), len(doc) + _ENTRY_BYTES
    body = encode(value)
    # Encoded already: the frame takes the bytes as they are.
    return FoundDoc(doc, seq, (cast("Value", msgspec.Raw(body)),)), len(doc) + _ENTRY_BYTES + len(body)
