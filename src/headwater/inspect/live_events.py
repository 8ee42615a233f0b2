"""The handlers, events and pieces of an open space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headwater.cells.context import open_spaces
from headwater.errors import NotFoundError, UnavailableError, UsageError
from headwater.inspect import stored_events, stored_pieces
from headwater.inspect.event_records import EventReport, PieceReport, PiecesPage
from headwater.inspect.function_records import Activity
from headwater.inspect.names import InspectScope, check_space, kind_of, labelled
from headwater.inspect.opening_port import OpeningPort, is_of
from headwater.runtime.delivery import why_undelivered
from headwater.runtime.inspection_port import InspectedSpace
from headwater.scheduler.events.event import HandlerRecord
from headwater.scheduler.events.outbox import OUTBOX
from headwater.scheduler.inspect.event_queries import WaitingEvent, error_of
from headwater.values.address import doc_key
from headwater.values.ids import BranchId

WAITING_MAX: Final = 2000
"""Waiting events in one answer. Each stream may have ten thousand."""

PIECES_MAX: Final = 5000
"""Pieces in one answer. Reading them takes half a second."""

_PIECES_PAGE: Final = 200
"""Pieces that are read in one call, which locks the file."""

_DISK_S: Final = 1.0
"""Seconds to wait for the disk: failed events are read from there."""


def failed_events(opening: OpeningPort) -> tuple[EventReport, ...]:
    """The failed events on disk."""
    settle_disk(opening)
    return tuple(
        opening.storage.call(
            lambda engine: stored_events.failed(stored_events.reader(engine, BranchId(opening.branch)))
        )
    )


def waiting_events(opening: OpeningPort) -> tuple[EventReport, ...]:
    """Waiting events of this opening with the reason, and events without a handler."""
    live = [_report(opening, each) for each in _waiting(opening)[:WAITING_MAX]]
    known = {event.event for event in live}
    left = stored_events.unhandled(opening.space.replica.read(OUTBOX), _streams(opening))
    found = [*live, *(_explained(opening, event) for event in left if event.event not in known)]
    return tuple(map(stored_events.shortened, found[:WAITING_MAX]))


def leaving_events(openings: Sequence[OpeningPort], branch: str) -> tuple[EventReport, ...]:
    """Events and posts for other spaces, each with what it waits for."""
    for opening in openings:
        if opening.branch == branch:
            read = opening.space.replica.read
            return tuple(_awaited(event) for event in stored_events.leaving(read))
    return ()


def _awaited(event: EventReport) -> EventReport:
    if event.state != "undelivered":
        return event
    return msgspec.structs.replace(event, reason=f"waits for {why_undelivered(event.to, event.stream)}")


def _waiting(opening: OpeningPort) -> list[WaitingEvent]:
    """Waiting events of the handlers of this opening."""
    found = opening.space.scheduler.event_queries.waiting()
    return [each for each in found if is_of(opening, each.event.handler)]


def _homes(opening: OpeningPort) -> list[InspectedSpace]:
    """All openings of the same branch of the file in this process."""
    key = opening.space.storage_key
    return [home for home in list(open_spaces()) if home.storage_key == key and isinstance(home, InspectedSpace)]


def _streams(opening: OpeningPort) -> set[str]:
    """Streams with a handler in any of these openings."""
    return {stream for home in _homes(opening) for stream in list(home.scheduler.streams.handlers)}


def _explained(opening: OpeningPort, event: EventReport) -> EventReport:
    """The event, with the reason why the open app does not handle it."""
    apps = [home.inspection.app for home in _homes(opening)]
    app = next((app for app in apps if event.stream.startswith((f"{app}.", f"{app}+"))), None)
    if event.state != "waiting" or app is None or event.stream in _streams(opening):
        return event
    reason = f"no function of app {app} handles stream {event.stream}"
    piece = stored_pieces.piece_in(event.stream)
    if piece and not any(home.has_at_work(piece) for home in _homes(opening)):
        stored = stored_pieces.piece_of(piece, opening.space.replica.read(doc_key(piece)))
        title = piece if stored is None else f"{stored.pattern} {stored.key}"
        why = (
            "it is stopped"
            if stored is not None and stored.status == "stopped"
            else f"it was not started since {app} was opened"
        )
        reason = f"{title} is not at work: {why}"
    return msgspec.structs.replace(event, reason=reason, app=app)


def show_event(openings: Sequence[OpeningPort], scope: InspectScope, event: str, wait_s: float) -> EventReport:
    """All details of one event: waiting in an opening, failed, or handled."""
    chosen = choose(openings, scope)
    letters = event.strip().removeprefix("event:")
    live: dict[str, EventReport] = {}
    for opening in chosen:
        with opening.locked(max(wait_s, 0.0)):
            waiting = _waiting(opening)
            live |= {
                each.event.id: _report(opening, each) for each in waiting if each.event.letters.startswith(letters)
            }
    settle_disk(chosen[0])
    try:
        stored = _stored(chosen[0], scope.branch, event)
    except NotFoundError:
        stored = None
        if not live:
            raise
    others = [each for each in live if stored is None or each != stored.event]
    if len(others) + (stored is not None) > 1:
        names = ", ".join([*([] if stored is None else [stored.event]), *others[:8]])
        raise UsageError(f"{event} could be any of these events: {names}; give more of its letters")
    if stored is None:
        return live[others[0]]
    return live.get(stored.event) or _explained(chosen[0], stored)


def _stored(opening: OpeningPort, branch: str, event: str) -> EventReport:
    """What the space has of an event. A server's space is read through the replica of its opening."""
    space_id = opening.space.space_id
    if not opening.is_local:
        return stored_events.shown(opening.space.replica.read, event, space_id)
    return opening.storage.call(
        lambda engine: stored_events.shown(stored_events.reader(engine, BranchId(branch)), event, space_id)
    )


def choose(openings: Sequence[OpeningPort], scope: InspectScope) -> list[OpeningPort]:
    """The openings of a scope. Raises NotFoundError if there is none."""
    if openings:
        check_space(openings[0].space.name, scope.space)
    named = labelled(openings, [each.app for each in openings], "")
    chosen = [opening for label, opening in named if scope.app in ("", label) and opening.branch == scope.branch]
    if not chosen:
        there = ", ".join(f"{label} on branch {opening.branch}" for label, opening in named) or "nothing"
        wanted = f"no app {scope.app!r}" if scope.app else "no app"
        message = f"{wanted} has it open on branch {scope.branch!r}; there is {there}"
        raise NotFoundError(message, app=scope.app, branch=scope.branch)
    return chosen


def handler_activities(opening: OpeningPort) -> tuple[Activity, ...]:
    """The activity of the handlers. Handlers of all pieces of a pattern count together."""
    inquiry = opening.space.scheduler.event_queries
    groups: dict[str, list[HandlerRecord]] = {}
    for handler in (each for each in inquiry.handlers() if is_of(opening, each)):
        groups.setdefault(kind_of(handler.name, handler.spec.piece), []).append(handler)
    states: dict[str, list[str]] = {}
    for each in _waiting(opening):
        handler = each.event.handler
        states.setdefault(kind_of(handler.name, handler.spec.piece), []).append(each.event.state.value)
    return tuple(_activity(name, handlers, states.get(name, [])) for name, handlers in groups.items())


def _activity(name: str, handlers: list[HandlerRecord], states: list[str]) -> Activity:
    have_run = sum(handler.runs > 0 for handler in handlers)
    return Activity(
        name=name,
        kind="handler",
        nodes=len(handlers),
        live=len(handlers),
        clean=have_run,
        never_ran=len(handlers) - have_run,
        failed=sum(bool(error_of(handler)) for handler in handlers),
        running=states.count("running"),
        waiting=states.count("queued"),
        runs=sum(handler.runs for handler in handlers),
        total_ms=round(sum(handler.total_ms for handler in handlers), 3),
        last_ms=round(max(handler.last_ms for handler in handlers), 3),
    )


def _report(opening: OpeningPort, waiting: WaitingEvent) -> EventReport:
    event = waiting.event
    return EventReport(
        event=event.id,
        stream=event.handler.spec.stream,
        handler=event.handler.title,
        app=opening.app,
        state="parked" if waiting.parked else event.state.value,
        at_ms=event.sent_ms,
        attempts=event.attempts,
        reason=waiting.why,
        payload=stored_events.json_of(event.payload),
    )


def settle_disk(opening: OpeningPort) -> None:
    """Wait for the disk for a short time."""
    try:
        opening.space.wait_for_disk(_DISK_S)
    except UnavailableError:
        # A slow disk: the answer has the older state.
        return


# --- pieces ---------------------------------------------------------------------------------------------------


def pieces(openings: Sequence[OpeningPort], branch: str, pattern: str) -> PiecesPage:
    """The pieces on disk of all openings of a branch, and whether they run."""
    found: dict[str, PieceReport] = {}
    left_out: dict[str, int] = {}
    for opening in openings:
        if opening.branch == branch:
            reports, left = _pieces_of(opening, pattern)
            # Two openings of one app have the same pieces. Either may run them.
            found |= {each.piece: each for each in reports if each.at_work or each.piece not in found}
            left_out |= {opening.app: left} if left else {}
    return PiecesPage(pieces=tuple(stored_pieces.ordered(found.values())), left_out=left_out)


def _pieces_of(opening: OpeningPort, pattern: str) -> tuple[list[PieceReport], int]:
    settle_disk(opening)
    branch, call, has = BranchId(opening.branch), opening.storage.call, opening.space.has_at_work
    docs = call(lambda engine: stored_pieces.pieces_in(engine, branch, opening.app, pattern))
    shown = docs[:PIECES_MAX]
    found: list[PieceReport] = []
    for start in range(0, len(shown), _PIECES_PAGE):
        page = shown[start : start + _PIECES_PAGE]
        found += call(lambda engine, page=page: stored_pieces.reports(engine, branch, page))  # type: ignore[misc]  # bound
    return [msgspec.structs.replace(each, at_work=has(each.piece)) for each in found], len(docs) - len(shown)
