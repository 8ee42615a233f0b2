"""Events that a transaction sends are part of it: they stand in one document from its commit until they are handled.

So they are neither sent by a transaction that does not come to be, nor lost if the process ends before they are
handled: whoever opens the space next finds them there. The handling takes them out again, in its own transaction.

Must never know: when an event is handled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.event import Event
from headwater.values.address import Depth, doc_key
from headwater.values.patch import Add, Remove
from headwater.values.tree import ABSENT, Maybe, Value, freeze

OUTBOX: Final = doc_key("events:outbox")
"""A map from the letters of each event's id to its stream and payload."""


def put(tx: Transaction, letters: str, stream: str, payload: Value) -> None:
    """Send an event with the transaction."""
    entry = freeze({"stream": stream, "payload": payload})
    if is_map(tx.look(OUTBOX)):
        tx.patch(OUTBOX, Add((letters,), entry))
    else:
        # Of two that create it, one has to look again.
        tx.note(OUTBOX, (), Depth.DEEP)
        tx.set(OUTBOX, (), freeze({letters: entry}))


def take(tx: Transaction, letters: str) -> None:
    """The event is handled with this transaction."""
    found = tx.look(OUTBOX)
    if is_map(found) and letters in cast("Mapping[str, Value]", found):
        tx.patch(OUTBOX, Remove((letters,)))


def drop(replica: Replica, event: Event) -> None:
    """The event will never be handled, and is kept elsewhere if at all."""
    tx = Transaction(replica, f"forgetting {event.id}")
    take(tx, event.letters)
    tx.commit()


def waiting(replica: Replica) -> Iterator[tuple[str, str, Value]]:
    """Letters, stream and payload of those that are to be handled, as they stand there."""
    found = replica.read(OUTBOX)
    if not is_map(found):
        return
    for letters, entry in list(cast("Mapping[str, Value]", found).items()):
        if is_map(entry):
            told = cast("Mapping[str, Value]", entry)
            stream = told.get("stream")
            if isinstance(stream, str) and "payload" in told:
                yield letters, stream, told["payload"]


def is_map(value: Maybe) -> bool:
    """Whether there is a map: whoever writes elsewhere than here may have put something else."""
    return value is not ABSENT and isinstance(value, Mapping)
