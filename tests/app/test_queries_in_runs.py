"""Queries in functions of every kind: handlers, async functions, functions of another app, branches."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw


class Order(hw.Doc):
    number: int
    cents: int = 0
    state: str = "open"


def shop(name: str = "shop") -> tuple[hw.App, hw.Collection[Order]]:
    app = hw.App(name)
    return app, app.collection(Order, indexes=[(Order.state, Order.cents)])


def test_an_async_function_that_waits_is_restarted_when_its_span_changes() -> None:
    app, orders = shop()
    begun: list[int] = []
    ended: list[int] = []

    async def main() -> None:
        started, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @app.sink
        async def watch() -> None:
            begun.append(orders.where(Order.state == "open").sum(Order.cents))
            if len(begun) > 1:
                started.set()
                await go_on.wait()
            ended.append(begun[-1])
            if begun[-1] == 12:
                done.set()

        async with app.aopen("memory:"):
            Order(number=1, cents=5)
            await started.wait()
            started.clear()
            Order(number=2, cents=100, state="paid")
            Order(number=3, cents=7)
            await started.wait()
            go_on.set()
            await done.wait()
        assert begun == [0, 5, 12]
        assert ended == [0, 12]

    asyncio.run(main())


def test_a_handler_conflicts_with_a_change_of_what_it_has_found(tmp_path: Path) -> None:
    app, orders = shop()

    @app.handler
    def pay(number: int) -> bool:
        order = orders.where(Order.state == "open").order_by(Order.cents).first()
        if order is None or order.number != number:
            return False
        order.state = "paid"
        return True

    with app.open(str(tmp_path / "shop.db")) as space:
        Order(number=1, cents=10)
        Order(number=2, cents=20)
        sent = [pay.send(number) for number in (1, 1, 2)]
        space.sync()
        assert [ticket.result() for ticket in sent] == [True, False, True]


def test_a_query_of_another_space_is_followed_in_a_run(tmp_path: Path) -> None:
    app, orders = shop()
    other = hw.App("other")

    @other.computed
    def count() -> int:
        return orders.where(Order.state == "open").count()

    with app.open(str(tmp_path / "a.db")) as space, other.open(str(tmp_path / "b.db")):
        assert count() == 0
        with space.transaction():
            Order(number=1)
        assert count() == 1


def test_a_transaction_block_sees_what_it_has_written_and_is_rolled_back_as_a_whole(tmp_path: Path) -> None:
    app, orders = shop()
    with app.open(str(tmp_path / "shop.db")) as space:
        with space.transaction():
            Order(number=1)
            assert orders.where(Order.state == "open").count() == 1
            with pytest.raises(ZeroDivisionError), space.transaction():
                Order(number=2)
                assert orders.where(Order.state == "open").count() == 2
                raise ZeroDivisionError
            assert orders.where(Order.state == "open").count() == 1
        assert [each.number for each in orders.where(Order.state == "open")] == [1]
