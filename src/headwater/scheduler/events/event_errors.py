"""The errors of events, as reported."""

from __future__ import annotations

from headwater.errors import DeliveryError, HeadwaterError, UserCodeError
from headwater.scheduler.events.event import EventRecord
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.function_errors import facts_of


def _event_facts(event: EventRecord, space: str) -> dict[str, object]:
    handler = event.handler
    return {
        "space": space,
        "piece": handler.spec.piece,
        "node": handler.name,
        "event": event.id,
        "triggers": (),
        "run": handler.runs,
        "payload": event.payload,
    }


def never_quiet(node: Node, event: EventRecord) -> UserCodeError:
    """The warning for an event that waited too long for a debounced function."""
    handler = event.handler
    message = (
        f"{event.id} for {handler.title} has waited for {node.title}, which waits for quiet (debounce) while what it "
        f"reads is changed without pause; the events behind it waited, too. {node.title} was run without its quiet. "
        "Give it a throttle instead of a debounce, or do not read it in the handler"
    )
    return UserCodeError(message, **(facts_of(node, ()) | {"event": event.id}))


def failed_event(event: EventRecord, space: str, *, is_kept: bool, where: str = "") -> UserCodeError:
    """The error for a failed event, which is stored unless `keep_failed=0`. `where`: options of commands."""
    # If other processes have the space open, too, the command needs an app.
    again = f"{where} --app MODULE:APP" if where else ""
    kept = (
        f"It is kept: `headwater events show {event.id}{where}` shows it, `headwater events redeliver {event.id}"
        f"{again}` delivers it again"
    )
    message = (
        f"{event.handler.title} in space {space!r} did not handle {event.id}: {event.reason}. Nothing of it was "
        f"written. {kept if is_kept else 'None are kept here; its payload is in the facts of this error'}"
    )
    report = UserCodeError(message, **_event_facts(event, space))
    report.__cause__ = event.error
    return report


def unstored_event(event: EventRecord, space: str, broken: HeadwaterError) -> UserCodeError:
    """The error for a failed event that cannot be stored."""
    message = (
        f"{event.handler.title} in space {space!r} did not handle {event.id}: {event.reason}. It could not be kept "
        f"either: {broken.message}. Send it again when that is fixed; its payload is in this error's facts"
    )
    report = UserCodeError(message, **_event_facts(event, space))
    report.__cause__ = broken if event.error is None else event.error
    return report


def delivery_error(event: str, what: str, space: str, reason: str) -> DeliveryError:
    """The error for an event or post that another space did not accept. `event` is its id in the space that sent it."""
    message = (
        f"{event} was not handled by {what} in space {space}: {reason}. Nothing of it was written there. It is kept "
        f"here: `headwater events show {event}` shows it, `headwater events redeliver {event}` delivers it again, "
        f"`headwater events drop {event}` deletes it"
    )
    return DeliveryError(message, event=event, space=space, reason=reason)
