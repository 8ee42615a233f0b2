"""Answers to questions of clients about a space, made while its storage is locked."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from headwater.errors import ServerLimitError
from headwater.store import browsing, resumption
from headwater.store.backend import ObservationRow
from headwater.store.engine import Engine
from headwater.sync.frame_limits import FRAME_BYTES_MAX, PREFETCH_BYTES_MAX
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
from headwater.values.tree import ABSENT, Maybe

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


def made(engine: Engine, connection: ConnectionPort, asked: Watch | Pull | AskObservations | AskChanged) -> SpaceAnswer:
    """Answer a question, and evict the documents read for it."""
    made = answer(engine, connection, asked)
    # Questions fill the cache, too.
    engine.states.evict()
    return made


def answer(
    engine: Engine, connection: ConnectionPort, asked: Watch | Pull | AskObservations | AskChanged
) -> SpaceAnswer:
    """Answer a question as of the newest sequence number."""
    branch = connection.talk.branch
    if isinstance(asked, AskObservations):
        return SpaceAnswer(connection, encode_frame(_kept(engine, connection, asked)), seq=engine.head)
    if isinstance(asked, AskChanged):
        places = [(path, Depth.SHALLOW if shallow else Depth.DEEP) for path, shallow in asked.places]
        found = resumption.overlapping_writes(engine, branch, asked.doc, places, Seq(asked.after))
        return SpaceAnswer(
            connection, encode_frame(Changed(asked.number, found is None or bool(found))), seq=engine.head
        )
    return _docs(engine, connection, asked)


def _kept(engine: Engine, connection: ConnectionPort, asked: AskObservations) -> FromServer:
    branch = connection.talk.branch
    if not asked.prefix:
        return Observations(asked.number, engine.head, (), resumption.heads(engine, branch, asked.besides))
    listed = resumption.listing(engine, branch, asked.prefix, asked.besides)
    # Without observations of documents in another user's scope: their keys are private. Other users run the function.
    rows = tuple(_row(row) for row in listed.rows.values() if connection.talk.may_keep(row.body))
    # With many rows the list covers all documents, those of other users included.
    places = {doc: place for doc, place in listed.heads.items() if connection.may_see(doc)}
    return Observations(asked.number, listed.seq, rows, places, tuple(sorted(listed.inherited)))


def _row(row: ObservationRow) -> tuple[DocKey, Seq, bytes]:
    return row.doc, row.seq, row.body


class _Gathering:
    """Collects documents for an answer, within its size limit."""

    def __init__(self, engine: Engine, branch: BranchId, at: int | None) -> None:
        self._engine = engine
        self._branch = branch
        self._at = at
        self.found: dict[DocKey, FoundDoc] = {}
        self.newer: list[FoundDoc] = []
        self.left_bytes = PREFETCH_BYTES_MAX
        self._most_bytes = FRAME_BYTES_MAX - _HEAD_BYTES
        # Unchanged documents: watched, but not sent.
        self.same: list[DocKey] = []

    def add(self, doc: DocKey, have: int = -1) -> Maybe:
        state = self._engine.states.get(self._branch, doc)
        if state.seq == have:
            self.same.append(doc)
            return state.value
        now = _found(doc, state.seq, state.value)
        at = self._at
        if at is not None and state.seq > at >= self._engine.documents.horizon.seq:
            then = self._engine.documents.at(self._branch, doc, Seq(at))
            self.newer.append(now)
            now = _found(doc, then.seq, then.value)
            self._spend(self.newer[-1])
        self.found[doc] = now
        self._spend(now)
        return state.value

    def _spend(self, found: FoundDoc) -> None:
        """Count a document. Requested documents may exceed the limit for linked ones, up to a frame."""
        size = len(found.doc) + _ENTRY_BYTES + (len(encode(found.value[0])) if found.value else 0)
        self.left_bytes -= size
        self._most_bytes -= size
        if self._most_bytes < 0:
            message = f"the answer has more than {FRAME_BYTES_MAX:,} bytes; ask for fewer documents at once"
            raise ServerLimitError(message)


def _docs(engine: Engine, connection: ConnectionPort, asked: Watch | Pull) -> SpaceAnswer:
    gathered = _Gathering(engine, connection.talk.branch, asked.at)
    start: list[tuple[DocKey, Maybe]] = []
    for each in asked.docs:
        doc, have = (each, -1) if isinstance(each, str) else each
        start.append((doc, gathered.add(doc, have)))
    most = connection.talk.may_bring(asked)
    have_of = {} if isinstance(asked, Pull) else dict(asked.docs)
    complete = True
    for prefix in asked.prefixes:
        for doc in browsing.keys(engine, connection.talk.branch, prefix):
            if doc in gathered.found or doc in have_of:
                continue
            if len(gathered.found) >= most or gathered.left_bytes < 0:
                complete = False
                break
            start.append((doc, gathered.add(doc)))
    if asked.follow and complete:
        allowed = min(asked.follow, most - len(gathered.found))

        def load(doc: DocKey) -> Maybe:
            if not connection.may_see(doc) or gathered.left_bytes < 0:
                return ABSENT
            return gathered.add(doc)

        for _ in closure(start, load, allowed):
            pass
    frame = Docs(asked.number, engine.head, tuple(gathered.found.values()), tuple(gathered.newer), complete)
    watched = (*gathered.found, *gathered.same)
    prefixes = asked.prefixes if complete else ()
    return SpaceAnswer(connection, encode_frame(frame), watched, prefixes, isinstance(asked, Watch), engine.head)


def _found(doc: DocKey, seq: Seq, value: Maybe) -> FoundDoc:
    return FoundDoc(doc, seq) if value is ABSENT else FoundDoc(doc, seq, (value,))
