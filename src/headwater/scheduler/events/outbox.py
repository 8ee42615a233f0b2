"""The document of sent events that are not handled.

So a transaction that does not commit sends no event, and no event is lost if the process ends before it is handled:
the next opening finds it there. The handling removes it, in its own transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from headwater.cells.journal import IGNORED_FOR_SCHEDULING
from headwater.cells.pending_commit import PendingCommit
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
    """Send an event with the transaction. Its time and its place in the lane define the order."""
    letters = event.letters
    order = array_of([event.sent_ms, event.ordinal])
    add(tx, letters, map_of({"stream": event.handler.spec.stream, "payload": event.payload, "order": order}))


def add(tx: Transaction, letters: str, entry: Value) -> None:
    """Add an entry with the transaction."""
    if tx.replica.read(OUTBOX) is ABSENT:
        _make(tx.replica)
    if is_map(tx.document(OUTBOX)):
        tx.patch(OUTBOX, Add((letters,), entry))
    else:
        # Other code wrote something else there. This must not invalidate the sender.
        tx.record(OUTBOX, (), Depth.DEEP, IGNORED_FOR_SCHEDULING)
        tx.set(OUTBOX, (), map_of({letters: entry}))


def _make(replica: Replica) -> None:
    """Create the document in a separate commit: of two runtimes that send their first event, none is rolled back."""
    tx = Transaction(replica, "making the outbox")
    tx.require(Absent(OUTBOX))
    tx.set(OUTBOX, (), map_of({}))
    # Another runtime may have created it.
    tx.on_settled(lambda _: None)
    tx.commit()


def take(tx: Transaction, letters: str) -> None:
    """Remove the event: this transaction handles it."""
    found = tx.document(OUTBOX)
    if is_map(found) and letters in cast("Mapping[str, Value]", found):
        tx.patch(OUTBOX, Remove((letters,)))


def undecided(replica: Replica) -> dict[str, PendingCommit]:
    """The entries whose commits are not decided, by id without prefix. At an opening, these are of an earlier one."""
    mark = replica.snapshot(OUTBOX)
    found: dict[str, PendingCommit] = {}
    for layer in mark.layers[: mark.count]:
        for effect in layer.effects:
            if effect.doc != OUTBOX:
                continue
            before, after = _map_of(effect.before), _map_of(effect.after)
            # Only what it touched is looked at: each of many may have added one entry.
            touched = [str(letters) for touch in effect.touches for letters in touch.path[:1] or tuple(after)]
            found.update((letters, layer) for letters in touched if letters in after and letters not in before)
    return found


def resumed_count(entry: Mapping[str, Value]) -> int:
    """The number of openings that resumed it and did not close in order."""
    count = entry.get("taken")
    return count if isinstance(count, int) else 0


def count(tx: Transaction, events: Iterable[EventRecord]) -> None:
    """Store how often each event was resumed."""
    found = dict(entries(tx.document(OUTBOX)))
    for event in events:
        if event.letters in found:
            # If it is handled meanwhile, it must not be stored again.
            tx.record(OUTBOX, (event.letters,), Depth.SHALLOW, IGNORED_FOR_SCHEDULING)
            tx.set(OUTBOX, (event.letters, "taken"), event.resumed_count)


def waiting(replica: Replica) -> list[tuple[str, str, Value]]:
    """Id without prefix, stream and payload of the waiting events, in the order of sending."""
    return [(letters, str(entry["stream"]), entry["payload"]) for letters, entry in entries(replica.read(OUTBOX))]


def entries(outbox: Maybe) -> list[tuple[str, Mapping[str, Value]]]:
    """The entries for handlers of this space by id without prefix, in the order of sending."""
    if not is_map(outbox):
        return []
    found = [
        (letters, cast("Mapping[str, Value]", entry))
        for letters, entry in cast("Mapping[str, Value]", outbox).items()
        if is_map(entry)
    ]
    found.sort(key=lambda each: _order(each[1].get("order")))
    return [
        (letters, entry) for letters, entry in found if "stream" in entry and "payload" in entry and "to" not in entry
    ]


def sent_ms(entry: Mapping[str, Value]) -> float:
    """When an event was sent, in milliseconds since 1970; 0 if unknown."""
    return next(iter(_order(entry.get("order"))), 0.0)


def after(replica: Replica) -> int:
    """A time after all entries: an event that is sent now comes after them, whatever the clock says.

    A value that is no time, because other code wrote it, does not count.
    """
    times = [sent_ms(entry) for _, entry in entries(replica.read(OUTBOX))]
    return max((int(time) + 1 for time in times if 0 <= time < _TIME_MAX), default=0)


def _order(value: Value) -> tuple[float, ...]:
    return tuple(float(part) for part in items(value) if isinstance(part, int | float))


def numbers(value: Maybe) -> tuple[int, ...]:
    """The whole numbers of an array: other code may have written something else."""
    return tuple(part for part in items(value) if isinstance(part, int))


def items(value: Maybe) -> Sequence[Value]:
    """The elements of an array; none of anything else."""
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()


def _map_of(value: Maybe) -> Mapping[str, Value]:
    return cast("Mapping[str, Value]", value) if is_map(value) else {}


def is_map(value: Maybe) -> bool:
    """Whether the value is a map: other code may have written something else."""
    return value is not ABSENT and isinstance(value, Mapping)
