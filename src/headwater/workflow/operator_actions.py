"""Actions of people on workflows and runs, one transaction each.

A second click finds that the first one was heard: it is refused and says what is so now.
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
"""What only an answer ends."""

_OPEN: Final = (CallStatus.NEEDS_RECONCILE, CallStatus.INDETERMINATE)


def find_flow(tables: WorkflowTables, name: str) -> FlowRow:
    """By its name in full, or without its app's if that is clear. Raises NotFoundError."""
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
    """D14: nothing starts; a run that is under way stops before it acts. What blocks it is not touched."""
    flow = find_flow(tables, name)
    if flow.intent == Intent.PAUSED:
        why = f"it is paused already; `headwater workflow resume {flow.name}` lets it go on"
        raise refusals.of_flow(flow, "be paused", why)
    if flow.intent == Intent.ARCHIVED:
        raise refusals.of_flow(flow, "be paused", refusals.wanted(flow))
    return set_flow(tables, flow, intent=Intent.PAUSED)


def resume(tables: WorkflowTables, name: str) -> FlowRow:
    """Go on: the person says that the cause is fixed. If not, it stops again."""
    flow = find_flow(tables, name)
    head = None if flow.head is None else tables.run(flow.head)
    if flow.intent == Intent.ARCHIVED:
        raise refusals.of_flow(flow, "be resumed", refusals.wanted(flow))
    if head is not None and flow.block_kind in _ANSWERED_ONLY and flow.intent == Intent.PAUSED:
        # The pause is over; the question stays.
        return set_flow(tables, flow, intent=Intent.ACTIVE)
    if head is not None and flow.block_kind in _ANSWERED_ONLY:
        raise refusals.unanswered(tables, flow, head, "be resumed")
    if flow.intent == Intent.ACTIVE and flow.block is None and (flow.retry_at is None or flow.retry_at <= tables.now):
        why = "it is not paused, and nothing blocks it; nothing is to be done"
        raise refusals.of_flow(flow, "be resumed", why)
    flow = set_flow(tables, flow, intent=Intent.ACTIVE, block=None, block_kind=None, failures=0, repairs=0, repairing=0)
    if head is not None and restart_of(EffectOutcome(head.outcome)) is not Restart.WAIT:
        flow = set_flow(tables, flow, retry_at=tables.now)
    return flow


def run_now(tables: WorkflowTables, name: str) -> FlowRow:
    """D11: every producer, one after the other. W14: refused while anything is under way, or in the way."""
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
        # Kept: the run that begins says so, also if no host runs it before a restart.
        set_handler(tables, row, next_run_at=tables.now, asked=1)
    return flow


def archive(tables: WorkflowTables, name: str) -> FlowRow:
    """Out of the way, with everything that is known of it."""
    flow = find_flow(tables, name)
    if flow.intent == Intent.ARCHIVED:
        why = f"it is archived already; `headwater workflow restore {flow.name}` brings it back"
        raise refusals.of_flow(flow, "be archived", why)
    if flow.intent != Intent.PAUSED:
        why = f"it is not paused; pause it first: `headwater workflow pause {flow.name}`"
        raise refusals.of_flow(flow, "be archived", why)
    active = tables.active(flow.id)
    if active is not None:
        why = f"run {active.id} of {active.handler} is still at work; ask again when it has stopped"
        raise refusals.of_flow(flow, "be archived", why, active.id)
    return set_flow(tables, flow, intent=Intent.ARCHIVED)


def restore(tables: WorkflowTables, name: str) -> FlowRow:
    """Back, paused: that it runs again is a step of its own."""
    flow = find_flow(tables, name)
    if flow.intent != Intent.ARCHIVED:
        how = "paused; `headwater workflow resume` lets it go on" if flow.intent == Intent.PAUSED else "active"
        raise refusals.of_flow(flow, "be restored", f"it is not archived, but {how}")
    return set_flow(tables, flow, intent=Intent.PAUSED)


# --- runs -----------------------------------------------------------------------------------------------------


def _head(tables: WorkflowTables, run_id: int, what: str) -> tuple[FlowRow, RunRow]:
    """The run that a chain has stopped at. Raises TransitionError for any other."""
    run = tables.run(run_id)
    flow = tables.flow(run.flow)
    if flow.head != run.id or run.status in (RunStatus.ACTIVE, RunStatus.COMMITTED):
        raise refusals.not_open(tables, run, what)
    return flow, run


def approve(tables: WorkflowTables, run_id: int) -> RunRow:
    """Yes to the plan as it was shown; or: what was in the way is mended."""
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
    """What an approval is of."""
    return digest_of(run.prepare_result or b"")


def digest_of(plan: bytes) -> bytes:
    """The same, of a plan that is not kept yet."""
    return sha256(plan).digest()


def reject(tables: WorkflowTables, run_id: int) -> RunRow:
    """No: it is not done, what it was about is skipped, and `next` is told so."""
    flow, run = _head(tables, run_id, "rejected")
    if run.error_kind != FailureKind.ASK:
        why = f"it has no plan that waits for an answer: {refusals.waits_for_other(flow, run)}"
        raise refusals.of_run(run, "rejected", why)
    if flow.retry_at is not None:
        raise refusals.of_run(run, "rejected", refusals.answered(run))
    return _decline(tables, flow, run)


def _decline(tables: WorkflowTables, flow: FlowRow, run: RunRow) -> RunRow:
    """What a run has planned is not done: its chain goes on with `next`, which is told so."""
    run = run_rows.move(tables, run, RunStep.SKIPPED)
    set_flow(tables, flow, block=None, block_kind=None, retry_at=tables.now)
    return run


def retry(tables: WorkflowTables, run_id: int) -> RunRow:
    """Now, not later; and as if it had not failed before."""
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
    """A run that was put aside after its effect goes on with `next`."""
    flow = tables.flow(run.flow)
    if run.aside == "again":
        why = "it is taken up again anyway, as soon as a host runs it; nothing more is to be done"
        raise refusals.of_run(run, "tried again", why)
    if tables.handler(run.flow, run.kind, run.handler).gone:
        raise refusals.of_run(run, "tried again", refusals.no_handler(run))
    want_again(tables, flow, [run])
    return tables.run(run.id)


def abandon(tables: WorkflowTables, run_id: int) -> RunRow:
    """After its effect: `next` is not called any more. Plan and result are kept, and what it was about is parked."""
    run = tables.run(run_id)
    if is_held(tables, run):
        raise refusals.of_run(run, "abandoned", refusals.put_aside(run))
    flow, run = _head(tables, run_id, "abandoned")
    restart = restart_of(EffectOutcome(run.outcome))
    if restart is not Restart.EMIT:
        raise refusals.no_effect(flow, run, is_known=restart is Restart.FRESH)
    return put_aside(tables, flow, run, cancelled=1)


def cancel(tables: WorkflowTables, run_id: int) -> RunRow:
    """Before its mutation: it does not act, and what it was about is skipped. After it, only forward."""
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
        # It holds its plan and what that takes: as if it was rejected, `next` is told.
        return run_rows.mark(tables, _decline(tables, flow, run), cancelled=1)
    run_rows.release(tables, run, "skipped", "skipped")
    tables.execute(
        "update flow_event set status = 'skipped' where status = 'pending' and id in "
        "(select event from flow_take where run = ?)",
        run.id,
    )
    set_flow(tables, flow, head=None, retry_at=None, block=None, block_kind=None, failures=0, repairing=0)
    return run_rows.mark(tables, run, cancelled=1)


def _pausing(tables: WorkflowTables, run: RunRow) -> str:
    return f"`headwater workflow pause {tables.flow(run.flow).name}`"


# --- calls with an unknown outcome ----------------------------------------------------------------------------


def _unknown(tables: WorkflowTables, run_id: int) -> CallRow:
    run = tables.run(run_id)
    call = tables.call_of(run)
    is_given_up = run.cancelled and tables.flow(run.flow).head != run.id
    if run.outcome != EffectOutcome.UNKNOWN or call is None or call.status not in _OPEN or is_given_up:
        raise refusals.not_unknown(tables, run, given_up=bool(is_given_up))
    return call


def reconcile_applied(tables: WorkflowTables, run_id: int, result: bytes) -> RunRow:
    """A person says that it happened, and what came of it: `next` gets that."""
    _unknown(tables, run_id)
    return applied(tables, run_id, result, "user_applied")


def reconcile_not_applied(tables: WorkflowTables, run_id: int) -> RunRow:
    """A person says that it did not happen: it is prepared anew."""
    _unknown(tables, run_id)
    return not_applied(tables, run_id, "a person said that it did not happen", "user_not_applied")


def reconcile_skip(tables: WorkflowTables, run_id: int) -> RunRow:
    """Whatever it was: go on without it."""
    _unknown(tables, run_id)
    run = tables.run(run_id)
    run_rows.resolve_call(tables, run, "user_skip", result=None, error="skipped by a person")
    run = run_rows.move(tables, run, RunStep.SKIPPED)
    set_flow(tables, tables.flow(run.flow), block=None, block_kind=None, retry_at=tables.now)
    return run


def reconcile_again(tables: WorkflowTables, run_id: int) -> RunRow:
    """Ask the connector again, as if it had not been asked."""
    call = _unknown(tables, run_id)
    run = tables.run(run_id)
    if tables.flow(run.flow).block_kind == "hung":
        why = (
            "its call has not come back, and may still act; it is looked up when it has, or when the host was started "
            f"anew. Or say what became of it: `headwater reconcile {run_id} --applied JSON`, `--not-applied`, `--skip`"
        )
        raise refusals.of_run(run, "looked up", why)
    if not tables.reconciles(run):
        raise refusals.of_run(run, "looked up", refusals.no_reconcile(run))
    if call.next_at is not None and call.next_at <= tables.now and not call.tries:
        why = "that is about to be asked anyway, as soon as a host runs it; nothing more is to be done"
        raise refusals.of_run(run, "looked up", why)
    run_rows.leave_call_open(tables, run, tables.now, error=call.error or "")
    set_flow(tables, tables.flow(run.flow), block=None, block_kind=None)
    return run


# --- inputs ---------------------------------------------------------------------------------------------------


def find_input(tables: WorkflowTables, input_id: int) -> InputRow:
    """Raises NotFoundError."""
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
    """What waits because of it is done with; how many events that were. What a run holds is finished by it."""
    found = find_input(tables, input_id)
    # Also those that were published to another workflow because of it.
    for row in tables.execute(_CITED_IN, input_id):
        flow = tables.flow(row[0])
        head = None if flow.head is None else tables.run(flow.head)
        if head is not None and flow.block_kind == "ask" and _cites(tables, head, input_id):
            # It was about to be acted on: that plan is void, and the others of it are planned anew.
            run_rows.release(tables, head)
            set_flow(tables, flow, block=None, block_kind=None, retry_at=tables.now)
        tables.touch(flow.id)
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
    """Parked events wait again: those of one input, or all of a workflow. How many that are."""
    found = None if input_id is None else find_input(tables, input_id)
    flow = find_flow(tables, name) if found is None else tables.flow(found.flow)
    # W5: what was put aside with a run goes on with that run, after its effect.
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
        tables.published[flow.id, topic] = None
    tables.touch(flow.id)
    return count
