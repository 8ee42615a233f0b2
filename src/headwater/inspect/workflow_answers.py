"""The records that answer questions about workflows, and report what a command about one has done."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from headwater.values.ids import Millis
from headwater.workflow.wording.views import FlowView, InputView, RunDetails, RunView


class WorkflowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Common to all answers about workflows."""

    at: Millis
    """The time at which it was answered."""
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
    """What runs next, in words: after a command about an input, or a publication."""

    @property
    def is_hosted(self) -> bool:
        """A process executes its runs."""
        return self.flow.name in self.hosted


class ControlReport(FlowReport, frozen=True, kw_only=True):
    """After a command about a workflow, a run or an input."""

    run: RunView | None = None
    input: InputView | None = None
    count: int = 0
    """Events that it concerned."""


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
