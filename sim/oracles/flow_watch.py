"""What must hold of workflows from one group of commits to the next: order, wake-ups, retries, crash loops.

A `FlowObserver` is one of the wakers of a hub: it is called when a group was decided, by the thread that decides, with
the lock of the storage held, so that no transaction is open. It only reads. `History` is what is
remembered of a file, over all openings of it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.errors import InvariantError, StoreError
from headwater.testing.invariants.workflow_invariants import WorkflowWatch
from headwater.workflow.rows import FLOW, RUN, EffectOutcome, FlowRow, Intent, RunPhase, RunRow, RunStatus
from headwater.workflow.table_checks import check_all, spec_of
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import CRASHES
from sim.flows.parts import ConsumerPart, FlowApp, ProducerPart

if TYPE_CHECKING:
    from headwater.runtime.workflows.hub import Hub
    from sim.flows.program import Program
    from sim.world import World

EARLY_MS: Final = 2
"""A time that is so near has come."""

JITTER: Final = 0.2
"""The part of a wait that is random, in generated programs."""

FIXED_BY_CODE: Final = ("logic", "crashes", "exhausted")
"""Blocks that a new version of the program ends."""

CRON_MS: Final = 120_000
"""The cron expression of generated programs means every second minute."""


class Waiting(NamedTuple):
    """A pending event. After a release or another payload it is to be looked at again."""

    event: int
    attempt: int
    changed: int


class History:
    """What was seen of one file."""

    def __init__(self, world: World, app: FlowApp, *, is_watched: bool, is_clock_moved: bool) -> None:
        self._world = world
        self._parts: dict[str, ConsumerPart | ProducerPart] = {part.name: part for part in app.consumers}
        self._parts |= {part.name: part for part in app.producers}
        self._parks = {part.name for part in app.flows if part.on_poison == "park"}
        self._is_clock_moved = is_clock_moved
        self._is_watched = is_watched
        self.watch = WorkflowWatch()
        self._newest = 0
        self._flows: dict[int, FlowRow] = {}
        self._pending: dict[tuple[int, str], set[Waiting]] = {}
        self._seen: dict[tuple[int, str], set[Waiting]] = {}
        self._now = 0
        # Runs up to this one, by workflow: a person has them tried again.
        self.forgiven: dict[str, int] = {}
        self.looks = 0

    # -- moments -------------------------------------------------------------------------------------------

    def opened(self, tables: WorkflowTables) -> None:
        """A process has opened the file: consumers look at everything that waits."""
        self._newest = tables.execute("select coalesce(max(id), 0) from flow_run")[0][0]
        self._pending = self._waiting(tables)
        self._seen = {}
        self._flows = self._all_flows(tables)
        self._now = tables.now
        for flow in self._flows.values():
            head = None if flow.head is None else tables.run(flow.head)
            if flow.block_kind in FIXED_BY_CODE and head is not None and head.version != flow.version:
                self._world.violate("deployed", f"{flow.name} has a new version, and is blocked: {flow.block}")
        self.check(tables)

    def group(self, tables: WorkflowTables) -> None:
        """A group was decided."""
        self.looks += 1
        begun = tables.execute(f"select {RUN} from flow_run where id > ? order by id", self._newest)  # noqa: S608  # a constant
        flows, pending = self._all_flows(tables), self._waiting(tables)
        for row in begun:
            run = RunRow(*row)
            self._newest = run.id
            if run.status == RunStatus.ACTIVE:
                self._begun(tables, run, flows[run.flow], pending)
        self._flows, self._pending, self._now = flows, pending, tables.now
        if self._is_watched:
            self.check(tables)

    def check(self, tables: WorkflowTables) -> None:
        """The invariant checks of the product. Without all moments, only those that need no earlier one."""
        try:
            if self._is_watched:
                self.watch.look(tables)
            else:
                check_all(tables)
        except InvariantError as error:
            self._world.violate(str(error.facts.get("invariant", "W")), error.message[:600])

    def rested(self, program: Program, meddled: int) -> None:
        """`drain` has returned. W10: nothing that waits was left unseen, if others still have done nothing more."""
        program.look(lambda tables: self._rested(tables) if program.meddled == meddled else None)

    def _rested(self, tables: WorkflowTables) -> None:
        for flow in self._all_flows(tables).values():
            if flow.intent != Intent.ACTIVE or flow.block is not None or flow.head is not None:
                continue
            for consumer in spec_of(tables, flow).consumers:
                left = self._pending.get((flow.id, consumer.name), set()) - self._seen.get(
                    (flow.id, consumer.name), set()
                )
                now = self._waiting(tables).get((flow.id, consumer.name), set())
                if left & now:
                    self._world.violate(
                        "W10", f"drain has ended, and {consumer.name} has not seen {sorted(left & now)}"
                    )

    # -- a run begins --------------------------------------------------------------------------------------

    def _begun(
        self, tables: WorkflowTables, run: RunRow, flow: FlowRow, pending: dict[tuple[int, str], set[Waiting]]
    ) -> None:
        before = self._flows.get(run.flow)
        was_stopped = before is not None and (before.intent != Intent.ACTIVE or before.block is not None)
        if was_stopped and (flow.intent != Intent.ACTIVE or flow.block is not None):
            self._world.violate("W14", f"run {run.id} of {run.handler} begins, and {flow.name} is stopped")
        if run.retry_of is None:
            self._check_order(tables, run, flow, pending)
            self._check_schedule(tables, run)
        else:
            self._check_retry(tables, run, before, tables.run(run.retry_of))
        if run.kind != "consumer" or run.phase != RunPhase.PREPARING:
            return
        row = tables.handler(run.flow, "consumer", run.handler)
        if row.wake_at is not None and row.wake_at <= run.created_at:
            self._world.violate("W12", f"run {run.id} begins at {run.created_at}, and its time is not used up: {row}")
        self._seen[run.flow, run.handler] = set(pending.get((run.flow, run.handler), ()))

    def _check_order(
        self, tables: WorkflowTables, run: RunRow, flow: FlowRow, pending: dict[tuple[int, str], set[Waiting]]
    ) -> None:
        """W13: consumers with events before all others, the oldest event first."""
        rows = {row.name: row for row in tables.handlers(flow.id) if row.kind == "consumer"}
        own = min((one.event for one in pending.get((flow.id, run.handler), ())), default=None)
        for consumer in spec_of(tables, flow).consumers:
            key = flow.id, consumer.name
            if consumer.name == run.handler:
                continue
            wake_at = rows[consumer.name].wake_at
            if run.kind == "producer" and wake_at is not None and wake_at <= run.created_at:
                self._world.violate("W13", f"{consumer.name} is to be woken, and producer run {run.id} begins")
            left = (self._pending.get(key, set()) - self._seen.get(key, set())) & pending.get(key, set())
            if not left:
                continue
            oldest = min(one.event for one in left)
            if run.kind == "producer" or run.why != "event" or own is None or oldest < own:
                text = f"event {oldest} waits for {consumer.name}, and run {run.id} of {run.handler} ({run.why}) begins"
                self._world.violate("W13", text)

    def _check_retry(self, tables: WorkflowTables, run: RunRow, flow: FlowRow | None, former: RunRow) -> None:
        """A chain goes on if its outcome is known, when its time has come, and not after too many crashes."""
        if former.outcome == EffectOutcome.UNKNOWN:
            self._world.violate("W7", f"run {run.id} follows run {former.id}, whose outcome is unknown")
        is_forgiven = flow is not None and self.forgiven.get(flow.name, 0) >= former.id
        if is_forgiven or run.version != former.version or tables.now < self._now:
            return
        if former.status == RunStatus.CRASHED and former.crashes >= CRASHES and not _is_answered(tables, former):
            self._world.violate("W8", f"run {run.id} is begun after {former.crashes} crashes in a row")
        due = None if flow is None or flow.head != former.id else _due(flow, tables.now)
        if due is not None and run.created_at < due - EARLY_MS:
            self._world.violate("W14", f"run {run.id} begins {due - run.created_at} ms before its time")

        if not self._is_clock_moved and former.error_kind == "transient" and run.why == "retry":
            self._check_backoff(tables, run, former)

    def _check_backoff(self, tables: WorkflowTables, run: RunRow, former: RunRow) -> None:
        """L6: the waits double, and after the last try a person is asked. Counted by the runs, not by the tables."""
        part = self._parts[run.handler]
        forgiven = self.forgiven.get(tables.flow(run.flow).name, 0)
        failures = 0
        before: RunRow | None = former
        while before is not None and before.id > forgiven:
            if before.error_kind != "transient" or before.version != run.version:
                break
            failures += 1
            before = None if before.retry_of is None else tables.run(before.retry_of)
        first = part.backoff_s if isinstance(part, ConsumerPart) else 10
        if part.flow in self._parks or not failures:
            return
        least = min(first * 2 ** (failures - 1), 600) * 1000 * (1 - JITTER)
        if failures > part.tries:
            self._world.violate("L6", f"run {run.id} of {run.handler} is tried after {failures} failures")
        if run.created_at - former.updated_at < least - EARLY_MS:
            waited = run.created_at - former.updated_at
            self._world.violate("L6", f"run {run.id} is tried {waited} ms after failure {failures} of {run.handler}")

    def _check_schedule(self, tables: WorkflowTables, run: RunRow) -> None:
        """W11: a producer runs once for all missed times, and its next time is counted from its end."""
        part = self._parts[run.handler]
        if self._is_clock_moved or run.why != "schedule" or not isinstance(part, ProducerPart):
            return
        query = f"select {RUN} from flow_run where flow = ? and handler = ? and id < ? order by id desc limit 1"  # noqa: S608
        found = tables.one(query, run.flow, run.handler, run.id)
        if found is None:
            return
        last = RunRow(*found)
        if last.status != RunStatus.COMMITTED or last.version != run.version:
            return
        if part.cron:
            is_early = run.created_at // CRON_MS == last.updated_at // CRON_MS
        else:
            is_early = run.created_at < last.updated_at + part.every_s * 1000 - EARLY_MS
        if is_early:
            waited = run.created_at - last.updated_at
            self._world.violate("W11", f"producer run {run.id} of {run.handler} begins {waited} ms after the last one")

    # -- rows ----------------------------------------------------------------------------------------------

    @staticmethod
    def _all_flows(tables: WorkflowTables) -> dict[int, FlowRow]:
        return {row[0]: FlowRow(*row) for row in tables.execute(f"select {FLOW} from flow order by id")}  # noqa: S608

    @staticmethod
    def _waiting(tables: WorkflowTables) -> dict[tuple[int, str], set[Waiting]]:
        """By workflow and consumer: topics have the name of their consumer, or that and an x."""
        found: dict[tuple[int, str], set[Waiting]] = {}
        query = (
            "select topic.flow, topic.name, event.id, event.attempt, event.changed from flow_event as event "
            "join flow_topic as topic on topic.id = event.topic where event.status = 'pending'"
        )
        for flow, topic, event, attempt, changed in tables.execute(query):
            found.setdefault((flow, topic.rstrip("x")), set()).add(Waiting(event, attempt, changed))
        return found


def _is_answered(tables: WorkflowTables, run: RunRow) -> bool:
    """A person has reported the outcome of the call of this very run: the chain continues, as after `resume`.

    After too many crashes a person is needed (decision 34), and this was one: `transitions._known_now`.
    """
    call = tables.call_of(run)
    return call is not None and call.run == run.id and (call.resolved_by or "").startswith("user")


def _due(flow: FlowRow, now: int) -> int | None:
    """When a chain continues. W11: if the clock was set back since the last write, the wait counts from now.

    Also if that was while no process was open, so that no earlier moment shows it.
    """
    if flow.retry_at is None or flow.updated_at <= now:
        return flow.retry_at
    return min(flow.retry_at, now + max(flow.retry_at - flow.updated_at, 0))


class FlowObserver:
    """Looks at the tables after each group of commits."""

    def __init__(self, program: Program, hub: Hub) -> None:
        self._program = program
        self._hub = hub

    def wake(self, name: str) -> None:
        """A workflow may have something to do: usually because a group was decided that has changed it."""
        program = self._program
        program.ring(name)
        storage: Any = self._hub._storage  # under its lock
        if storage._lock._owner is not program.world.conductor.me:  # likewise
            # Called by a thread that has decided nothing: a transaction may be open.
            return
        with suppress(StoreError):
            program.history.group(WorkflowTables(storage._engine.backend.tables, self._hub.now()))
