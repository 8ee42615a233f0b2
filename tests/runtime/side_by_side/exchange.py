"""Several runtimes on one store in memory. Each sends, hears and runs when the test says so, and not before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.cells.pending_commit import Failure
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.core import NodeKind, NodeSpec, SetDoc, doc_key, freeze
from headwater.errors import UserCodeError
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.attempt import Attempt, Call
from headwater.scheduler.scheduler import Scheduler, perform_directly
from headwater.scheduler.trace import NodeRestored
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.commit import CommitOutcome, Submission
from headwater.store.document import StoredDocument
from headwater.store.engine import Engine
from headwater.store.resumption import listing, overlapping_writes
from headwater.testing import SimClock
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch, check
from headwater.values.address import Depth
from headwater.values.ids import MAIN, DocKey, Seq, SessionId
from headwater.values.tree import ABSENT, Path
from tests.cells.replica.desk import see

CODE = b"first version"


def number(tx: Transaction, name: str) -> Any:
    """A document that holds a number; 0 if there is none."""
    value = tx.read(doc_key(name))
    return 0 if value is ABSENT else value


class Runtime:
    """One of them. Results are named like the functions that make them."""

    def __init__(self, exchange: Exchange, name: str) -> None:
        self._exchange = exchange
        self.outbox: list[Submission] = []
        self.inbox: list[CommitOutcome | Failure] = []
        self.replica = Replica(self, SessionId(name), seq=exchange.engine.head)
        self.ran: list[str] = []
        self.errors: list[UserCodeError] = []
        # Functions that wait for something outside, and the attempts that do.
        self.waits: set[str] = set()
        self.under_way: list[Attempt] = []
        self.scheduler = Scheduler(self.replica, now=lambda: 0.0, perform=self._perform, report=self.errors.append)
        self.watch = SchedulerWatch(self.scheduler)
        self.nodes: dict[str, Node] = {}

    def _perform(self, attempt: Call) -> None:
        if isinstance(attempt, Attempt) and attempt.node.name in self.waits:
            attempt.suspended = True
            self.under_way.append(attempt)
        else:
            perform_directly(attempt)

    def begin_reading(self, name: str) -> None:
        """What is under way reads something, and goes on waiting."""
        for attempt in self.under_way:
            number(attempt.tx, name)
            self.scheduler.look_again(attempt)

    def finish(self) -> None:
        """What is under way comes to its end."""
        for attempt in self.under_way:
            attempt.suspended = False
            perform_directly(attempt)
            self.scheduler.resume(attempt)
        self.under_way.clear()

    # -- for the replica -----------------------------------------------------------------------------------

    def load(self, doc: DocKey, through: Seq) -> StoredDocument | None:
        return self._exchange.engine.documents.at(MAIN, doc, through)

    def submit(self, submission: Submission) -> None:
        self.outbox.append(submission)

    # -- its program ---------------------------------------------------------------------------------------

    def computed(self, name: str, fn: Callable[[Transaction], object], code: bytes = CODE, **spec: Any) -> Node:
        spec.setdefault("outputs", (doc_key(name),))
        made = NodeSpec(name=name, fn=self._logged(name, fn), fingerprint=lambda: name.encode() + code, **spec)
        node = self.nodes[name] = self.scheduler.register(made)
        return node

    def sum(self, name: str, *sources: str, code: bytes = CODE) -> Node:
        return self.computed(name, lambda tx: sum(number(tx, source) for source in sources), code)

    def show(self, name: str, *sources: str) -> Node:
        """An effect that looks."""
        fn = self._logged(name, lambda tx: [number(tx, source) for source in sources])
        node = self.nodes[name] = self.scheduler.register(NodeSpec(name=name, fn=fn, kind=NodeKind.EFFECT))
        return node

    def _logged(self, name: str, fn: Callable[[Transaction], object]) -> Callable[[Transaction], object]:
        def run(tx: Transaction) -> object:
            self.ran.append(name)
            return fn(tx)

        return run

    # -- what it does --------------------------------------------------------------------------------------

    def put(self, **documents: object) -> None:
        """Write, without running anything."""
        for name, value in documents.items():
            self.replica.commit((SetDoc(doc_key(name), freeze(value)),))

    def run(self) -> list[str]:
        """Run what is due. Returns who ran."""
        self.scheduler.idle()
        ran, self.ran = self.ran, []
        return ran

    def send(self) -> None:
        """What it has written is decided, and everybody's inbox has it."""
        group, self.outbox = self.outbox, []
        if group:
            self._exchange.deliver(self._exchange.engine.admit(group))

    def hear(self, count: int | None = None) -> None:
        """Take in what was decided, or the first of it."""
        heard = self.inbox[:count]
        del self.inbox[: len(heard)]
        if heard:
            self.replica.integrate(heard)

    def see(self, name: str) -> Any:
        return see(self.replica, name)

    def adopted(self) -> list[str]:
        """Who was adopted since the last time, in order."""
        names = [
            record.node.partition("#")[0]
            for record in self.watch.records
            if isinstance(record, NodeRestored) and record.outcome == "adopted"
        ]
        told, self._told = names[getattr(self, "_told", 0) :], len(names)
        return told

    def restore(self) -> None:
        """As an opening does: take over what is kept."""
        engine = self._exchange.engine

        def changed(doc: DocKey, places: list[tuple[Path, Depth]], after: Seq) -> bool:
            found = overlapping_writes(engine, MAIN, doc, places, after)
            return found is None or bool(found)

        self.scheduler.persistence.restore_all(self.nodes.values(), listing(engine, MAIN), changed)

    def check(self) -> None:
        """All invariants, at rest and of what happened."""
        check(self.scheduler)
        self.watch.check()


class Exchange:
    """The store, and whoever is connected."""

    def __init__(self) -> None:
        self.engine = Engine(MemoryBackend(), SimClock())
        self.runtimes: list[Runtime] = []

    def runtime(self) -> Runtime:
        runtime = Runtime(self, f"runtime-{len(self.runtimes)}")
        self.runtimes.append(runtime)
        return runtime

    def deliver(self, outcomes: list[CommitOutcome]) -> None:
        for runtime in self.runtimes:
            runtime.inbox += outcomes

    @property
    def commits(self) -> int:
        """Rows in the log."""
        return self.engine.head

    def settle(self, rounds: int = 40) -> list[str]:
        """Everybody sends, hears and runs until nobody has anything to say. Returns who ran."""
        ran: list[str] = []
        for _ in range(rounds):
            for runtime in self.runtimes:
                runtime.hear()
                ran += runtime.run()
                runtime.send()
            if not any(runtime.inbox or runtime.outbox for runtime in self.runtimes):
                return ran
        raise AssertionError(f"no rest after {rounds} rounds: {ran}")
