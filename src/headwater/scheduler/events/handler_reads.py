"""The documents that a handler is known to read.

That is what it was declared to read and what the payload names, with whatever these lead to, and what it has read
lately of what nodes write. If it reads more, that is found when it does: then as here, everything above is made current
before it sees any of it.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from headwater.cells.linked_documents import linked
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.events.event import EventRecord, Handling
from headwater.scheduler.scheduler_limits import HANDLER_READS_MAX
from headwater.values.ids import DocKey

READ_ONLY: Final = "looking ahead writes nothing: {}"

CLOSURE_MAX: Final = 256
"""Documents that are looked through. Whatever is behind them is found by the handler itself."""


def known_reads(event: EventRecord, replica: Replica) -> dict[DocKey, None]:
    """The documents; read in a transaction that writes nothing and is given up."""
    handler = event.handler
    found = dict(handler.closure)
    todo = [*handler.spec.reads, *linked(event.payload)]
    if not todo:
        return found
    tx = Transaction(replica, f"preflight of {handler.title}", read_only=READ_ONLY)
    seen: dict[DocKey, None] = {}
    while todo and len(seen) < CLOSURE_MAX:
        doc = todo.pop()
        if doc not in seen:
            seen[doc] = None
            todo += linked(tx.read(doc))
    tx.abort()
    return {**found, **seen, **dict.fromkeys(todo)}


def remember_reads(handling: Handling) -> None:
    """What it has read of what nodes write is made current before the next call."""
    looked, handler = handling.looked, handling.event.handler
    if looked.keys() != handler.closure.keys():
        # The latest: one that has to wait does so for the last that it looked at.
        handler.closure = dict(islice(reversed(looked.items()), HANDLER_READS_MAX))
