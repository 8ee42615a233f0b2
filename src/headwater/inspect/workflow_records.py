"""The records about workflows: questions, commands and their answers."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

import msgspec

from headwater.inspect.request import Command, Question
from headwater.values.ids import Millis
from headwater.workflow.wording.views import FlowView, InputView, RunDetails, RunView
from headwater.workflow.workflow_limits import PRIORITY

RUNS_MAX: Final = 200
"""Runs or inputs in one page: the file is locked for some milliseconds."""


# --- answers --------------------------------------------------------------------------------------------------


class WorkflowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Common to all answers about workflows."""

    at: Millis
    """The time of the answer."""
    hosted: tuple[str, ...] = ()
    """Workflows whose runs are executed by a process."""


class WorkflowsPage(WorkflowAnswer, frozen=True, kw_only=True):
    """Workflows."""

    flows: list[FlowView]


class RunsPage(WorkflowAnswer, frozen=True, kw_only=True):
    """Runs, newest first."""

    runs: list[RunView]


class RunReport(WorkflowAnswer, frozen=True, kw_only=True):
    """One run with its chain of attempts."""

    details: RunDetails


class InputsPage(WorkflowAnswer, frozen=True, kw_only=True):
    """Inputs, newest first."""

    inputs: list[InputView]


class FlowReport(WorkflowAnswer, frozen=True, kw_only=True):
    """A workflow after a command."""

    flow: FlowView
    then: str = ""
    """What runs next, in words, after a command about an input or a publication."""

    @property
    def is_hosted(self) -> bool:
        """A process executes its runs."""
        return self.flow.name in self.hosted


class ControlReport(FlowReport, frozen=True, kw_only=True):
    """After a command about a workflow, a run or an input."""

    run: RunView | None = None
    input: InputView | None = None
    count: int = 0
    """The number of events that the command changed."""


News: TypeAlias = Literal["new", "changed", "known"]
"""The event did not exist; it waits, and has another value now; it existed, and nothing has changed."""


class PublishedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event in a topic."""

    topic: str
    id: str
    news: News
    status: str
    """pending, reserved, consumed, skipped or parked."""
    checked: bool
    """Its value was checked against the type of the topic."""


class PublishReport(FlowReport, frozen=True, kw_only=True):
    """After a publication."""

    event: PublishedEvent


# --- questions ------------------------------------------------------------------------------------------------


class ListWorkflows(Question[WorkflowsPage], frozen=True, kw_only=True, tag="workflows"):
    """All workflows, or one."""

    workflow: str = ""
    every: bool = False
    """Include archived workflows."""


class ListRuns(Question[RunsPage], frozen=True, kw_only=True, tag="runs"):
    """Runs of all workflows, or of one."""

    workflow: str = ""
    status: str = ""
    every: bool = False
    """Include runs without work."""
    waiting: bool = False
    """Only runs that wait for a person."""
    before: int = 0
    """The last number of the previous page; 0: start at the newest."""
    after: int = 0
    """Only runs after this number, and those in `also`."""
    also: tuple[int, ...] = ()
    """Runs by number."""
    limit: int = RUNS_MAX


class ShowRun(Question[RunReport], frozen=True, kw_only=True, tag="run"):
    """One run, with its attempts, calls and decisions."""

    run: int


class ListInputs(Question[InputsPage], frozen=True, kw_only=True, tag="inputs"):
    """Inputs of all workflows, or of one."""

    workflow: str = ""
    status: str = ""
    before: int = 0
    limit: int = RUNS_MAX


WorkflowQuestion: TypeAlias = ListWorkflows | ListRuns | ShowRun | ListInputs


# --- commands -------------------------------------------------------------------------------------------------


class PublishEvent(Command[PublishReport], frozen=True, kw_only=True, tag="publish"):
    """Publish an event to a topic of a workflow."""

    again: ClassVar[str] = "Published twice with the same id, it is one event"

    workflow: str
    topic: str
    value: str
    """As JSON."""
    id: str = ""
    """Its id at its source; empty: computed from the value."""
    title: str = ""
    priority: int = PRIORITY
    """From 0 to 9: of the events that wait, those with a higher one come first."""


WorkflowAction: TypeAlias = Literal["pause", "resume", "now", "archive", "restore", "reprocess"]


class ControlWorkflow(Command[ControlReport], frozen=True, kw_only=True, tag="workflow"):
    """Pause or resume a workflow, and so on."""

    workflow: str
    action: WorkflowAction


RunAction: TypeAlias = Literal[
    "approve", "reject", "retry", "cancel", "abandon", "applied", "not_applied", "skip", "again"
]


class DecideRun(Command[ControlReport], frozen=True, kw_only=True, tag="run"):
    """A person's decision about a run."""

    run: int
    action: RunAction
    by: str = ""
    reason: str = ""
    value: str = "null"
    """If `applied`: the result of the call, as JSON."""


InputAction: TypeAlias = Literal["skip", "retry"]


class ControlInput(Command[ControlReport], frozen=True, kw_only=True, tag="input"):
    """Skip an input, or retry it."""

    input: int
    action: InputAction


WorkflowCommand: TypeAlias = PublishEvent | ControlWorkflow | DecideRun | ControlInput
