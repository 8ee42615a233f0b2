"""The Workflows screen: workflows, runs, inputs, and what can be done with each."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headwater.inspect.inspector import Inspector
from headwater.inspect.workflow_records import ListInputs, ListRuns, ListWorkflows, ShowRun
from headwater.studio import answers, questions
from headwater.studio.deeds import Acted, InputDeed, RunDeed, WorkflowDeed
from headwater.studio.limits import PAGE_MAX
from headwater.studio.value_texts import optional_text
from headwater.workflow.rows import RunPhase
from headwater.workflow.wording.views import CallView, FlowView, InputView, RunDetails, RunView

ASKS: Final = frozenset({"reject", "cancel", "abandon", "skip", "archive", "drop"})
"""Acts that a dialog asks about first: what they end does not come back."""

_PHASES: Final = tuple(phase.value for phase in RunPhase)


def _limit(wanted: int) -> int:
    # One more tells whether there is a next page; the engine gives at most 200.
    return max(1, min(wanted, PAGE_MAX))


def action(label: str, deed: Acted, act: str, why_not: str = "") -> answers.Action:
    """A button."""
    return answers.Action(
        label=label, deed=msgspec.to_builtins(deed), asks=act in ASKS, enabled=not why_not, why_not=why_not
    )


# --- workflows ------------------------------------------------------------------------------------------------


def workflows(inspector: Inspector, question: questions.WorkflowsQuestion) -> answers.WorkflowsView:
    """Workflows with their actions."""
    page = inspector.ask(ListWorkflows(workflow=question.workflow, every=question.every))
    rows = (
        answers.WorkflowRow(flow=flow, hosted=flow.name in page.hosted, actions=workflow_actions(flow))
        for flow in page.flows
    )
    return answers.WorkflowsView(workflows=tuple(rows))


def workflow_actions(flow: FlowView) -> tuple[answers.Action, ...]:
    """What can be done with a workflow in its state."""

    def one(label: str, act: Any) -> answers.Action:  # noqa: ANN401  # one of the literals
        return action(label, WorkflowDeed(act=act, workflow=flow.name), act)

    if flow.intent == "archived":
        return (one("Restore", "restore"),)
    found = [one("Pause", "pause")] if flow.intent == "active" else [one("Resume", "resume")]
    if flow.intent == "active" and flow.block_kind not in (None, "ask", "indeterminate"):
        found.append(one("Try again", "resume"))
    if flow.intent == "active":
        found.append(one("Run now", "now"))
    if flow.parked:
        found.append(one("Reprocess", "reprocess"))
    if flow.intent != "active":
        found.append(one("Archive", "archive"))
    return tuple(found)


# --- runs -----------------------------------------------------------------------------------------------------


def runs(inspector: Inspector, question: questions.Runs) -> answers.RunsAnswer:
    """One page of runs."""
    limit = _limit(question.limit)
    page = inspector.ask(
        ListRuns(
            workflow=question.workflow,
            status=question.status,
            every=question.every,
            waiting=question.waiting,
            before=question.before,
            limit=limit,
        )
    )
    found = tuple(page.runs)
    is_more = len(found) >= min(limit, 200)
    return answers.RunsAnswer(runs=found, next=found[-1].id if is_more and found else 0)


def run(inspector: Inspector, question: questions.RunQuestion) -> answers.RunDetail:
    """One run with its chain. Raises NotFoundError."""
    report = inspector.ask(ShowRun(run=question.number))
    details = report.details
    view = details.run
    return answers.RunDetail(
        run=view,
        phases=_phases(view),
        plan=optional_text(details.plan),
        result=optional_text(details.result),
        call=None if details.call is None else _call(details.call),
        calls=tuple(map(_call, details.calls)),
        chain=tuple(details.chain),
        inputs=tuple(details.inputs),
        events=tuple(msgspec.to_builtins(event) for event in details.events),
        decisions=tuple(details.decisions),
        details=details.details or "",
        block_kind=details.block_kind or "",
        actions=run_actions(details),
        hosted=view.workflow in report.hosted,
    )


def _phases(view: RunView) -> tuple[answers.Phase, ...]:
    """The phases of a run, forward only."""
    at = _PHASES.index(view.phase) if view.phase in _PHASES else 0
    is_over = view.phase == RunPhase.COMMITTED
    has_failed = view.error is not None and view.status.startswith(("failed", "crashed"))
    return tuple(
        answers.Phase(
            name=name,
            state="done"
            if number < at or is_over
            else "todo"
            if number > at
            else "failed"
            if has_failed
            else "current",
        )
        for number, name in enumerate(_PHASES)
    )


def _call(call: CallView) -> answers.CallText:
    return answers.CallText(
        run=call.run,
        operation=call.operation,
        key=call.key,
        status=call.status,
        sentence=call.sentence,
        params=optional_text(call.params),
        result=optional_text(call.result),
        error=call.error,
        tries=call.tries,
        next_at=call.next_at,
        at=call.at,
        resolved_by=call.resolved_by,
        resolved_at=call.resolved_at,
    )


def run_actions(details: RunDetails) -> tuple[answers.Action, ...]:
    """What can be decided about the newest attempt of a chain: the commands that `runs show` suggests."""
    head = details.chain[-1] if details.chain else details.run

    def one(label: str, act: Any, why_not: str = "") -> answers.Action:  # noqa: ANN401  # one of the literals
        return action(label, RunDeed(act=act, number=head.id, seen=head.updated_at), act, why_not)

    match head.waits_for:
        case "ask":
            return one("Approve", "approve"), one("Reject", "reject")
        case "indeterminate" | "hung" as kind:
            found = [
                one("It happened", "applied"),
                one("It did not happen", "not_applied"),
                one("Skip", "skip"),
            ]
            return (*found, *([one("Look again", "again")] if kind == "indeterminate" and head.can_ask else []))
        case None:
            pass
        case _:
            resume = action("Try again", WorkflowDeed(act="resume", workflow=head.workflow), "resume")
            return resume, *_ending(head, one)
    if head.retry_at is not None:
        return one("Retry now", "retry"), *_ending(head, one)
    if head.aside == "kept" and head.followed_by is None:
        return (one("Take up again", "retry"),)
    return ()


def _ending(head: RunView, one: Any) -> tuple[answers.Action, ...]:  # noqa: ANN401  # the function above
    """What ends a chain: cancel before its effect, abandon after it."""
    if head.kind == "consumer" and head.outcome in ("applied", "skipped"):
        return (one("Abandon", "abandon"),)
    if head.kind != "consumer" or not head.taken or head.outcome not in ("none", "failed"):
        return ()
    return (one("Cancel", "cancel"),)


# --- inputs ---------------------------------------------------------------------------------------------------


def inputs(inspector: Inspector, question: questions.Inputs) -> answers.InputsAnswer:
    """One page of inputs."""
    limit = _limit(question.limit)
    page = inspector.ask(
        ListInputs(workflow=question.workflow, status=question.status, before=question.before, limit=limit)
    )
    rows = tuple(answers.InputLine(input=view, actions=input_actions(view)) for view in page.inputs)
    is_more = len(rows) >= min(limit, 200)
    return answers.InputsAnswer(inputs=rows, next=page.inputs[-1].id if is_more and rows else 0)


def input_actions(view: InputView) -> tuple[answers.Action, ...]:
    """What can be done with an input."""
    match view.status:
        case "pending":
            return (action("Skip", InputDeed(act="skip", number=view.id), "skip"),)
        case "parked":
            retry = action("Retry", InputDeed(act="retry", number=view.id), "retry")
            return retry, action("Skip", InputDeed(act="skip", number=view.id), "skip")
        case _:
            return ()
