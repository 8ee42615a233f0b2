"""Rule 21: `hw.together` opens, registers and restores all apps, and only then settles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.cells.context import open_spaces
from headwater.errors import NotFoundError, UsageError
from headwater.host.together import AppOpening
from headwater.runtime.options import Options
from tests.spaces.market import Market, in_loop

EXAMPLE = Path(__file__).parents[2] / "examples" / "spaces_two_apps.py"


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path)


@pytest.mark.parametrize("order", [1, -1])
def test_no_function_runs_before_all_apps_are_open(market: Market, order: int) -> None:
    with hw.together(*market.openings(on_error=market.errors.append)[::order]) as spaces:
        assert [space.name for space in spaces] == ["market", "market"]
        assert (market.shown, market.errors) == ([(40, 0)], [])


def test_opened_one_by_one_the_first_runs_again_when_the_second_is_open(market: Market) -> None:
    with market.shop.open(market.url, on_error=market.errors.append):
        assert [error.facts["node"] for error in market.errors] == ["show"]
        with market.stock.open(market.url):
            assert market.shown == [(40, 0)]


def test_apps_at_different_spaces_are_opened_together(tmp_path: Path) -> None:
    one, two = hw.App("one"), hw.App("two")
    a, b = one.cell("a", 1), two.cell("b", 2)
    with hw.together(one.opening(tmp_path / "one.db"), two.opening(tmp_path / "two.db")) as (first, second):
        assert (first.name, second.name, a.value, b.value) == ("one", "two", 1, 2)
    assert (first.closed, second.closed) == (True, True)


def test_if_one_cannot_be_opened_the_others_are_closed(market: Market, tmp_path: Path) -> None:
    before = list(open_spaces())  # of tests that left theirs open
    missing = market.shop.opening(tmp_path / "missing.db", create=False)
    with pytest.raises(NotFoundError), hw.together(market.stock.opening(market.url), missing):
        pytest.fail("it is not entered")
    assert open_spaces() == before
    with market.stock.open(market.url) as space:
        assert space.runs(market.value) == 0

    async def main() -> None:
        with pytest.raises(NotFoundError):
            async with hw.together(market.stock.opening(market.url), missing):
                pytest.fail("it is not entered")

    in_loop(main)
    assert open_spaces() == before


def test_the_spaces_are_closed_in_reverse_order(market: Market) -> None:
    closed: list[str] = []
    with market.together() as (stock, shop):
        stock._opening.on_close(lambda: closed.append("stock"))
        shop._opening.on_close(lambda: closed.append("shop"))
    assert closed == ["shop", "stock"]


def test_what_is_due_at_the_end_runs_while_all_are_open() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    now, shown = [0.0], list[int]()

    @near.computed(debounce="1m")
    def slow() -> int:
        return n.value * 10

    near.sink(name="show")(lambda: shown.append(slow()))
    options = Options(now=lambda: now[0])
    with hw.together(AppOpening(near, "memory:", options), AppOpening(far, "memory:", options)):
        n.value = 2
        now[0] += 120_000
    assert shown == [10, 20]


def test_an_error_of_a_function_is_raised_after_all_are_closed(market: Market) -> None:
    @market.shop.sink
    def broken() -> None:
        raise ValueError

    with pytest.raises(hw.UserCodeError), market.together() as (stock, shop):
        pass
    assert (stock.closed, shop.closed) == (True, True)


def test_something_else_than_an_opening_is_refused(market: Market) -> None:
    with pytest.raises(UsageError, match=r"takes openings of apps, such as app.opening"):
        hw.together(market.stock)  # type: ignore[arg-type]


def test_the_example_prints_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "40 0\n32 2\n"


@pytest.mark.parametrize("option", ["colour", "lease", "now"])
def test_an_option_that_open_does_not_have_is_refused_when_the_opening_is_made(option: str) -> None:
    with pytest.raises(TypeError, match=rf"App.opening\(\) got an unexpected keyword argument '{option}'"):
        hw.App("shop").opening("memory:", **{option: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("space", [7, b"main", ["main"]])
def test_a_space_that_is_named_by_something_else_than_a_text_is_refused(space: Any) -> None:
    with pytest.raises(UsageError, match="names no space"):
        hw.App("shop").opening("memory:", space=space)
    with pytest.raises(UsageError, match="names no space"):
        hw.App("shop").open("memory:", space=space)
