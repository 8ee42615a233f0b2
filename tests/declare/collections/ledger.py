"""A shop with a function for each kind of query, and what all of them have to answer, in plain Python."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import headwater as hw


class Order(hw.Doc):
    number: int
    cents: int = 0
    state: str = "open"
    note: str = ""


class Row(NamedTuple):
    """An order, as the model has it."""

    cents: int
    state: str
    note: str


Model = dict[int, Row]
"""Orders by their numbers."""


class Ledger:
    """A program, declared anew for each opening, as in another process."""

    def __init__(self, name: str = "shop") -> None:  # noqa: C901  # the functions
        self.app = app = hw.App(name)
        self.orders = orders = app.collection(
            Order,
            indexes=[(Order.state, Order.cents), Order.note],
            unique=[Order.number],
            totals=[hw.total(Order.cents, by=Order.state), hw.total(Order.number, by=Order.note)],
        )
        opened = orders.where(Order.state == "open")
        sorted_ = opened.order_by(Order.cents)

        def keys() -> list[int]:
            return [each.number for each in sorted_]

        def last() -> list[int]:
            return [each.number for each in opened.order_by(Order.cents, descending=True).limit(2)]

        def count() -> int:
            return opened.count()

        def total() -> int:
            return opened.sum(Order.cents)

        def least() -> int | None:
            return opened.min(Order.cents)

        def most() -> int | None:
            return opened.max(Order.cents)

        def groups() -> dict[str, int]:
            return orders.group_by(Order.state).count()

        def sums() -> dict[str, int]:
            return orders.group_by(Order.state).sum(Order.cents)

        def noted() -> int:
            return orders.where(Order.note == "a").sum(Order.number)

        def values() -> list[tuple[int, str]]:
            return sorted_.values(Order.number, Order.note)

        def scanned() -> int | None:
            return orders.where(Order.note == "a").scan().max(Order.cents)

        def exists() -> bool:
            return orders.where(Order.state == "paid", Order.cents > 50).exists()

        functions = (keys, last, count, total, least, most, groups, sums, noted, values, scanned, exists)
        self.functions: dict[str, Callable[[], Any]] = {each.__name__: app.computed(each) for each in functions}

        # Not the ledger, which is another object in each opening: then it would be another function.
        totalled, counted = self.functions["total"], self.functions["count"]

        @app.computed
        def both() -> int:
            return int(totalled() + counted())

        self.functions["both"] = both
        self.cards = app.each(sorted_, lambda order: f"{order.number} {order.note}", name="cards")

        @app.handler
        def pay(number: int) -> bool:
            order = orders.where(Order.number == number).one()
            if order.state != "open":
                return False
            order.state = "paid"
            return True

        self.pay = pay

    def model(self) -> Model:
        """The documents."""
        return {order.number: Row(order.cents, order.state, order.note) for order in self.orders}

    def check(self, model: Model) -> None:
        """All answers are those of the model. Orders of equal cents are in any order."""
        opened = {number: row for number, row in model.items() if row.state == "open"}
        cents = sorted(row.cents for row in opened.values())
        found = {name: function() for name, function in self.functions.items()}
        for name in ("keys", "last"):
            found[name] = [model[number].cents for number in found[name]]
        found["values"] = sorted(found["values"])
        sums: Counter[str] = Counter()
        for row in model.values():
            sums[row.state] += row.cents
        assert found == {
            "keys": cents,
            "last": cents[::-1][:2],
            "count": len(opened),
            "total": sum(cents),
            "least": min(cents, default=None),
            "most": max(cents, default=None),
            "groups": Counter(row.state for row in model.values()),
            "sums": dict(sums),
            "noted": sum(number for number, row in model.items() if row.note == "a"),
            "values": sorted((number, row.note) for number, row in opened.items()),
            "scanned": max((row.cents for row in model.values() if row.note == "a"), default=None),
            "exists": any(row.state == "paid" and row.cents > 50 for row in model.values()),
            "both": sum(cents) + len(opened),
        }
        assert sorted(self.cards()) == sorted(f"{number} {row.note}" for number, row in opened.items())

    def step(self, rng: random.Random, model: Model, count: int = 1) -> None:
        """Some random writes, here and in the model."""
        for _ in range(count):
            draw = rng.random()
            if draw < 0.4 or not model:
                number = max(model, default=0) + rng.randint(1, 3)
                model[number] = row = Row(rng.randrange(100), rng.choice(["open", "paid"]), rng.choice("ab"))
                Order(number=number, cents=row.cents, state=row.state, note=row.note)
                continue
            number = rng.choice(list(model))
            order, row = self.orders.where(Order.number == number).one(), model[number]
            if draw < 0.5:
                hw.delete(order)
                del model[number]
            elif draw < 0.65:
                order.state = "paid" if row.state == "open" else "open"
                model[number] = row._replace(state=order.state)
            elif draw < 0.85:
                order.cents = rng.randrange(100)
                model[number] = row._replace(cents=order.cents)
            else:
                order.note = rng.choice("abc")
                model[number] = row._replace(note=order.note)

    def ran(self, space: hw.Space) -> set[str]:
        """The functions that have run in this opening."""
        return {name for name, function in self.functions.items() if space.runs(function)}


def main(url: str, seed: int) -> None:
    """Write and check, until it is killed. Prints a line for each step."""
    rng, ledger = random.Random(seed), Ledger()
    with ledger.app.open(url):
        model = ledger.model()
        while True:
            ledger.step(rng, model)
            ledger.check(model)
            sys.stdout.write("checked\n")
            sys.stdout.flush()
