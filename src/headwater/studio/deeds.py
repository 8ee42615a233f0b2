"""What a person can do on a page: one record for each deed. `deed_words` says what each is about to do."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import msgspec

from headwater.inspect.workflow_records import InputAction, RunAction, WorkflowAction


class Acted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Common to all deeds."""

    space: str = ""
    branch: str = "main"


class SetDeed(Acted, frozen=True, kw_only=True, tag="set", omit_defaults=True):
    """Write a value at an address."""

    address: str
    """A document, or a value in one."""
    text: str
    """The value as JSON, exactly the text that was typed."""
    unless_after: int | None = None
    """The commit that was shown: refused with a conflict (HW211) if the document was written since."""
    create: bool = False
    """Allow a document that no app has declared."""
    force: bool = False
    """Write although the declared type does not fit, or a function writes it. For owners."""


class DeleteDeed(Acted, frozen=True, kw_only=True, tag="delete", omit_defaults=True):
    """Delete a document, or a value in one."""

    address: str
    unless_after: int | None = None
    force: bool = False


class RestoreDeed(Acted, frozen=True, kw_only=True, tag="restore", omit_defaults=True):
    """Put the value back that was there at a commit."""

    address: str
    at: int
    unless_after: int | None = None
    force: bool = False


class ForkDeed(Acted, frozen=True, kw_only=True, tag="fork", omit_defaults=True):
    """A new branch that starts from this one."""

    name: str
    at: int | None = None
    """A commit; None: now."""


class MergeDeed(Acted, frozen=True, kw_only=True, tag="merge", omit_defaults=True):
    """Merge this branch into another."""

    into: str = "main"


class SendDeed(Acted, frozen=True, kw_only=True, tag="send", omit_defaults=True):
    """Send an event to a handler."""

    handler: str
    fields: str = "{}"
    """The payload: an object as JSON."""
    id: str = ""


class EventDeed(Acted, frozen=True, kw_only=True, tag="event", omit_defaults=True):
    """Deliver a failed event again, or drop it."""

    act: Literal["redeliver", "drop"]
    event: str


class ResendDeed(Acted, frozen=True, kw_only=True, tag="resend", omit_defaults=True):
    """Send a failed event again as a new one, with changes; the failed one stays until it is dropped."""

    event: str
    fields: str


class RunDeed(Acted, frozen=True, kw_only=True, tag="run", omit_defaults=True):
    """A person's decision about a run."""

    act: RunAction
    number: int
    text: str = "null"
    """With `applied`: the result of the call, as JSON."""
    reason: str = ""
    seen: int = 0
    """`updated_at` of the run that was shown: refused with a conflict (HW211) if it moved on; 0: not compared."""


class WorkflowDeed(Acted, frozen=True, kw_only=True, tag="workflow", omit_defaults=True):
    """Pause or resume a workflow, let it look for work, archive or restore it, reprocess what was put aside."""

    act: WorkflowAction
    workflow: str


class InputDeed(Acted, frozen=True, kw_only=True, tag="input", omit_defaults=True):
    """Skip an input, or retry it."""

    act: InputAction
    number: int


class PublishDeed(Acted, frozen=True, kw_only=True, tag="publish", omit_defaults=True):
    """Publish an event to a topic of a workflow."""

    workflow: str
    topic: str
    text: str
    """As JSON."""
    id: str = ""


class RefetchDeed(Acted, frozen=True, kw_only=True, tag="refetch", omit_defaults=True):
    """Ask for a resource again, now."""

    resource: str
    """The id of its node."""


class RecordDeed(Acted, frozen=True, kw_only=True, tag="record", omit_defaults=True):
    """Begin or end the recording of passes (follow a change). It ends by itself after ten minutes."""

    on: bool


class TokenDeed(Acted, frozen=True, kw_only=True, tag="token", omit_defaults=True):
    """At a server: create a token (shown once) for `space`, or revoke one."""

    act: Literal["create", "revoke"]
    id: str = ""
    """With `revoke`: which one."""
    every: bool = False
    """For every space, and not only for `space`."""
    actor: str = ""
    any_actor: bool = False
    roles: tuple[str, ...] = ()
    rights: str = "read"
    expires: str = ""
    """A duration, such as 30d; empty: never."""
    note: str = ""


class SessionDeed(Acted, frozen=True, kw_only=True, tag="session", omit_defaults=True):
    """At a server: end the connection of a client, or the login of a person."""

    id: str
    """Of a `ClientRow` or a `SessionRow`."""


class BackupDeed(Acted, frozen=True, kw_only=True, tag="backup", omit_defaults=True):
    """A download of the whole space: the report has its address, which works once."""


Deed: TypeAlias = (
    SetDeed
    | DeleteDeed
    | RestoreDeed
    | ForkDeed
    | MergeDeed
    | SendDeed
    | EventDeed
    | ResendDeed
    | RunDeed
    | WorkflowDeed
    | InputDeed
    | PublishDeed
    | RefetchDeed
    | RecordDeed
    | TokenDeed
    | SessionDeed
    | BackupDeed
)

DEEDS: Final[dict[str, type[Acted]]] = {str(each.__struct_config__.tag): each for each in get_args(Deed)}
"""All deeds by tag."""
