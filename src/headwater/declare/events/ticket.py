"""The ticket of a sent event: its state, and its result."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, Literal, Self, TypeVar, cast

from headwater.cells.detached_value import DetachedValue
from headwater.declare.events.event_port import EventPort
from headwater.errors import (
    ClosedError,
    EventFailedError,
    EventRefusedError,
    EventRejectedError,
    EventReusedError,
    PoisonedError,
    UnconfirmedError,
)
from headwater.scheduler.events.event import EventRecord, EventState
from headwater.scheduler.events.event_errors import delivery_error
from headwater.scheduler.events.outcomes import HANDLED
from headwater.scheduler.events.receipts import REUSED
from headwater.values.codec import to_json
from headwater.values.duration import Duration, to_ms

R_co = TypeVar("R_co", covariant=True)

TicketState = Literal["queued", "running", "pending", "confirmed", "refused", "rejected", "failed"]


class Ticket(Generic[R_co]):
    """An event that was sent. Call `result()` in plain code, `await` it in async code."""

    __slots__ = ("_event", "_result", "_space")

    def __init__(self, space: EventPort, event: EventRecord, result: DetachedValue) -> None:
        self._space = space
        self._event = event
        self._result = result

    @property
    def id(self) -> str:
        """The id of the event: the same in every process and at every delivery."""
        return self._event.id

    @property
    def state(self) -> TicketState:
        """The state: queued, running, pending (handled here), then confirmed, refused, rejected or failed."""
        return self._event.state.value

    @property
    def reason(self) -> str:
        """Why the event was refused, rejected or failed."""
        return self._event.reason

    @property
    def is_done(self) -> bool:
        """Whether the event has ended."""
        return self._event.is_settled

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the result of the handler, until it is on disk or confirmed by the server.

        An event that was handled before has the result of that time.

        Args:
            timeout: The longest time to wait. By default, without a limit.

        Returns:
            What the handler returned.

        Raises:
            EventFailedError: HW161. The handler raised an exception. The event is kept.
            DeliveryError: HW166. A handler of another space did not accept it. It is kept in the space that sent it.
            EventRejectedError: HW164. The handler raised `hw.Reject`.
            EventRefusedError: HW162. The transaction that sent the event was rolled back.
            EventReusedError: HW165. The id was used for another event.
            EventTimeoutError: HW163. The time is over. The event goes on.
            UnconfirmedError: HW218. The event ended without a verdict.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")


            @app.handler
            def greet(name: str) -> str:
                return f"hello {name}"


            with app.open("memory:"):
                print(greet.send("Ann").result(timeout="1m"))  # hello Ann
            ```
        """
        if not self._event.is_settled:
            limit = None if timeout is None else to_ms(timeout, "ticket.result(...)")
            self._space.wait_for(self._event, limit)
        return self._answer()

    def __await__(self) -> Generator[object, None, R_co]:
        if not self._event.is_settled:
            yield from self._space.until(self._event).__await__()
        return self._answer()

    def on_commit(self, callback: Callable[[Self], object]) -> Self:
        """Call a function once with this ticket when the event has ended, in any state.

        Args:
            callback: The function. It takes this ticket.

        Returns:
            This ticket.

        Raises:
            TypeError: The callback is not a function.
        """
        if not callable(callback):
            raise TypeError(f"on_commit takes a function, not {callback!r}")
        self._space.when_ended(self._event, lambda _: callback(self), callback)
        return self

    def _answer(self) -> R_co:
        event = self._event
        title = event.handler.title
        is_refused = event.state is EventState.REFUSED
        if event.state is EventState.CONFIRMED or (is_refused and event.reason == HANDLED):
            return cast("R_co", self._result.from_tree(self._space, self._space.untracked, event.result))
        if isinstance(event.error, UnconfirmedError | PoisonedError):
            message = f"it is not known whether {event.id} was handled by {title}: {event.error.message}"
            raise UnconfirmedError(f"{message}. Look before you send it again", event=event.id) from event.error
        if event.state is EventState.FAILED and event.sender is not None:
            refused = delivery_error(f"event:{event.sender.letters}", title, self._space.name, event.reason)
            refused.__cause__ = event.error
            raise refused
        if event.state is EventState.FAILED:
            message = f"{title} did not handle {event.id}: {event.reason}. Nothing of it was written"
            where = self._space.scheduler.outcomes.where
            kept = f"it is kept, see `headwater events show {event.id}{where}`"
            if event.not_stored:
                kept = f"it could not be kept either: {event.not_stored}. Send it again when that is fixed"
            failed = EventFailedError(f"{message}; {kept}", event=event.id)
            failed.__cause__ = event.error
            raise failed
        if event.rejection is not None and event.state is EventState.REJECTED:
            raise rejected_error(event.id, title, event.rejection.reason, to_json(event.rejection.facts))
        if is_refused and event.reason == REUSED:
            raise reused_error(event.id, title)
        if is_refused:
            raise EventRefusedError(f"{event.id} was not handled by {title}: {event.reason}", event=event.id)
        message = f"{event.id} was not handled by {title}: space {self._space.name!r} was closed before its turn"
        raise ClosedError(f"{message}. It is handled when the space is opened again", event=event.id)

    def __repr__(self) -> str:
        return f"<Ticket {self.id} for {self._event.handler.title}: {self.state}>"


def rejected_error(event: str, handler: str, reason: str, facts: object) -> EventRejectedError:
    """The error for an event that its handler rejected, with the facts of the rejection."""
    told = facts if isinstance(facts, dict) else {}
    message = f"{handler} rejected {event}: {reason}. Nothing of it was written"
    return EventRejectedError(message, **{**told, "event": event, "reason": reason})


def reused_error(event: str, handler: str) -> EventReusedError:
    """The error for an id that another event has used."""
    message = f"{handler} was not sent {event}: an event with this id was handled with another payload"
    return EventReusedError(f"{message}; use another id for another event", event=event)
