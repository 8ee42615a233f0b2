"""Orders in a store on a desk: a collection with two indexes, its keys found by looking at every document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.cells.replica import Replica
from headwater.cells.space_port import RuntimePort, SpacePort
from headwater.cells.span_records import Span, SpanQuestion
from headwater.cells.transaction import Transaction
from headwater.store.collection_record import CollectionRecord, Index, doc_of
from headwater.store.commit import DeleteDoc, SetDoc
from headwater.store.declaring import declare
from headwater.store.document import StoredDocument
from headwater.store.index_field import IndexField
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey, Seq, SessionId
from headwater.values.sortkey import AFTER, encode_field
from headwater.values.tree import freeze
from tests.cells.replica.desk import Desk

STATE, CENTS = IndexField("state"), IndexField("cents")
ORDER: Final = CollectionRecord("order", indexes=(Index((STATE, CENTS)), Index((CENTS,))))
BY_STATE, BY_CENTS = ORDER.named[1].name, ORDER.named[2].name
RECORDS: Final = {"order": ORDER}


class Entropy:
    def token(self) -> str:
        return "token"


class SpanDesk(Desk):
    """A desk with the collection of orders."""

    def __init__(self) -> None:
        super().__init__()
        # How often a replica has asked for keys.
        self.spans = 0
        # How often it has asked for many documents.
        self.lookups = 0
        declare(self.engine, ORDER)

    def load_many(self, docs: Sequence[DocKey], through: Seq) -> Mapping[DocKey, StoredDocument]:
        """The confirmed documents, together."""
        self.lookups += 1
        return self.engine.documents.many(MAIN, docs, through)

    def span(self, index: str, lo: bytes, hi: bytes, *, limit: int | None, reverse: bool, through: Seq) -> list[bytes]:
        """The confirmed keys."""
        self.spans += 1
        return self.engine.collections.span(MAIN, index, lo, hi, limit=limit, reverse=reverse, through=through)

    def replica(self, name: str) -> Replica:
        replica = super().replica(name)
        replica.attach_collections(RECORDS)
        return replica


def space_of(replica: Replica) -> SpacePort:
    """A space around a replica."""
    return SpacePort(replica, "shop", None, Entropy(), "ann", RuntimePort(replica, "shop", SessionId("here")))


@contextmanager
def inside(space: SpacePort, tx: Transaction | None) -> Iterator[None]:
    """Code in a transaction of a space."""
    token = CONTEXT.set(ContextFrame(space, tx, None))
    try:
        yield
    finally:
        CONTEXT.reset(token)


def order(number: int | str) -> DocKey:
    return doc_key(f"order:{number}")


def value(state: str = "open", cents: float = 100, **rest: object) -> Any:
    return freeze({"state": state, "cents": cents, **rest})


def put(replica: Replica, number: int | str, state: str = "open", cents: float = 100, **rest: object) -> None:
    """Write an order, in a commit of its own."""
    replica.commit((SetDoc(order(number), value(state, cents, **rest)),))


def delete(replica: Replica, number: int | str) -> None:
    replica.commit((DeleteDoc(order(number)),))


def states(state: str) -> Span:
    """All orders in a state, by cents."""
    lo = encode_field(state)
    return Span(BY_STATE, lo, lo + AFTER)


def cents(low: int, high: int) -> Span:
    """All orders with so many cents, the high end excluded."""
    return Span(BY_CENTS, encode_field(low), encode_field(high))


def numbers(keys: Any) -> list[str]:
    """The orders of keys."""
    return [doc_of(ORDER, key).partition(":")[2] for key in keys]


COUNT: Final = SpanQuestion("count")
EXISTS: Final = SpanQuestion("exists")
SUM: Final = SpanQuestion("sum", CENTS)
