"""The records that answer a page: events and workflows."""

from __future__ import annotations

from typing import Literal

from headwater.inspect.event_records import EventReport
from headwater.studio.answer_parts import AnswerRecord, ValueText
from headwater.workflow.wording.views import DecisionView, FlowView, InputView, RunView

# --- Events ---------------------------------------------------------------------------------------------------


class EventGroup(AnswerRecord, frozen=True, kw_only=True):
    """Events of one handler with the same reason."""

    handler: str
    reason: str
    count: int
    newest_ms: int


class EventsPage(AnswerRecord, frozen=True, kw_only=True):
    """One page of events, and all groups."""

    groups: tuple[EventGroup, ...]
    events: tuple[EventReport, ...]
    total: int
    next: str
    counts: dict[str, int]
    """failed, waiting, outgoing."""


class EventAnswer(AnswerRecord, frozen=True, kw_only=True):
    """One event."""

    event: EventReport
    may_redeliver: bool
    may_drop: bool
    why_not: str


class Parameter(AnswerRecord, frozen=True, kw_only=True):
    """A parameter of a handler."""

    name: str
    type: str
    default: str | None
    """As JSON; None: it must be given."""


class HandlerLine(AnswerRecord, frozen=True, kw_only=True):
    """A handler."""

    name: str
    app: str
    parameters: tuple[Parameter, ...]
    known: bool
    """False: no program has it open, so its parameters are not known."""


class HandlersView(AnswerRecord, frozen=True, kw_only=True):
    """The handlers."""

    handlers: tuple[HandlerLine, ...]


# --- Workflows ------------------------------------------------------------------------------------------------


class Action(AnswerRecord, frozen=True, kw_only=True):
    """Something that can be done now: the button, and the deed that it sends."""

    label: str
    deed: dict[str, object]
    """As in `do`; a page adds what a person types (`reason`, `text`)."""
    asks: bool
    """A dialog repeats the sentence first."""
    enabled: bool = True
    why_not: str = ""


class WorkflowRow(AnswerRecord, frozen=True, kw_only=True):
    """A workflow with what can be done."""

    flow: FlowView
    hosted: bool
    actions: tuple[Action, ...]


class WorkflowsView(AnswerRecord, frozen=True, kw_only=True):
    """Workflows."""

    workflows: tuple[WorkflowRow, ...]


class RunsAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Runs, newest first."""

    runs: tuple[RunView, ...]
    next: int


class Phase(AnswerRecord, frozen=True, kw_only=True):
    """One phase of a run."""

    name: str
    state: Literal["done", "current", "failed", "todo"]


class CallText(AnswerRecord, frozen=True, kw_only=True):
    """A call to a service."""

    run: int
    operation: str
    key: str
    status: str
    sentence: str
    params: ValueText | None
    result: ValueText | None
    error: str | None
    tries: int
    next_at: int | None
    at: int
    resolved_by: str | None
    resolved_at: int | None


class RunDetail(AnswerRecord, frozen=True, kw_only=True):
    """Everything about a run."""

    run: RunView
    phases: tuple[Phase, ...]
    plan: ValueText | None
    result: ValueText | None
    call: CallText | None
    calls: tuple[CallText, ...]
    chain: tuple[RunView, ...]
    inputs: tuple[str, ...]
    events: tuple[dict[str, object], ...]
    decisions: tuple[DecisionView, ...]
    details: str
    """The traceback."""
    block_kind: str
    actions: tuple[Action, ...]
    hosted: bool


class InputLine(AnswerRecord, frozen=True, kw_only=True):
    """An input with what can be done."""

    input: InputView
    actions: tuple[Action, ...]


class InputsAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Inputs, newest first."""

    inputs: tuple[InputLine, ...]
    next: int
