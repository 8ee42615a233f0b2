"""The story of a run, in sentences: why it started, how far it came, and what became of it and of its call.

Made from rows alone, and without the time: whoever shows it says when.

Must never know: how it is shown.
"""

from __future__ import annotations

from typing import Final

from headwater.workflow.model import CallRow, CallStatus, FlowRow, Outcome, Phase, RunRow, Status, Trouble, Why

ERROR_SHOWN: Final = 300
"""Characters of an error in a sentence: all of it is kept with the run."""

_BECAUSE: Final = {
    Why.DEPLOY: "a version was deployed",
    Why.EVENT: "events came in",
    Why.WAKE: "it had asked to be woken",
    Why.SCHEDULE: "its time had come",
    Why.MANUAL: "somebody asked for it",
    Why.RETRY: "the attempt before had failed",
    Why.RECOVERY: "the attempt before was interrupted",
    Why.APPROVED: "what it waited for was granted",
    Why.RECONCILED: "it was found out what became of its call",
    Why.FIXED: "its code was repaired",
}


def because(run: RunRow, before: RunRow | None) -> str:
    """What it was started for. "events came in"."""
    why = Why(run.why)
    if before is not None and why is Why.RETRY and before.error_kind == Trouble.STOPPED:
        return "the attempt before was stopped"
    if before is not None and why is Why.APPROVED and before.outcome == Outcome.SKIPPED:
        return "its plan was rejected"
    return _BECAUSE[why]


def reached(run: RunRow) -> str:
    """How far it came. "planned Append 2 rows with 2 of 5 events, then acted"."""
    if run.kind == "producer":
        return "polled" if run.phase == Phase.COMMITTED else "was polling"
    if run.effect_of is not None:
        return f"went on after the call of run {run.effect_of}"
    if run.phase == Phase.PREPARING:
        return "was preparing"
    if run.phase == Phase.COMMITTED and not run.taken and run.outcome == Outcome.NONE and not run.title:
        return "prepared"
    title = one_line(run.title)
    plan = f'planned "{title}" with' if title else "made a plan with"
    events = f"{run.taken} of {run.offered} events" if run.offered > run.taken else _count(run.taken)
    acted = " and acted" if run.outcome in (Outcome.UNKNOWN, Outcome.APPLIED, Outcome.FAILED) else ""
    return f"{plan} {events}{acted}"


def _count(events: int) -> str:
    return "1 event" if events == 1 else f"{events} events"


def sentence(run: RunRow, call: CallRow | None, flow: FlowRow, *, followed: bool) -> str:
    """What became of it. `call` is its own; `followed`: a later attempt of its chain is there."""
    match Status(run.status):
        case Status.ACTIVE:
            return _at_work(run)
        case Status.COMMITTED:
            return _done(run)
        case Status.CRASHED:
            return _crashed(run, call)
        case Status.APPROVAL:
            return _asked(run, flow, followed=followed)
        case Status.RECONCILIATION:
            return f"{_why_unknown(run, call)}; {_known(run, call)}."
        case Status.TRANSIENT | Status.LOGIC | Status.INTERNAL:
            return _failed(run, flow, followed=followed)


def _at_work(run: RunRow) -> str:
    if run.cancelled:
        return "At work; it was cancelled, and stops before it acts."
    if run.kind == "producer":
        return "At work: polling."
    return {
        Phase.PREPARING: "At work: preparing.",
        Phase.PREPARED: "At work: it has a plan.",
        Phase.MUTATING: "At work: its call is under way.",
    }.get(Phase(run.phase), "At work: going on after its plan.")


def _done(run: RunRow) -> str:
    if run.kind == "producer":
        return "Done."
    if run.outcome == Outcome.SKIPPED:
        return "Skipped: a person decided that it is not done."
    return "Done." if run.taken or run.title else "Found nothing to do."


def _crashed(run: RunRow, call: CallRow | None) -> str:
    if call is None or run.effect_of is not None:
        doing = {
            Phase.PREPARING: "polling" if run.kind == "producer" else "preparing",
            Phase.PREPARED: "about to act",
        }.get(Phase(run.phase), "going on after its call")
        return f"Interrupted: the host ended while it was {doing}."
    if call.resolved_by == "call":
        return "Interrupted: the host ended after its call had come back."
    return f"Crashed while its call was under way; {_known(run, call)}."


def _why_unknown(run: RunRow, call: CallRow | None) -> str:
    """Of a call that the host was there for."""
    error = one_line((call.error if call is not None else None) or "")
    # What resolved it has taken the place of what had been the matter.
    if call is None or call.status in (CallStatus.APPLIED, CallStatus.FAILED):
        _, _, error = one_line(run.error or "").partition("happened: ")
    return f"Its call ended without an answer ({error})" if error else "Its call ended without an answer"


def _known(run: RunRow, call: CallRow | None) -> str:
    """What has become of a call that nobody knew of."""
    by_person = call is not None and (call.resolved_by or "").startswith("user")
    who = "a person said" if by_person else "found out"
    match run.outcome:
        case Outcome.APPLIED:
            return "a person said that it had happened" if by_person else "found out later that it had happened"
        case Outcome.FAILED:
            return f"{who} that it had not happened" if by_person else "found out later that it had not happened"
        case Outcome.SKIPPED:
            return "a person decided to go on without it"
        case _ if call is not None and call.status == CallStatus.NEEDS_RECONCILE:
            return "finding out whether it happened"
        case _:
            return "nobody knows whether it happened: a person has to say"


def _asked(run: RunRow, flow: FlowRow, *, followed: bool) -> str:
    if run.error_kind != Trouble.ASK:
        need = "a permission" if run.error_kind == Trouble.PERMISSION else "somebody to sign in again"
        return f"{'Waited' if followed else 'Waits'} for {need}: {_error(run)}."
    if run.outcome == Outcome.SKIPPED:
        return "A person rejected its plan."
    if run.cancelled:
        return "A person cancelled it."
    if flow.head != run.id:
        return "Waited for an approval."
    # What was in its way is gone, and nobody has taken it up yet.
    return "Waits for your approval." if flow.block is not None else "Goes on in a moment."


def _failed(run: RunRow, flow: FlowRow, *, followed: bool) -> str:
    if run.error_kind == Trouble.STOPPED:
        return "Stopped before it acted: the workflow was paused, or the host ended."
    after = " after its call had happened" if run.outcome == Outcome.APPLIED else ""
    undone = "; its call had no effect" if run.outcome == Outcome.FAILED else ""
    what = "Failed inside of the host or a connector" if run.status == Status.INTERNAL else "Failed"
    text = f"{what}{after}: {_error(run)}{undone}"
    if run.cancelled:
        return f"{text}. A person cancelled it."
    if followed or flow.head != run.id:
        return f"{text}."
    if flow.block is not None:
        return f"{text}. Waits for a person."
    if flow.repairing:
        return f"{text}. A repair is under way."
    return f"{text}. It is tried again."


def call_sentence(call: CallRow) -> str:
    """What is known of a call to the outside."""
    match CallStatus(call.status):
        case CallStatus.IN_FLIGHT:
            return "It is under way."
        case CallStatus.NEEDS_RECONCILE:
            return f"Nobody knows yet whether it happened{_asked_about(call)}."
        case CallStatus.INDETERMINATE:
            return f"Nobody knows whether it happened{_asked_about(call)}. A person has to say."
        case CallStatus.APPLIED | CallStatus.FAILED:
            return _RESOLVED[call.resolved_by or "call", call.status == CallStatus.APPLIED]


_RESOLVED: Final = {
    ("call", True): "It happened.",
    ("call", False): "It did not happen: whoever was called said so.",
    ("reconciliation", True): "It happened: that was found out by looking it up.",
    ("reconciliation", False): "It did not happen: that was found out by looking it up.",
    ("user_applied", True): "It happened: a person said so.",
    ("user_not_applied", False): "It did not happen: a person said so.",
    ("user_skip", False): "Nobody knows whether it happened: a person decided to go on without it.",
}


def _asked_about(call: CallRow) -> str:
    times = "once" if call.tries == 1 else f"{call.tries} times"
    return f"; it was looked up {times}" if call.tries else ""


def _error(run: RunRow) -> str:
    return one_line(run.error or "no reason is known").rstrip(". ")


def one_line(text: str, most: int = ERROR_SHOWN) -> str:
    """The text on one line, if it is long the beginning of it."""
    line = " ".join(text[: most * 2].split())
    return line if len(line) <= most else line[: most - 1] + "…"
