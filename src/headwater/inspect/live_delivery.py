"""Commands about events of an open space: send, redeliver, drop.

They take the lock of the scheduler, as a thread of the program does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from headwater.declare.events.handler import Handler
from headwater.errors import ClosedError, EventTimeoutError, NotFoundError, UsageError
from headwater.inspect.event_records import DropEvent, EventCommand, EventReport, RedeliverEvent, SendEvent
from headwater.inspect.live_events import choose, show_event
from headwater.inspect.names import InspectScope, is_called
from headwater.inspect.opening_port import OpeningPort
from headwater.inspect.stored_events import droppable, find_failed, json_of, reader
from headwater.machine import machine
from headwater.runtime.delivery import DeliveringSpace
from headwater.scheduler.events.event import EventRecord, EventState
from headwater.scheduler.events.event import HandlerRecord as Record
from headwater.scheduler.events.outcomes import HANDLED
from headwater.scheduler.graph.node import titled
from headwater.values.codec import from_json
from headwater.values.ids import BranchId
from headwater.values.suggestions import did_you_mean
from headwater.values.text import listed_text

LOCK_MS: Final = 10_000.0
"""Milliseconds that a command without a timeout waits for the lock."""

_LOOK_S: Final = 0.3
"""Seconds to wait for the lock to find an event. Without the lock, events are read during a pass."""

_NAMED_MAX: Final = 8
"""Handlers that a message names. Pieces may have thousands."""

_DISK_S: Final = 5.0
"""Seconds to wait for the disk."""


def deliver(
    openings: Sequence[OpeningPort], scope: InspectScope, command: EventCommand, *, apart: bool = False
) -> EventReport:
    """Carry out a command, and report its outcome. Raises HeadwaterError: then nothing was done.

    In a plain program, the thread that sends also handles. `apart`: another thread handles, so that the report is in
    time.
    """
    chosen = choose(openings, scope)
    match command:
        case SendEvent():
            return _finished(_send(chosen, command), "send", apart=apart)
        case RedeliverEvent() if (sent := _send_on(chosen, scope, command)) is not None:
            return sent
        case RedeliverEvent():
            return _finished(_redeliver(chosen, scope, command), "redeliver", apart=apart)
        case DropEvent():
            return _drop(chosen, scope, command)


# --- sending --------------------------------------------------------------------------------------------------


def _send(openings: list[OpeningPort], command: SendEvent) -> Delivery:
    opening, handler, record = _addressee(openings, command.handler)
    space = opening.space
    fields = _fields(command.fields)
    outside = (command.by, command.name) if command.name else None

    def deliver(delivery: Delivery) -> None:
        # Behind waiting events it can be queued without the lock, unless the space is being closed.
        at_once = not delivery.is_awaited and space.scheduler.events.waiting > 0
        with opening.locked(0.0 if at_once else delivery.left) as has_lock:
            if not (has_lock or at_once):
                raise _busy(opening, f"nothing was sent to {record.title}")
            payload = handler.payload.from_json(space, fields)
            space.events.send(handler.stream, payload, outside, delivery.take)

    return Delivery(opening, command.timeout_ms, deliver)


def _fields(text: str) -> dict[str, object]:
    try:
        given: object = json.loads(text)
    except ValueError as error:
        raise UsageError(f"what the event carries is not JSON: {error}") from None
    fields = {name: from_json(value) for name, value in given.items()} if isinstance(given, dict) else None
    if fields is None:
        raise UsageError(f"what an event carries is named: an object in JSON is expected, not {text[:80]}")
    return fields


def _addressee(openings: list[OpeningPort], text: str) -> tuple[OpeningPort, Handler[..., Any], Record]:
    found: list[tuple[OpeningPort, Handler[..., Any], Record]] = []
    there: dict[str, None] = {}
    known: dict[str, None] = {}
    for opening in openings:
        for function, record in list(opening.space.events.handlers.items()):
            app, stream, piece = opening.app, record.spec.stream, record.spec.piece
            title = titled(record.name, piece)
            there |= dict.fromkeys((title, stream.removeprefix(f"{app}.")) if not piece else (title,))
            known |= dict.fromkeys((title, stream.removeprefix(f"{app}."), f"{app}.{title}", stream))
            is_stream = text.removesuffix("()") in (stream, stream.removeprefix(f"{app}."))
            if is_stream or is_called(record.id, record.name, text, app, piece):
                found.append((opening, function, record))  # type: ignore[arg-type]  # only handlers are among them
    # A name alone means a handler of the app before handlers of pieces.
    found = [each for each in found if not each[2].spec.piece] or found
    if len(found) > 1:
        raise _several(text, [(opening, record) for opening, _, record in found])
    if not found:
        raise no_handler(text, list(known), list(there))
    return found[0]


def _several(text: str, found: list[tuple[OpeningPort, Record]]) -> UsageError:
    """The error for a text that means several handlers, with a unique name for each."""
    names = [titled(record.name, record.spec.piece) for _, record in found]
    openings = {id(opening): opening.app for opening, _ in found}
    hint = "say which"
    if len(set(openings.values())) > 1:
        names = [f"{opening.app}.{name}" for (opening, _), name in zip(found, names, strict=True)]
        hint = "say which with the app in front, or with --app"
    elif len(set(names)) < len(names) and len(openings) > 1:
        names = [f"{opening.app}.{name}" for (opening, _), name in zip(found, names, strict=True)]
        hint = f"say which opening with --app, such as --app {found[0][0].app}#2"
    else:
        # Children of two parents may have the same name.
        names = [
            record.spec.stream if names.count(name) > 1 else name
            for (_, record), name in zip(found, names, strict=True)
        ]
    names = list(dict.fromkeys(names))
    listed = listed_text(names, _NAMED_MAX)
    return UsageError(f"{text} could be any of {len(found):,} here ({listed}); {hint}", handler=text)


def no_handler(text: str, known: list[str], there: list[str]) -> NotFoundError:
    """The error for a handler that does not exist, with similar names."""
    hint = did_you_mean(text, known) or f"; there is {listed_text(there, _NAMED_MAX) or 'none'}"
    return NotFoundError(f"there is no handler {text}{hint}", handler=text)


# --- events that are there --------------------------------------------------------------------------------------------


def _send_on(openings: list[OpeningPort], scope: InspectScope, command: RedeliverEvent) -> EventReport | None:
    """Deliver an event or post for another space again, perhaps to a third one. None if it is for this space."""
    here = InspectScope(space=scope.space, branch=scope.branch)
    stored = show_event(openings, here, command.event, _LOOK_S)
    if not stored.to:
        if command.to:
            message = f"{stored.event} is for this space: --to is for events and posts for other spaces"
            raise UsageError(message, event=stored.event)
        return None
    opening = openings[0]
    space: object = opening.space
    assert isinstance(space, DeliveringSpace)
    with opening.locked(LOCK_MS / 1000) as has_lock:
        if not has_lock:
            raise _busy(opening, f"{stored.event} was not delivered")
        opening.refresh()
        space.delivery.redeliver(stored.event.partition(":")[2], command.to)
    space.wait_for_disk(_DISK_S)
    space.nudge()
    return show_event(openings, here, stored.event, _LOOK_S)


def _redeliver(openings: list[OpeningPort], scope: InspectScope, command: RedeliverEvent) -> Delivery:
    stored = _find(openings[0], scope.branch, command.event)
    able = [opening for opening in openings if stored.stream in opening.space.events.streams]
    if not able:
        message = f"no handler takes stream {stored.stream} there, so {stored.event} cannot be delivered; open its app"
        raise NotFoundError(message, event=stored.event, stream=stored.stream)
    opening = able[0]

    def deliver(delivery: Delivery) -> None:
        with opening.locked(delivery.left) as has_lock:
            if not has_lock:
                raise _busy(opening, f"{stored.event} was not delivered")
            opening.refresh()
            opening.space.events.redeliver(stored.event, delivery.take)

    return Delivery(opening, command.timeout_ms, deliver)


def _drop(openings: list[OpeningPort], scope: InspectScope, command: DropEvent) -> EventReport:
    stored = droppable(
        show_event(openings, InspectScope(space=scope.space, branch=scope.branch), command.event, _LOOK_S)
    )
    # Prefer the opening in which the event waits.
    live = [opening for opening in openings if stored.event in opening.space.scheduler.outcomes.live]
    opening = (live or openings)[0]
    with opening.locked(LOCK_MS / 1000) as has_lock:
        if not has_lock:
            raise _busy(opening, f"{stored.event} was not dropped")
        opening.refresh()
        opening.space.scheduler.drop_event(stored.event)
    opening.space.wait_for_disk(_DISK_S)
    return stored


def _find(opening: OpeningPort, branch: str, event: str) -> EventReport:
    opening.space.wait_for_disk(_DISK_S)
    if not opening.is_local:
        return find_failed(opening.space.replica.read, event)
    return opening.storage.call(lambda engine: find_failed(reader(engine, BranchId(branch)), event))


# --- the end of an event --------------------------------------------------------------------------------------


def _busy(opening: OpeningPort, what: str) -> EventTimeoutError:
    scheduler = opening.space.scheduler
    handled = [lane.running.title for lane in scheduler.lanes if lane.running is not None]
    at_work = [*handled, *(node.title for node in list(scheduler.runner.stack))]
    who = f"{at_work[-1]} is at work" if at_work else "something is at work"
    return EventTimeoutError(f"{what}: {who} in space {opening.space.name!r}, and it was not free in time")


class Delivery:
    """The delivery of one event: send, handle, wait."""

    def __init__(self, opening: OpeningPort, timeout_ms: float | None, deliver: Deliver) -> None:
        self.opening = opening
        self.is_awaited = timeout_ms is not None
        self.end = machine().monotonic() + (LOCK_MS if timeout_ms is None else timeout_ms) / 1000
        self._deliver = deliver
        # Set when the event was accepted or rejected.
        self.taken = machine().event()
        self.over = machine().event()
        self.event: EventRecord | None = None
        self.error: BaseException | None = None

    @property
    def left(self) -> float:
        """Seconds until the report is due."""
        return max(self.end - machine().monotonic(), 0.0)

    def take(self, event: EventRecord) -> None:
        """The event was accepted."""
        self.event = event
        self.taken.set()

    def run(self, stops: tuple[type[BaseException], ...]) -> None:
        """Deliver the event, and wait if there is a timeout. A handler that raises one of `stops` has failed."""
        try:
            self._deliver(self)
        except stops:
            # Raised by its handler, or by the handler of an earlier event.
            if self.event is None:
                raise
        event = self.event
        if event is not None and self.is_awaited and not event.is_settled:
            # The event goes on, or waits for the next opening: see its state.
            with suppress(EventTimeoutError, ClosedError, *stops):
                self.opening.space.wait_for(event, self.left * 1000)

    def run_apart(self) -> None:
        """The same, in a separate thread."""
        try:
            self.run((SystemExit, KeyboardInterrupt))
        except BaseException as error:  # noqa: BLE001  # raised by the thread that waits
            self.error = error
        finally:
            self.over.set()
            self.taken.set()


Deliver: TypeAlias = Callable[[Delivery], None]


def _finished(delivery: Delivery, verb: str, *, apart: bool) -> EventReport:
    """Deliver, and report when the event has ended, after the timeout, or at once."""
    if apart:
        machine().thread(delivery.run_apart, name=f"headwater-{verb}-handling").start()
        delivery.taken.wait()
        if delivery.is_awaited:
            delivery.over.wait(delivery.left)
        if delivery.error is not None and (delivery.is_awaited or delivery.event is None):
            raise delivery.error
    else:
        delivery.run((SystemExit,))
    assert delivery.event is not None
    return report_of(delivery.opening, delivery.event)


def report_of(opening: OpeningPort, event: EventRecord) -> EventReport:
    """The state of an event that was sent here."""
    handler = event.handler
    is_ours = event.state is EventState.CONFIRMED or event.reason is HANDLED
    rejection = event.rejection if event.state is EventState.REJECTED else None
    reason = event.reason
    if not event.is_settled:
        # The queue may change during the read: then the report has no reason.
        with suppress(RuntimeError):
            why = [each.story for each in opening.space.scheduler.event_queries.waiting() if each.event is event]
            reason = why[0] if why else reason
    return EventReport(
        event=event.id,
        stream=handler.spec.stream,
        handler=handler.title,
        app=opening.app,
        state=event.state.value,
        attempts=event.attempts,
        reason=reason,
        result=json_of(event.result) if is_ours else None,
        facts=None if rejection is None or not rejection.facts else json_of(rejection.facts),
        handled_before=event.reason is HANDLED,
    )
