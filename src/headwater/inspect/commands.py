"""What can be done to a space from outside: one record for each command. Its base names the record that reports it."""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, TypeAlias, TypeVar

import msgspec

from headwater.inspect.answers import MISSING, EventReport, WriteReport
from headwater.inspect.workflow_answers import ControlReport, PublishReport

A_co = TypeVar("A_co", covariant=True)


class Command(
    msgspec.Struct,
    Generic[A_co],
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="command",
    forbid_unknown_fields=True,
):
    """A command that is reported with a record of type A_co; an error means that nothing was done."""

    again: ClassVar[str] = "Done twice, it is refused"
    """Whether the command can be given again if it is not known whether it was done."""


class SetValue(Command[WriteReport], frozen=True, kw_only=True, tag="set"):
    """Write a value at an address, or delete it: one commit."""

    again: ClassVar[str] = "`headwater history` shows whether it was written"

    address: str
    value: object = MISSING
    """As JSON; missing: delete."""
    create: bool = False
    """Also a document that no app has declared."""
    make_space: bool = True
    """Also a space that does not exist."""

    @property
    def deletes(self) -> bool:
        """Whether the value is deleted."""
        return self.value is MISSING


class SendEvent(Command[EventReport], frozen=True, kw_only=True, tag="send"):
    """Send an event to a handler."""

    again: ClassVar[str] = "An event that was sent with --id can be sent again"

    handler: str
    fields: str = "{}"
    """The payload: an object as JSON."""
    name: str = ""
    """The sender's id of the event: sent again, it is handled once."""
    by: str = ""
    """Whose id that is."""
    timeout_ms: float | None = None
    """How long to wait for its end. None: not at all."""


class RedeliverEvent(Command[EventReport], frozen=True, kw_only=True, tag="redeliver"):
    """Deliver a failed event once more."""

    again: ClassVar[str] = "An event that was sent with --id can be sent again"

    event: str
    timeout_ms: float | None = None


class DropEvent(Command[EventReport], frozen=True, kw_only=True, tag="drop"):
    """Delete an event that failed or waits."""

    again: ClassVar[str] = "An event that was sent with --id can be sent again"

    event: str


class PublishEvent(Command[PublishReport], frozen=True, kw_only=True, tag="publish"):
    """Publish an event to a topic of a workflow."""

    again: ClassVar[str] = "Published twice with the same id, it is one event"

    workflow: str
    topic: str
    value: str
    """As JSON."""
    id: str = ""
    """Its id at its source; empty: made of the value."""
    title: str = ""


WorkflowAction: TypeAlias = Literal["pause", "resume", "now", "archive", "restore", "reprocess"]


class ControlWorkflow(Command[ControlReport], frozen=True, kw_only=True, tag="workflow"):
    """Pause a workflow, let it go on, and so on."""

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
    """Skip an input, or try it again."""

    input: int
    action: InputAction


EventCommand: TypeAlias = SendEvent | RedeliverEvent | DropEvent
WorkflowCommand: TypeAlias = PublishEvent | ControlWorkflow | DecideRun | ControlInput
AnyCommand: TypeAlias = SetValue | EventCommand | WorkflowCommand
