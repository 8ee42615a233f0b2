"""Functions that have read indexes of collections, in the next opening."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.scheduler.trace import RunStarted
from tests.support.limits import small_limits


class Order(hw.Doc):
    number: int
    cents: int = 0
    state: str = "open"
    note: str = ""


class Shop:
    """A program, declared anew for each opening, as in another process."""

    def __init__(self) -> None:
        self.app = app = hw.App("shop")
        self.orders = orders = app.collection(Order, indexes=[(Order.state, Order.cents)])

        @app.computed
        def keys() -> list[int]:
            return [each.number for each in orders.where(Order.state == "open").order_by(Order.cents)]

        @app.computed
        def page() -> list[int]:
            return [each.number for each in orders.where(Order.state == "open").order_by(Order.cents).limit(2)]

        @app.computed
        def last() -> list[int]:
            found = orders.where(Order.state == "open").order_by(Order.cents, descending=True)
            return [each.number for each in found.limit(1)]

        @app.computed
        def count() -> int:
            return orders.where(Order.state == "open").count()

        @app.computed
        def exists() -> bool:
            return orders.where(Order.state == "open").exists()

        @app.computed
        def total() -> int:
            return orders.where(Order.state == "open").sum(Order.cents)

        @app.computed
        def values() -> list[str]:
            return orders.where(Order.state == "open").values(Order.note)

        self.functions: list[Callable[[], object]] = [keys, page, last, count, exists, total, values]

    @contextmanager
    def open(self, url: str) -> Iterator[Callable[[], list[str]]]:
        """An opening. Gives a function that calls all functions, and returns which of them ran."""
        with self.app.open(url) as space:
            ran: list[str] = []
            space._opening.scheduler.trace.listen(
                lambda each: ran.append(each.node.partition("#")[0]) if isinstance(each, RunStarted) else None
            )

            def look() -> list[str]:
                ran.clear()
                for function in self.functions:
                    function()
                return sorted(ran)

            yield look


NAMES = ["count", "exists", "keys", "last", "page", "total", "values"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file in which all functions have run."""
    url = str(tmp_path / "shop.db")
    with Shop().open(url) as look:
        for number in range(5):
            Order(number=number, cents=number * 10)
        Order(number=7, cents=35, state="paid")
        assert look() == NAMES
    return url


def change(url: str, act: Callable[[Any], object]) -> None:
    """Another process writes, and runs no function."""
    other = Shop()
    with other.app.open(url):
        act(other.orders)


def test_no_function_runs_if_nothing_has_changed(url: str) -> None:
    with Shop().open(url) as look:
        assert look() == []
    with Shop().open(url) as look:
        assert look() == []


def test_no_function_runs_if_another_program_has_changed_something_outside_of_it(url: str) -> None:
    change(url, lambda _: Order(number=9, cents=1, state="paid"))
    with Shop().open(url) as look:
        assert look() == []


def test_functions_run_that_read_the_part_that_another_program_has_changed(url: str) -> None:
    change(url, lambda _: Order(number=9, cents=25))
    with Shop().open(url) as look:
        # The other program had the same functions, and has seen that orders exist as before.
        assert look() == ["count", "keys", "total", "values"]


def test_functions_run_that_read_a_field_that_another_program_has_changed(url: str) -> None:
    def write(orders: Any) -> None:
        orders.where(Order.state == "open", Order.cents == 30).one().note = "late"

    change(url, write)
    with Shop().open(url) as look:
        assert look() == ["values"]


def test_functions_run_if_it_is_not_known_so_far_back_what_has_changed(url: str) -> None:
    def write(_: Any) -> None:
        for number in range(20, 60):
            Order(number=number, state="paid")

    with small_limits(SHIFTS_KEPT=5, SHIFTS_SLACK=2, FOLD_COMMITS=4):
        change(url, write)
        with Shop().open(url) as look:
            # The last of them has run after the oldest shift that is kept.
            assert [*look(), "values"] == NAMES


def test_changes_after_a_restore_invalidate_the_restored_functions(url: str) -> None:
    with Shop().open(url) as look:
        assert look() == []
        Order(number=8, cents=5)
        # It exists as before.
        assert look() == ["count", "keys", "page", "total", "values"]
        Order(number=10, cents=5, state="paid")
        assert look() == []


def test_a_change_after_a_restore_that_leaves_the_answer_as_it_is_runs_nothing_that_has_only_asked(url: str) -> None:
    with Shop().open(url) as look:
        assert look() == []
        Order(number=8)
        # The sum is the same; there is one more.
        assert look() == ["count", "keys", "page", "values"]
    with Shop().open(url) as look:
        assert look() == []
