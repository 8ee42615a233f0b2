"""A shop whose orders programs query at a server."""

from __future__ import annotations

from typing import Any

import headwater as hw
from headwater.host.plain_space import Space
from headwater.sync.frames import Ping
from tests.client.world import Behind, storage_of
from tests.server.running import until


class Order(hw.Doc):
    number: int
    state: str = "open"
    cents: int = 0
    note: str | None = None


class Draft(hw.Doc):
    text: str


class Recipe(hw.Doc):
    text: str


class Shop:
    """A program with orders, drafts of each user, and recipes that only cooks may read."""

    def __init__(self) -> None:
        app = self.app = hw.App("shop")
        self.orders = app.collection(
            Order, indexes=[(Order.state, Order.number), (Order.state, Order.cents)], unique=[Order.number]
        )
        self.drafts = app.collection(Draft, scope="user", indexes=[Draft.text])
        self.recipes = app.collection(Recipe, indexes=[Recipe.text], rules=[hw.allow("cook", read=True, create=True)])
        self.seen: list[Any] = []

    def watch(self, ask: Any) -> list[str]:
        """A sink over what a computed function asks; returns the list that grows with each of its runs."""
        runs: list[str] = []

        @self.app.computed
        def found() -> list[str]:
            runs.append("run")
            return [str(each) for each in ask(self)]

        @self.app.sink
        def show() -> None:
            self.seen.append(found())

        return runs

    @property
    def waiting(self) -> hw.Query[Order]:
        return self.orders.where(Order.state == "open").order_by(Order.number)


def opened(at: Behind, shop: Shop, actor: str = "ann", **options: Any) -> Space:
    return shop.app.open(at.url, token=at.token, actor=actor, **options)


def filled(at: Behind, count: int = 20) -> None:
    shop = Shop()
    with opened(at, shop, "owner") as space:
        shop.orders.insert_many({"number": number, "cents": 100 * number} for number in range(1, count + 1))
        space.sync()


def heard(*spaces: Space) -> None:
    """They have taken in everything that is decided by now."""
    for space in spaces:
        space.sync()
    for space in spaces:
        link = storage_of(space).link
        until(lambda link=link: link.session.is_caught_up, "it has caught up")  # type: ignore[misc]
        link.ask(Ping(0), 120.0)
        space.settle()


def numbers(found: Any) -> list[int]:
    return [each.number for each in found]
