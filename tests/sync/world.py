"""A server, a network and clients on one thread: nothing happens but what a seeded scheduler picks next.

Real are: the sessions of both sides, the room, the guest, the engine, how a group is decided, the remote storage and
its replica. Simulated are: the event loop and the threads of the server, the thread of each client's link, the disk,
which may be full or fail, and the wires between them, which lose what is on its way when they are cut, or some of it.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from headwater.access.grants import Grant
from headwater.access.rights import Right
from headwater.access.session_proofs import SessionProofs
from headwater.errors import HeadwaterError, OfflineError, StoreError, UnavailableError
from headwater.host.storage import Storage
from headwater.server.spaces.channel import Channel
from headwater.server.spaces.client_connection import ClientConnection, rights_unknown
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.branching import fork, merge
from headwater.store.commit import Submission
from headwater.store.engine import Engine
from headwater.sync.client_session import ClientPhase, ClientSession, Item
from headwater.sync.frame_limits import FRAME_BYTES_MAX
from headwater.sync.frames import FromClient, Open, Transact, encode_frame
from headwater.sync.server_session import Close
from headwater.testing import SimClock
from headwater.testing.sim_clock import START_MS
from headwater.values.ids import BranchId, DocKey, LocalSeq, Seq
from tests.support.histories import BrokenError, naive_log
from tests.support.naive import NaiveSpace
from tests.sync.sim_disk import SimDisk

SPACE = "shared"
GRANT = Grant("g", "token", "", SPACE, Right.OWN, None, START_MS, None, any_actor=True)
PATIENCE = 20_000
"""Steps within which whatever was asked is answered, once nothing is cut any more."""


class SimLoop:
    """As much of an event loop as a room asks for."""

    def __init__(self) -> None:
        self.tasks: deque[Callable[[], object]] = deque()

    def call_soon_threadsafe(self, do: Callable[[], object]) -> None:
        self.tasks.append(do)

    def time(self) -> float:
        return 0.0


class SimThreads:
    """A pool of threads: whatever waits may be next."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], object]] = []

    def submit(self, do: Callable[..., object], *values: object) -> None:
        self.tasks.append(partial(do, *values))


class SimStorage:
    """A space whose commits wait until the scheduler has them decided."""

    name = SPACE

    def __init__(self, backend: MemoryBackend) -> None:
        self.engine = self._engine = Engine(backend, SimClock())
        self._stalled: dict[Any, Any] = {}
        self._torn = False
        self.waiting: deque[Submission] = deque()
        self._receivers: list[Any] = []

    def join(self, receiver: Any) -> Seq:
        self._receivers.append(receiver)
        return self.engine.head

    def submit(self, submission: Submission, *, helps: bool) -> None:
        del helps
        self.waiting.append(submission)

    def call(self, work: Callable[[Engine], Any]) -> Any:
        return work(self.engine)

    def wait(self) -> None:
        self.decide(len(self.waiting))

    def decide(self, count: int) -> None:
        """One group, as the storage does it."""
        group = [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]
        if group:
            self.tell(self._decide(group))

    def _decide(self, group: list[Submission]) -> list[Any]:
        return Storage._decide(self, group)  # type: ignore[arg-type]  # as much of one as is asked for

    def _stall(self, group: list[Submission], error: HeadwaterError) -> None:
        Storage._stall(self, group, error)  # type: ignore[arg-type]  # likewise

    def _stalled_by(self, submission: Submission) -> Any:
        return Storage._stalled_by(self, submission)  # type: ignore[arg-type]  # likewise

    def tell(self, decided: list[Any]) -> None:
        for receiver in self._receivers:
            receiver.deliver(decided)


class SimAccess:
    """Grants and the audit log, which are on the same disk."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.audit = self

    @property
    def is_known(self) -> bool:
        return not self._world.backend.hides_grants

    def write(self, _event: str, **_facts: object) -> None:
        if self._world.backend.is_full or self._world.backend.is_away:
            self._world.counts["not let in"] += 1
            raise UnavailableError("no room for the audit log")


class SimServer:
    """One life of the server: what it has in memory ends with it. What a guest asks of a house is here."""

    server = "simulated"
    audience = "simulated"

    def __init__(self, world: World) -> None:
        self._world = world
        self.access = SimAccess(world)
        self.entropy = world
        self.proofs = SessionProofs(world.folder)
        self.limits = {"frame": FRAME_BYTES_MAX, "pending": 1024, "watches": 100_000}
        self.loop = SimLoop()
        self.threads = SimThreads()
        self._open()

    def _open(self) -> None:
        self._world.backend.reopen()
        self.storage = SimStorage(self._world.backend)
        self.channel = Channel(self.storage, self.loop, self.threads)

    def run_loop(self) -> None:
        self.loop.tasks.popleft()()

    def run_thread(self) -> None:
        # What is not looked at, the pool keeps to itself.
        with suppress(StoreError):
            self.threads.tasks.pop(self._world.rng.randrange(len(self.threads.tasks)))()

    def nonce(self) -> bytes:
        return bytes(32)

    def right(self, _grant: object, _space: str) -> Right:
        return self._world.right if self.access.is_known else Right.NONE

    def admitted(self, _client: ClientConnection, asked: Open, grant: Any) -> Any:
        if self.right(grant, asked.space) < Right.READ:
            raise rights_unknown()
        return grant

    def audit(self, *_words: object, **_facts: object) -> None:
        """Nobody reads it here."""

    def refuse(self, client: ClientConnection, _space: str, error: HeadwaterError) -> None:
        client.talk.refused(error, Close.FORBIDDEN)

    def enter(self, client: ClientConnection, asked: Open, actor: str, session: Any) -> None:
        def look() -> None:
            try:
                if self.channel.is_broken:
                    self._open()
                channel = self.channel
                last = channel.last_of(BranchId(asked.branch), asked.session)
            except StoreError as error:
                self.loop.tasks.append(partial(client.talk.refused, error, Close.RESTART, again=True))
            else:
                self.loop.tasks.append(partial(client.entered, channel, asked, actor, session, last))

        self.threads.tasks.append(look)


class Wire:
    """One connection, with what is on its way. Each side may learn later than the other that it is cut."""

    def __init__(self, spaces: SimServer, link: SimLink) -> None:
        self.link = link
        self.to_server: deque[bytes] = deque()
        self.to_client: deque[bytes | tuple[int, str]] = deque()
        self.has_client = self.has_server = True
        # Commits that were sent here, for whoever sends one again.
        self.commits: list[bytes] = []

        def may_bring(asked: object) -> int:
            del asked
            return link._world.brings

        self.connection = ClientConnection(
            spaces, GRANT, peer="", write=self._write, shut=lambda code, reason: self._write((code, reason))
        )
        self.connection.talk.may_bring = may_bring  # type: ignore[method-assign]  # a bound of the world

    def _write(self, frame: bytes | tuple[int, str]) -> None:
        if self.has_client:
            self.to_client.append(frame)

    def move_to_server(self) -> None:
        if self.to_server:
            self.connection.talk.receive(self.to_server.popleft())
        elif not self.has_client:
            self.has_server = False
            self.connection.leave()

    def move_to_client(self) -> None:
        if self.to_client:
            frame = self.to_client.popleft()
            if isinstance(frame, bytes):
                self.link.session.receive(frame)
            else:
                self.has_server = self.has_client = False
                self.connection.leave()
                self.link.lost(*frame)
        elif not self.has_server:
            self.has_client = False
            self.link.lost(0, "")

    def cut(self, rng: random.Random, *, server_dies: bool = False) -> None:
        """Some of what is on its way arrives yet, at a side that does not know."""
        for line in (self.to_server, self.to_client):
            keep = rng.choice([0, len(line), rng.randint(0, len(line))])
            while len(line) > keep:
                line.pop()
        if server_dies or rng.random() < 0.5:
            self.has_server = False
            self.to_server.clear()
            if not server_dies:
                self.connection.leave()
        else:
            self.has_client = False
            self.to_client.clear()
            self.link.lost(0, "")

    @property
    def can_move(self) -> list[Callable[[], None]]:
        moves = []
        if self.has_server and (self.to_server or not self.has_client):
            moves.append(self.move_to_server)
        if self.has_client and (self.to_client or not self.has_server):
            moves.append(self.move_to_client)
        return moves


class SimLink:
    """The thread of a client's connection: what others ask of it waits in a queue."""

    def __init__(self, world: World, opening: Open, deliver: Callable[[list[Item]], None], decided: Any) -> None:
        self._world = world
        self._deliver = deliver
        self._decided = decided
        self.session = ClientSession(self, opening, client="sim")
        self.tasks: deque[Callable[[], object]] = deque()
        self._queue: deque[Submission] = deque()
        self.wire: Wire | None = None
        self.tries = 0
        self.trouble = ""
        self.lost_at: float | None = None
        world.links.append(self)

    @property
    def phase(self) -> ClientPhase:
        return self.session.phase

    def run(self) -> None:
        self.tasks.popleft()()

    # -- for the storage -----------------------------------------------------------------------------------

    def start(self, *, waits: bool = True) -> None:
        del waits  # somebody answers
        self._world.run_until(lambda: self.phase is ClientPhase.LIVE)

    def has_room(self) -> bool:
        return self.session.has_room(self.session.pending + len(self._queue))

    def wait_for_room(self) -> None:
        self._world.run_until(self.has_room)

    def submit(self, submission: Submission) -> None:
        self.session.check_room(self.session.pending)
        self._queue.append(submission)
        self.tasks.append(self._take)

    def _take(self) -> None:
        while self._queue:
            self.session.submit(self._queue.popleft())

    def ask(self, frame: Any, timeout: float = 0) -> Any:
        del timeout
        answers: list[Any] = []
        self.ask_soon(frame, answers.append)
        self._world.run_until(lambda: bool(answers))
        if isinstance(answers[0], HeadwaterError):
            raise answers[0]
        return answers[0]

    def ask_soon(self, frame: Any, done: Callable[[Any], None]) -> None:
        self.tasks.append(lambda: self.session.ask(frame, done))

    def soon(self, do: Callable[[], object]) -> None:
        self.tasks.append(do)

    def assume(self, doc: DocKey) -> None:
        self.tasks.append(lambda: self.session.assume(doc))

    def unwatch(self, doc: DocKey) -> None:
        self.tasks.append(lambda: self.session.unwatch((doc,)))

    def note(self, notes: Any, gone: Any) -> None:
        self.tasks.append(lambda: self.session.note(notes, gone))

    def wait_until(self, is_so: Callable[[], bool], _timeout: float | None) -> bool:
        self._world.run_until(lambda: is_so() or self.phase is ClientPhase.OVER)
        return is_so()

    def told(self) -> None:
        """Nobody waits in another thread."""

    def stop(self) -> None:
        """What waits is sent, then goodbye."""
        while self.tasks:
            self.tasks.popleft()()
        self.session.end()
        if self.wire is not None:
            self.wire.has_client = False
            self.wire = None
        if self in self._world.links:
            self._world.links.remove(self)

    # -- for the session -----------------------------------------------------------------------------------

    def send(self, frame: FromClient) -> None:
        if self.wire is not None and self.wire.has_client:
            self.wire.to_server.append(encode_frame(frame))
            if isinstance(frame, Transact):
                self.wire.commits.append(self.wire.to_server[-1])

    def deliver(self, items: list[Item]) -> None:
        self._deliver(items)

    def changed(self) -> None:
        """Nobody waits."""

    def prove(self, *_asked: object) -> None:
        """There is no key."""

    def decided(self, number: LocalSeq) -> None:
        self._decided(number)

    def give_up(self, why: str) -> None:
        """In a turn of its own, as a socket that is aborted; until then it may hear more."""
        self._world.counts["given up"] += 1
        wire = self.wire

        def hang_up() -> None:
            if wire is not None and wire is self.wire:
                wire.has_client = False
                wire.to_client.clear()
                self.lost(0, why)

        self.tasks.append(hang_up)

    def lost(self, code: int, reason: str) -> None:
        self.wire = None
        self.trouble = reason
        self.session.lost(code, reason)

    def connect(self) -> None:
        self.tries += 1
        self.wire = Wire(self._world.spaces, self)
        self._world.wires.append(self.wire)
        self.session.connected()


class World:
    """Everything, and what happens next."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self.backend = SimDisk(self.rng, self.counts)
        self.links: list[SimLink] = []
        self.wires: list[Wire] = []
        # Documents that somebody has made, or tried to.
        self.made: list[DocKey] = []
        self._tokens = 0
        self._log = NaiveSpace()
        self.right = Right.OWN
        self.spaces = SimServer(self)
        # How likely a fault is at each step; each seed draws its own.
        self.cuts = self.rng.choice([0.0, 0.005, 0.02, 0.05])
        self.restarts = self.rng.choice([0.0, 0.0, 0.003, 0.01])
        # How many documents come along with an answer: more make it incomplete.
        self.brings = self.rng.choice([1, 2, 10_000, 10_000])
        self.repeats = self.rng.choice([0.0, 0.02])
        self.group = self.rng.choice([1, 3, 64])
        # How likely it is that the disk is full from now on; and that the next write fails.
        self.fulls = self.rng.choice([0.0, 0.0, 0.01, 0.03])
        self.failures = self.rng.choice([0.0, 0.0, 0.005, 0.03])
        self.aways = self.rng.choice([0.0, 0.01, 0.02])

    def token(self) -> str:
        self._tokens += 1
        return f"s{self._tokens}"

    @property
    def log(self) -> NaiveSpace:
        engine = self.spaces.storage.engine
        return naive_log(MemoryBackend.log(self.backend, Seq(self._log.head), engine.head), self._log)

    # -- faults --------------------------------------------------------------------------------------------

    def be_kind(self) -> None:
        """No faults at all."""
        self.cuts = self.restarts = self.repeats = self.fulls = self.failures = self.aways = 0.0

    def restart(self) -> None:
        """The server is gone, with what it had in memory, and there again. What was decided is in the log."""
        self.counts["restarts"] += 1
        if self.rng.random() < 0.5 and self.spaces.storage.waiting:
            # On disk, and nobody was told.
            self.spaces.storage._receivers.clear()
            self.spaces.storage.decide(self.rng.randint(1, 8))
        for wire in self.wires:
            if wire.has_server:
                wire.cut(self.rng, server_dies=True)
        self.backend.mend()
        self.spaces = SimServer(self)

    def trouble_the_disk(self) -> None:
        """It is full from now on, or not any more; or the next write fails."""
        disk = self.backend
        if disk.is_full:
            disk.is_full = self.rng.random() > 0.05
        elif self.rng.random() < self.fulls:
            disk.is_full = True
            self.counts["full"] += 1
        if self.rng.random() < self.failures:
            disk.fails_next = True
        if disk.is_away:
            disk.is_away = self.rng.random() > 0.03
            disk.hides_grants &= disk.is_away
        elif self.rng.random() < self.aways:
            disk.is_away, disk.hides_grants = True, self.rng.random() < 0.2

    def repeat(self) -> None:
        """A client sends a commit once more, although nothing was lost."""
        wires = [wire for wire in self.wires if wire.has_client and wire.commits]
        if wires:
            wire = self.rng.choice(wires)
            wire.to_server.append(self.rng.choice(wire.commits))
            self.counts["repeats"] += 1

    def fork(self, name: str) -> None:
        fork(self.spaces.storage.engine, SimClock(), name)

    def merge(self, source: str) -> None:
        storage = self.spaces.storage
        storage.tell([merge(storage.engine, BranchId(source))])
        self.counts["merges"] += 1

    # -- steps ---------------------------------------------------------------------------------------------

    def _moves(self) -> list[Callable[[], object]]:
        spaces = self.spaces
        self.wires = [wire for wire in self.wires if wire.has_client or wire.has_server]
        moves: list[Callable[[], object]] = [move for wire in self.wires for move in wire.can_move]
        if spaces.loop.tasks:
            moves.append(spaces.run_loop)
        if spaces.threads.tasks:
            moves.append(spaces.run_thread)
        if spaces.storage.waiting:
            moves.append(lambda: spaces.storage.decide(self.rng.randint(1, self.group)))
        for link in self.links:
            if link.tasks:
                moves.append(link.run)
            if link.wire is None and link.phase in (ClientPhase.CONNECTING, ClientPhase.OFFLINE):
                moves.append(link.connect)
        return moves

    def step(self, *, faults: bool = True) -> bool:
        """One thing that can happen happens. Whether there was one."""
        if faults and self.wires and self.rng.random() < self.cuts:
            wire = self.rng.choice(self.wires)
            if wire.has_client and wire.has_server:
                self.counts["cuts"] += 1
                wire.cut(self.rng)
        if faults and self.rng.random() < self.restarts:
            self.restart()
        if faults and self.rng.random() < self.repeats:
            self.repeat()
        if faults:
            self.trouble_the_disk()
        else:
            self.backend.mend()
        moves = self._moves()
        if moves:
            self.counts["steps"] += 1
            self.rng.choice(moves)()
        return bool(moves)

    def run_until(self, is_so: Callable[[], bool]) -> None:
        """Whatever happens meanwhile. Somebody waits for it."""
        for number in range(PATIENCE):
            if is_so():
                return
            # Faults end at last: then it has to come.
            if not self.step(faults=number < PATIENCE // 20):
                break
        if not is_so():
            ended = [link.session.error for link in self.links if link.session.error is not None]
            if ended:
                raise OfflineError(str(ended[0]))
            raise BrokenError("liveness", "somebody waits for what does not come")

    def calm(self) -> None:
        """Without faults, until nothing is under way."""
        for _ in range(PATIENCE):
            if not self.step(faults=False):
                return
        raise BrokenError("liveness", f"it does not come to rest: {self._moves()}")
