"""The document of sent events that are not handled.

So they are neither sent by a transaction that does not commit, nor lost if the process ends before they are
handled: the next opening finds them there. The handling removes them, in its own transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from headwater.cells.journal import IGNORED_FOR_SCHEDULING
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.events.event import EventRecord
from headwater.store.commit import Absent
from headwater.values.address import Depth, doc_key
from headwater.values.patch import Add, Remove
from headwater.values.tree import ABSENT, Maybe, Value, array_of, map_of

OUTBOX: Final = doc_key("events:outbox")
"""A map from the letters of each event's id to its stream and payload."""


_TIME_MAX: Final = 2**53
"""Times that are counted in milliseconds since 1970 are below this."""


def put(tx: Transaction, event: EventRecord) -> None:
    """Send an event with the transaction. When it was sent, and its place in the lane, tell in which order."""
    letters = event.letters
    order = array_of([event.sent_ms, event.ordinal])
    entry = map_of({"stream": event.handler.spec.stream, "payload": event.payload, "order": order})
    if tx.replica.read(OUTBOX) is ABSENT:
        _make(tx.replica)
    if is_map(tx.document(OUTBOX)):
        tx.patch(OUTBOX, Add((letters,), entry))
    else:
        # Something else was written there. The sender is not to be invalidated by it.
        tx.record(OUTBOX, (), Depth.DEEP, IGNORED_FOR_SCHEDULING)
        tx.set(OUTBOX, (), map_of({letters: entry}))


def _make(replica: Replica) -> None:
    """Apart from what is sent first: of two who send for the first time at once, none is rolled back for that."""
    tx = Transaction(replica, "making the outbox")
    tx.require(Absent(OUTBOX))
    tx.set(OUTBOX, (), map_of({}))
    # If another runtime was first, that is as good.
    tx.on_settled(lambda _: None)
    tx.commit()


def take(tx: Transaction, letters: str) -> None:
    """The event is handled with this transaction."""
    found = tx.document(OUTBOX)
    if is_map(found) and letters in cast("Mapping[str, Value]", found):
        tx.patch(OUTBOX, Remove((letters,)))


def resumed_count(entry: Mapping[str, Value]) -> int:
    """How many openings have taken it up, and did not come to their end."""
    count = entry.get("taken")
    return count if isinstance(count, int) else 0


def count(tx: Transaction, events: Iterable[EventRecord]) -> None:
    """Write down how often each was taken up."""
    found = dict(entries(tx.document(OUTBOX)))
    for event in events:
        if event.letters in found:
            # If it is handled meanwhile, nothing of it may be put back.
            tx.record(OUTBOX, (event.letters,), Depth.SHALLOW, IGNORED_FOR_SCHEDULING)
            tx.set(OUTBOX, (event.letters, "taken"), event.resumed_count)


def waiting(replica: Replica) -> list[tuple[str, str, Value]]:
    """Letters, stream and payload of those that are to be handled, in the order in which they were sent."""
    return [(letters, str(entry["stream"]), entry["payload"]) for letters, entry in entries(replica.read(OUTBOX))]


def entries(outbox: Maybe) -> list[tuple[str, Mapping[str, Value]]]:
    """What stands in it, by letters, in the order in which it was sent."""
    if not is_map(outbox):
        return []
    found = [
        (letters, cast("Mapping[str, Value]", entry))
        for letters, entry in cast("Mapping[str, Value]", outbox).items()
        if is_map(entry)
    ]
    found.sort(key=lambda each: _order(each[1].get("order")))
    return [(letters, entry) for letters, entry in found if "stream" in entry and "payload" in entry]


def sent_ms(entry: Mapping[str, Value]) -> float:
    """When one was sent, in milliseconds since 1970; 0 if it does not say."""
    return next(iter(_order(entry.get("order"))), 0.0)


def after(replica: Replica) -> int:
    """A time at which nothing that stands there was sent yet: what is sent now comes after it, whatever the clock says.

    A value that is no time, because other code wrote it, does not count.
    """
    times = [sent_ms(entry) for _, entry in entries(replica.read(OUTBOX))]
    return max((int(time) + 1 for time in times if 0 <= time < _TIME_MAX), default=0)


def _order(value: Value) -> tuple[float, ...]:
    parts = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()
    return tuple(float(part) for part in parts if isinstance(part, int | float))


def is_map(value: Maybe) -> bool:
    """Whether the value is a map: other code may have written something else."""
    return value is not ABSENT and isinstance(value, Mapping)
