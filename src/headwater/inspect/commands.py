"""What is done in an open space because somebody asked for it at its door: events are sent, delivered again, dropped.

As a thread of the program would do it: when it has its turn, and what a handler does there is done by it.

Must never know: sockets, and who asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import structs

from headwater.errors import ClosedError, EventTimeoutError, HeadwaterError, NotFoundError, UsageError
from headwater.inspect.live_events import choose, show_event
from headwater.inspect.records import EventTold, Trouble, is_called
from headwater.inspect.stored_events import droppable, find_failed, json_of, looking
from headwater.machine import machine
from headwater.scheduler.events.event import EventRecord, EventState
from headwater.scheduler.events.outcomes import HANDLED
from headwater.scheduler.graph.node import titled
from headwater.values.codec import from_json
from headwater.values.ids import BranchId

if TYPE_CHECKING:
    from headwater.declare.events.handler import Handler
    from headwater.inspect.records import Ask
    from headwater.inspect.view import Window
    from headwater.scheduler.events.event import HandlerRecord as Record

TURN_MS: Final = 10_000.0
"""How long its turn is waited for by somebody who does not say how long."""

_LOOK_S: Final = 0.3
"""How long a turn is waited for to look whether an event is there. Without one, it is seen in passing."""

_NAMED_MAX: Final = 8
"""Handlers that are named if none, or more than one, could be meant: pieces may have thousands."""

_DISK_S: Final = 5.0
"""How long what was written is waited for."""


def act(windows: Sequence[Window], ask: Ask, *, apart: bool = False) -> EventTold:
    """Do it, and tell what came of it. Raises HeadwaterError: then nothing was done.

    In a plain program, whoever sends handles. `apart`: in a thread of its own, so that it is told when time is over.
    """
    chosen = choose(windows, ask)
    match ask.ask:
        case "send":
            return _followed(_send(chosen, ask), ask, apart=apart)
        case "redeliver":
            return _followed(_redeliver(chosen, ask), ask, apart=apart)
        case "drop":
            return _drop(chosen, ask)
        case _:
            raise UsageError(f"{ask.ask!r} is nothing that can be done")


def trouble_of(error: HeadwaterError) -> Trouble:
    """As it goes through a door."""
    return Trouble(type(error).__name__, error.message)


# --- sending --------------------------------------------------------------------------------------------------


def _send(windows: list[Window], ask: Ask) -> Delivery:
    window, handler, record = _addressee(windows, ask.node)
    space = window.space
    fields = _fields(ask.fields)
    outside = (ask.by, ask.name) if ask.name else None

    def deliver(delivery: Delivery) -> None:
        # Where others wait already, it can be put behind them meanwhile; not where the space is being closed.
        at_once = not delivery.is_awaited and space.scheduler.events.waiting > 0
        with window.in_turn(0.0 if at_once else delivery.left) as has_turn:
            if not (has_turn or at_once):
                raise _busy(window, f"nothing was sent to {record.title}")
            payload = handler.payload.from_json(space, fields)
            space.mail.send(handler.stream, payload, outside, delivery.take)

    return Delivery(window, ask, deliver)


def _fields(text: str) -> dict[str, object]:
    try:
        given: object = json.loads(text)
    except ValueError as error:
        raise UsageError(f"what the event carries is not JSON: {error}") from None
    fields = {name: from_json(value) for name, value in given.items()} if isinstance(given, dict) else None
    if fields is None:
        raise UsageError(f"what an event carries is named: an object in JSON is expected, not {text[:80]}")
    return fields


def _addressee(windows: list[Window], text: str) -> tuple[Window, Handler[..., Any], Record]:
    found: list[tuple[Window, Handler[..., Any], Record]] = []
    there: dict[str, None] = {}
    known: dict[str, None] = {}
    for window in windows:
        for function, record in list(window.space.handlers.items()):
            app, stream, piece = window.app, record.spec.stream, record.spec.piece
            title = titled(record.name, piece)
            there |= dict.fromkeys((title, stream.removeprefix(f"{app}.")) if not piece else (title,))
            known |= dict.fromkeys((title, stream.removeprefix(f"{app}."), f"{app}.{title}", stream))
            is_stream = text.removesuffix("()") in (stream, stream.removeprefix(f"{app}."))
            if is_stream or is_called(record.id, record.name, text, app, piece):
                found.append((window, function, record))  # type: ignore[arg-type]  # only handlers are among them
    # A name alone is that of the app's own, if it has one: those of pieces have another.
    found = [each for each in found if not each[2].spec.piece] or found
    if len(found) > 1:
        raise _several(text, [(window, record) for window, _, record in found])
    if not found:
        raise no_handler(text, list(known), list(there))
    return found[0]


def _several(text: str, found: list[tuple[Window, Record]]) -> UsageError:
    """By names of which each means one, as far as there are such."""
    names = [titled(record.name, record.spec.piece) for _, record in found]
    windows = {id(window): window.app for window, _ in found}
    hint = "say which"
    if len(set(windows.values())) > 1:
        names = [f"{window.app}.{name}" for (window, _), name in zip(found, names, strict=True)]
        hint = "say which with the app in front, or with --app"
    elif len(set(names)) < len(names) and len(windows) > 1:
        names = [f"{window.app}.{name}" for (window, _), name in zip(found, names, strict=True)]
        hint = f"say which opening with --app, such as --app {found[0][0].app}#2"
    else:
        # Children of two parents may be called the same.
        names = [
            record.spec.stream if names.count(name) > 1 else name
            for (_, record), name in zip(found, names, strict=True)
        ]
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - _NAMED_MAX:,} more" if len(names) > _NAMED_MAX else ""
    message = f"{text} could be any of {len(found):,} here ({', '.join(names[:_NAMED_MAX])}{more}); {hint}"
    return UsageError(message, handler=text)


def no_handler(text: str, known: list[str], there: list[str]) -> NotFoundError:
    """Nobody is called that; somebody may be nearly."""
    from difflib import get_close_matches  # noqa: PLC0415  # seldom needed

    close = get_close_matches(text, known, n=3, cutoff=0.65)
    more = f" and {len(there) - _NAMED_MAX:,} more" if len(there) > _NAMED_MAX else ""
    listed = ", ".join(there[:_NAMED_MAX]) + more
    hint = f"did you mean {' or '.join(close)}?" if close else f"there is {listed}" if there else "there is none"
    return NotFoundError(f"there is no handler {text}; {hint}", handler=text)


# --- events that are there --------------------------------------------------------------------------------------------


def _redeliver(windows: list[Window], ask: Ask) -> Delivery:
    kept = _find(windows[0], ask)
    able = [window for window in windows if kept.stream in window.space.scheduler.streams.handlers]
    if not able:
        message = f"nobody handles stream {kept.stream} there, so {kept.event} cannot be delivered; open its app"
        raise NotFoundError(message, event=kept.event, stream=kept.stream)
    window = able[0]

    def deliver(delivery: Delivery) -> None:
        with window.in_turn(delivery.left) as has_turn:
            if not has_turn:
                raise _busy(window, f"{kept.event} was not delivered")
            window.refresh()
            window.space.mail.redeliver(kept.event, delivery.take)

    return Delivery(window, ask, deliver)


def _drop(windows: list[Window], ask: Ask) -> EventTold:
    kept = droppable(show_event(windows, structs.replace(ask, app=""), _LOOK_S))
    # Of several openings, the one that it waits in.
    live = [window for window in windows if kept.event in window.space.scheduler.outcomes.live]
    window = (live or windows)[0]
    with window.in_turn(max(_end_of(ask) - machine().monotonic(), 0.0)) as has_turn:
        if not has_turn:
            raise _busy(window, f"{kept.event} was not dropped")
        window.refresh()
        window.space.scheduler.drop_event(kept.event)
    window.space.wait_for_disk(_DISK_S)
    return kept


def _find(window: Window, ask: Ask) -> EventTold:
    window.space.wait_for_disk(_DISK_S)
    if window.space.connection.state != "local":
        return find_failed(window.space.replica.read, ask.event)
    return window.storage.call(lambda engine: find_failed(looking(engine, BranchId(ask.branch)), ask.event))


# --- the end of an event --------------------------------------------------------------------------------------


def _end_of(ask: Ask) -> float:
    return machine().monotonic() + (TURN_MS if ask.timeout_ms is None else ask.timeout_ms) / 1000


def _busy(window: Window, what: str) -> EventTimeoutError:
    scheduler = window.space.scheduler
    handled = [lane.running.title for lane in scheduler.lanes if lane.running is not None]
    at_work = [*handled, *(node.title for node in list(scheduler.runner.stack))]
    who = f"{at_work[-1]} is at work" if at_work else "something is at work"
    return EventTimeoutError(f"{what}: {who} in space {window.space.name!r}, and it did not have its turn in time")


class Delivery:
    """An event that is sent, handled and waited for; and how far that is."""

    def __init__(self, window: Window, ask: Ask, deliver: Deliver) -> None:
        self.window = window
        self.is_awaited = ask.timeout_ms is not None
        self.end = _end_of(ask)
        self._deliver = deliver
        # Set when it was taken, or is not going to be.
        self.taken = machine().event()
        self.over = machine().event()
        self.event: EventRecord | None = None
        self.error: BaseException | None = None

    @property
    def left(self) -> float:
        """Seconds until whoever asks wants an answer."""
        return max(self.end - machine().monotonic(), 0.0)

    def take(self, event: EventRecord) -> None:
        """It is on its way."""
        self.event = event
        self.taken.set()

    def run(self, stops: tuple[type[BaseException], ...]) -> None:
        """Deliver it, and wait if that is wanted. A handler may raise such as `stops`: its event has failed then."""
        try:
            self._deliver(self)
        except stops:
            # By its handler, or by one that came before it.
            if self.event is None:
                raise
        event = self.event
        if event is not None and self.is_awaited and not event.is_settled:
            # Either is told by its state: it goes on, or is left for the next opening.
            with suppress(EventTimeoutError, ClosedError, *stops):
                self.window.space.wait_for(event, self.left * 1000)

    def run_apart(self) -> None:
        """The same in a thread, where nobody but a handler interrupts."""
        try:
            self.run((SystemExit, KeyboardInterrupt))
        except BaseException as error:  # noqa: BLE001  # whoever waits for it raises it
            self.error = error
        finally:
            self.over.set()
            self.taken.set()


Deliver: TypeAlias = Callable[[Delivery], None]


def _followed(delivery: Delivery, ask: Ask, *, apart: bool) -> EventTold:
    """Have it delivered; and tell how it stands when it has ended, when time is over, or at once."""
    if apart:
        machine().thread(delivery.run_apart, name=f"headwater-{ask.ask}-handling").start()
        delivery.taken.wait()
        if delivery.is_awaited:
            delivery.over.wait(delivery.left)
        if delivery.error is not None and (delivery.is_awaited or delivery.event is None):
            raise delivery.error
    else:
        delivery.run((SystemExit,))
    assert delivery.event is not None
    return told_of(delivery.window, delivery.event)


def told_of(window: Window, event: EventRecord) -> EventTold:
    """How an event stands that was sent here."""
    handler = event.handler
    is_ours = event.state is EventState.CONFIRMED or event.reason is HANDLED
    rejection = event.rejection if event.state is EventState.REJECTED else None
    reason = event.reason
    if not event.is_settled:
        # What is looked at may change meanwhile: then it is told without a reason.
        with suppress(RuntimeError):
            why = [each.story for each in window.space.scheduler.inquiry.waiting() if each.event is event]
            reason = why[0] if why else reason
    return EventTold(
        event=event.id,
        stream=handler.spec.stream,
        handler=handler.title,
        app=window.app,
        state=event.state.value,
        attempts=event.attempts,
        reason=reason,
        result=json_of(event.result) if is_ours else None,
        facts=None if rejection is None or not rejection.facts else json_of(rejection.facts),
        handled_before=event.reason is HANDLED,
    )
