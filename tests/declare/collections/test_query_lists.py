"""Lists of the documents of a query: what an insertion costs, and random changes against plain Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from tests.declare.collections.shop import Order, Shop


def calls_of(act: Callable[[], object]) -> int:
    """The number of Python calls."""
    count = 0

    def profile(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def cost(count: int, change: Callable[[Any], object]) -> tuple[int, list[int]]:
    """The calls of one change of a list of so many orders; and the orders whose function ran for it."""
    made, ran = Shop((Order.state, Order.cents)), list[int]()
    query = made.orders.where(Order.state == "open").order_by(Order.cents)

    def card(order: Order) -> int:
        ran.append(order.number)
        return order.cents

    cards = made.app.each(query, card, name="cards")

    @made.app.sink
    def show() -> None:
        cards()

    with made.open(*[{"number": number, "cents": number * 10} for number in range(count)]) as space:
        space.sync()
        # Once before: what is made at the first change is not counted.
        Order(number=-2, cents=41)
        assert len(cards()) == count + 1
        ran.clear()
        calls = calls_of(lambda: change(made.orders))
        assert cards() == [order.cents for order in query]
        return calls, ran


CHANGES: dict[str, tuple[Callable[[Any], object], list[int]]] = {
    "insertion": (lambda _: Order(number=-1, cents=55), [-1]),
    "deletion": (lambda orders: hw.delete(orders.where(Order.state == "open", Order.cents == 50).one()), []),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_change_of_a_long_list_costs_what_it_does_in_a_short_one(name: str) -> None:
    change, entered = CHANGES[name]
    (short, ran), (long, ran_of_many) = cost(50, change), cost(2000, change)
    assert ran == ran_of_many == entered
    # Comparing two lists takes a few steps more for a long one: one for each doubling.
    assert long < short + 150, (short, long)


def test_a_change_of_a_field_that_is_not_in_the_index_runs_the_function_of_its_document_alone() -> None:
    ran: list[int] = []
    made = Shop((Order.state, Order.cents))
    query = made.orders.where(Order.state == "open").order_by(Order.cents)

    def ratio(order: Order) -> float:
        ran.append(order.number)
        return order.ratio

    ratios = made.app.each(query, ratio, name="ratios")
    with made.open(*[{"number": number, "cents": number} for number in range(5)]):
        assert ratios() == [0.0] * 5
        ran.clear()
        made.orders.where(Order.state == "open", Order.cents == 3).one().ratio = 0.5
        assert (ratios(), ran) == ([0.0, 0.0, 0.0, 0.5, 0.0], [3])


writes = st.tuples(st.sampled_from(["add", "move", "pay", "delete"]), st.integers(0, 30), st.integers(0, 5))


@given(
    steps=st.lists(st.lists(writes, min_size=1, max_size=4), max_size=10),
    limit=st.none() | st.integers(0, 4),
    is_back=st.booleans(),
    is_split=st.booleans(),
)
def test_lists_follow_random_changes(
    steps: Sequence[Sequence[tuple[str, int, int]]], limit: int | None, is_back: bool, is_split: bool
) -> None:
    made = Shop((Order.state, Order.cents))
    state = hw.col(Order.state).one_of("open", "late") if is_split else Order.state == "open"
    query = made.orders.where(state)
    query = query.order_by(Order.cents, descending=is_back)
    query = query if limit is None else query.limit(limit)
    cards = made.app.each(query, lambda order: order.number, name="cards")
    seen: list[list[int]] = []

    @made.app.sink
    def show() -> None:
        seen.append(cards())

    with made.open() as space:
        orders: list[Order] = []
        for number, step in enumerate(steps):
            with space.transaction():
                for kind, which, value in step:
                    if kind == "add":
                        orders.append(Order(number=number * 10 + len(orders), cents=value))
                    elif not orders:
                        continue
                    elif kind == "delete":
                        hw.delete(orders.pop(which % len(orders)))
                    elif kind == "pay":
                        orders[which % len(orders)].state = ("open", "paid", "late")[value % 3]
                    else:
                        orders[which % len(orders)].cents = value
                if which % 3 == 0:
                    # Its own writes are in it.
                    assert cards() == [order.number for order in query]
            expected = [order.number for order in query]
            assert (cards(), seen[-1]) == (expected, expected)
            assert [cards[place] for place in range(len(cards))] == expected
