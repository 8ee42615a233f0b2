"""The documents that a handler is known to read.

These are its declared reads, the documents that the payload links to, and the results that it has read recently.
Further reads are found during the call: then, too, the read document is made current before the handler gets its value.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from headwater.cells.linked_documents import linked
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.events.cursors import cursor_of
from headwater.scheduler.events.event import EventRecord, Handling
from headwater.scheduler.scheduler_limits import HANDLER_READS_MAX
from headwater.values.ids import DocKey

READ_ONLY: Final = "looking ahead writes nothing: {}"

CLOSURE_MAX: Final = 256
"""Documents that are looked through. Whatever is behind them is found by the handler itself."""


def known_reads(event: EventRecord, replica: Replica) -> dict[DocKey, None]:
    """The documents. They are read in a transaction that is rolled back."""
    handler = event.handler
    if event.sender is not None:
        # Its commit reads and writes the cursor: it is fetched now, where the server may be away.
        replica.read(cursor_of(event.sender.space))
    spec = handler.spec
    todo = [*spec.reads, *linked(event.payload)] if spec.reads or spec.may_link else []
    if not todo:
        return handler.closure
    tx = Transaction(replica, f"preflight of {handler.title}", read_only=READ_ONLY)
    seen: dict[DocKey, None] = {}
    while todo and len(seen) < CLOSURE_MAX:
        doc = todo.pop()
        if doc not in seen:
            seen[doc] = None
            todo += linked(tx.read(doc))
    tx.abort()
    return {**handler.closure, **seen, **dict.fromkeys(todo)}


def remember_reads(handling: Handling) -> None:
    """Remember the results of nodes that it has read: they are made current before the next call."""
    looked, handler = handling.looked, handling.event.handler
    if looked.keys() != handler.closure.keys():
        # The latest: a handler that has to wait waits for the last document that it read.
        handler.closure = dict(islice(reversed(looked.items()), HANDLER_READS_MAX))
