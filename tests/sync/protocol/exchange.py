"""A whole exchange between a client and a server, without sockets: both sessions as they are, and an engine in memory.

What is said is written down step by step. The same story can be told to a client alone, from what was written down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from headwater.cells.pending_commit import Failure, Pulled
from headwater.errors import AccessError
from headwater.server.spaces.space_answers import answer
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.collection_record import CollectionRecord
from headwater.store.commit import (
    Absent,
    Commit,
    CommitOutcome,
    DeleteDoc,
    NewObservation,
    PatchDoc,
    PendingRead,
    Read,
    SetDoc,
    Submission,
)
from headwater.store.engine import Engine
from headwater.sync.client_session import ClientSession, Item
from headwater.sync.frames import (
    FromClient,
    FromServer,
    Open,
    Ping,
    Proof,
    SpaceOpened,
    Transact,
    Unwatch,
    Watch,
    Welcome,
    checked,
    encode_frame,
)
from headwater.sync.server_port import Question
from headwater.sync.server_session import ServerSession
from headwater.sync.watches import Watches
from headwater.testing.sim_clock import SimClock
from headwater.values.address import Depth
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.patch import Add, Append, Increment, Replace
from headwater.values.tree import freeze, is_array
from tests.sync.protocol.examples import ANN, BOB, COUNT, LINEAGE, NONCE, RESUME, SEAT, SPACE_ID

CLIENT: Final = "headwater/0.1.0"
SPACE: Final = "seats"


class Step(msgspec.Struct, frozen=True, rename={"side": "from"}, omit_defaults=True):
    """What happens: a frame, or something that no frame says."""

    side: str = ""
    hex: str = ""
    lost: bool = False
    """It was sent, and the connection broke before it came."""
    elsewhere: str = ""
    """Somebody else commits this: a `transact` of theirs."""
    event: str = ""
    """`connected`, or `cut`."""

    @property
    def data(self) -> bytes:
        return bytes.fromhex(self.hex)


# --- the server -------------------------------------------------------------------------------------------


class Place:
    """One space, and who is connected to it."""

    def __init__(self) -> None:
        self.engine = Engine(MemoryBackend(), SimClock())
        self.watches: Watches[Desk] = Watches()
        self.head = self.engine.head
        self.times = 0

    def decide(self, commit: Commit, notes: tuple[NewObservation, ...] = ()) -> None:
        before = self.head
        decided = self.engine.admit([Submission(commit, observations=notes)])
        self.head = self.engine.head
        for desk, frame, news in list(self.watches.tell(decided, before, self.head)):
            desk.talk.judged(sum(type(new).__name__ != "Written" for new in news))
            desk.push(frame)


class Desk:
    """One connection at the server: as `server.spaces.client_connection`, without waiting for anything."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.said: deque[bytes] = deque()
        self.closed: tuple[int, str] | None = None
        self.rights = {"read", "write", "own"}
        self.gone = False
        self.talk = ServerSession(
            self, server=CLIENT, audience="ws://127.0.0.1:8400", nonce=NONCE, limits={"pending": 2, "watches": 100}
        )
        self.watched = self.talk.watched
        self.prefixes = self.talk.prefixes
        self.spans = self.talk.spans

    @property
    def session(self) -> SessionId:
        return self.talk.session

    @property
    def head(self) -> Seq:
        return self._place.head

    def send(self, frame: FromServer) -> None:
        self.push(encode_frame(frame))

    def push(self, frame: bytes) -> None:
        self.said.append(frame)

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
        self.leave()

    @property
    def knows_rights(self) -> bool:
        return True

    has_rules = False
    has_roles = False

    def may_read(self, kind: str) -> bool:  # noqa: ARG002
        return True

    def may_change(self, kind: str) -> bool:  # noqa: ARG002
        return True

    def collection(self, kind: str) -> CollectionRecord | None:
        return self._place.engine.collections.records(self.talk.branch).get(kind)

    def may(self, right: str) -> bool:
        return right in self.rights

    def may_see(self, doc: DocKey) -> bool:
        return self.talk.may_see(doc)

    def open(self, asked: Open) -> None:
        assert asked.space == SPACE
        place = self._place
        assert (asked.session, asked.resume) == ((ANN, _proof(place.times - 1)) if place.times else ("", b""))
        self.talk.session, self.talk.branch = ANN, BranchId(asked.branch)
        place.watches.enter(self)
        last = place.engine.last_of(ANN)
        self.talk.opened(
            SpaceOpened(asked.space, ANN, _proof(place.times), place.head, asked.actor, "own", last, SPACE_ID, LINEAGE),
            BranchId(asked.branch),
        )
        place.times += 1

    def submit(self, commit: Commit, notes: tuple[NewObservation, ...], *, force: bool) -> None:  # noqa: ARG002
        self._place.decide(commit, notes)

    def note(self, notes: tuple[NewObservation, ...], gone: tuple[DocKey, ...]) -> None:
        self._place.engine.observe(notes)
        self._place.engine.release(MAIN, gone)

    def look(self, asked: Question) -> None:
        found = answer(self._place.engine, self, asked)
        self.talk.answered()
        if found.watches:
            self._place.watches.add(self, found.docs, found.prefixes)
        if found.span is not None:
            self._place.watches.spans.add(self, found.span)
        self.push(found.frame)

    def unspan(self, numbers: tuple[int, ...]) -> None:
        self._place.watches.spans.remove(self, numbers)

    def unwatch(self, asked: Unwatch) -> None:
        self._place.watches.remove(self, asked.docs, asked.prefixes)

    def denied(self, asked: str, error: AccessError) -> None:
        """Nobody reads it here; the client is told."""

    def left(self) -> None:
        self.gone = True

    def leave(self) -> None:
        self.talk.lost()
        self._place.watches.leave(self)


def _proof(times: int) -> bytes:
    return times.to_bytes(8, "big") + RESUME[8:]


# --- the client -------------------------------------------------------------------------------------------


class Ann:
    """A client: what it wants to send waits in `out`, what it was told stands in `told`, a list for each step."""

    def __init__(self) -> None:
        self.out: deque[bytes] = deque()
        self.told: list[list[Item]] = []
        self.answers: list[object] = []
        self.talk = ClientSession(self, Open(SPACE, actor="ann"), client=CLIENT)

    def send(self, frame: FromClient) -> None:
        self.out.append(encode_frame(frame))

    def deliver(self, items: list[Item]) -> None:
        self.told.append(items)

    def changed(self) -> None:
        pass

    def prove(self, welcome: Welcome, session: SessionId) -> Proof | None:
        del welcome, session
        return None

    def give_up(self, why: str) -> None:
        pass

    def decided(self, number: LocalSeq) -> None:
        pass

    def ask(self, question: Watch | Ping) -> None:
        self.talk.ask(question, self.answers.append)

    def commit(
        self,
        number: int,
        *operations: SetDoc | PatchDoc,
        reads: tuple[Read, ...] = (),
        rests: tuple[PendingRead, ...] = (),
        conditions: tuple[Absent, ...] = (),
    ) -> None:
        self.talk.submit(Submission(Commit(ANN, LocalSeq(number), operations, reads, rests, conditions)))


# --- telling it -------------------------------------------------------------------------------------------


class Peer(Protocol):
    """Whoever is at the other end."""

    def run(self, ann: Ann) -> None:
        """Until everything that was sent is answered."""

    def elsewhere(self, ann: Ann, commit: Transact) -> None:
        """Somebody else commits."""

    def connect(self, ann: Ann) -> None:
        """There is a connection."""

    def cut(self, ann: Ann) -> None:
        """What was sent comes through; what is answered does not."""


class Live:
    """A server, and everything that is said."""

    def __init__(self) -> None:
        self.place = Place()
        self.desk = Desk(self.place)
        self.steps: list[Step] = []

    def _note(self, side: str, data: bytes, *, lost: bool = False) -> None:
        self.steps.append(Step(side=side, hex=data.hex(), lost=lost))

    def connect(self, ann: Ann) -> None:
        self.steps.append(Step(event="connected"))
        ann.talk.connected()
        self.run(ann)

    def run(self, ann: Ann) -> None:
        while ann.out:
            self._hear(ann)
            self._tell(ann)

    def _hear(self, ann: Ann) -> None:
        data = ann.out.popleft()
        self._note("client", data)
        self.desk.talk.receive(data)

    def _tell(self, ann: Ann) -> None:
        said, self.desk.said = list(self.desk.said), deque()
        for frame in said:
            self._note("server", frame)
        for frame in said:
            ann.talk.receive(frame)

    def elsewhere(self, ann: Ann, commit: Transact) -> None:
        self.steps.append(Step(elsewhere=encode_frame(commit).hex()))
        self.commit_elsewhere(commit)
        self._tell(ann)
        self.run(ann)

    def commit_elsewhere(self, commit: Transact) -> None:
        self.place.decide(Commit(BOB, LocalSeq(commit.number), tuple(map(checked, commit.operations))))

    def cut(self, ann: Ann) -> None:
        while ann.out:
            self._hear(ann)
        for frame in self.desk.said:
            self._note("server", frame, lost=True)
        self.hang_up()
        self.steps.append(Step(event="cut"))
        ann.talk.lost()

    def hang_up(self) -> None:
        self.desk.leave()
        self.desk = Desk(self.place)


def story(ann: Ann, peer: Peer) -> None:
    """Ann opens the space and looks; books the seat, as Bob does; is cut off, writes on, and comes back."""
    peer.elsewhere(ann, Transact(1, (SetDoc(SEAT, ""), SetDoc(COUNT, 0))))
    peer.connect(ann)
    ann.ask(Watch(0, (), ("space/seats.",), follow=100))
    peer.run(ann)
    # Both want the seat. Bob is first; Ann learns of it with what became of hers.
    ann.commit(1, SetDoc(SEAT, "ann"), PatchDoc(COUNT, (Increment((), 1),)), reads=(Read(SEAT, (), Seq(1)),))
    bob = Transact(2, (SetDoc(SEAT, "bob"), PatchDoc(COUNT, (Increment((), 1),))))
    waiting, ann.out = ann.out, deque()
    peer.elsewhere(ann, bob)
    ann.out = waiting
    peer.run(ann)
    # What merges needs no read, and is accepted wherever it lands.
    ann.commit(2, PatchDoc(COUNT, (Increment((), 10),)))
    peer.run(ann)
    ann.ask(Ping(0))
    peer.run(ann)
    # Decided, and the answer is lost; then two more, one written while there is no connection.
    ann.commit(3, PatchDoc(COUNT, (Increment((), 100),)))
    peer.cut(ann)
    ann.commit(4, SetDoc(DocKey("user:ann/seats.draft"), "12B?"))
    peer.elsewhere(ann, Transact(3, (SetDoc(SEAT, ""),)))
    peer.connect(ann)
    ann.commit(5, SetDoc(SEAT, "ann"), reads=(Read(SEAT, (), Seq(5), Depth.SHALLOW),))
    peer.run(ann)
    ann.talk.end()
    peer.run(ann)


BOARD: Final = DocKey("space/todo.board")
ITEM: Final = DocKey("space/todo.items:1")


def list_story(ann: Ann, peer: Peer) -> None:
    """Ann watches a list. An item is made elsewhere, edited by both, let go of, asked for again, and deleted."""
    peer.elsewhere(ann, Transact(1, (SetDoc(BOARD, freeze({"items": []})),)))
    peer.connect(ann)
    ann.ask(Watch(0, ((BOARD, 2**62),), follow=10))
    peer.run(ann)
    # Made and linked to in one commit: it comes along, and is watched from then on.
    link = freeze([{"/": {"link@1": {"id": "todo.items:1"}}}])
    assert is_array(link)
    made = SetDoc(ITEM, freeze({"done": False, "title": "milk"}))
    peer.elsewhere(ann, Transact(2, (made, PatchDoc(BOARD, (Append(("items",), link),)))))
    peer.elsewhere(ann, Transact(3, (PatchDoc(ITEM, (Replace(("title",), "oat milk"),)),)))
    # The second rests on the first, which has no verdict yet.
    ann.commit(1, PatchDoc(ITEM, (Replace(("done",), True),)), reads=(Read(ITEM, ("done",), Seq(3)),))
    layers = ((LocalSeq(1), LocalSeq(1)),)
    ann.commit(2, PatchDoc(ITEM, (Add(("by",), "ann"),)), rests=(PendingRead(ITEM, (), Seq(3), layers, Depth.SHALLOW),))
    peer.run(ann)
    # It is there already: for good.
    ann.commit(3, SetDoc(ITEM, None), conditions=(Absent(ITEM),))
    peer.run(ann)
    ann.talk.unwatch([ITEM])
    peer.run(ann)
    peer.elsewhere(ann, Transact(4, (PatchDoc(ITEM, (Replace(("title",), "soy milk"),)),)))
    ann.ask(Watch(0, ((ITEM, 5),)))
    peer.run(ann)
    peer.elsewhere(ann, Transact(5, (DeleteDoc(ITEM),)))
    ann.talk.end()
    peer.run(ann)


STORIES: Final[dict[str, Callable[[Ann, Peer], None]]] = {"exchange": story, "exchange of links": list_story}


def record(name: str) -> list[Step]:
    live = Live()
    STORIES[name](Ann(), live)
    return live.steps


class Playback:
    """The server's part, from what was written down. Whatever the client says must be what it said then."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = deque(steps)

    def _next(self, **fields: object) -> Step:
        step = self._steps.popleft()
        assert {name: getattr(step, name) for name in fields} == fields
        return step

    def connect(self, ann: Ann) -> None:
        self._next(event="connected")
        ann.talk.connected()
        self.run(ann)

    def run(self, ann: Ann) -> None:
        while ann.out:
            self._next(side="client", hex=ann.out.popleft().hex())
            self._tell(ann)

    def _tell(self, ann: Ann) -> None:
        while self._steps and self._steps[0].side == "server":
            step = self._steps.popleft()
            if not step.lost:
                ann.talk.receive(step.data)

    def elsewhere(self, ann: Ann, commit: Transact) -> None:
        self._next(elsewhere=encode_frame(commit).hex())
        self._tell(ann)
        self.run(ann)

    def cut(self, ann: Ann) -> None:
        self.run(ann)
        self._next(event="cut")
        ann.talk.lost()

    @property
    def is_over(self) -> bool:
        return not self._steps


def summary(told: list[list[Item]]) -> list[list[str]]:
    """What a client was told, in short; one list for each step. How far the log has come is no news by itself."""
    return [[_short(item) for item in items if not _is_marker(item)] for items in told]


def _is_marker(item: Item) -> bool:
    return isinstance(item, CommitOutcome) and item.commit.session != ANN and not item.commit.operations


def _short(item: Item) -> str:
    match item:
        case CommitOutcome(commit, verdict):
            whose = f"own {commit.local_seq}" if commit.session == ANN else "other"
            return f"{whose} {type(verdict).__name__} {getattr(verdict, 'seq', '')}".rstrip()
        case Pulled(doc, found):
            return f"{doc} is {found.value!r} as of {found.seq}"
        case Failure(commit, error):
            return f"own {commit.local_seq} failed {error.code}"
