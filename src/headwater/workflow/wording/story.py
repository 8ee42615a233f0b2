"""The state and history of a run in sentences.

Made from rows only, without times: the caller adds these.
"""

from __future__ import annotations

from typing import Final

from headwater.workflow.decisions import Decision
from headwater.workflow.rows import (
    CallRow,
    CallStatus,
    EffectOutcome,
    FailureKind,
    FlowRow,
    RunCause,
    RunPhase,
    RunRow,
    RunStatus,
)

ERROR_SHOWN: Final = 300
"""Characters of an error in a sentence. The full error is stored with the run."""

HOST: Final = "headwater run MODULE:APP"
"""The command that executes a workflow."""

_SOON: Final = "Goes on in a moment."
_AGAIN: Final = "It is tried again."

_BECAUSE: Final = {
    RunCause.DEPLOY: "a version was deployed",
    RunCause.EVENT: "events came in",
    RunCause.WAKE: "it had asked to be woken",
    RunCause.SCHEDULE: "its time had come",
    RunCause.MANUAL: "a person asked for it",
    RunCause.RETRY: "the attempt before had failed",
    RunCause.RECOVERY: "the attempt before was interrupted",
    RunCause.APPROVED: "what it waited for was granted",
    RunCause.RECONCILED: "the outcome of its call was found out",
    RunCause.FIXED: "its code was repaired",
}


def because(run: RunRow, before: RunRow | None) -> str:
    """Why a run was started. "events came in"."""
    why = RunCause(run.why)
    if before is not None and why is RunCause.RETRY and before.error_kind == FailureKind.STOPPED:
        return "the attempt before was stopped"
    if before is not None and why is RunCause.APPROVED and before.outcome == EffectOutcome.SKIPPED:
        return "it was cancelled" if before.cancelled else "its plan was rejected"
    return _BECAUSE[why]


def reached(run: RunRow) -> str:
    """How far a run came. "planned Append 2 rows with 2 of 5 events, then acted"."""
    if run.kind == "producer":
        return "polled" if run.phase == RunPhase.COMMITTED else "was polling"
    if run.effect_of is not None and run.outcome == EffectOutcome.SKIPPED:
        return f"went on without what run {run.effect_of} had planned"
    if run.effect_of is not None:
        return f"went on after the call of run {run.effect_of}"
    if run.phase == RunPhase.PREPARING:
        return "was preparing"
    if run.phase == RunPhase.COMMITTED and not run.taken and run.outcome == EffectOutcome.NONE and not run.title:
        return "prepared"
    title = one_line(run.title)
    plan = f'planned "{title}" with' if title else "made a plan with"
    events = f"{run.taken} of {run.offered} events" if run.offered > run.taken else _count(run.taken)
    acted = " and acted" if run.outcome in (EffectOutcome.UNKNOWN, EffectOutcome.APPLIED, EffectOutcome.FAILED) else ""
    return f"{plan} {events}{acted}"


def _count(events: int) -> str:
    return "1 event" if events == 1 else f"{events} events"


# --- status --------------------------------------------------------------------------------------------------


def standing(run: RunRow, call: CallRow | None, flow: FlowRow, later: int | None) -> str:
    """The status of a run while it is current, then its result. "approved, followed by run 7"."""
    word = over(run, call, flow, later)
    if word is None:
        return str(run.status)
    return word if later is None else f"{word}, followed by run {later}"


def over(run: RunRow, call: CallRow | None, flow: FlowRow, later: int | None) -> str | None:
    """The result of a run that had stopped, in a word or two. None if its status is still current.

    `later` is the next attempt of its chain, if there is one.
    """
    if run.aside is not None and later is None and flow.head != run.id:
        return "abandoned" if run.cancelled else "put aside"
    if run.status == RunStatus.APPROVAL:
        return _answer(run, flow)
    own = call if run.effect_of is None and run.status in (RunStatus.RECONCILIATION, RunStatus.CRASHED) else None
    if own is not None and own.resolved_by != "call" and run.outcome in _RECONCILED:
        return _RECONCILED[run.outcome]
    if flow.head == run.id or run.status in (RunStatus.ACTIVE, RunStatus.COMMITTED):
        return None
    if later is None:
        return "cancelled" if run.cancelled else "put aside"
    how = "interrupted" if run.status == RunStatus.CRASHED else "failed"
    return "stopped" if run.error_kind == FailureKind.STOPPED else how


_RECONCILED: Final = {
    EffectOutcome.APPLIED: "reconciled: it had happened",
    EffectOutcome.FAILED: "reconciled: it had not happened",
    EffectOutcome.SKIPPED: "skipped",
}


def _answer(run: RunRow, flow: FlowRow) -> str | None:
    """A person's answer to a run that waited for one."""
    if run.cancelled:
        return "cancelled" if run.aside is None else "abandoned"
    if run.error_kind == FailureKind.ASK and run.outcome == EffectOutcome.SKIPPED:
        return "rejected"
    if run.error_kind == FailureKind.ASK and run.approval is not None:
        return "approved"
    if flow.head == run.id and flow.block is not None:
        return None
    # Of a plan: an event of it was skipped. Otherwise: the missing grant is there.
    return "planned anew" if run.error_kind == FailureKind.ASK else "approved"


# --- results --------------------------------------------------------------------------------------------------


def sentence(run: RunRow, call: CallRow | None, flow: FlowRow, *, later: int | None = None, idle: str = "") -> str:
    """The result of a run as a sentence.

    `call` is its own call; `later` is the next attempt of its chain. `idle` is a sentence: what the run waits for if it
    does not continue by itself.
    """
    text = _became(run, call, flow, followed=later is not None, idle=bool(idle))
    if idle:
        text = f"{text.removesuffix(_SOON).removesuffix(_AGAIN).rstrip()} {idle}".lstrip()
    if later is not None and run.status in (RunStatus.APPROVAL, RunStatus.RECONCILIATION):
        text = f"{text} Run {later} has followed it."
    return text


def _became(  # noqa: PLR0911  # one for each way to end
    run: RunRow, call: CallRow | None, flow: FlowRow, *, followed: bool, idle: bool
) -> str:
    if run.aside is not None and not followed:
        return _put_aside(run)
    match RunStatus(run.status):
        case RunStatus.ACTIVE:
            return _at_work(run)
        case RunStatus.COMMITTED:
            return _done(run)
        case RunStatus.CRASHED:
            return _crashed(run, call, idle=idle)
        case RunStatus.APPROVAL:
            return _asked(run, flow)
        case RunStatus.RECONCILIATION:
            return f"{_why_unknown(run, call)}; {_known(run, call, idle=idle)}."
        case RunStatus.TRANSIENT | RunStatus.LOGIC | RunStatus.INTERNAL:
            return _failed(run, flow, followed=followed)


def _put_aside(run: RunRow) -> str:
    who = "A person put it aside" if run.cancelled else "It was put aside"
    after = " after its call had happened" if run.outcome == EffectOutcome.APPLIED else ""
    then = f"; {_AGAIN[0].lower()}{_AGAIN[1:]}" if run.aside == "again" else ", with its plan and result."
    return f"Failed{after}: {_error(run)}. {who}{then}"


def _at_work(run: RunRow) -> str:
    if run.cancelled:
        return "At work; it was cancelled, and stops before it acts."
    if run.kind == "producer":
        return "At work: polling."
    return {
        RunPhase.PREPARING: "At work: preparing.",
        RunPhase.PREPARED: "At work: it has a plan.",
        RunPhase.MUTATING: "At work: its call is under way.",
    }.get(RunPhase(run.phase), "At work: going on after its plan.")


def _done(run: RunRow) -> str:
    if run.kind == "producer":
        return "Done."
    if run.outcome == EffectOutcome.SKIPPED:
        return "Skipped: a person decided that it is not done."
    return "Done." if run.taken or run.title else "Found nothing to do."


def _crashed(run: RunRow, call: CallRow | None, *, idle: bool) -> str:
    if call is None or run.effect_of is not None:
        doing = {
            RunPhase.PREPARING: "polling" if run.kind == "producer" else "preparing",
            RunPhase.PREPARED: "about to act",
        }.get(RunPhase(run.phase), "going on after its call")
        return f"Interrupted: the host ended while it was {doing}."
    if call.resolved_by == "call":
        return "Interrupted: the host ended after its call had come back."
    return f"Crashed while its call was under way; {_known(run, call, idle=idle)}."


def _why_unknown(run: RunRow, call: CallRow | None) -> str:
    """Why the outcome is unknown, for a call that the host did not crash in."""
    error = one_line((call.error if call is not None else None) or "")
    # The text of the resolution has replaced the original error.
    if call is None or call.status in (CallStatus.APPLIED, CallStatus.FAILED):
        _, _, error = one_line(run.error or "").partition("happened: ")
    return f"Its call ended without an answer ({error})" if error else "Its call ended without an answer"


def _known(run: RunRow, call: CallRow | None, *, idle: bool) -> str:
    """The outcome of a call that was unknown at first."""
    by_person = call is not None and (call.resolved_by or "").startswith("user")
    who = "a person said" if by_person else "found out"
    match run.outcome:
        case EffectOutcome.APPLIED:
            return "a person said that it had happened" if by_person else "found out later that it had happened"
        case EffectOutcome.FAILED:
            return f"{who} that it had not happened" if by_person else "found out later that it had not happened"
        case EffectOutcome.SKIPPED:
            return "a person decided to go on without it"
        case _ if call is not None and call.status == CallStatus.NEEDS_RECONCILE:
            return "it is not found out yet whether it happened" if idle else "finding out whether it happened"
        case _:
            return "it is not known whether it happened: a person has to say"


def _asked(run: RunRow, flow: FlowRow) -> str:
    waits = flow.head == run.id and flow.block is not None
    soon = f" {_SOON}" if flow.head == run.id else ""
    if run.cancelled and run.aside is None:
        return "A person cancelled it."
    if run.error_kind != FailureKind.ASK:
        service = f" to {one_line(run.service)}" if run.service else ""
        need = f"a permission{service}" if run.error_kind == FailureKind.PERMISSION else f"a new sign-in{service}"
        return f"Waits for {need}: {_error(run)}." if waits else f"Waited for {need}: {_error(run)}.{soon}"
    if run.outcome == EffectOutcome.SKIPPED:
        return "A person rejected its plan."
    if waits:
        return "Waits for your approval."
    if run.approval is None:
        return f"Its plan was dropped: something that it was about was skipped.{soon}"
    # The block is gone, and no host has continued the run yet.
    return _SOON if soon else "A person approved its plan."


def _failed(run: RunRow, flow: FlowRow, *, followed: bool) -> str:
    if run.error_kind == FailureKind.STOPPED:
        return "Stopped before it acted: the workflow was paused, or the host ended."
    after = " after its call had happened" if run.outcome == EffectOutcome.APPLIED else ""
    undone = "; its call had no effect" if run.outcome == EffectOutcome.FAILED else ""
    what = "Failed inside of the host or a connector" if run.status == RunStatus.INTERNAL else "Failed"
    text = f"{what}{after}: {_error(run)}{undone}"
    if run.cancelled and run.aside is None:
        return f"{text}. A person cancelled it."
    if followed or flow.head != run.id:
        return f"{text}."
    if flow.block is not None:
        return f"{text}. Waits for a person."
    if flow.repairing:
        return f"{text}. A repair is under way."
    return f"{text}. {_AGAIN}"


def call_sentence(call: CallRow) -> str:
    """What is known of a call to a service."""
    match CallStatus(call.status):
        case CallStatus.IN_FLIGHT:
            return "It is under way."
        case CallStatus.NEEDS_RECONCILE:
            return f"It is not known yet whether it happened{_asked_about(call)}."
        case CallStatus.INDETERMINATE:
            return f"It is not known whether it happened{_asked_about(call)}. A person has to say."
        case CallStatus.APPLIED | CallStatus.FAILED:
            return _RESOLVED[call.resolved_by or "call", call.status == CallStatus.APPLIED]


_RESOLVED: Final = {
    ("call", True): "It happened.",
    ("call", False): "It did not happen: the service said so.",
    ("reconciliation", True): "It happened: that was found out by looking it up.",
    ("reconciliation", False): "It did not happen: that was found out by looking it up.",
    ("user_applied", True): "It happened: a person said so.",
    ("user_not_applied", False): "It did not happen: a person said so.",
    ("user_skip", False): "It is not known whether it happened: a person decided to go on without it.",
}


_DECIDED: Final = {
    "approve": "Approved by {}",
    "reject": "Rejected by {}",
    "cancel": "Cancelled by {}",
    "retry": "{} had it tried again",
    "abandon": "Put aside by {}",
    "applied": "{} said that its call had happened",
    "not_applied": "{} said that its call had not happened",
    "skip": "{} decided to go on without its call",
    "again": "{} had its call looked up again",
}


def decision_sentence(made: Decision) -> str:
    """A person's decision as a sentence."""
    text = _DECIDED.get(made.verb, f"{{}}: {made.verb}").format(one_line(made.actor))
    return f"{text}: {one_line(made.reason)}" if made.reason else f"{text}."


def _asked_about(call: CallRow) -> str:
    times = "once" if call.tries == 1 else f"{call.tries} times"
    return f"; it was looked up {times}" if call.tries else ""


def _error(run: RunRow) -> str:
    return one_line(run.error or "no reason is known").rstrip(". ")


def one_line(text: str, most: int = ERROR_SHOWN) -> str:
    """The text on one line, shortened if it is long."""
    line = " ".join(text[: most * 2].split())
    return line if len(line) <= most else line[: most - 1] + "…"
