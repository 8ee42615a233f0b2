"""Two openings of one program on one file: what is elided and adopted there, and what rests on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import headwater as hw
from tests.app.holding import disk_held
from tests.runtime.side_by_side.program import COMPUTED, ROWS, SINKS, Shop


@contextmanager
def opened(path: Path, count: int = 2) -> Iterator[list[Shop]]:
    """All have run, and hold what they read."""
    shops = [Shop() for _ in range(count)]
    with ExitStack() as stack:
        for shop in shops:
            stack.enter_context(shop.open(path))
        for price in (2, 3):
            shops[0].price.value = price
            shops[0].opened.sync()
            for shop in shops:
                shop.settle_until(price)
                shop.opened.sync()
        yield shops


def test_opening_that_hears_of_results_runs_only_its_sinks(tmp_path: Path) -> None:
    with opened(tmp_path / "shop.db") as (ann, bob):
        rows, before = bob.opened.stats.seq, bob.runs()
        ann.price.value = 9
        ann.opened.sync()
        bob.settle_until(9)
        after = bob.runs()
        assert [after[name] - before[name] for name in (*COMPUTED, *SINKS)] == [0] * len(COMPUTED) + [1, 1]
        assert bob.opened.stats.seq - rows == ROWS
        assert bob.opened.stats.rejected == 0


def test_openings_that_run_before_anything_is_decided_write_each_result_once(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with opened(path) as (ann, bob):
        rows = ann.opened.stats.seq
        with disk_held(ann.opened._opening):
            # Both write the same, and make the same of it; neither knows of the other.
            ann.price.value = 9
            bob.price.value = 9
            assert ann.is_right(9)
            assert bob.is_right(9)
        for shop in (ann, bob):
            shop.opened.sync()
        for shop in (ann, bob):
            shop.settle_until(9)
            shop.opened.sync()
            assert shop.opened._opening.runtime.rejected_count == 0
        assert ann.opened.stats.seq - rows <= ROWS + 1, "both inputs, and each result once"
    late = Shop()
    with late.open(path):
        assert late.is_right(9)
        assert [late.runs()[name] for name in COMPUTED] == [0] * len(COMPUTED), "what is kept of the runs is good"


def test_events_that_rest_on_elided_results_are_handled_once(tmp_path: Path) -> None:
    class Till(Shop):
        def __init__(self) -> None:
            super().__init__()
            total = self.total = self.app.cell("total", 0)
            plus = self.app.declared["plus"]
            assert isinstance(plus, hw.Computed)

            @self.app.handler
            def sell(count: int) -> int:
                total.value += plus() * count
                return total.value

            self.sell = sell

    tills = [Till(), Till()]
    with ExitStack() as stack:
        for till in tills:
            stack.enter_context(till.open(tmp_path / "shop.db"))
        tills[0].price.value = 1
        for till in tills:
            # Held from now on, all of it.
            till.opened.sync()
            assert till.total.value == 0
            assert till.price.value == 1
        expected = 0
        for price in range(2, 8):
            with disk_held(tills[0].opened._opening):
                for till in tills:
                    till.price.value = price
            tickets = [till.sell.send(1) for till in tills]
            assert {ticket.result() for ticket in tickets} == {expected + price * 2 + 1, expected + 2 * (price * 2 + 1)}
            expected += 2 * (price * 2 + 1)
            for till in tills:
                till.settle_until(price)
                till.opened.sync()
        assert [till.total.value for till in tills] == [expected] * 2


def test_restored_result_that_another_opening_replaced_is_computed_again(tmp_path: Path) -> None:
    """Its input changed and changed back in one step. Here nothing had read it yet: the result was only restored."""

    def declared() -> tuple[hw.App, hw.Cell[int], Callable[[], int]]:
        app = hw.App("shop")
        price = app.cell("price", 0)

        @app.computed
        def double() -> int:
            return price.value * 2

        return app, price, double

    path = tmp_path / "shop.db"
    app, price, double = declared()
    with app.open(path):
        price.value = 1
        assert double() == 2
    (app, _, double), (other, price, doubled) = declared(), declared()
    with app.open(path) as space, other.open(path) as busy:
        price.value = 3
        assert doubled() == 6
        price.value = 1
        busy.sync()
        assert double() == 2
        assert space.runs(double) == 1
