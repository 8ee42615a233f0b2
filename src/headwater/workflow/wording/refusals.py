"""Why an action on a run or workflow is refused, and what to do instead."""

from __future__ import annotations

from typing import Final

from headwater.errors import TransitionError
from headwater.workflow.rows import EffectOutcome, FlowRow, InputRow, Intent, RunPhase, RunRow, RunStatus
from headwater.workflow.set_aside import is_held
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.story import one_line, over

_SHOWN: Final = 160
"""Characters of an error that are part of a refusal."""

# --- workflows ------------------------------------------------------------------------------------------------


def of_flow(flow: FlowRow, what: str, why: str, run: int | None = None) -> TransitionError:
    """`what`: as in "cannot be paused"."""
    message = f"{flow.name} cannot {what}: {why}"
    if run is None:
        return TransitionError(message, workflow=flow.name)
    return TransitionError(message, workflow=flow.name, run=run)


def wanted(flow: FlowRow) -> str:
    """That the workflow is paused or archived, and how to undo that."""
    if flow.intent == Intent.ARCHIVED:
        return f"it is archived; restore it first: `headwater workflow restore {flow.name}`"
    return f"it is paused; resume it first: `headwater workflow resume {flow.name}`"


def unanswered(tables: WorkflowTables, flow: FlowRow, head: RunRow, what: str) -> TransitionError:
    """The error if a run waits for an answer that nothing else replaces."""
    if flow.block_kind == "ask":
        why = f"run {head.id} waits for an answer first: `headwater approve {head.id}`, or `headwater reject {head.id}`"
    else:
        others = "`--not-applied`, `--skip` or `--again`" if tables.reconciles(head) else "`--not-applied` or `--skip`"
        why = f"it waits for the outcome of run {head.id}: `headwater reconcile {head.id} --applied JSON`, {others}"
    return of_flow(flow, what, why, head.id)


def in_the_way(flow: FlowRow) -> str:
    """What has to be finished before a workflow can start something."""
    if flow.block is not None:
        text = one_line(flow.block, _SHOWN).rstrip(". ")
        return f"it waits for a person: {text}; `headwater workflow show {flow.name}` shows what to type"
    return f"run {flow.head} is not finished, and goes on by itself; ask again when it is done"


# --- runs -----------------------------------------------------------------------------------------------------


def of_run(run: RunRow, what: str, why: str) -> TransitionError:
    """`what`: as in "cannot be approved"."""
    return TransitionError(f"run {run.id} cannot be {what}: {why}", run=run.id)


def not_open(tables: WorkflowTables, run: RunRow, what: str) -> TransitionError:
    """The error if the chain has not stopped at this run."""
    return of_run(run, what, _how(tables, run))


def _how(tables: WorkflowTables, run: RunRow) -> str:
    if run.status == RunStatus.ACTIVE:
        return f"{at_work(run)}; `headwater runs show {run.id}` shows how far it is"
    if run.status == RunStatus.COMMITTED:
        return f"it is done already; `headwater runs show {run.id}` shows the result"
    row = tables.one("select id from flow_run where retry_of = ?", run.id)
    later: int | None = None if row is None else row[0]
    word = over(run, tables.call_of(run), tables.flow_of(run), later) or "stopped"
    said = "it failed" if word == "failed" else f"it was {word}"
    if later is not None:
        return f"{said}, and run {later} has followed it; `headwater runs show {_last(tables, later)}` shows that run"
    if is_held(tables, run):
        return put_aside(run)
    if word == "put aside" and run.aside is None:
        name = tables.flow_of(run).name
        return f"what it was about was put aside; `headwater workflow reprocess {name}` tries it again"
    return f"{said} already, and nothing is left to be done"


def _last(tables: WorkflowTables, later: int) -> int:
    """The newest run of its chain."""
    while (row := tables.one("select id from flow_run where retry_of = ?", later)) is not None:
        later = row[0]
    return later


def at_work(run: RunRow) -> str:
    """What a run that is being executed does right now."""
    if run.phase in (RunPhase.PREPARING, RunPhase.PREPARED):
        doing = "and has not acted yet" if run.kind == "consumer" else "and changes nothing outside"
        return f"it is at work, {doing}"
    if run.outcome == EffectOutcome.UNKNOWN:
        return "it is acting right now: its call has left and has not come back"
    return "it has acted, and is being finished" if run.outcome == EffectOutcome.APPLIED else "it is being finished"


def answered(run: RunRow) -> str:
    """The refusal for a run that has its answer and has not continued yet."""
    if run.outcome == EffectOutcome.SKIPPED:
        said = "it was cancelled already" if run.cancelled else "it was rejected already"
        return f"{said}; a host tells `next` so, and nothing more is to be done"
    return "it was approved already; it goes on as soon as a host runs it, and nothing more is to be done"


def waits_for_other(flow: FlowRow, run: RunRow) -> str:
    """What a stopped run waits for, and what a person can do."""
    # What is stored of a crash names the phase.
    ended = "the host ended in the middle of it" if run.status == RunStatus.CRASHED else run.error
    error = one_line(ended or "no reason is known", _SHOWN).rstrip(". ")
    if run.status in (RunStatus.RECONCILIATION, RunStatus.CRASHED) and run.outcome == EffectOutcome.UNKNOWN:
        return (
            f"it is not known whether its call happened; say so: `headwater reconcile {run.id} --applied JSON`, "
            "`--not-applied` or `--skip`"
        )
    if run.status == RunStatus.APPROVAL:
        return f"it waits for something else: {error}; when that is there, `headwater approve {run.id}`"
    if flow.block is not None:
        return f"it failed ({error}); when that is fixed, `headwater workflow resume {flow.name}` tries it again"
    return f"it has stopped ({error}), and is tried again by itself; `headwater runs retry {run.id}` does so now"


def put_aside(run: RunRow) -> str:
    """The refusal for a run that was set aside after its effect."""
    return f"it was put aside already, with the result of its call; `headwater runs retry {run.id}` takes it up again"


def no_reconcile(run: RunRow) -> str:
    """The refusal for a run whose program cannot look its call up."""
    return (
        f"{run.handler} has no `reconcile` that could look it up; check the service, then report the outcome: "
        f"`headwater reconcile {run.id} --applied JSON`, `--not-applied` or `--skip`"
    )


def no_handler(run: RunRow) -> str:
    """The refusal for a run whose handler is gone."""
    return f"its handler {run.handler} is not in the program any more; bring it back, then say it again"


def no_effect(flow: FlowRow, run: RunRow, *, is_known: bool) -> TransitionError:
    """The error if a run without an effect is to be abandoned."""
    if not is_known:
        why = (
            f"it is not known whether its call happened; say so first: `headwater reconcile {run.id} --applied JSON`, "
            "`--not-applied` or `--skip`"
        )
    elif run.kind == "producer":
        pausing = f"`headwater workflow pause {flow.name}`"
        why = f"it is of a producer, which changes nothing outside; pause the workflow: {pausing}"
    else:
        why = f"nothing was done outside; `headwater runs cancel {run.id}` gives it up"
    return of_run(run, "abandoned", why)


_EFFECTS: Final = {
    EffectOutcome.APPLIED: "its effect is there, so `next` has to run",
    EffectOutcome.SKIPPED: "it was skipped already, and `next` has to run",
    EffectOutcome.UNKNOWN: "it is not known whether its call happened; say so first",
}


def has_effect(run: RunRow) -> TransitionError:
    """The error if a run with an effect, or with an unknown one, is to be cancelled."""
    advice = {
        EffectOutcome.UNKNOWN: f": `headwater reconcile {run.id} --skip` goes on without it",
        EffectOutcome.APPLIED: f"; `headwater runs retry {run.id}` does that now, `headwater runs abandon {run.id}` "
        "goes on without it",
        EffectOutcome.SKIPPED: f"; `headwater runs abandon {run.id}` goes on without that",
    }
    outcome = EffectOutcome(run.outcome)
    return of_run(run, "cancelled", f"{_EFFECTS[outcome]}{advice.get(outcome, '')}")


_KNOWN: Final = {
    EffectOutcome.NONE: "it has called nothing outside, so there is nothing to find out",
    EffectOutcome.APPLIED: "it is known already that its call happened",
    EffectOutcome.FAILED: "it is known already that its call did not happen",
    EffectOutcome.SKIPPED: "it was skipped already",
}


def not_unknown(tables: WorkflowTables, run: RunRow, *, given_up: bool) -> TransitionError:
    """The error if the outcome of a run's call is not open."""
    if run.outcome == EffectOutcome.UNKNOWN:
        busy = "its call is under way right now; ask again when it has come back, or its time is up"
        why = "it was given up, and nothing waits for the answer" if given_up else busy
    else:
        row = tables.one("select id from flow_run where retry_of = ?", run.id)
        later = "" if row is None else f", and run {row[0]} has followed it"
        why = f"{_KNOWN[EffectOutcome(run.outcome)]}{later}; `headwater runs show {run.id}` shows all of it"
    return of_run(run, "reconciled", why)


# --- inputs ---------------------------------------------------------------------------------------------------

_ABOUT: Final = "from flow_cause as cause join flow_event as event on event.id = cause.event where cause.input = ?"


def of_input(tables: WorkflowTables, found: InputRow, what: str, why: str) -> TransitionError:
    """`what`: as in "cannot be skipped"."""
    held = tables.one(f"select event.reserved_by {_ABOUT} and event.reserved_by is not null", found.id)
    states = {row[0] for row in tables.execute(f"select distinct event.status {_ABOUT}", found.id)}
    if held is not None:
        now = f"run {held[0]} is at it: `headwater runs show {held[0]}` shows how far that is"
    elif "pending" in states:
        now = "it waits to be handled"
    elif "parked" in states:
        # Events of its own workflow were checked before.
        now = f"events that follow from it are parked: `headwater workflow reprocess {_parked_in(tables, found)}`"
    elif found.skipped_at is not None or states == {"skipped"}:
        now = "it was skipped already"
    else:
        now = "it is done"
    return TransitionError(f"input {found.id} ({found.title}) cannot be {what}: {why}; {now}", input=found.id)


def _parked_in(tables: WorkflowTables, found: InputRow) -> str:
    query = (
        "select flow.name from flow_cause as cause join flow_event as event on event.id = cause.event "
        "join flow_topic as topic on topic.id = event.topic join flow on flow.id = topic.flow "
        "where cause.input = ? and event.status = 'parked' limit 1"
    )
    name: str = tables.execute(query, found.id)[0][0]
    return name
