"""Answers to questions of clients about a space, made while its storage is locked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from headwater.server.spaces.document_gathering import Gathering
from headwater.server.spaces.span_answers import shifted, span_keys
from headwater.store import browsing, resumption
from headwater.store.backend import ObservationRow
from headwater.store.commit import Refused
from headwater.store.engine import Engine
from headwater.sync.frame_limits import LEFT_MAX
from headwater.sync.frames import (
    AskChanged,
    AskObservations,
    AskShifted,
    Changed,
    Docs,
    FromServer,
    Observations,
    Pull,
    Watch,
    WatchSpan,
    encode_frame,
)
from headwater.sync.server_port import Question
from headwater.sync.server_session import ServerSession
from headwater.sync.span_watches import WatchedSpan
from headwater.sync.watches import Watcher, closure
from headwater.values.address import Depth
from headwater.values.ids import NEVER, DocKey, Seq
from headwater.values.tree import ABSENT, Maybe


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
    span: WatchedSpan | None = None


def made(
    engine: Engine,
    connection: ConnectionPort,
    asked: Question,
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
    asked: Question,
    pause: Callable[[], None] = lambda: None,
) -> SpaceAnswer:
    """Answer a question as of the newest sequence number."""
    branch = connection.talk.branch
    if isinstance(asked, AskObservations):
        return SpaceAnswer(connection, encode_frame(_kept(engine, connection, asked)), seq=engine.head)
    if isinstance(asked, WatchSpan):
        keys, span = span_keys(engine, connection.talk, asked, pause)
        docs = tuple([found.doc for found in keys.docs])
        return SpaceAnswer(connection, encode_frame(keys), docs, (), watches=True, seq=engine.head, span=span)
    if isinstance(asked, AskShifted):
        frame = shifted(engine, connection.talk, asked)
        return SpaceAnswer(connection, encode_frame(frame), seq=engine.head)
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


def _docs(engine: Engine, connection: ConnectionPort, asked: Watch | Pull, pause: Callable[[], None]) -> SpaceAnswer:
    gathered = Gathering(engine, connection.talk.branch, asked.at, asked.room if isinstance(asked, Watch) else 0, pause)
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
    gathered: Gathering,
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
