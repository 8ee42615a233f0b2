"""Invariants W1 to W9 and W12, checked on the tables.

`check_all` holds between any two transactions. Invariants over time are in `testing.invariants.workflow_invariants`.
The first violation raises an InvariantError with the invariant and the record.

`docs/internals/workflow-invariants.md` says what each invariant promises, and which code upholds it.

Length: one function for each invariant over the rows, in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

import msgspec
from msgspec.structs import replace

from headwater.errors import InvariantError
from headwater.workflow.phases import STEPS, Restart, RunPosition, apply_step, position_of, restart_of
from headwater.workflow.rows import (
    CALL,
    FLOW,
    RUN,
    CallRow,
    CallStatus,
    EffectOutcome,
    FlowRow,
    RunPhase,
    RunRow,
    RunStatus,
)
from headwater.workflow.run_rows import key_of
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import WAKE_MAX_MS
from headwater.workflow.workflow_spec import FlowSpec

_OPEN: Final = (CallStatus.IN_FLIGHT, CallStatus.NEEDS_RECONCILE, CallStatus.INDETERMINATE)
_ORDER: Final = list(RunPhase)


def broken(invariant: str, what: str, record: object) -> InvariantError:
    """The error for a violated invariant, with the record that violates it."""
    return InvariantError(f"{invariant}: {what}: {record}", invariant=invariant, record=record)


class Take(msgspec.Struct, frozen=True):
    """An event that a run took, and its disposition there."""

    run: int
    event: int
    disposition: str


class StoredEvent(msgspec.Struct, frozen=True):
    """An event, as stored."""

    id: int
    topic: int
    payload: bytes
    status: str
    reserved_by: int | None
    attempt: int
    lane: str | None


class Rows:
    """All rows, indexed for the checks."""

    def __init__(self, tables: WorkflowTables) -> None:
        self.flows = {row[0]: FlowRow(*row) for row in tables.execute(f"select {FLOW} from flow")}
        # Each workflow as its lanes see it: the shared one, and those with a row.
        self.lanes: dict[tuple[int, str], FlowRow] = {(flow.id, flow.lane): flow for flow in self.flows.values()}
        for lane in tables.execute("select flow, name from flow_lane"):
            self.lanes[lane[0], lane[1]] = tables.flow(lane[0], lane[1])
        self.runs = {row[0]: RunRow(*row) for row in tables.execute(f"select {RUN} from flow_run order by id")}
        self.calls = [CallRow(*row) for row in tables.execute(f"select {CALL} from flow_call")]
        self.call_of = {call.run: call for call in self.calls}
        takes = tables.execute("select run, event, disposition from flow_take order by run, event")
        self.takes = [Take(*row) for row in takes]
        self.events = {event.id: event for event in events(tables)}
        self.after: dict[int, list[RunRow]] = {}
        for run in self.runs.values():
            if run.retry_of is not None:
                self.after.setdefault(run.retry_of, []).append(run)

    def flow_of(self, run: RunRow) -> FlowRow:
        """The workflow of a run, as the lane of the run sees it."""
        found = self.lanes.get((run.flow, run.lane))
        if found is not None:
            return found
        none = {"block": None, "block_kind": None, "repairs": 0, "repairing": 0}
        none |= {"head": None, "retry_at": None, "failures": 0}
        return replace(self.flows[run.flow], lane=run.lane, **none)


def events(tables: WorkflowTables) -> list[StoredEvent]:
    """All events."""
    query = "select id, topic, payload, status, reserved_by, attempt, lane from flow_event order by id"
    return [StoredEvent(*row) for row in tables.execute(query)]


def spec_of(tables: WorkflowTables, flow: FlowRow, version: int | None = None) -> FlowSpec:
    """The declaration of a version of a workflow; without a number, of the newest."""
    wanted = flow.version if version is None else version
    row = tables.one("select config from flow_version where flow = ? and version = ?", flow.id, wanted)
    if row is None:
        raise broken("W1", f"version {wanted} of it is not known", flow)
    return msgspec.msgpack.decode(row[0], type=FlowSpec)


# --- over the rows, at any time -------------------------------------------------------------------------------


def w1_single(tables: WorkflowTables, rows: Rows | None = None) -> None:
    """At most one run of a lane is active, and while a chain is open, only its head."""
    rows = rows or Rows(tables)
    at_work: dict[tuple[int, str], list[RunRow]] = {}
    for run in rows.runs.values():
        if run.status == RunStatus.ACTIVE:
            at_work.setdefault((run.flow, run.lane), []).append(run)
    for active in at_work.values():
        flow = rows.flow_of(active[0])
        if len(active) > 1:
            raise broken("W1", f"{len(active)} runs of {flow.name} are active{_in(flow)}", active)
        for run in active:
            if flow.head != (None if run.retry_of is None and flow.head is None else run.id):
                raise broken("W1", f"it is active, and what {flow.name} has to finish is run {flow.head}", run)


def _in(flow: FlowRow) -> str:
    return f" in {flow.lane}" if flow.lane else ""


def _places() -> frozenset[RunPosition]:
    """All positions that a run can reach, by the table of steps."""
    found: set[RunPosition] = set()
    todo = [RunPosition(RunPhase.PREPARING, RunStatus.ACTIVE, EffectOutcome.NONE)]
    todo += [
        RunPosition(RunPhase.MUTATED, RunStatus.ACTIVE, outcome)
        for outcome in (EffectOutcome.APPLIED, EffectOutcome.SKIPPED)
    ]
    while todo:
        place = todo.pop()
        if place not in found:
            found.add(place)
            for what, rules in STEPS.items():
                if any(
                    place.phase in rule.phases and place.status in rule.statuses and place.outcome in rule.outcomes
                    for rule in rules
                ):
                    todo.append(apply_step(place, what))
    return frozenset(found)


PLACES: Final = _places()


def w2_forward(tables: WorkflowTables, rows: Rows | None = None) -> None:
    """A run is at a position that the steps can reach: phase, status and outcome fit each other."""
    for run in (rows or Rows(tables)).runs.values():
        if position_of(run) not in PLACES:
            raise broken("W2", f"no step leads to where it is ({position_of(run)})", run)


def w3_checkpoint(tables: WorkflowTables, rows: Rows | None = None) -> None:
    """The plan is stored from `prepared` on; the result of the call is stored together with the outcome."""
    rows = rows or Rows(tables)
    for run in rows.runs.values():
        if run.kind == "consumer" and run.phase != RunPhase.PREPARING and run.prepare_result is None:
            raise broken("W3", "it is prepared, and its plan is not stored", run)
        call = rows.call_of.get(run.call)
        is_applied = run.outcome == EffectOutcome.APPLIED
        kept = call is not None and call.status == CallStatus.APPLIED and call.result == run.mutation_result
        if is_applied != (run.mutation_result is not None) or (is_applied and not kept):
            raise broken("W3", f"its outcome, its result and its call do not say the same ({call})", run)
        if call is not None and call.status == CallStatus.APPLIED and not is_applied and run.call == run.id:
            raise broken("W3", f"its call is known to have happened ({call})", run)


def w4_one_call(tables: WorkflowTables, rows: Rows | None = None) -> None:
    """A run makes at most one call, under a key of its own. A run that continues after a call makes none."""
    rows = rows or Rows(tables)
    for run_id, count in Counter(call.run for call in rows.calls).items():
        if count > 1:
            raise broken("W4", f"it has made {count} calls", rows.runs[run_id])
    for call in rows.calls:
        run = rows.runs[call.run]
        if run.effect_of is not None or call.key != key_of(rows.flows[run.flow], run.id):
            raise broken("W4", f"it has a call that is not its own ({call})", run)


def w5_effect_once(tables: WorkflowTables, rows: Rows | None = None) -> None:
    """Of the calls for an event, at most one may have happened. If an event is consumed after a call, that call did."""
    rows = rows or Rows(tables)
    about: dict[int, list[int]] = {}
    for take in rows.takes:
        call = rows.call_of.get(take.run)
        if call is not None and call.status in (CallStatus.APPLIED, *_OPEN):
            about.setdefault(take.event, []).append(take.run)
    for event, runs in about.items():
        if len(runs) > 1:
            raise broken("W5", f"runs {runs} have acted on it, or may have", rows.events[event])
        if rows.events[event].status == "pending":
            raise broken("W5", f"run {runs[0]} has acted on it, or may have, and it waits again", rows.events[event])
    for take in rows.takes:
        if take.disposition != "consumed":
            continue
        run = rows.runs[take.run]
        has_called = run.outcome != EffectOutcome.NONE or run.id in rows.call_of
        if has_called and about.get(take.event) != [run.call]:
            raise broken("W5", f"it is consumed by run {run.id}, whose call did not happen", rows.events[take.event])


def w6_intent(tables: WorkflowTables, rows: Rows | None = None) -> None:
    """For every effect that a run may have had, a call is stored from before it left until its outcome is known."""
    rows = rows or Rows(tables)
    for run in rows.runs.values():
        call = rows.call_of.get(run.call)
        status = None if call is None else call.status
        is_given_up = call is not None and call.resolved_by == "user_skip"
        fits = {
            EffectOutcome.NONE: status is None,
            EffectOutcome.UNKNOWN: status in _OPEN,
            EffectOutcome.APPLIED: status == CallStatus.APPLIED,
            EffectOutcome.FAILED: status == CallStatus.FAILED and not is_given_up,
            EffectOutcome.SKIPPED: status is None or is_given_up,
        }
        if not fits[EffectOutcome(run.outcome)]:
            raise broken("W6", f"its outcome is {run.outcome}, and its call {call}", run)


def w7_reset(tables: WorkflowTables, rows: Rows | None = None) -> None:
    """The outcome decides how a chain continues: from `next` with copies, from the beginning, or not yet."""
    rows = rows or Rows(tables)
    for run in rows.runs.values():
        before = None if run.retry_of is None else rows.runs.get(run.retry_of)
        if run.outcome == EffectOutcome.UNKNOWN:
            _check_unknown(run, rows.flow_of(run), rows.call_of.get(run.id))
        if before is None:
            if run.effect_of is not None:
                raise broken("W7", "it goes on from a call, and from no run", run)
            continue
        match restart_of(EffectOutcome(before.outcome)):
            case Restart.WAIT:
                raise broken("W7", f"it follows run {before.id}, whose outcome is unknown", run)
            case Restart.EMIT:
                copied = (before.call, before.outcome, before.prepare_result, before.mutation_result)
                is_so = (run.call, run.outcome, run.prepare_result, run.mutation_result) == copied
                if not is_so or _ORDER.index(RunPhase(run.phase)) < _ORDER.index(RunPhase.MUTATED):
                    raise broken("W7", f"it does not go on from what run {before.id} came to", run)
            case Restart.FRESH:
                if run.effect_of is not None:
                    raise broken("W7", f"it goes on from run {before.id}, which has done nothing", run)


def _check_unknown(run: RunRow, flow: FlowRow, call: CallRow | None) -> None:
    """A run with an unknown outcome is not failed or repaired. If no `reconcile` can find it out, a person is asked."""
    if run.status not in (RunStatus.ACTIVE, RunStatus.RECONCILIATION, RunStatus.CRASHED):
        raise broken("W7", "the outcome of its call is unknown, and it is shown as failed", run)
    if run.status != RunStatus.ACTIVE and (call is None or call.status == CallStatus.IN_FLIGHT):
        raise broken("W7", f"it has stopped, and its call is not asked about ({call})", run)
    if run.cancelled or call is None or call.status != CallStatus.INDETERMINATE:
        return
    if flow.head != run.id or flow.block_kind != "indeterminate" or flow.repairing:
        raise broken("W7", f"only a person can report its outcome, and {flow.name} does not ask one", run)


def w8_recovery(tables: WorkflowTables, rows: Rows | None = None, alive: Collection[int] | None = None) -> None:
    """Chains are lines. Each ends in a commit, an active run, a run that was given up, or the head of its workflow."""
    rows = rows or Rows(tables)
    chains: dict[int, list[RunRow]] = {}
    for run in rows.runs.values():
        chains.setdefault(run.chain, []).append(run)
    for chain, line in chains.items():
        for place, run in enumerate(line):
            follows = None if place == 0 else line[place - 1].id
            if run.retry_of != follows or run.attempt != place + 1 or line[0].id != chain:
                raise broken("W8", f"it is not what follows run {follows} in chain {chain}", run)
    for line in chains.values():
        _check_end(tables, rows, line[-1], alive)
    for flow in rows.lanes.values():
        head = None if flow.head is None else rows.runs.get(flow.head)
        is_own = head is not None and (head.flow, head.lane) == (flow.id, flow.lane)
        if flow.head is not None and (head is None or not is_own or head.id in rows.after):
            raise broken("W8", f"what it has to finish is no end of a chain ({head})", flow)
        if head is not None and head.status == RunStatus.COMMITTED:
            raise broken("W8", "what it has to finish is finished", flow)


def _check_end(tables: WorkflowTables, rows: Rows, last: RunRow, alive: Collection[int] | None) -> None:
    flow = rows.flow_of(last)
    if last.status == RunStatus.ACTIVE:
        if alive is not None and last.id not in alive:
            raise broken("W8", "no host executes it, and it is active", last)
    elif flow.head == last.id:
        _check_seen(flow, last, rows.call_of.get(last.call))
    elif last.status != RunStatus.COMMITTED and not _is_given_up(tables, flow, last):
        raise broken("W8", f"it has no successor, and {flow.name} does not know that it has to finish it", last)


def _check_seen(flow: FlowRow, head: RunRow, call: CallRow | None) -> None:
    """A stopped chain continues at a time, or users can see why it does not."""
    waits = restart_of(EffectOutcome(head.outcome)) is Restart.WAIT
    at = flow.retry_at if not waits else None if call is None else call.next_at
    if flow.block is None and not flow.repairing and at is None:
        raise broken("W8", f"it has stopped, nothing takes it up again, and it is not reported ({flow})", head)


def _is_given_up(tables: WorkflowTables, flow: FlowRow, run: RunRow) -> bool:
    """A person gave the run up, or its event was parked because the workflow is declared so."""
    is_fresh = run.kind == "consumer" and restart_of(EffectOutcome(run.outcome)) is Restart.FRESH
    return (
        bool(run.cancelled)
        or run.aside is not None
        or (is_fresh and spec_of(tables, flow, run.version).on_poison == "park")
    )


def w9_reserve(tables: WorkflowTables, rows: Rows | None = None) -> None:
    """An event is consumed with the commit of its run. Only an unfinished run holds the events it reserved."""
    rows = rows or Rows(tables)
    by_event: dict[int, list[Take]] = {}
    for take in rows.takes:
        by_event.setdefault(take.event, []).append(take)
        _check_take(take, rows)
    (kept, newest) = tables.execute("select count(*), max(id) from flow_run")[0]
    for event in rows.events.values():
        said = Counter(take.disposition for take in by_event.get(event.id, ()))
        if (event.status == "reserved") != (event.reserved_by is not None) or said["reserved"] != (
            event.status == "reserved"
        ):
            raise broken("W9", f"its reservation is inconsistent ({by_event.get(event.id)})", event)
        # Nothing is stored of runs that were deleted.
        if kept == newest and said["consumed"] != (event.status == "consumed"):
            raise broken("W9", f"its runs do not say so ({by_event.get(event.id)})", event)
    taken = Counter(take.run for take in rows.takes)
    for run in rows.runs.values():
        if run.taken != taken[run.id]:
            raise broken("W9", f"it took {taken[run.id]} events", run)
    _check_counts(tables, rows)


def _check_take(take: Take, rows: Rows) -> None:
    run, event = rows.runs[take.run], rows.events[take.event]
    is_committed = run.status == RunStatus.COMMITTED
    match take.disposition:
        case "reserved":
            is_asked = run.status == RunStatus.APPROVAL and run.phase == RunPhase.PREPARED
            keeps = is_asked or restart_of(EffectOutcome(run.outcome)) is not Restart.FRESH
            is_open = run.status == RunStatus.ACTIVE or (keeps and rows.flow_of(run).head == run.id)
            fits = event.reserved_by == run.id and is_open
        case "consumed":
            fits = (
                is_committed
                and event.status == "consumed"
                and run.outcome in (EffectOutcome.NONE, EffectOutcome.APPLIED)
            )
        case "skipped":
            fits = event.status == "skipped" and (
                bool(run.cancelled) or (is_committed and run.outcome == EffectOutcome.SKIPPED)
            )
        case "parked":
            # Set aside after the effect: it can only be finished or skipped.
            heirs = [heir.id for heir in rows.after.get(run.id, ())]
            is_moved = any(other.run in heirs and other.event == event.id for other in rows.takes)
            fits = run.aside is not None and (event.status in ("parked", "skipped") or is_moved)
        case "moved":
            heirs = [heir.id for heir in rows.after.get(run.id, ())]
            fits = any(other.run in heirs and other.event == event.id for other in rows.takes)
        case _:
            # Released: only if the run had no effect (W5).
            fits = not is_committed and restart_of(EffectOutcome(run.outcome)) is Restart.FRESH
    if not fits:
        raise broken("W9", f"{take} does not fit {event}", run)


def _check_counts(tables: WorkflowTables, rows: Rows) -> None:
    found = Counter((event.topic, event.status) for event in rows.events.values())
    for topic, pending, parked in tables.execute("select id, pending, parked from flow_topic"):
        if (pending, parked) != (found[topic, "pending"], found[topic, "parked"]):
            raise broken(
                "W9", f"{found[topic, 'pending']} wait and {found[topic, 'parked']} are parked", (topic, pending)
            )


def w12_wake_at(tables: WorkflowTables, rows: Rows | None = None) -> None:
    """A consumer is woken at most a day after the run that asked for it.

    That run may be deleted, and the clock set back since: every other time of the workflow shows that. W11: the time is
    corrected when a host reads it.
    """
    rows = rows or Rows(tables)
    for flow in rows.flows.values():
        runs = [max(run.created_at, run.updated_at) for run in rows.runs.values() if run.flow == flow.id]
        latest = max([tables.now, flow.created_at, flow.updated_at, *runs])
        for row in tables.handlers(flow.id):
            if row.wake_at is not None and row.wake_at > latest + WAKE_MAX_MS:
                raise broken("W12", f"it is {latest}, and that is more than a day ahead", row)
        for lane in tables.lanes(flow.id).values():
            if lane.wake_at is not None and lane.wake_at > latest + WAKE_MAX_MS:
                raise broken("W12", f"it is {latest}, and that is more than a day ahead", lane)


ANY_TIME: Final[tuple[Callable[[WorkflowTables, Rows], None], ...]] = (
    *(w1_single, w2_forward, w3_checkpoint, w4_one_call, w5_effect_once, w6_intent, w7_reset),
    *(w9_reserve, w12_wake_at),
)


def check_all(tables: WorkflowTables, alive: Collection[int] | None = None) -> None:
    """All invariants that hold between two transactions. `alive`: the runs that a host executes, if known."""
    wrong = tables.refresh_cache()
    if wrong:
        raise InvariantError(f"the cache differs from the tables: {wrong}", wrong=wrong)
    rows = Rows(tables)
    for claim in ANY_TIME:
        claim(tables, rows)
    w8_recovery(tables, rows, alive)
