"""A served space without sockets, and clients that know nothing but the frames they are sent."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from headwater.errors import AccessError
from headwater.server.spaces.space_answers import answer
from headwater.store import resumption
from headwater.store.applying import apply_operation
from headwater.store.collection_record import CollectionRecord, Index, doc_of, kind_of_index
from headwater.store.commit import (
    Commit,
    CommitOutcome,
    Committed,
    NewObservation,
    Operation,
    SpanRead,
    Submission,
    Verdict,
    adopt_operation,
)
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.index_field import IndexField
from headwater.sync.frames import (
    SPANS,
    ErrorFrame,
    FromClient,
    FromServer,
    Hello,
    Judged,
    News,
    Open,
    SpaceOpened,
    SpanKeys,
    Transact,
    Unwatch,
    Watch,
    WatchSpan,
    Written,
    encode_frame,
    read_server,
)
from headwater.sync.server_port import Question
from headwater.sync.server_session import ServerSession
from headwater.sync.watches import Watches
from headwater.values.ids import MAIN, DocKey, LocalSeq, Seq, SessionId
from headwater.values.sortkey import AFTER, encode_field
from headwater.values.tree import ABSENT, Maybe
from tests.support.spaces import Space

BY_STATE = "order#state,n"
ORDERS = CollectionRecord("order", indexes=(Index((IndexField("state"), IndexField("n"))),))
DRAFTS = CollectionRecord("draft", "user", indexes=(Index((IndexField("n"),)),))
NEVER_SENT = LocalSeq(0)


def of_state(state: str) -> tuple[bytes, bytes]:
    """The span of one state."""
    return encode_field(state), encode_field(state) + AFTER


class Service:
    """One space and its connections: as `server.spaces.channel`, without threads."""

    def __init__(self, space: Space, *records: CollectionRecord) -> None:
        self.space = space
        self.watches: Watches[Connection] = Watches()
        for record in records or (ORDERS, DRAFTS):
            declare(space.engine, record)
        self.head = space.engine.head

    @property
    def engine(self) -> Engine:
        return self.space.engine

    def decide(self, commit: Commit, notes: tuple[NewObservation, ...] = ()) -> CommitOutcome:
        before = self.head
        (decided,) = self.engine.admit([Submission(commit, observations=notes)])
        self.head = self.engine.head
        for connection, frame, news in list(self.watches.tell([decided], before, self.head)):
            connection.talk.judged(sum(type(new) is not Written for new in news))
            connection.push(frame)
        return decided

    def write(self, *operations: Operation) -> CommitOutcome:
        """A commit of a session that watches nothing."""
        number = LocalSeq(self.engine.last_of(SessionId("elsewhere")) + 1)
        return self.decide(Commit(SessionId("elsewhere"), number, operations))

    def keys(self, index: str, lo: bytes, hi: bytes) -> list[bytes]:
        return self.engine.collections.span(MAIN, index, lo, hi)


class Connection:
    """One connection at the server: as `server.spaces.client_connection`, without waiting for anything."""

    def __init__(self, service: Service, session: str, *, can: tuple[str, ...] = (SPANS,), actor: str = "ann") -> None:
        self._service = service
        self.said: deque[bytes] = deque()
        self.closed: tuple[int, str] | None = None
        self.hidden: set[str] = set()
        self.refusals: list[tuple[str, str]] = []
        self.talk = ServerSession(self, server="s", audience="a", nonce=bytes(32), limits={})
        self.watched, self.prefixes, self.spans = self.talk.watched, self.talk.prefixes, self.talk.spans
        self._name = SessionId(session)
        self.ask(Hello((1,), can=can))
        self.ask(Open("home", actor=actor))
        self.said.clear()

    def ask(self, frame: FromClient) -> None:
        self.talk.receive(encode_frame(frame))

    # -- the port of the session ---------------------------------------------------------------------------

    @property
    def session(self) -> SessionId:
        return self.talk.session

    @property
    def head(self) -> Seq:
        return self._service.head

    def send(self, frame: FromServer) -> None:
        self.push(encode_frame(frame))

    def push(self, frame: bytes) -> None:
        self.said.append(frame)

    def flush(self) -> None:
        """Nothing is buffered."""

    def reply(self, frame: bytes) -> None:
        self.push(frame)

    def refused(self, verdict: Verdict) -> None:
        """Nobody reads it here."""

    def close(self, code: int, reason: str) -> None:
        self.closed = code, reason
        self.leave()

    @property
    def knows_rights(self) -> bool:
        return True

    @property
    def has_rules(self) -> bool:
        return bool(self.hidden)

    has_roles = False

    def may_read(self, kind: str) -> bool:
        return kind not in self.hidden

    def may_change(self, kind: str) -> bool:  # noqa: ARG002
        return True

    def collection(self, kind: str) -> CollectionRecord | None:
        return self._service.engine.collections.records(MAIN).get(kind)

    def may(self, right: str) -> bool:  # noqa: ARG002
        return True

    def may_see(self, doc: DocKey) -> bool:
        return self.talk.may_see(doc)

    def open(self, asked: Open) -> None:
        service = self._service
        self.talk.session, self.talk.branch = self._name, MAIN
        service.watches.enter(self)
        last = service.engine.last_of(self._name)
        self.talk.opened(SpaceOpened(asked.space, self._name, b"", service.head, asked.actor, "own", last), MAIN)

    def submit(self, commit: Commit, notes: tuple[NewObservation, ...], *, force: bool) -> None:  # noqa: ARG002
        self._service.decide(commit, notes)

    def note(self, notes: tuple[NewObservation, ...], gone: tuple[DocKey, ...]) -> None:
        self._service.engine.observe(notes)
        resumption.drop_unclaimed(self._service.engine, MAIN, gone)

    def look(self, asked: Question) -> None:
        found = answer(self._service.engine, self, asked)
        self.talk.answered()
        if found.watches:
            self._service.watches.add(self, found.docs, found.prefixes)
        if found.span is not None:
            self._service.watches.spans.add(self, found.span)
        self.push(found.frame)

    def unwatch(self, asked: Unwatch) -> None:
        self._service.watches.remove(self, asked.docs, asked.prefixes)

    def unspan(self, numbers: tuple[int, ...]) -> None:
        self._service.watches.spans.remove(self, numbers)

    def denied(self, asked: str, error: AccessError) -> None:
        self.refusals.append((asked, error.message))

    def left(self) -> None:
        """Nothing is kept of it."""

    def leave(self) -> None:
        self.talk.lost()
        self._service.watches.leave(self)


class KnownSpan:
    """A part of an index that a client knows."""

    def __init__(self, asked: WatchSpan) -> None:
        self.asked = asked
        self.lo, self.hi = asked.lo, asked.hi
        self.keys: list[bytes] = []

    def holds(self, key: bytes | None) -> bool:
        return key is not None and self.lo <= key < self.hi

    def take(self, answered: SpanKeys) -> None:
        """The answer to its question."""
        if self.asked.known and answered.at is not None:
            assert not answered.keys
            self.change(answered.gone, answered.came)
            return
        if answered.end and self.asked.reverse:
            self.lo = answered.end
        elif answered.end:
            self.hi = answered.end
        assert list(answered.keys) == sorted(answered.keys, reverse=self.asked.reverse)
        self.keys = sorted(answered.keys)

    def change(self, gone: Sequence[bytes], came: Sequence[bytes]) -> None:
        for key in gone:
            place = bisect_left(self.keys, key)
            assert self.keys[place] == key
            del self.keys[place]
        for key in came:
            assert self.holds(key)
            insort(self.keys, key)


class SpanClient:
    """What a client knows by its frames: keys of spans, and documents."""

    def __init__(self, service: Service, session: str) -> None:
        self.service, self.name = service, session
        self.wire = Connection(service, session)
        self.seq = service.head
        self.spans: dict[int, KnownSpan] = {}
        self._asked: dict[int, KnownSpan] = {}
        self.docs: dict[DocKey, Maybe] = {}
        # Documents that news has brought because they entered a span.
        self.brought: list[DocKey] = []
        self.answers: list[FromServer] = []
        # Answers with the changes since an earlier place, and those that had to say that these are not known.
        self.continued = self.not_continued = 0
        self.has_room = True
        self._number = self._last = 0

    # -- to the server -------------------------------------------------------------------------------------

    def ask(self, index: str, lo: bytes, hi: bytes, **options: Any) -> int:
        self._number += 1
        number = (1 << 48) + self._number
        asked = WatchSpan(number, index, lo, hi, **options)
        self._asked[number] = KnownSpan(asked)
        self.wire.ask(asked)
        return number

    def span(self, index: str, lo: bytes, hi: bytes, **options: Any) -> SpanKeys:
        """Ask, and read everything up to the answer."""
        number = self.ask(index, lo, hi, **options)
        self.read()
        found = self.answers[-1]
        assert isinstance(found, SpanKeys), found
        assert found.number == number
        return found

    def commit(self, *operations: Operation, spans: tuple[SpanRead, ...] = ()) -> Verdict | None:
        """A commit of this session. Its verdict is read later."""
        self._last += 1
        self.wire.ask(Transact(self._last, operations, spans=spans))
        return None

    def reconnect(self) -> None:
        """The connection is lost, with what was not read."""
        self.wire.leave()
        self.wire = Connection(self.service, self.name)
        known = list(self.spans.values())
        self.spans, self._asked = {}, {}
        docs, self.docs = self.docs, {}
        # Whether each has changed is what the next test of this frame asks; here all are sent.
        self._number += 1
        self.wire.ask(Watch((1 << 48) + self._number, tuple((doc, 2**62) for doc in docs)))
        at = self.seq
        for each in known:
            options = {"docs": each.asked.docs, "reverse": each.asked.reverse}
            number = self.ask(each.asked.index, each.lo, each.hi, at=at, known=True, **options)
            self._asked[number].keys = each.keys
        self.read()

    # -- from the server -----------------------------------------------------------------------------------

    def read(self, count: int | None = None) -> list[FromServer]:
        """Read frames: all that have come, or the first of them."""
        found: list[FromServer] = []
        while self.wire.said and (count is None or len(found) < count):
            frame = read_server(self.wire.said.popleft())
            found.append(frame)
            match frame:
                case SpanKeys():
                    known = self.spans[frame.number] = self._asked.pop(frame.number)
                    known.take(frame)
                    self.continued += known.asked.known and frame.at is not None
                    self.not_continued += known.asked.at is not None and frame.at is None
                    self.take(frame.docs)
                    self.take(frame.newer)
                    self.seq = frame.seq
                    first = frame.keys or frame.came
                    self.check_held(known.asked.index, first[: known.asked.docs])
                    self.answers.append(frame)
                case News(seq, news):
                    for new in news:
                        match new:
                            case Written():
                                self.apply(new)
                            case Judged(_, Committed(place)) if place > self.seq:
                                self.apply_own(place)
                            case _:
                                pass
                    self.seq = seq
                    self.answers.append(frame)
                case ErrorFrame():
                    self.answers.append(frame)
                case _:
                    self.take(getattr(frame, "docs", ()))
        return found

    def take(self, docs: Any) -> None:
        for each in docs:
            self.docs[each.doc] = each.content

    def apply(self, new: Written) -> None:
        self.brought += new.brought
        for doc in new.brought:
            self.docs[doc] = ABSENT
        for operation in map(adopt_operation, new.operations):
            self.docs[operation.doc], _ = apply_operation(self.docs[operation.doc], operation)
        for known in self.spans.values():
            moves = [move for move in new.moves if move.index == known.asked.index]
            gone = [move.before for move in moves if move.before is not None and known.holds(move.before)]
            came = [move.after for move in moves if move.after is not None and known.holds(move.after)]
            known.change(gone, came)
            if known.asked.docs:
                self.check_held(
                    known.asked.index, [move.after for move in moves if move.before is None and move.after in came]
                )

    def apply_own(self, place: int) -> None:
        """An own commit is decided: a client has its documents, and so the moves of their keys."""
        shifts = self.service.engine.collections.shifts_in_log(Seq(place - 1)).get(Seq(place), [])
        for known in self.spans.values():
            moves = [move for shift in shifts for move in shift.moves if move.index == known.asked.index]
            gone = [move.before for move in moves if known.holds(move.before)]
            came = [move.after for move in moves if known.holds(move.after)]
            known.change([key for key in gone if key], [key for key in came if key])
        # It holds what it has written; how is not what is tested here.
        for doc in list(self.wire.watched):
            self.docs[doc] = self.service.engine.states.get(MAIN, doc).value

    # -- what must hold ------------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything that it knows is as the server has it; it has read all frames."""
        engine = self.service.engine
        for known in self.spans.values():
            if known.asked.limit != 0:
                assert known.keys == self.service.keys(known.asked.index, known.lo, known.hi)
        for doc in self.wire.watched:
            assert self.docs[doc] == engine.states.get(MAIN, doc).value

    def check_held(self, index: str, keys: Iterable[bytes]) -> None:
        """The documents of these keys are here, unless a limit has left some out."""
        if not self.has_room:
            return
        record = self.service.engine.collections.records(MAIN)[kind_of_index(index)]
        assert {doc_of(record, key) for key in keys} <= self.docs.keys()
