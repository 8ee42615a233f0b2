"""Looking at the handlers and events of an open space: what is told of them at its door.

Must never know: sockets, and who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import msgspec

from headwater.cells.context import open_spaces
from headwater.errors import NotFoundError, UnavailableError, UsageError
from headwater.inspect import stored_events, stored_pieces
from headwater.inspect.records import Activity, Ask, EventTold, kind_of, labels
from headwater.scheduler.events.event import HandlerRecord
from headwater.scheduler.events.outbox import OUTBOX
from headwater.scheduler.inspect.event_queries import WaitingEvent, error_of
from headwater.values.address import doc_key
from headwater.values.ids import BranchId

if TYPE_CHECKING:
    from headwater.inspect.view import Window
    from headwater.runtime.space_runtime import BaseSpace

WAITING_MAX: Final = 2000
"""Events that wait, in one answer. There may be ten thousand of each stream, and nobody looks at them all."""

_DISK_S: Final = 1.0
"""What has failed just now is looked for when it is on disk; this long at most."""


def failed_events(window: Window) -> tuple[EventTold, ...]:
    """Those that are kept in the file, as far as they are on disk."""
    settle_disk(window)
    return tuple(
        window.storage.call(lambda engine: stored_events.failed(stored_events.looking(engine, BranchId(window.branch))))
    )


def waiting_events(window: Window) -> tuple[EventTold, ...]:
    """Those that were sent in this opening and have not ended, and what each waits for; and what nobody handles."""
    live = [_told(window, each) for each in window.space.scheduler.inquiry.waiting()[:WAITING_MAX]]
    known = {event.event for event in live}
    left = stored_events.unhandled(window.space.replica.read(OUTBOX), _streams(window))
    found = [*live, *(_explained(window, event) for event in left if event.event not in known)]
    return tuple(map(stored_events.shortened, found[:WAITING_MAX]))


def _homes(window: Window) -> list[BaseSpace]:
    """All openings that this process has of the same branch of the file."""
    return [cast("BaseSpace", home) for home in list(open_spaces()) if home.storage_key == window.space.storage_key]


def _streams(window: Window) -> set[str]:
    """That are handled in any of these."""
    return {stream for home in _homes(window) for stream in list(home.scheduler.streams.handlers)}


def _explained(window: Window, event: EventTold) -> EventTold:
    """Of one that stands in the file: it may be that its app is open, and nobody handles it all the same."""
    apps = [home.window.app for home in _homes(window)]
    app = next((app for app in apps if event.stream.startswith((f"{app}.", f"{app}+"))), None)
    if event.state != "waiting" or app is None or event.stream in _streams(window):
        return event
    reason = f"no function of app {app} handles stream {event.stream}"
    piece = stored_pieces.piece_in(event.stream)
    if piece and not any(home.has_at_work(piece) for home in _homes(window)):
        kept = stored_pieces.piece_of(piece, window.space.replica.read(doc_key(piece)))
        title = piece if kept is None else f"{kept.pattern} {kept.key}"
        why = (
            "it is stopped"
            if kept is not None and kept.status == "stopped"
            else f"it was not started since {app} was opened"
        )
        reason = f"{title} is not at work: {why}"
    return msgspec.structs.replace(event, reason=reason, app=app)


def show_event(windows: list[Window], ask: Ask, wait_s: float) -> EventTold:
    """All that is known of one event: on its way in one of these, kept in the file, or handled."""
    chosen = choose(windows, ask)
    letters = ask.event.strip().removeprefix("event:")
    live: dict[str, EventTold] = {}
    for window in chosen:
        with window.in_turn(max(wait_s, 0.0)):
            waiting = window.space.scheduler.inquiry.waiting()
            live |= {each.event.id: _told(window, each) for each in waiting if each.event.letters.startswith(letters)}
    settle_disk(chosen[0])
    try:
        kept = chosen[0].storage.call(
            lambda engine: stored_events.shown(stored_events.looking(engine, BranchId(ask.branch)), ask.event)
        )
    except NotFoundError:
        kept = None
        if not live:
            raise
    others = [event for event in live if kept is None or event != kept.event]
    if len(others) + (kept is not None) > 1:
        names = ", ".join([*([] if kept is None else [kept.event]), *others[:8]])
        raise UsageError(f"{ask.event} could be any of these events: {names}; give more of its letters")
    if kept is None:
        return live[others[0]]
    return live.get(kept.event) or _explained(chosen[0], kept)


def choose(windows: Sequence[Window], ask: Ask) -> list[Window]:
    """The openings that are meant. Raises NotFoundError if there is none."""
    if ask.space and windows and windows[0].space.name != ask.space:
        found = windows[0].space.name
        message = f"it holds the space {found!r}, not {ask.space!r}; leave out --space, or name the folder"
        raise NotFoundError(message, space=ask.space, found=found)
    named = list(zip(labels([each.app for each in windows]), windows, strict=True))
    chosen = [window for label, window in named if ask.app in ("", label) and window.branch == ask.branch]
    if not chosen:
        there = ", ".join(f"{label} on branch {window.branch}" for label, window in named) or "nothing"
        wanted = f"no app {ask.app!r}" if ask.app else "no app"
        message = f"{wanted} has it open on branch {ask.branch!r}; there is {there}"
        raise NotFoundError(message, app=ask.app, branch=ask.branch)
    return chosen


def handler_activities(window: Window) -> tuple[Activity, ...]:
    """What the handlers have done; those that the pieces of a pattern have, together."""
    inquiry = window.space.scheduler.inquiry
    groups: dict[str, list[HandlerRecord]] = {}
    for handler in inquiry.handlers():
        groups.setdefault(kind_of(handler.name, handler.spec.piece), []).append(handler)
    states: dict[str, list[str]] = {}
    for each in inquiry.waiting():
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


def _told(window: Window, waiting: WaitingEvent) -> EventTold:
    event = waiting.event
    return EventTold(
        event=event.id,
        stream=event.handler.spec.stream,
        handler=event.handler.title,
        app=window.app,
        state="parked" if waiting.parked else event.state.value,
        at_ms=event.sent_ms,
        attempts=event.attempts,
        reason=waiting.why,
        payload=stored_events.json_of(event.payload),
    )


def settle_disk(window: Window) -> None:
    """Wait for what was written, but not for long."""
    try:
        window.storage.wait(_DISK_S)
    except UnavailableError:
        # A slow disk: what is there is told.
        return
