"""A workflow without a program: its tables, a clock that stands still, and each transition in one word.

Nothing runs here but the pure core: `begin`, `prepare`, `act` and `commit` are what a host would ask for, each one
transaction that is kept whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.postgres.postgres_backend import PostgresBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.commit import UNNUMBERED, Commit, Submission
from headwater.testing import SimClock
from headwater.values.codec import encode
from headwater.values.ids import DocKey, Millis, SessionId
from headwater.values.tree import ABSENT, Maybe, freeze
from headwater.workflow import transitions
from headwater.workflow.deployment import Deployed, deploy
from headwater.workflow.operator_actions import plan_digest
from headwater.workflow.planner import Flags
from headwater.workflow.publication import Publication, publish
from headwater.workflow.retry_policy import Retry
from headwater.workflow.rows import (
    CallRow,
    EventRow,
    FailureKind,
    FlowRow,
    HandlerKind,
    HandlerRow,
    RunPhase,
    RunRow,
    RunStatus,
)
from headwater.workflow.run_recovery import recover
from headwater.workflow.schedule import Every, Schedule
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.transitions import Begun, Next, Prepared, RunFailure
from headwater.workflow.workflow_limits import PRIORITY
from headwater.workflow.workflow_spec import ConsumerSpec, FlowSpec, OnPoison, ProducerSpec
from headwater.workflow.workflow_transaction import WorkflowTransaction
from tests.support.postgres import new_name, open_backend
from tests.support.spaces import Space

T = TypeVar("T")

FLOW = "app.inbox"
MINUTE_MS = 60_000
TABLES = [
    "flow",
    "flow_version",
    "flow_handler",
    "flow_topic",
    "flow_run",
    "flow_event",
    "flow_take",
    "flow_input",
    "flow_cause",
    "flow_call",
    "flow_decision",
    "flow_lane",
]


def packed(value: object) -> bytes:
    """A plan, a result or a state, as it is kept."""
    return encode(freeze(value))


def flow_spec(
    name: str = FLOW,
    *,
    consumers: Mapping[str, tuple[str, ...]] | None = None,
    producers: Mapping[str, Schedule | None] | None = None,
    on_poison: OnPoison = "block",
    peek: int = 100,
    reconciles: bool = False,
    has_fixer: bool = False,
    keep_runs: int | None = None,
) -> FlowSpec:
    """A workflow: without words, one consumer `work` of a topic `notes`, and no producer."""
    chosen = {"work": ("notes",)} if consumers is None else consumers
    return FlowSpec(
        name=name,
        topics=tuple(dict.fromkeys(topic for topics in chosen.values() for topic in topics)),
        producers=tuple(ProducerSpec(name=each, schedule=when) for each, when in (producers or {}).items()),
        consumers=tuple(
            ConsumerSpec(name=each, topics=topics, peek=peek, reconciles=reconciles) for each, topics in chosen.items()
        ),
        on_poison=on_poison,
        has_fixer=has_fixer,
        keep_runs=keep_runs,
    )


POLLING = flow_spec(producers={"poll": Every(5 * MINUTE_MS)})
"""With a producer `poll`, every five minutes."""


class Desk:
    """The tables of workflows on one backend, a clock, and one workflow that is worked on."""

    def __init__(self, kind: str, folder: Path, spec: FlowSpec | None = None) -> None:
        self.kind = kind
        self.path = folder / "space.db"
        self.name = new_name()
        self.clock = SimClock()
        self.backend = self._open()
        # What `Book.look` answers with: status documents, by their key.
        self.documents: dict[DocKey, Maybe] = {}
        self.flags = Flags()
        self.retry = Retry()
        self.spec = flow_spec() if spec is None else spec
        if spec is not None:
            self.deploy(spec)

    def _open(self) -> MemoryBackend | SqliteBackend | PostgresBackend:
        if self.kind == "postgres":
            return open_backend(self.name)
        # Nobody cuts the power here.
        return MemoryBackend() if self.kind == "memory" else SqliteBackend(str(self.path), durability="normal")

    def close(self) -> None:
        self.backend.close()

    def reopen(self) -> None:
        """As after a restart: what was only in memory is gone."""
        if self.kind != "memory":
            self.backend.close()
            self.backend = self._open()
        self.deploy(self.spec, self.version)

    # -- transactions --------------------------------------------------------------------------------------

    @property
    def tables(self) -> WorkflowTables:
        """To look things up; what is written with it is not kept."""
        return WorkflowTables(self.backend.tables, self.clock.now_ms(), lambda doc: self.documents.get(doc, ABSENT))

    def do(self, part: Callable[..., T], *given: Any, **named: Any) -> T:
        """One transaction: `part(book, ...)`. If it raises, nothing of it is kept."""
        tables = self.tables
        self.backend.begin()
        try:
            answer = part(tables, *given, **named)
        except BaseException:
            self.backend.roll_back()
            raise
        self.backend.append([], None)
        assert not tables.refresh_cache(), "what is remembered is so"
        self._note(tables)
        return answer

    def _note(self, tables: WorkflowTables) -> None:
        """Who has something new to look at."""
        self.said = tables.captions
        own = [each for each in tables.published if tables.flow(each[0]).name == self.spec.name]
        self.flags.note_published(self.spec, own)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything there is: to compare with what there was."""
        return {table: self.backend.tables.execute(f"select * from {table}") for table in TABLES}  # noqa: S608

    def foreign_keys(self) -> list[tuple[Any, ...]]:
        """Rows that point to nothing."""
        return self.backend.tables.execute("pragma foreign_key_check")

    def shown(self, found: Begun) -> list[EventRow]:
        """All that a run is shown, when it has just begun."""
        topics = self.spec.consumer(found.run.handler).topics
        return self.tables.pending(found.flow.id, topics, found.run.offered)

    # -- the workflow --------------------------------------------------------------------------------------

    def deploy(self, spec: FlowSpec, version: str = "1", *, force: bool = False) -> Deployed:
        deployed = self.do(deploy, spec, version, "salt", force=force)
        self.spec, self.version, self.flags = spec, version, deployed.flags
        return deployed

    @property
    def flow(self) -> FlowRow:
        found = self.tables.flow_named(self.spec.name)
        assert found is not None
        return found

    def handler(self, name: str = "work", kind: HandlerKind = "consumer") -> HandlerRow:
        return self.tables.handler(self.flow.id, kind, name)

    def run(self, run: RunRow | int) -> RunRow:
        """As it is now."""
        return self.tables.run(run if isinstance(run, int) else run.id)

    def call(self, run: RunRow) -> CallRow | None:
        return self.tables.call_of(self.run(run))

    def runs(self) -> list[RunRow]:
        """All, oldest first."""
        return [self.run(row[0]) for row in self.tables.execute("select id from flow_run order by id")]

    def events(self) -> dict[str, str]:
        """The status of each event, by its message."""
        return dict(self.tables.execute("select message, status from flow_event order by id"))  # type: ignore[arg-type]

    def event(self, message: str, topic: str = "notes") -> int:
        """The number of an event."""
        place = self.tables.topics(self.flow.id)[topic].id
        [[number]] = self.tables.execute("select id from flow_event where topic = ? and message = ?", place, message)
        return int(number)

    def taken(self, run: RunRow) -> dict[str, str]:
        """What became of the events of a run, by message."""
        query = (
            "select event.message, take.disposition from flow_take as take join flow_event as event "
            "on event.id = take.event where take.run = ? order by event.id"
        )
        return dict(self.tables.execute(query, run.id))  # type: ignore[arg-type]

    # -- a run, step by step -------------------------------------------------------------------------------

    def publish(
        self,
        *messages: str,
        topic: str = "notes",
        payload: object = None,
        run: RunRow | None = None,
        priority: int = PRIORITY,
    ) -> bool:
        """Events; whether the last of them is new."""
        new = False
        for message in messages:
            title = f"Note {message}"
            event = Publication(self.spec.name, topic, message, packed(payload), title=title, priority=priority)
            new = self.do(publish, event, run)
        return new

    def next(self) -> Next:
        """What is to be done now; flags are used up as a host does it (D2)."""
        found = self.do(transitions.begin, self.spec.name, self.spec, self.flags)
        if isinstance(found, Begun):
            self.flags.resumed = None
            self.flags.last = found.run.handler if found.run.lane else ""
            if found.run.lane and found.run.phase == RunPhase.PREPARING:
                self.flags.quiet.add(found.run.lane)
            elif found.run.phase == RunPhase.PREPARING and found.run.kind == "consumer":
                self.flags.dirty.discard(found.run.handler)
                self.flags.fresh.discard(found.run.handler)
        return found

    def begin(self) -> RunRow:
        """A run that is due."""
        found = self.next()
        assert isinstance(found, Begun), found
        return found.run

    def prepare(
        self,
        run: RunRow,
        *messages: str,
        data: object = None,
        title: str = "",
        wake_at: int | None = None,
        ask: bool = False,
    ) -> RunRow:
        """It takes these events of `notes`; without any, nothing."""
        result = packed(data)
        digest = plan_digest(_with_plan(run, result)) if ask else None
        events = tuple(self.event(message) for message in messages)
        plan = Prepared(
            events=events,
            result=result,
            title=title,
            wake_at=None if wake_at is None else Millis(wake_at),
            approval=digest,
        )
        return self.do(transitions.prepared, run.id, plan, self.spec)

    def idle(self, run: RunRow, wake_at: int | None = None) -> RunRow:
        """It finds nothing to do."""
        plan = Prepared(result=packed(None), wake_at=None if wake_at is None else Millis(wake_at))
        return self._ended(self.do(transitions.idle, run.id, plan, self.spec))

    def leave(self, run: RunRow) -> RunRow:
        """Its call leaves."""
        found = self.do(transitions.in_flight, run.id, "work.mutate", packed(None), self.spec.consumer(run.handler))
        assert isinstance(found, RunRow), found
        return found

    def act(self, run: RunRow, result: object = None) -> RunRow:
        """Its call leaves, and has its effect."""
        self.leave(run)
        return self.do(transitions.applied, run.id, packed(result))

    def commit(self, run: RunRow, state: bytes | None = None) -> RunRow:
        """`next` was called, and the run ends."""
        return self._ended(self.do(transitions.consumed, run.id, state, self.spec))

    def produce(self, run: RunRow, state: bytes | None = None) -> RunRow:
        """The run of a producer ends."""
        return self._ended(self.do(transitions.produced, run.id, state, self.spec))

    def consume(self, *messages: str, state: bytes | None = None) -> RunRow:
        """A whole run about these events, which are published first."""
        self.publish(*messages)
        run = self.begin()
        self.prepare(run, *messages, title=f"Did {', '.join(messages)}")
        self.act(run, "done")
        return self.commit(run, state)

    def fail(
        self, run: RunRow, kind: FailureKind = FailureKind.TRANSIENT, message: str = "it broke", undone: str = ""
    ) -> RunRow:
        why = RunFailure(kind=kind, message=message)
        return self._ended(self.do(transitions.failed, run.id, why, self.spec, self.retry, undone=undone))

    def crash(self, run: RunRow) -> RunRow:
        """The host ends, and the next one finds the run."""
        return self._ended(self.do(recover, run.id))

    def ask(self, *messages: str) -> RunRow:
        """A run that waits for an approval of its plan."""
        self.publish(*messages)
        run = self.begin()
        self.prepare(run, *messages, title="Send it", ask=True)
        return self.do(transitions.ask, run.id)

    def doubt(self, *messages: str, next_at: int | None = None) -> RunRow:
        """A run of whose call nobody knows what became."""
        self.publish(*messages)
        run = self.begin()
        self.prepare(run, *messages, title="Send it")
        self.leave(run)
        due = None if next_at is None else Millis(next_at)
        return self._ended(self.do(transitions.uncertain, run.id, "no answer", due))

    def lose(self, run: RunRow, next_at: int | None = None) -> RunRow:
        """Its call was sent, and its outcome is unknown."""
        due = None if next_at is None else Millis(next_at)
        return self._ended(self.do(transitions.uncertain, run.id, "no answer", due))

    def _ended(self, run: RunRow) -> RunRow:
        """D1: what it has left or given back is looked at again."""
        if (
            run.kind == "consumer"
            and run.status != RunStatus.ACTIVE
            and (run.taken or run.status != RunStatus.COMMITTED)
        ):
            self.flags.dirty.add(run.handler)
            self.flags.quiet.discard(run.lane)
        return run


class RidingDesk(Desk):
    """A workflow in a space: every transaction rides through its engine, so that the status is a document of it."""

    def __init__(self, space: Space, spec: FlowSpec | None = None, version: str = "1") -> None:
        self.space = space
        super().__init__(space.kind, space.path.parent)
        self.clock = space.clock
        if spec is not None:
            self.deploy(spec, version)

    def _open(self) -> MemoryBackend | SqliteBackend:
        backend = self.space.backend
        assert isinstance(backend, MemoryBackend | SqliteBackend)
        return backend

    def do(self, part: Callable[..., T], *given: Any, **named: Any) -> T:
        # A decided transaction lets go of its tables.
        decided: list[WorkflowTables | None] = []
        transaction = WorkflowTransaction(self.clock.now_ms, lambda ended: decided.append(ended.tables))
        transaction.add(lambda tables: part(tables, *given, **named))
        [outcome] = self.space.engine.admit(
            [Submission(Commit(SessionId("riding"), UNNUMBERED), table_transaction=transaction)]
        )
        transaction.decided(outcome.verdict, None)
        if transaction.error is not None:
            raise transaction.error
        [tables] = decided
        assert transaction.is_committed and tables is not None
        assert not tables.refresh_cache(), "what is remembered is so"
        self._note(tables)
        answer: T = transaction.result
        return answer


def _with_plan(run: RunRow, result: bytes) -> RunRow:
    from msgspec.structs import replace

    return replace(run, prepare_result=result)
