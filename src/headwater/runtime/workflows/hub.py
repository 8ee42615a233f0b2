"""The workflows of one open file: transitions on their way to the disk, and the hosts that are notified.

There is one for each storage of this process, however often it is opened: it has the flags and the current runs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from headwater.cells.transaction import Transaction
from headwater.declare.workflows.workflow import Workflow
from headwater.errors import HeadwaterError, InvariantError, UsageError
from headwater.machine import Lock, machine
from headwater.runtime.storage_port import LocalStorage
from headwater.runtime.workflows.process_user import process_user
from headwater.values.ids import MAIN, Millis
from headwater.workflow.planner import Flags
from headwater.workflow.rows import HUNG_HEADS, RunPhase, RunRow, RunStatus
from headwater.workflow.run_recovery import left_active, recover
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.transitions import Begun, ReconcileCall, Repair, came_back
from headwater.workflow.workflow_spec import FlowSpec
from headwater.workflow.workflow_transaction import TransactionStep, WorkflowTransaction

T = TypeVar("T")


class Waker(Protocol):
    """The host that executes runs, if there is one."""

    def wake(self, name: str) -> None:
        """A workflow may have something to do."""


@dataclass(slots=True, eq=False)
class Hosted:
    """A workflow that is deployed in this process."""

    flow: Workflow
    space: Any
    spec: FlowSpec
    flow_id: int
    flags: Flags
    # Repaired handlers that replace those of the program, by name.
    patched: dict[str, Any] = field(default_factory=dict)
    # Several of its runs may be executed at once.
    has_lanes: bool = False


class Hub:
    """The state of the workflows of one file in this process."""

    def __init__(self, storage: LocalStorage, now: Callable[[], Millis]) -> None:
        self._storage = storage
        self.now = now
        # Of several openings of a workflow, the newest.
        self.hosted: dict[str, Hosted] = {}
        self._openings: dict[str, list[Hosted]] = {}
        # Runs that this process executes.
        self.alive: set[int] = set()
        # Runs whose end could not be written, each with its workflow: no thread executes them.
        self.left: dict[int, str] = {}
        self.wakers: list[Waker] = []
        # Counts of transactions and questions.
        self.transactions = 0
        self.looks = 0
        self._by_id: dict[int, Hosted] = {}
        self._lock = machine().lock()
        self._recovered = False

    # -- transitions ---------------------------------------------------------------------------------------

    def post(self, *steps: TransactionStep, soon: bool = True) -> WorkflowTransaction:
        """Queue a transition without waiting for the disk. It is written soon, or together with the next commit.

        Without a host, nothing waits for it: then it is not worth a switch to the storage's thread.
        """
        transaction = WorkflowTransaction(self.now, self._decided, self._mark, *steps)
        self._storage.submit_tables(transaction)
        if soon and self.wakers:
            self._storage.nudge()
        return transaction

    def do(self, step: Callable[[WorkflowTables], T]) -> T:
        """Apply a transition. It is on disk when this returns. Raises the error that refused it."""
        transaction = WorkflowTransaction(self.now, self._decided, self._mark, step)
        ended = self.hold(transaction)
        self._storage.submit_tables(transaction)
        self._storage.serve(ended)
        answer: T = self.settled(transaction)
        return answer

    def hold(self, transaction: WorkflowTransaction) -> Lock:
        """The lock that `serve` waits for, after the transaction was sent."""
        ended = machine().lock()
        ended.acquire()
        transaction.when_decided = ended.release
        return ended

    def serve(self, ended: Lock) -> None:
        """Wait until a sent transaction is decided."""
        self._storage.serve(ended)

    def settled(self, transaction: WorkflowTransaction) -> Any:  # noqa: ANN401  # the result of its last step
        """The result of a decided transaction. Raises the error that refused it."""
        if not transaction.is_decided:
            raise InvariantError("a transition was waited for, and is not decided")
        if transaction.error is not None:
            raise transaction.error
        if not transaction.is_committed:
            raise InvariantError(f"a transition was not taken: {transaction.verdict}", verdict=transaction.verdict)
        return transaction.result

    def along(self, tx: Transaction) -> WorkflowTransaction:
        """The table transaction that goes with the commit of a transaction."""
        if not isinstance(tx.table_transaction, WorkflowTransaction):
            tx.table_transaction = WorkflowTransaction(self.now, self._decided, self._mark)
        return tx.table_transaction

    def look(self, question: Callable[[WorkflowTables], T]) -> T:
        """Query the tables."""
        self.looks += 1
        return self._storage.call(lambda engine: question(WorkflowTables(engine.backend.tables, self.now())))

    def wait(self, timeout: float | None = None) -> None:
        """Wait until everything written so far is on disk. Raises UnavailableError if that takes too long."""
        self._storage.wait(timeout)

    def in_thread(self, work: Callable[[], T]) -> Coroutine[Any, Any, T]:
        """Run blocking work in a thread beside the event loop."""
        return machine().to_thread(work)

    def user(self) -> str:
        """The user of this process."""
        return process_user()

    def _decided(self, transaction: WorkflowTransaction) -> None:
        """Called by the deciding thread, with the storage's lock held: sets flags and wakes."""
        self.transactions += 1
        tables = transaction.tables
        if tables is None or not transaction.is_committed:
            return
        for answer in transaction.results.values():
            if isinstance(answer, RunRow):
                self._run_moved(answer)
            elif isinstance(answer, Begun):
                self._run_begun(answer)
            elif isinstance(answer, ReconcileCall | Repair):
                self._pursue(answer)
        if tables.published:
            self._mark(tables)
        for flow_id in tables.touched:
            hosted = self._by_id.get(flow_id)
            if hosted is not None:
                self.ring(hosted.spec.name)

    def _mark(self, tables: WorkflowTables) -> None:
        """Set the flags of consumers with new events, before the decision: later steps of a group need them.

        If the group is rolled back, a consumer finds nothing new.
        """
        for each in tables.published:
            hosted = self._by_id.get(each[0])
            if hosted is not None:
                hosted.flags.note_published(hosted.spec, (each,))

    def _run_begun(self, begun: Begun) -> None:
        """W10, D2: clear the flags when the run that checks them begins. Later publications set them again."""
        hosted = self._by_id.get(begun.flow.id)
        if hosted is not None:
            flags, name = hosted.flags, begun.run.handler
            flags.resumed = None
            flags.last = name if begun.run.lane else ""
            if begun.run.lane and begun.run.phase == RunPhase.PREPARING:
                flags.quiet.add(begun.run.lane)
            elif begun.run.phase == RunPhase.PREPARING and begun.run.kind == "consumer":
                flags.dirty.discard(name)
                flags.fresh.discard(name)

    def _run_moved(self, run: RunRow) -> None:
        """D1: events that a run has left or released are checked again, if there are any."""
        if run.status == RunStatus.ACTIVE or run.kind != "consumer":
            return
        hosted = self._by_id.get(run.flow)
        if hosted is not None and (run.taken or run.status != RunStatus.COMMITTED):
            hosted.flags.dirty.add(run.handler)
            hosted.flags.quiet.discard(run.lane)

    def _pursue(self, found: ReconcileCall | Repair) -> None:
        """Of several threads of a host, one asks about a call, or has a handler repaired."""
        hosted = self._by_id.get(found.flow.id)
        if hosted is not None:
            hosted.flags.pursued.add(found.run.id)

    def ring(self, name: str) -> None:
        """A workflow may have something to do."""
        if self.wakers:
            for waker in list(self.wakers):
                waker.wake(name)

    # -- deploying -----------------------------------------------------------------------------------------

    def add(self, hosted: Hosted) -> None:
        """Register a workflow that is deployed here."""
        with self._lock:
            known = self.hosted.get(hosted.spec.name)
            if known is not None:
                # Opened more than once in this process: the state is shared.
                known.flags.fresh |= hosted.flags.fresh
                known.flags.dirty |= hosted.flags.dirty
                if hosted.flags.fresh:
                    # A new version: its lanes are looked at again.
                    known.flags.quiet.clear()
                hosted.flags, hosted.patched = known.flags, known.patched
            self._openings.setdefault(hosted.spec.name, []).append(hosted)
            self.hosted[hosted.spec.name] = hosted
            self._by_id[hosted.flow_id] = hosted

    def drop(self, space: object) -> None:
        """A space was closed: remove its workflows, unless another opening has deployed them, too."""
        with self._lock:
            for name, openings in list(self._openings.items()):
                openings[:] = [hosted for hosted in openings if hosted.space is not space]
                if openings:
                    self.hosted[name] = self._by_id[openings[-1].flow_id] = openings[-1]
                else:
                    del self._openings[name]
                    self._by_id.pop(self.hosted.pop(name).flow_id, None)

    def deployed(self, space: object, name: str) -> Hosted | None:
        """A workflow that an opening has deployed, by its name."""
        hosted = self.hosted.get(name)
        # Most often, a workflow is open once.
        return hosted if hosted is None or hosted.space is space else self.of(space).get(name)

    def of(self, space: object) -> dict[str, Hosted]:
        """The workflows that an opening has deployed. It executes them in its own space."""
        with self._lock:
            found = [hosted for openings in self._openings.values() for hosted in openings if hosted.space is space]
            return {hosted.spec.name: hosted for hosted in found}

    def recover(self) -> list[int]:
        """W8: recover runs of a host that has ended. One transaction each, so that an interruption does no harm."""
        with self._lock:
            if self._recovered:
                return []
            found = self.look(lambda tables: left_active(tables, self.alive))
            for run_id in found:
                self.do(lambda tables, run_id=run_id: recover(tables, run_id))  # type: ignore[misc]  # bound at once
            if self.look(lambda tables: bool(tables.execute(HUNG_HEADS))):
                self.do(came_back)
            self._recovered = True
            return found


_FLOWS: Final = "flows"


class _Making:
    """Process-wide state: each storage gets one hub."""

    def __init__(self) -> None:
        self.lock = machine().lock()


def hub_of(storage: LocalStorage, now: Callable[[], Millis], branch: str = MAIN) -> Hub:
    """The hub of a storage."""
    if branch != MAIN:
        raise UsageError(f"workflows are on the main branch; this opening is on {branch!r}", branch=branch)
    with machine().state(_Making).lock:
        found = storage.along.get(_FLOWS)
        if not isinstance(found, Hub):
            found = storage.along[_FLOWS] = Hub(storage, now)
        return found


__all__ = ["HeadwaterError", "Hosted", "Hub", "Waker", "hub_of"]
