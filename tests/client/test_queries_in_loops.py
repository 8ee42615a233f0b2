"""Queries at a server in an event loop, which is never blocked: what is not here yet is requested, and runs wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

import headwater as hw
from headwater.client.server_link import ServerLink
from headwater.errors import NotReadyError, OfflineError
from tests.client.world import Behind, behind
from tests.server.running import DEADLINE_S, settle_in

T = TypeVar("T")


class Order(hw.Doc):
    number: int
    state: str = "open"
    cents: int = 0


class Shop:
    """Orders, a page of them with a count, and a handler that pays one."""

    def __init__(self) -> None:
        app = self.app = hw.App("shop")
        orders = self.orders = app.collection(
            Order, indexes=[(Order.state, Order.number), (Order.state, Order.cents)], unique=[Order.number]
        )
        self.seen: list[tuple[list[int], int]] = []
        shown = self.seen

        @app.computed
        def page() -> list[int]:
            found = orders.where(Order.state == "open").order_by(Order.number).page(3)
            return [order.number for order in found.items]

        @app.computed
        def cents() -> int:
            return orders.where(Order.state == "open").sum(Order.cents)

        @app.sink
        def show() -> None:
            shown.append((page(), cents()))

        @app.handler
        def pay(number: int) -> bool:
            order = orders.where(Order.number == number).one()
            if order.state != "open":
                return False
            order.state = "paid"
            return True

        self.page, self.cents, self.pay = page, cents, pay


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        shop = Shop()
        with shop.app.open(world.url, token=world.token, actor="owner") as space:
            shop.orders.insert_many({"number": number, "cents": number} for number in range(1, 11))
            space.sync()
        yield world


@pytest.fixture
def _never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that is waited for in the loop's thread is a mistake."""
    ask = ServerLink.ask_many

    def checked(self: ServerLink, *rest: object) -> object:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return ask(self, *rest)  # type: ignore[arg-type]
        raise AssertionError("the loop was blocked")

    monkeypatch.setattr(ServerLink, "ask_many", checked)


async def soon(found: Callable[[], T]) -> T:
    """What a query gives when its keys have come."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return found()
            except NotReadyError:
                await asyncio.sleep(0.01)


async def until_so(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_so():  # noqa: ASYNC110  # what the server does is no event here
            await asyncio.sleep(0.01)


def opened(at: Behind, program: Callable[[Shop, hw.AsyncSpace], Awaitable[None]]) -> None:
    async def run() -> None:
        shop = Shop()
        async with shop.app.aopen(at.url, token=at.token, actor="ann") as space:
            await program(shop, space)

    asyncio.run(run())


@pytest.mark.usefixtures("_never_waits")
def test_runs_are_repeated_when_the_keys_are_here(at: Behind) -> None:
    async def program(shop: Shop, space: hw.AsyncSpace) -> None:
        await space.settled()
        assert shop.seen[-1] == ([1, 2, 3], 55)
        assert await shop.pay.send(2) is True
        assert await shop.pay.send(2) is False
        await space.settled()
        assert shop.seen[-1] == ([1, 3, 4], 53)

    opened(at, program)


@pytest.mark.usefixtures("_never_waits")
def test_plain_code_is_told_that_the_keys_are_not_here_yet(at: Behind) -> None:
    async def program(shop: Shop, _space: hw.AsyncSpace) -> None:
        query = shop.orders.where(Order.state == "open").order_by(Order.number, descending=True).limit(2)
        with pytest.raises(NotReadyError, match="keys of an index are not here yet") as caught:
            query()
        assert caught.value.code == "HW151"
        assert [order.number for order in await soon(query)] == [10, 9]
        assert [order.number for order in query()] == [10, 9]
        assert await soon(lambda: shop.orders.where(Order.number == 5).one().cents) == 5
        assert await soon(lambda: shop.orders.group_by(Order.state).count()) == {"open": 10}

    opened(at, program)


@pytest.mark.usefixtures("_never_waits")
def test_load_awaits_what_queries_read(at: Behind) -> None:
    async def program(shop: Shop, space: hw.AsyncSpace) -> None:
        last = shop.orders.where(Order.state == "open").order_by(Order.number, descending=True).limit(2)
        await space.load(last)
        assert [(order.number, order.cents) for order in last] == [(10, 10), (9, 9)]
        everything = shop.orders.order_by(Order.number)
        await space.load(everything, shop.orders.where(Order.number == 70))
        assert len(everything()) == 10
        assert shop.orders.where(Order.number == 70).first() is None

    opened(at, program)


@pytest.mark.usefixtures("_never_waits")
def test_changes_of_others_run_what_has_read_them(at: Behind) -> None:
    async def program(shop: Shop, space: hw.AsyncSpace) -> None:
        await space.settled()
        other = Shop()

        def beside() -> None:
            with other.app.open(at.straight, actor="bob") as there, there.transaction():
                other.orders.where(Order.number == 1).one().state = "paid"
                Order(number=0, cents=100)

        await asyncio.to_thread(beside)
        await until_so(lambda: bool(shop.seen) and shop.seen[-1] == ([0, 2, 3], 154))

    opened(at, program)


@pytest.mark.usefixtures("_never_waits")
def test_a_transaction_in_a_loop_conflicts_with_what_it_has_read(at: Behind) -> None:
    async def program(shop: Shop, space: hw.AsyncSpace) -> None:
        count = shop.orders.where(Order.state == "open").count
        assert await soon(count) == 10
        at.proxy.freeze(True)
        other = Shop()

        def beside() -> None:
            with other.app.open(at.straight, actor="bob") as there, there.transaction():
                Order(number=50)

        await asyncio.to_thread(beside)
        with space.transaction() as tx:
            Order(number=60, state="paid", cents=count())
        # Its exception is retrieved: asyncio does not report it at the end.
        tx.on_settled(lambda _: None)
        at.proxy.freeze(False)
        await until_so(lambda: tx.verdict is not None)
        assert tx.is_rejected
        await until_so(lambda: count() == 11)

    opened(at, program)


@pytest.mark.usefixtures("_never_waits")
def test_runs_wait_while_the_server_is_away(at: Behind) -> None:
    async def program(shop: Shop, space: hw.AsyncSpace) -> None:
        assert await shop.pay.send(2) is True
        await space.settled()
        at.go_away()
        await until_so(lambda: space.connection.state != "live")
        Order(number=0)
        await until_so(lambda: shop.seen[-1] == ([0, 1, 3], 53))
        with pytest.raises((NotReadyError, OfflineError)):
            shop.orders.where(Order.state == "paid").count()
        at.come_back()
        assert await soon(shop.orders.where(Order.state == "paid").count) == 1

    opened(at, program)
