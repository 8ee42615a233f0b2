"""What an event's handler is known to read before it is called.

That is what it was declared to read and what the payload names, with whatever these lead to, and what it has read
lately of what nodes write. If it reads more, that is found when it does: then as here, everything above is made current
before it sees any of it.

Must never know: which node writes what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import own_link
from headwater.scheduler.event import Event
from headwater.values.ids import DocKey
from headwater.values.tree import CONTAINERS, Maybe

READ_ONLY: Final = "looking ahead writes nothing: {}"

CLOSURE_MAX: Final = 256
"""Documents that are looked through. Whatever is behind them is found by the handler itself."""


def closure_of(event: Event, replica: Replica) -> dict[DocKey, None]:
    """The documents; read in a transaction that writes nothing and is given up."""
    handler = event.handler
    found = dict(handler.closure)
    todo = [*handler.spec.reads, *_linked(event.payload)]
    if not todo:
        return found
    tx = Transaction(replica, f"preflight of {handler.title}", read_only=READ_ONLY)
    seen: dict[DocKey, None] = {}
    while todo and len(seen) < CLOSURE_MAX:
        doc = todo.pop()
        if doc not in seen:
            seen[doc] = None
            todo += _linked(tx.read(doc))
    tx.abort()
    return {**found, **seen, **dict.fromkeys(todo)}


def _linked(value: Maybe) -> Iterator[DocKey]:
    """The documents that links in a value lead to, as far as they are told by the link alone."""
    todo: list[Maybe] = [value]
    while todo:
        each = todo.pop()
        if type(each) not in CONTAINERS:
            continue
        doc = own_link(each)
        if doc is not None:
            yield doc
        else:
            todo += each.values() if isinstance(each, Mapping) else cast("Iterable[Maybe]", each)
