"""What was done, in one sentence: the same on the command line and in the Studio."""

from __future__ import annotations

from typing import Final

from headwater.inspect.workflow_records import (
    ControlReport,
    InputAction,
    PublishReport,
    RunAction,
    WorkflowAction,
)
from headwater.values.text import count_text

_RUN: Final[dict[RunAction, str]] = {
    "approve": "approved: {what}; run {run} goes on",
    "reject": "rejected: {what}; what it was about is skipped",
    "retry": "it is tried again: {what}",
    "cancel": "cancelled: {what}; what it was about is skipped",
    "abandon": "put aside: {what}; its result is kept, and the workflow goes on without it",
    "applied": "it happened: {what}; run {run} goes on from there",
    "not_applied": "it did not happen: {what}; it is planned anew",
    "skip": "skipped: {what}; run {run} goes on without it",
    "again": "whether it happened is looked up once more: {what}",
}

_WORKFLOW: Final[dict[WorkflowAction, str]] = {
    "pause": "{name} is paused: nothing is started, and what comes in waits",
    "resume": "{name} goes on",
    "now": "{name} looks for something to do now",
    "archive": "{name} is archived; `workflow ls --all` shows it",
    "restore": "{name} is back, and paused; `workflow resume` lets it go on",
    "reprocess": "{events} of {name} that had been put aside wait again",
}

_INPUT: Final[dict[InputAction, tuple[str, str, str]]] = {
    "skip": ("{title} is skipped: {events} not handled any more", "event of it is", "events of it are"),
    "retry": ("{title} waits again: {events} been put aside", "event of it, which had", "events of it, which had"),
}

_STATUS: Final = {
    "pending": "it still waits",
    "reserved": "a run is at it",
    "consumed": "it was handled",
    "skipped": "it was skipped",
    "parked": "it was put aside because of failures",
}


def run_sentence(action: RunAction, done: ControlReport) -> str:
    """After a decision about a run."""
    run = done.run
    assert run is not None
    return _RUN[action].format(run=run.id, what=run.title or f"what {run.handler} does")


def workflow_sentence(action: WorkflowAction, done: ControlReport) -> str:
    """After a command about a workflow."""
    return _WORKFLOW[action].format(name=done.flow.name, events=count_text(done.count, "event"))


def input_sentence(action: InputAction, done: ControlReport) -> str:
    """After a command about an input."""
    view = done.input
    assert view is not None
    sentence, *events = _INPUT[action]
    text = sentence.format(title=view.title, events=count_text(done.count, *events))
    return f"{text}. {done.then}"


def publish_sentence(done: PublishReport) -> str:
    """After a publication."""
    event = done.event
    address = f"{done.flow.name}.{event.topic}"
    match event.news:
        case "new":
            return f"published to {address} as {event.id}. {done.then}"
        case "changed":
            return f"{event.id} was published to {address} before, still waits, and has the new value. {done.then}"
        case "known":
            status = _STATUS.get(event.status, event.status)
            return f"{event.id} was published to {address} before: {status}, and nothing has changed"
