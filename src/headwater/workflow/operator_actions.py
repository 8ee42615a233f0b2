"""Actions of people on workflows and runs, one transaction each.

Repeating an action is refused: the message says what the state is now.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from headwater.errors import NotFoundError
from headwater.workflow import run_rows
from headwater.workflow.phases import Restart, RunStep, restart_of
from headwater.workflow.rows import (
    INPUT,
    CallRow,
    CallStatus,
    EffectOutcome,
    EventStatus,
    FailureKind,
    FlowRow,
    InputRow,
    Intent,
    RunPhase,
    RunRow,
    RunStatus,
)
from headwater.workflow.set_aside import WITH_A_RUN, held, is_held, put_aside, want_again
from headwater.workflow.tables import NUMBER_MAX, WorkflowTables
from headwater.workflow.transitions import applied, not_applied
from headwater.workflow.wording import refusals
from headwater.workflow.workflow_rows import set_flow, set_handler

_ANSWERED_ONLY: Final = ("ask", "indeterminate", "hung")
"""Blocks that only an answer of a person ends."""

_OPEN: Final = (CallStatus.NEEDS_RECONCILE, CallStatus.INDETERMINATE)


def find_flow(tables: WorkflowTables, name: str) -> FlowRow:
    """The name of a workflow from its full name, or without the app if that is unambiguous. Raises NotFoundError."""
    flow = tables.flow_named(name)
    if flow is not None:
        return flow
    names = [row[0] for row in tables.execute("select name from flow order by name")]
    meant = [known for known in names if known.rpartition(".")[2] == name]
    if len(meant) == 1:
        found = tables.flow_named(meant[0])
        assert found is not None
        return found
    there = f"there is {', '.join(names)}" if names else "none was deployed yet"
    raise NotFoundError(f"there is no workflow {name!r} here; {there}", workflow=name, known=tuple(names))


# --- workflows ------------------------------------------------------------------------------------------------


def pause(tables: WorkflowTables, name: str) -> FlowRow:
    """D14: nothing starts, and an active run stops before its mutation. The block of the workflow stays."""
    flow = find_flow(tables, name)
    if flow.intent == Intent.PAUSED:
        why = f"it is paused already; `headwater workflow resume {flow.name}` lets it go on"
        raise refusals.of_flow(flow, "be paused", why)
    if flow.intent == Intent.ARCHIVED:
        raise refusals.of_flow(flow, "be paused", refusals.wanted(flow))
    return set_flow(tables, flow, intent=Intent.PAUSED)


def resume(tables: WorkflowTables, name: str) -> FlowRow:
    """Continue: the person says that the cause is fixed. If it is not, the workflow stops again."""
    flow = find_flow(tables, name)
    if flow.intent == Intent.ARCHIVED:
        raise refusals.of_flow(flow, "be resumed", refusals.wanted(flow))
    views = tables.every_lane(flow.id)
    asked = [view for view in views if view.head is not None and view.block_kind in _ANSWERED_ONLY]
    # A lane that waits for its next attempt is to be tried now.
    stopped = [view for view in views if view not in asked and _can_be_resumed(tables, view)]
    if flow.intent == Intent.ACTIVE and not stopped and asked:
        [view, *_] = asked
        assert view.head is not None
        raise refusals.unanswered(tables, view, tables.run(view.head), "be resumed")
    if flow.intent == Intent.ACTIVE and not stopped:
        why = "it is not paused, and nothing blocks it; nothing is to be done"
        raise refusals.of_flow(flow, "be resumed", why)
    if flow.intent != Intent.ACTIVE:
        # The pause is over; questions stay.
        set_flow(tables, flow, intent=Intent.ACTIVE)
        stopped = [view for view in views if view not in asked]
    for view in stopped:
        head = None if view.head is None else tables.run(view.head)
        none = {"block": None, "block_kind": None, "failures": 0, "repairs": 0, "repairing": 0}
        if head is not None and head.status != RunStatus.ACTIVE:
            none |= {"retry_at": tables.now} if restart_of(EffectOutcome(head.outcome)) is not Restart.WAIT else {}
        set_flow(tables, view, **none)
    return tables.flow(flow.id)


def _can_be_resumed(tables: WorkflowTables, flow: FlowRow) -> bool:
    return flow.block is not None or (flow.retry_at is not None and flow.retry_at > tables.now)


def run_now(tables: WorkflowTables, name: str) -> FlowRow:
    """D11: run every producer, one after the other. W14: refused while a run is active or the workflow is blocked."""
    flow = find_flow(tables, name)
    active = tables.active(flow.id)
    if active is not None:
        why = f"it is at work already (run {active.id} of {active.handler}); ask again when it is done"
        raise refusals.of_flow(flow, "run now", why, active.id)
    if flow.intent != Intent.ACTIVE:
        raise refusals.of_flow(flow, "run now", refusals.wanted(flow))
    if flow.block is not None or flow.head is not None:
        raise refusals.of_flow(flow, "run now", refusals.in_the_way(flow), flow.head)
    producers = [row for row in tables.handlers(flow.id) if row.kind == "producer"]
    if not producers:
        why = "it has no producer; it runs when something is published (`headwater publish`)"
        raise refusals.of_flow(flow, "run now", why)
    for row in producers:
        # Stored, so that the cause of the run survives a restart of the host.
        set_handler(tables, row, next_run_at=tables.now, asked=1)
    return flow


def archive(tables: WorkflowTables, name: str) -> FlowRow:
    """Hide a paused workflow, with everything that is stored of it."""
    flow = find_flow(tables, name)
    if flow.intent == Intent.ARCHIVED:
        why = f"it is archived already; `headwater workflow restore {flow.name}` brings it back"
        raise refusals.of_flow(flow, "be archived", why)
    if flow.intent != Intent.PAUSED:
        why = f"it is not paused; pause it first: `headwater workflow pause {flow.name}`"
        raise refusals.of_flow(flow, "be archived", why)
    active = next(iter(tables.at_work(flow.id)), None)
    if active is not None:
        why = f"run {active.id} of {active.handler} is still at work; ask again when it has stopped"
        raise refusals.of_flow(flow, "be archived", why, active.id)
    return set_flow(tables, flow, intent=Intent.ARCHIVED)


def restore(tables: WorkflowTables, name: str) -> FlowRow:
    """Bring an archived workflow back, paused. Resuming it is a separate step."""
    flow = find_flow(tables, name)
    if flow.intent != Intent.ARCHIVED:
        how = "paused; `headwater workflow resume` lets it go on" if flow.intent == Intent.PAUSED else "active"
        raise refusals.of_flow(flow, "be restored", f"it is not archived, but {how}")
    return set_flow(tables, flow, intent=Intent.PAUSED)


# --- runs -----------------------------------------------------------------------------------------------------


def _head(tables: WorkflowTables, run_id: int, what: str) -> tuple[FlowRow, RunRow]:
    """The head of a chain that has stopped. Raises TransitionError for any other run."""
    run = tables.run(run_id)
    flow = tables.flow_of(run)
    if flow.head != run.id or run.status in (RunStatus.ACTIVE, RunStatus.COMMITTED):
        raise refusals.not_open(tables, run, what)
    return flow, run


def approve(tables: WorkflowTables, run_id: int) -> RunRow:
    """Approve the plan that was shown, or confirm that the missing grant or sign-in is there."""
    flow, run = _head(tables, run_id, "approved")
    if run.status != RunStatus.APPROVAL:
        why = f"it does not wait for an approval: {refusals.waits_for_other(flow, run)}"
        raise refusals.of_run(run, "approved", why)
    if flow.retry_at is not None:
        raise refusals.of_run(run, "approved", refusals.answered(run))
    if run.ask and run.phase == RunPhase.PREPARED:
        run = run_rows.mark(tables, run, approval=plan_digest(run))
    set_flow(tables, flow, block=None, block_kind=None, retry_at=tables.now)
    return run


def plan_digest(run: RunRow) -> bytes:
    """The digest of a run's plan, which identifies what a person approves."""
    return digest_of(run.prepare_result or b"")


def digest_of(plan: bytes) -> bytes:
    """The digest of a plan that is not stored yet."""
    return sha256(plan).digest()


def reject(tables: WorkflowTables, run_id: int) -> RunRow:
    """Reject the plan: it is not carried out, its events are skipped, and `next` gets the rejection."""
    flow, run = _head(tables, run_id, "rejected")
    if run.error_kind != FailureKind.ASK:
        why = f"it has no plan that waits for an answer: {refusals.waits_for_other(flow, run)}"
        raise refusals.of_run(run, "rejected", why)
    if flow.retry_at is not None:
        raise refusals.of_run(run, "rejected", refusals.answered(run))
    return _decline(tables, flow, run)


def _decline(tables: WorkflowTables, flow: FlowRow, run: RunRow) -> RunRow:
    """Continue a chain with `next` and without its mutation: the plan was rejected or cancelled."""
    run = run_rows.move(tables, run, RunStep.SKIPPED)
    set_flow(tables, flow, block=None, block_kind=None, retry_at=tables.now)
    return run


def retry(tables: WorkflowTables, run_id: int) -> RunRow:
    """Retry now, with the failure count reset."""
    if is_held(tables, tables.run(run_id)):
        return _take_up_again(tables, tables.run(run_id))
    flow, run = _head(tables, run_id, "tried again")
    if flow.block_kind in _ANSWERED_ONLY:
        raise refusals.unanswered(tables, flow, run, "be tried again")
    if restart_of(EffectOutcome(run.outcome)) is Restart.WAIT:
        return reconcile_again(tables, run_id)
    if flow.block is None and not flow.repairing and flow.retry_at is not None and flow.retry_at <= tables.now:
        why = "it is about to be tried again anyway, as soon as a host runs it; nothing more is to be done"
        raise refusals.of_run(run, "tried again", why)
    set_flow(tables, flow, block=None, block_kind=None, failures=0, repairs=0, repairing=0, retry_at=tables.now)
    return run


def _take_up_again(tables: WorkflowTables, run: RunRow) -> RunRow:
    """A run that was set aside after its effect continues with `next`."""
    flow = tables.flow_of(run)
    if run.aside == "again":
        why = "it is taken up again anyway, as soon as a host runs it; nothing more is to be done"
        raise refusals.of_run(run, "tried again", why)
    if tables.handler(run.flow, run.kind, run.handler).gone:
        raise refusals.of_run(run, "tried again", refusals.no_handler(run))
    want_again(tables, flow, [run])
    return tables.run(run.id)


def abandon(tables: WorkflowTables, run_id: int) -> RunRow:
    """Set a run aside after its effect: `next` is not called again. Plan and result are kept, its events are parked."""
    run = tables.run(run_id)
    if is_held(tables, run):
        raise refusals.of_run(run, "abandoned", refusals.put_aside(run))
    flow, run = _head(tables, run_id, "abandoned")
    restart = restart_of(EffectOutcome(run.outcome))
    if restart is not Restart.EMIT:
        raise refusals.no_effect(flow, run, is_known=restart is Restart.FRESH)
    return put_aside(tables, flow, run, cancelled=1)


def cancel(tables: WorkflowTables, run_id: int) -> RunRow:
    """Cancel a run before its mutation: its events are skipped. After the mutation the run can only continue."""
    run = tables.run(run_id)
    if run.kind == "producer":
        why = f"it is of a producer, which changes nothing outside; pause the workflow: {_pausing(tables, run)}"
        raise refusals.of_run(run, "cancelled", why)
    if run.status == RunStatus.ACTIVE and run.phase in (RunPhase.PREPARING, RunPhase.PREPARED) and not run.cancelled:
        return run_rows.mark(tables, run, cancelled=1)
    if run.status == RunStatus.ACTIVE:
        how = "it was cancelled already, and stops before it acts" if run.cancelled else refusals.at_work(run)
        raise refusals.of_run(run, "cancelled", how if run.cancelled else f"{how}; from there it only goes forward")
    flow, run = _head(tables, run_id, "cancelled")
    if restart_of(EffectOutcome(run.outcome)) is not Restart.FRESH:
        raise refusals.has_effect(run)
    if run.error_kind == FailureKind.ASK and (flow.block_kind == "ask" or run.approval is not None):
        # The run holds its plan and its events. As after a rejection, `next` gets the answer.
        return run_rows.mark(tables, _decline(tables, flow, run), cancelled=1)
    run_rows.release(tables, run, EventStatus.SKIPPED, "skipped")
    tables.execute(
        "update flow_event set status = 'skipped' where status = 'pending' and id in "
        "(select event from flow_take where run = ?)",
        run.id,
    )
    set_flow(tables, flow, head=None, retry_at=None, block=None, block_kind=None, failures=0, repairing=0)
    return run_rows.mark(tables, run, cancelled=1)


def _pausing(tables: WorkflowTables, run: RunRow) -> str:
    return f"`headwater workflow pause {tables.flow_of(run).name}`"


# --- calls with an unknown outcome ----------------------------------------------------------------------------


def _unknown(tables: WorkflowTables, run_id: int) -> CallRow:
    run = tables.run(run_id)
    call = tables.call_of(run)
    is_given_up = run.cancelled and tables.flow_of(run).head != run.id
    if run.outcome != EffectOutcome.UNKNOWN or call is None or call.status not in _OPEN or is_given_up:
        raise refusals.not_unknown(tables, run, given_up=bool(is_given_up))
    return call


def reconcile_applied(tables: WorkflowTables, run_id: int, result: bytes) -> RunRow:
    """A person reports that the call happened, and its result, which `next` gets."""
    _unknown(tables, run_id)
    return applied(tables, run_id, result, "user_applied")


def reconcile_not_applied(tables: WorkflowTables, run_id: int) -> RunRow:
    """A person reports that the call did not happen: the run is prepared again."""
    _unknown(tables, run_id)
    return not_applied(tables, run_id, "a person said that it did not happen", "user_not_applied")


def reconcile_skip(tables: WorkflowTables, run_id: int) -> RunRow:
    """Continue without the call, whatever its outcome was."""
    _unknown(tables, run_id)
    run = tables.run(run_id)
    run_rows.resolve_call(tables, run, "user_skip", result=None, error="skipped by a person")
    run = run_rows.move(tables, run, RunStep.SKIPPED)
    set_flow(tables, tables.flow_of(run), block=None, block_kind=None, retry_at=tables.now)
    return run


def reconcile_again(tables: WorkflowTables, run_id: int) -> RunRow:
    """Ask the connector again, with the count of tries reset."""
    call = _unknown(tables, run_id)
    run = tables.run(run_id)
    if tables.flow_of(run).block_kind == "hung":
        why = (
            "its call has not come back, and may still act; it is looked up when it has, or when the host was started "
            f"anew. Or report the outcome: `headwater reconcile {run_id} --applied JSON`, `--not-applied`, `--skip`"
        )
        raise refusals.of_run(run, "looked up", why)
    if not tables.reconciles(run):
        raise refusals.of_run(run, "looked up", refusals.no_reconcile(run))
    if call.next_at is not None and call.next_at <= tables.now and not call.tries:
        why = "that is about to be asked anyway, as soon as a host runs it; nothing more is to be done"
        raise refusals.of_run(run, "looked up", why)
    run_rows.leave_call_open(tables, run, tables.now, error=call.error or "")
    set_flow(tables, tables.flow_of(run), block=None, block_kind=None)
    return run


# --- inputs ---------------------------------------------------------------------------------------------------


def find_input(tables: WorkflowTables, input_id: int) -> InputRow:
    """The row of an input. Raises NotFoundError."""
    row = None if abs(input_id) > NUMBER_MAX else tables.one(f"select {INPUT} from flow_input where id = ?", input_id)
    if row is None:
        raise NotFoundError(f"there is no input {input_id}; `headwater inputs ls` lists them", input=input_id)
    return InputRow(*row)


_CITING: Final = "id in (select event from flow_cause where input = ?)"
_CITED_IN: Final = (
    "select distinct topic.flow from flow_cause as cause join flow_event as event on event.id = cause.event "
    "join flow_topic as topic on topic.id = event.topic where cause.input = ?"
)


def skip_input(tables: WorkflowTables, input_id: int) -> int:
    """Skip the waiting events of an input and return how many. Events that a run holds are finished by that run."""
    found = find_input(tables, input_id)
    # Events that follow from it in other workflows are skipped, too.
    for row in tables.execute(_CITED_IN, input_id):
        for flow in tables.every_lane(row[0]):
            head = None if flow.head is None else tables.run(flow.head)
            if head is not None and flow.block_kind == "ask" and _cites(tables, head, input_id):
                # A plan with one of these events is void. The other events of the plan are planned again.
                run_rows.release(tables, head)
                set_flow(tables, flow, block=None, block_kind=None, retry_at=tables.now)
        tables.touch(row[0])
    count = tables.change(
        f"update flow_event set status = 'skipped' where status in ('pending', 'parked') and {_CITING}", input_id
    )
    if not count:
        raise refusals.of_input(tables, found, "skipped", "nothing of it waits any more")
    tables.execute("update flow_input set skipped_at = ? where id = ?", tables.now, input_id)
    return count


def _cites(tables: WorkflowTables, run: RunRow, input_id: int) -> bool:
    query = f"select 1 from flow_event where reserved_by = ? and {_CITING}"
    return tables.one(query, run.id, input_id) is not None


def reprocess(tables: WorkflowTables, name: str, input_id: int | None = None) -> int:
    """Make parked events pending again: those of one input, or all of a workflow. Returns how many."""
    found = None if input_id is None else find_input(tables, input_id)
    flow = find_flow(tables, name) if found is None else tables.flow(found.flow)
    # W5: events that were set aside with a run after its effect continue with that run.
    asides = held(tables, flow, input_id)
    here = [run for run in asides if not tables.handler(run.flow, run.kind, run.handler).gone]
    query = (
        "update flow_event set status = 'pending', attempt = attempt + 1 where status = 'parked' "
        f"and topic in (select id from flow_topic where flow = ?) and not {WITH_A_RUN}"
    )
    if input_id is None:
        count = tables.change(query, flow.id)
    else:
        count = tables.change(f"{query} and {_CITING}", flow.id, input_id)
    count += want_again(tables, flow, here)
    if not count and asides:
        raise refusals.of_run(asides[0], "tried again", refusals.no_handler(asides[0]))
    if not count and found is not None:
        raise refusals.of_input(tables, found, "tried again", "nothing of it is put aside")
    if not count:
        raise refusals.of_flow(flow, "be reprocessed", f"nothing of {flow.name} is parked, that is, put aside")
    for topic in tables.topics(flow.id):
        tables.published[flow.id, topic, None] = None
    tables.touch(flow.id)
    return count
