"""What people do to workflows and runs: each one transaction, refused if things are not so that it makes sense.

A second click finds that the first one was heard: it is refused and says what is so now.

Must never know: who asks, and whether a host is at work.
"""

from __future__ import annotations

from typing import Final

from headwater.errors import NotFoundError, TransitionError
from headwater.workflow import runs
from headwater.workflow.book import NUMBER_MAX, Book
from headwater.workflow.flows import set_flow, set_handler
from headwater.workflow.model import (
    INPUT,
    CallRow,
    CallStatus,
    FlowRow,
    InputRow,
    Intent,
    Outcome,
    Phase,
    RunRow,
    Status,
    Trouble,
)
from headwater.workflow.phases import Restart, Step, restart_of
from headwater.workflow.transitions import applied, not_applied

_OPEN: Final = (CallStatus.NEEDS_RECONCILE, CallStatus.INDETERMINATE)


def find_flow(book: Book, name: str) -> FlowRow:
    """By its name in full, or without its app's if that is clear. Raises NotFoundError."""
    flow = book.flow_named(name)
    if flow is not None:
        return flow
    names = [row[0] for row in book.execute("select name from flow order by name")]
    meant = [known for known in names if known.rpartition(".")[2] == name]
    if len(meant) == 1:
        found = book.flow_named(meant[0])
        assert found is not None
        return found
    there = f"there is {', '.join(names)}" if names else "none was deployed yet"
    raise NotFoundError(f"there is no workflow {name!r} here; {there}", workflow=name, known=tuple(names))


# --- workflows ------------------------------------------------------------------------------------------------


def pause(book: Book, name: str) -> FlowRow:
    """D14: nothing starts; a run that is under way stops before it acts. What blocks it is not touched."""
    flow = find_flow(book, name)
    if flow.intent != Intent.ACTIVE:
        raise TransitionError(f"{flow.name} is {flow.intent} already", workflow=flow.name)
    return set_flow(book, flow, intent=Intent.PAUSED)


def resume(book: Book, name: str) -> FlowRow:
    """Go on; whoever says so has mended what was in the way. If not, it stops again."""
    flow = find_flow(book, name)
    head = None if flow.head is None else book.run(flow.head)
    if flow.intent == Intent.ARCHIVED:
        raise TransitionError(f"{flow.name} is archived; restore it first", workflow=flow.name)
    if head is not None and flow.block_kind in ("ask", "indeterminate", "hung"):
        _check_answered(flow, head)
    if flow.intent == Intent.ACTIVE and flow.block is None and (flow.retry_at is None or flow.retry_at <= book.now):
        raise TransitionError(f"{flow.name} is not paused, and nothing blocks it", workflow=flow.name)
    flow = set_flow(book, flow, intent=Intent.ACTIVE, block=None, block_kind=None, failures=0, repairs=0, repairing=0)
    if head is not None and restart_of(Outcome(head.outcome)) is not Restart.WAIT:
        flow = set_flow(book, flow, retry_at=book.now)
    return flow


def _check_answered(flow: FlowRow, head: RunRow) -> None:
    if flow.block_kind == "ask":
        message = f"{flow.name} waits for an answer: `headwater approve {head.id}`, or `headwater reject {head.id}`"
    else:
        message = (
            f"{flow.name} waits to be told what became of run {head.id}: `headwater reconcile {head.id} --applied JSON`"
            ", `--not-applied`, `--skip` or `--again`"
        )
    raise TransitionError(message, workflow=flow.name, run=head.id)


def run_now(book: Book, name: str) -> FlowRow:
    """D11: every producer, one after the other. W14: refused while anything is under way, or in the way."""
    flow = find_flow(book, name)
    active = book.active(flow.id)
    if active is not None:
        message = f"{flow.name} is at work already (run {active.id} of {active.handler}); ask again when it is done"
        raise TransitionError(message, workflow=flow.name, run=active.id)
    if flow.intent != Intent.ACTIVE:
        raise TransitionError(f"{flow.name} is {flow.intent}; resume it first", workflow=flow.name)
    if flow.block is not None or flow.head is not None:
        why = flow.block or "a run of it is not finished"
        raise TransitionError(f"{flow.name} cannot run now: {why}", workflow=flow.name)
    producers = [row for row in book.handlers(flow.id) if row.kind == "producer"]
    if not producers:
        raise TransitionError(f"{flow.name} has no producer; it runs when something is published", workflow=flow.name)
    for row in producers:
        set_handler(book, row, next_run_at=book.now)
    return flow


def archive(book: Book, name: str) -> FlowRow:
    """Out of the way, with everything that is known of it."""
    flow = find_flow(book, name)
    if flow.intent != Intent.PAUSED or book.active(flow.id) is not None:
        raise TransitionError(f"{flow.name} is {flow.intent}, or at work; pause it first", workflow=flow.name)
    return set_flow(book, flow, intent=Intent.ARCHIVED)


def restore(book: Book, name: str) -> FlowRow:
    """Back, paused: that it runs again is a step of its own."""
    flow = find_flow(book, name)
    if flow.intent != Intent.ARCHIVED:
        raise TransitionError(f"{flow.name} is {flow.intent}, not archived", workflow=flow.name)
    return set_flow(book, flow, intent=Intent.PAUSED)


# --- runs -----------------------------------------------------------------------------------------------------


def _head(book: Book, run_id: int, what: str) -> tuple[FlowRow, RunRow]:
    """The run that a chain has stopped at. Raises TransitionError for any other."""
    run = book.run(run_id)
    flow = book.flow(run.flow)
    if flow.head != run.id or run.status in (Status.ACTIVE, Status.COMMITTED):
        later = book.one("select id from flow_run where retry_of = ?", run.id)
        follows = "" if later is None else f", and run {later[0]} has followed it"
        raise TransitionError(f"run {run_id} cannot be {what}: it is {run.status}{follows}", run=run_id)
    return flow, run


def approve(book: Book, run_id: int) -> RunRow:
    """Yes to the plan as it was shown; or: what was in the way is mended."""
    flow, run = _head(book, run_id, "approved")
    if run.status != Status.APPROVAL:
        raise TransitionError(f"run {run_id} does not wait for an approval: it is {run.status}", run=run_id)
    if flow.retry_at is not None:
        raise TransitionError(f"run {run_id} was answered already", run=run_id)
    if run.ask and run.phase == Phase.PREPARED:
        run = runs.mark(book, run, approval=plan_digest(run))
    set_flow(book, flow, block=None, block_kind=None, retry_at=book.now)
    return run


def plan_digest(run: RunRow) -> bytes:
    """What an approval is of."""
    return digest_of(run.prepare_result or b"")


def digest_of(plan: bytes) -> bytes:
    """The same, of a plan that is not kept yet."""
    from hashlib import sha256  # noqa: PLC0415  # only where somebody is asked

    return sha256(plan).digest()


def reject(book: Book, run_id: int) -> RunRow:
    """No: it is not done, what it was about is skipped, and `next` is told so."""
    flow, run = _head(book, run_id, "rejected")
    if run.error_kind != Trouble.ASK or run.phase != Phase.PREPARED or flow.retry_at is not None:
        why = "it was answered already" if run.error_kind == Trouble.ASK else f"it is {run.status}: {run.error}"
        raise TransitionError(f"run {run_id} does not wait for an approval of a plan: {why}", run=run_id)
    run = runs.move(book, run, Step.SKIPPED)
    set_flow(book, flow, block=None, block_kind=None, retry_at=book.now)
    return run


def retry(book: Book, run_id: int) -> RunRow:
    """Now, not later; and as if it had not failed before."""
    flow, run = _head(book, run_id, "tried again")
    if flow.block_kind in ("ask", "indeterminate", "hung"):
        _check_answered(flow, run)
    if restart_of(Outcome(run.outcome)) is Restart.WAIT:
        return reconcile_again(book, run_id)
    if flow.block is None and not flow.repairing and flow.retry_at is not None and flow.retry_at <= book.now:
        raise TransitionError(f"run {run_id} is about to be tried again", run=run_id)
    set_flow(book, flow, block=None, block_kind=None, failures=0, repairs=0, repairing=0, retry_at=book.now)
    return run


def cancel(book: Book, run_id: int) -> RunRow:
    """Before its mutation: it does not act, and what it was about is skipped. After it, only forward."""
    run = book.run(run_id)
    if run.kind == "producer":
        raise TransitionError(
            f"run {run_id} is of a producer, which changes nothing outside; pause the workflow", run=run_id
        )
    if run.status == Status.ACTIVE and run.phase in (Phase.PREPARING, Phase.PREPARED) and not run.cancelled:
        return runs.mark(book, run, cancelled=1)
    if run.status == Status.ACTIVE:
        raise TransitionError(f"run {run_id} cannot be cancelled: it is {run.phase}, outcome {run.outcome}", run=run_id)
    flow, run = _head(book, run_id, "cancelled")
    if restart_of(Outcome(run.outcome)) is not Restart.FRESH:
        advice = {
            Outcome.APPLIED: "its effect is there, so `next` has to run",
            Outcome.SKIPPED: "it was skipped already, and `next` has to be told",
        }.get(Outcome(run.outcome), "reconcile it")
        raise TransitionError(f"run {run_id} cannot be cancelled: {advice}", run=run_id)
    runs.release(book, run, "skipped", "skipped")
    book.execute(
        "update flow_event set status = 'skipped' where status = 'pending' and id in "
        "(select event from flow_take where run = ?)",
        run.id,
    )
    set_flow(book, flow, head=None, retry_at=None, block=None, block_kind=None, failures=0, repairing=0)
    return runs.mark(book, run, cancelled=1)


# --- calls that nobody knows of -------------------------------------------------------------------------------


def _unknown(book: Book, run_id: int) -> CallRow:
    run = book.run(run_id)
    call = book.call_of(run)
    is_given_up = run.cancelled and book.flow(run.flow).head != run.id
    if run.outcome != Outcome.UNKNOWN or call is None or call.status not in _OPEN or is_given_up:
        state = "it is being called right now" if run.outcome == Outcome.UNKNOWN else f"its outcome is {run.outcome}"
        state = "it was given up" if is_given_up else state
        raise TransitionError(f"there is nothing to be said of run {run_id}: {state}", run=run_id)
    return call


def reconcile_applied(book: Book, run_id: int, result: bytes) -> RunRow:
    """A person says that it happened, and what came of it: `next` gets that."""
    _unknown(book, run_id)
    return applied(book, run_id, result, "user_applied")


def reconcile_not_applied(book: Book, run_id: int) -> RunRow:
    """A person says that it did not happen: it is prepared anew."""
    _unknown(book, run_id)
    return not_applied(book, run_id, "a person said that it did not happen", "user_not_applied")


def reconcile_skip(book: Book, run_id: int) -> RunRow:
    """Whatever it was: go on without it."""
    _unknown(book, run_id)
    run = book.run(run_id)
    runs.resolve_call(book, run, "user_skip", result=None, error="skipped by a person")
    run = runs.move(book, run, Step.SKIPPED)
    set_flow(book, book.flow(run.flow), block=None, block_kind=None, retry_at=book.now)
    return run


def reconcile_again(book: Book, run_id: int) -> RunRow:
    """Ask the connector again, as if it had not been asked."""
    call = _unknown(book, run_id)
    run = book.run(run_id)
    if book.flow(run.flow).block_kind == "hung":
        message = (
            f"the call of run {run_id} has not come back, and may still have its effect: it is asked about when it"
        )
        raise TransitionError(f"{message} has, or after a restart of the host; or say what became of it", run=run_id)
    if call.next_at is not None and call.next_at <= book.now and not call.tries:
        raise TransitionError(f"what became of run {run_id} is about to be asked", run=run_id)
    runs.leave_call_open(book, run, book.now, error=call.error or "")
    set_flow(book, book.flow(run.flow), block=None, block_kind=None)
    return run


# --- inputs ---------------------------------------------------------------------------------------------------


def find_input(book: Book, input_id: int) -> InputRow:
    """Raises NotFoundError."""
    row = None if abs(input_id) > NUMBER_MAX else book.one(f"select {INPUT} from flow_input where id = ?", input_id)
    if row is None:
        raise NotFoundError(f"there is no input {input_id}; `headwater inputs ls` lists them", input=input_id)
    return InputRow(*row)


_CITING: Final = "id in (select event from flow_cause where input = ?)"
_CITED_IN: Final = (
    "select distinct topic.flow from flow_cause as cause join flow_event as event on event.id = cause.event "
    "join flow_topic as topic on topic.id = event.topic where cause.input = ?"
)


def skip_input(book: Book, input_id: int) -> int:
    """What waits because of it is done with; how many events that were. What a run holds is finished by it."""
    found = find_input(book, input_id)
    # Also those that were published to another workflow because of it.
    for row in book.execute(_CITED_IN, input_id):
        flow = book.flow(row[0])
        head = None if flow.head is None else book.run(flow.head)
        if head is not None and flow.block_kind == "ask" and _cites(book, head, input_id):
            # It was about to be acted on: that plan is void, and the others of it are planned anew.
            runs.release(book, head)
            set_flow(book, flow, block=None, block_kind=None, retry_at=book.now)
        book.touch(flow.id)
    count = book.change(
        f"update flow_event set status = 'skipped' where status in ('pending', 'parked') and {_CITING}", input_id
    )
    if not count:
        message = f"nothing of input {input_id} ({found.title}) waits any more"
        raise TransitionError(message, input=input_id)
    book.execute("update flow_input set skipped_at = ? where id = ?", book.now, input_id)
    return count


def _cites(book: Book, run: RunRow, input_id: int) -> bool:
    query = f"select 1 from flow_event where reserved_by = ? and {_CITING}"
    return book.one(query, run.id, input_id) is not None


def reprocess(book: Book, name: str, input_id: int | None = None) -> int:
    """Parked events wait again: those of one input, or all of a workflow. How many that are."""
    flow = find_flow(book, name) if input_id is None else book.flow(find_input(book, input_id).flow)
    query = (
        "update flow_event set status = 'pending', attempt = attempt + 1 where status = 'parked' "
        "and topic in (select id from flow_topic where flow = ?)"
    )
    if input_id is None:
        count = book.change(query, flow.id)
    else:
        count = book.change(f"{query} and {_CITING}", flow.id, input_id)
    if not count:
        raise TransitionError(f"nothing of {flow.name} is parked", workflow=flow.name)
    for topic in book.topics(flow.id):
        book.published[flow.id, topic] = None
    book.touch(flow.id)
    return count
