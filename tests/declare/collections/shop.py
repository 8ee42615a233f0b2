"""A small shop for the tests of collections: customers and orders."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import headwater as hw


class Customer(hw.Doc):
    name: str
    email: str | None = None


class Level(Enum):
    LOW = 1
    HIGH = 2


class Order(hw.Doc):
    number: int
    state: str = "open"
    cents: int = 0
    ratio: float = 0.0
    customer: hw.Link[Customer | None] = hw.Link()
    due: datetime | None = None
    level: Level = Level.LOW
    tags: hw.List[str] = hw.List()


class Shop:
    """An app with both collections, each declared with indexes of its own."""

    def __init__(self, *indexes: object, unique: tuple[object, ...] = (), totals: tuple[Any, ...] = ()) -> None:
        self.app = hw.App("shop")
        self.customers = self.app.collection(Customer, indexes=[Customer.name])
        self.orders = self.app.collection(Order, indexes=list(indexes), unique=list(unique), totals=list(totals))

    @contextmanager
    def open(self, *rows: dict[str, object], url: str = "memory:", **options: Any) -> Iterator[hw.Space]:
        with self.app.open(url, **options) as space:
            self.orders.insert_many(rows)
            yield space


def numbers(found: Any) -> list[int]:
    """The numbers of orders."""
    return [order.number for order in found]


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def day(count: int) -> datetime:
    """A day after the first one."""
    return NOON + timedelta(days=count)
