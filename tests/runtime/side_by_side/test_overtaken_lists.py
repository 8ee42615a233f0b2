"""A call of a computed list that is overtaken by another opening before its elements are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.declare.functions.function_port import FunctionPort
from headwater.errors import SchemaError
from headwater.scheduler.graph.node import Node
from headwater.values.tree import Maybe
from tests.app.holding import in_thread
from tests.runtime.side_by_side.test_overtaken_calls import decide_at_once


class Shop:
    def __init__(self) -> None:
        self.app = app = hw.App("shop")
        self.prices = prices = app.cell("prices", [1, 2, 3])
        # Called once, after the prices were read.
        self.overtake: Callable[[], None] | None = None
        self.cheap = app.select(prices, lambda price: price < 100, name="cheap")

        def source() -> list[int]:
            seen = prices.value
            overtake, self.overtake = self.overtake, None
            if overtake is not None:
                overtake()
            return seen

        self.double = app.each(source, lambda price: price * 2, name="double")
        base = app.cell("base", [1, 2])
        self.flat = app.flat_each(base, lambda price: [price * source()[0]], name="flat")
        self.taxed = app.each(base, lambda price: price * source()[0], name="taxed")


def shorten(shop: Shop, space: hw.Space) -> Callable[[], None]:
    def write() -> None:
        shop.prices.value = [7]
        space.sync()

    return lambda: in_thread(write)


@pytest.mark.parametrize("read", [hw.Select.__call__, list, lambda cheap: cheap[0:2]])
def test_list_that_becomes_shorter_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[hw.Select[int]], list[int]]
) -> None:
    ann, bob = Shop(), Shop()
    with ann.app.open(tmp_path / "shop.db") as first, bob.app.open(tmp_path / "shop.db") as second:
        pull = second._opening.pull
        overtake: list[Callable[[], None]] = [shorten(ann, first)]

        def pull_then_overtake(node: Node, *, in_run: bool = False) -> None:
            # The change waits in the inbox of the second opening: reading the first element takes it in.
            pull(node, in_run=in_run)
            while overtake:
                overtake.pop()()

        monkeypatch.setattr(second._opening, "pull", pull_then_overtake)
        assert read(bob.cheap) == [7]


def test_list_whose_first_result_was_rolled_back_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob = Shop(), Shop()
    with ann.app.open(tmp_path / "shop.db") as first, bob.app.open(tmp_path / "shop.db") as second:
        decide_at_once(monkeypatch, second)
        bob.overtake = shorten(ann, first)
        assert bob.double() == [14]


def test_element_whose_first_result_was_rolled_back_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob = Shop(), Shop()
    with ann.app.open(tmp_path / "shop.db") as first, bob.app.open(tmp_path / "shop.db") as second:
        decide_at_once(monkeypatch, second)
        bob.overtake = shorten(ann, first)
        assert bob.taxed() == [7, 14]


def test_list_of_lists_whose_first_result_was_rolled_back_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = Shop(), Shop()
    with ann.app.open(tmp_path / "shop.db") as first, bob.app.open(tmp_path / "shop.db") as second:
        decide_at_once(monkeypatch, second)
        bob.overtake = shorten(ann, first)
        assert bob.flat() == [7, 14]


def test_part_that_is_missing_until_its_function_runs_again_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    other = shop.app.cell("other", 0)
    with shop.app.open("memory:"):
        assert shop.flat() == [1, 2]
        value = shop.flat._value
        missing = [SchemaError("it was rolled back")]

        def late(home: FunctionPort, stored: Maybe) -> int:
            if missing:
                other.value = 1
                raise missing.pop()
            return value(home, stored)

        monkeypatch.setattr(shop.flat, "_value", late)
        assert shop.flat() == [1, 2]


def test_error_of_an_element_is_raised_though_other_elements_are_current() -> None:
    app = hw.App("shop")
    prices = app.cell("prices", [1, 0, 2])
    inverse = app.each(prices, lambda price: 1 / price, name="inverse")
    with app.open("memory:"):
        with pytest.raises(ZeroDivisionError):
            inverse()
        with pytest.raises(ZeroDivisionError):
            inverse[1]
        assert inverse[2] == 0.5
