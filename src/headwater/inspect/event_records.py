"""The records about events and pieces: questions, commands and their answers."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from headwater.inspect.request import Command, Question

# --- answers --------------------------------------------------------------------------------------------------


class EventReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event: its payload, the reason why it waits or failed, or its result."""

    event: str
    stream: str
    state: str
    """The state of its ticket; "waiting" if it is in the file of a closed space."""
    handler: str = ""
    app: str = ""
    at_ms: int = 0
    """When it failed, or was sent; 0 if unknown."""
    attempts: int = 0
    reason: str = ""
    """Why it failed, was refused or rejected, or waits."""
    traceback: str = ""
    payload: str | None = None
    """As JSON; None: left out."""
    result: str | None = None
    """What its handler returned, as JSON."""
    facts: str | None = None
    """The facts of a rejection, as JSON."""
    handled_before: bool = False
    to: str = ""
    """The id of the space that it is for; empty: this one."""


class PieceReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece, as its document describes it."""

    piece: str
    """The address of the document."""
    app: str
    pattern: str
    key: str
    status: str
    generation: int
    inputs: str
    """As JSON."""
    by: str = ""
    """The function that built it."""
    at_work: bool = False
    """It runs in an opening. A piece with status "running" may wait to be started."""


class PiecesPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Pieces by app, pattern and key."""

    pieces: tuple[PieceReport, ...]
    left_out: dict[str, int] = {}
    """The number of pieces that are left out, by app."""


# --- questions ------------------------------------------------------------------------------------------------


class ListEvents(Question[tuple[EventReport, ...]], frozen=True, kw_only=True, tag="events"):
    """Failed events, or with `waiting` the waiting ones, or with `outgoing` those for other spaces."""

    waiting: bool = False
    outgoing: bool = False
    """Events and posts for other spaces: those that wait for their delivery, and those that were rejected there."""


class ShowEvent(Question[EventReport], frozen=True, kw_only=True, tag="event"):
    """All details of one event."""

    event: str
    """Its id, or the beginning of it."""


class ListPieces(Question[PiecesPage], frozen=True, kw_only=True, tag="pieces"):
    """The pieces of all patterns, or of one."""

    pattern: str = ""


EventQuestion: TypeAlias = ListEvents | ShowEvent | ListPieces


# --- commands -------------------------------------------------------------------------------------------------


class SendEvent(Command[EventReport], frozen=True, kw_only=True, tag="send"):
    """Send an event to a handler."""

    again: ClassVar[str] = "An event that was sent with --id can be sent again"

    handler: str
    fields: str = "{}"
    """The payload: an object as JSON."""
    name: str = ""
    """The sender's id of the event: sent again, it is handled once."""
    by: str = ""
    """The source of that id."""
    timeout_ms: float | None = None
    """Milliseconds to wait for its end. None: do not wait."""


class RedeliverEvent(Command[EventReport], frozen=True, kw_only=True, tag="redeliver"):
    """Deliver a failed event again."""

    again: ClassVar[str] = "An event that was sent with --id can be sent again"

    event: str
    timeout_ms: float | None = None
    to: str = ""
    """The id of another space to deliver it to, for an event or post that is for another space."""


class DropEvent(Command[EventReport], frozen=True, kw_only=True, tag="drop"):
    """Delete an event that failed or waits."""

    again: ClassVar[str] = "An event that was sent with --id can be sent again"

    event: str


EventCommand: TypeAlias = SendEvent | RedeliverEvent | DropEvent
