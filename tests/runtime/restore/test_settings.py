"""What else an opening takes over: debounce and throttle that were set at run time, and every cause of a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.scheduler.scheduler import Scheduler
from headwater.testing import probe


class Shop:
    def __init__(self, **options: Any) -> None:
        self.app = hw.App("shop")
        self.rate = rate = self.app.cell("rate", 1)
        self.log: list[int] = []

        @self.app.computed(**options)
        def price() -> int:
            return rate.value * 10

        @self.app.computed
        def sized(size: int) -> int:
            return rate.value * size

        @self.app.sink
        def show() -> None:
            self.log.append(price() + sized(2))

        self.price, self.sized, self.show = price, sized, show


def gate_of(space: Any, function: Any, *args: Any) -> tuple[float | None, float | None]:
    scheduler: Scheduler = space.scheduler
    node = function.node_in(space._opening, *args)
    return scheduler.get_debounce(node), scheduler.get_throttle(node)


def test_settings_hold_over_openings_whether_a_run_is_kept_or_not(tmp_path: Path) -> None:
    shop = Shop()
    path = tmp_path / "shop.db"
    with shop.app.open(path) as space:
        space.scheduler.set_throttle(space.nodes[shop.price], 60_000)
        space.scheduler.set_debounce(space.nodes[shop.price], 500)
        # Of a sink no run is kept; and of one with parameters there is a node for each set of arguments.
        space.scheduler.set_debounce(space.nodes[shop.show], 700)
        space.scheduler.set_throttle(shop.sized.node_in(space._opening, 2), 900)
    for _ in range(2):
        with shop.app.open(path) as space:
            assert gate_of(space, shop.price) == (500, 60_000)
            assert gate_of(space, shop.show) == (700, None)
            assert gate_of(space, shop.sized, 2) == (None, 900)
    with shop.app.open(path) as space:
        space.scheduler.clear_throttle(space.nodes[shop.price])
        space.scheduler.clear_debounce(space.nodes[shop.show])
    with shop.app.open(path) as space:
        assert gate_of(space, shop.price) == (500, None)
        assert gate_of(space, shop.show) == (None, None)


def test_setting_of_a_function_that_has_never_run_holds(tmp_path: Path) -> None:
    app = hw.App("shop")

    @app.computed
    def idle() -> int:
        return 1

    with app.open(tmp_path / "shop.db") as space:
        space.scheduler.set_debounce(space.nodes[idle], 500)
    with app.open(tmp_path / "shop.db") as space:
        assert gate_of(space, idle) == (500, None)
        assert space.runs(idle) == 0


def test_setting_holds_over_a_declared_one_until_that_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    shop = Shop(debounce="1s", throttle="2s")
    with shop.app.open(path) as space:
        space.scheduler.set_debounce(space.nodes[shop.price], 50)
        space.scheduler.clear_throttle(space.nodes[shop.price])
    shop = Shop(debounce="1s", throttle="2s")
    with shop.app.open(path) as space:
        assert gate_of(space, shop.price) == (50, None)
    shop = Shop(debounce="3s", throttle="2s")
    with shop.app.open(path) as space:
        assert gate_of(space, shop.price) == (3000, None)


def test_setting_that_was_restored_holds_up_runs() -> None:
    shop = Shop()
    with probe(shop.app, idempotency=False) as t:
        t.space.scheduler.set_debounce(t.space.nodes[shop.show], 1000)
        t.restart()
        before = len(shop.log)
        shop.rate.value = 2
        assert len(shop.log) == before
        t.advance("2s")
        assert shop.log[before:] == [24]


def test_setting_of_a_piece_holds_when_that_is_stopped_and_started(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 1)

    @hw.pattern
    def part(p: hw.Builder, times: int) -> dict[str, Any]:
        @p.computed
        def price() -> int:
            return rate.value * times

        @p.sink
        def show() -> None:
            price()

        return {"price": price}

    def look(space: Any, times: int) -> tuple[float | None, float | None]:
        piece = space.start(part, "one", times=times)
        return gate_of(space, piece.outputs["price"])

    with app.open(tmp_path / "shop.db") as space:
        piece = space.start(part, "one", times=2)
        space.scheduler.set_throttle(piece.outputs["price"].node_in(space._opening), 400)
        piece.stop()
        assert look(space, 2) == (None, 400)
        # Built anew.
        assert look(space, 3) == (None, 400)
    with app.open(tmp_path / "shop.db") as space:
        assert look(space, 3) == (None, 400)


@pytest.mark.parametrize("crash", [False, True])
def test_every_change_since_the_last_run_is_a_cause_of_the_next(crash: bool) -> None:
    app = hw.App("shop")
    cells = [app.cell(name, 1) for name in "abc"]
    table = app.cell("table", {"x": 1, "y": 1, "z": 1})

    @app.computed
    def total() -> int:
        return sum(cell.value for cell in cells) + table.key("x").value + table.key("y").value

    def causes(t: Any) -> set[tuple[str, tuple[str, ...]]]:
        assert total() > 0
        return set(t.space.nodes[total].last_causes)

    with probe(app, idempotency=False) as t:
        table.value = {"x": 1, "y": 1, "z": 0}
        total()
        t.restart(crash=crash)
        with t.space.transaction():
            cells[0].value = cells[2].value = 2
            table.key("y").value = 2
        live = causes(t)
        assert len(live) == 3
        with t.space.transaction():
            cells[0].value = cells[2].value = 3
            table.key("y").value = 3
        t.restart(crash=crash)
        assert causes(t) == live
