"""Queries in functions: what runs when a document of a collection changes, after a restart, and in an event loop."""

import asyncio
from collections.abc import Callable
from typing import Any

import headwater as hw
from tests.declare.collections.shop import Customer, Order, Shop, numbers


def shop() -> Shop:
    return Shop((Order.state, Order.number), (Order.state, Order.cents))


def test_function_runs_when_its_answer_changes_and_not_else() -> None:
    made = shop()

    @made.app.computed
    def total() -> int:
        return made.orders.where(Order.state == "open").sum(Order.cents)

    @made.app.sink
    def show() -> None:
        total()

    with made.open({"number": 1, "cents": 100}) as space:
        order = made.orders.where(Order.state == "open").order_by(Order.number).one()
        before = space.runs(total)
        order.number = 2
        Order(number=3, state="paid", cents=50)
        Order(number=4, cents=0)
        assert (space.runs(total), total()) == (before, 100)
        order.cents = 150
        assert (space.runs(total), total()) == (before + 1, 150)


def test_loop_depends_on_the_keys_and_on_the_fields_that_it_reads() -> None:
    made = shop()

    @made.app.computed
    def first() -> list[str]:
        found = made.orders.where(Order.state == "open").order_by(Order.number).limit(2)
        return [f"{order.number} {order.ratio}" for order in found]

    @made.app.sink
    def show() -> None:
        first()

    with made.open(*[{"number": number} for number in (10, 20, 30)]) as space:
        before = space.runs(first)
        one = made.orders.where(Order.state == "open", Order.number == 10).one()
        one.cents = 5
        Order(number=25)
        assert space.runs(first) == before
        one.ratio = 0.5
        assert (first(), space.runs(first)) == (["10 0.5", "20 0.0"], before + 1)
        Order(number=5)
        assert (first(), space.runs(first)) == (["5 0.0", "10 0.5"], before + 2)


def test_values_are_one_dependency_of_the_fields_that_they_name() -> None:
    made = shop()

    @made.app.computed
    def pairs() -> list[tuple[int, int]]:
        return made.orders.where(Order.state == "open").order_by(Order.number).values(Order.number, Order.cents)

    @made.app.sink
    def show() -> None:
        pairs()

    with made.open({"number": 1}, {"number": 2}) as space:
        before = space.runs(pairs)
        one = made.orders.where(Order.state == "open", Order.number == 1).one()
        one.ratio = 0.5
        assert space.runs(pairs) == before
        one.cents = 7
        assert (pairs(), space.runs(pairs)) == ([(1, 7), (2, 0)], before + 1)


def test_query_is_a_source_of_lists() -> None:
    made = shop()
    ran: list[int] = []

    def card(order: Order) -> str:
        ran.append(order.number)
        return f"{order.number}:{order.cents}"

    query = made.orders.where(Order.state == "open").order_by(Order.number)
    cards = hw.each(query, card)
    dear = hw.select(query, lambda order: order.cents > 5, name="dear")
    both = hw.flat_each(query, lambda order: [order.number, order.cents], name="both")

    @made.app.sink
    def show() -> None:
        cards()

    with made.open({"number": 1, "cents": 1}, {"number": 3, "cents": 9}) as space:
        assert cards() == ["1:1", "3:9"]
        assert (numbers(dear()), both()) == ([3], [1, 1, 3, 9])
        ran.clear()
        Order(number=2, cents=5)
        assert (cards(), ran) == (["1:1", "2:5", "3:9"], [2])
        ran.clear()
        made.orders.where(Order.state == "open", Order.number == 3).one().cents = 10
        assert (cards(), ran) == (["1:1", "2:5", "3:10"], [3])
        with space.transaction():
            made.orders.where(Order.state == "open", Order.number == 1).one().state = "paid"
        assert cards() == ["2:5", "3:10"]


def test_restart_runs_nothing_and_goes_on(tmp_path: Any) -> None:
    made = shop()
    orders = made.orders

    @made.app.computed
    def count() -> int:
        return orders.where(Order.state == "open").count()

    @made.app.sink
    def show() -> None:
        count()

    with made.open({"number": 1}, url=tmp_path / "x.db"):
        assert count() == 1
    with made.app.open(tmp_path / "x.db") as space:
        assert (count(), space.runs(count)) == (1, 0)
        Order(number=2)
        assert (count(), space.runs(count)) == (2, 1)


def test_untracked_query_is_no_dependency() -> None:
    made = shop()

    @made.app.computed
    def seen() -> int:
        with hw.untracked():
            return made.orders.count()

    @made.app.sink
    def show() -> None:
        seen()

    with made.open({"number": 1}) as space:
        before = space.runs(seen)
        Order(number=2)
        assert space.runs(seen) == before


def test_handler_that_lost_its_order_to_another_finds_that() -> None:
    made = shop()

    @made.app.handler
    def take() -> int | None:
        order = made.orders.where(Order.state == "open").order_by(Order.number).first()
        if order is None:
            return None
        order.state = "taken"
        return order.number

    with made.open({"number": 1}, {"number": 2}):
        assert [take.send().result() for _ in range(3)] == [1, 2, None]


def test_collection_in_an_event_loop() -> None:
    made = shop()

    async def main() -> list[int]:
        async with made.app.aopen("memory:") as space:
            ann = Customer(name="Ann")
            made.orders.insert_many(Order(number=number, customer=ann) for number in range(5))
            await space.synced()
            return numbers(made.orders.where(Order.state == "open").order_by(Order.number, descending=True).limit(2))

    assert asyncio.run(main()) == [4, 3]


def test_query_is_part_of_the_fingerprint_of_its_function(tmp_path: Any) -> None:
    """A function that uses another query runs again; one with the same query does not."""
    runs: list[int] = []
    for state in ("open", "open", "paid"):
        made = shop()
        query = made.orders.where(Order.state == state)

        def make(query: hw.Query[Order]) -> Callable[[], int]:
            def amount() -> int:
                return query.count()

            return amount

        counted = made.app.computed(name="amount")(make(query))
        with made.app.open(tmp_path / "x.db") as space:
            if not runs:
                Order(number=1)
            counted()
            runs.append(space.runs(counted))
    assert runs == [1, 0, 1]
