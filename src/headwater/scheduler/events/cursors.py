"""Cursors of senders: how far the events of each other space are handled here.

Each handling of a delivered event reads and writes the cursor of its sender. So of two programs that deliver from one
space, the later one conflicts, and an event is never committed if the handling before it was rolled back: the events of
a space are handled in their order.

events:from:SPACE = {lineage: {"event": ..., "order": [...], "acknowledged": [...]}}
"""

from __future__ import annotations

from headwater.cells.transaction import Transaction
from headwater.scheduler.events.event import SendingSpace
from headwater.scheduler.events.outbox import is_map
from headwater.values.address import Depth, doc_key
from headwater.values.ids import DocKey
from headwater.values.tree import Value, array_of, map_of

PREFIX = "events:from:"
"""The names of these documents begin so."""


def cursor_of(space: str) -> DocKey:
    """The document with the cursor of a sender."""
    return doc_key(f"{PREFIX}{space}")


def position_of(sender: SendingSpace) -> Value:
    """The position of an event at its sender, for its receipt: that may go when the sender has acknowledged it."""
    return array_of([sender.space, sender.lineage, array_of(list(sender.order))])


def advance(tx: Transaction, sender: SendingSpace) -> None:
    """The transaction handles the next event of a sender."""
    doc = cursor_of(sender.space)
    tx.record(doc, (sender.lineage,), Depth.DEEP)
    fields: dict[str, Value] = {"event": sender.letters, "order": array_of(list(sender.order))}
    if sender.acknowledged:
        fields["acknowledged"] = array_of(list(sender.acknowledged))
    if is_map(tx.document(doc)):
        tx.set(doc, (sender.lineage,), map_of(fields))
    else:
        tx.set(doc, (), map_of({sender.lineage: map_of(fields)}))
