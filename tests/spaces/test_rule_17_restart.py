"""Rule 17: at a restart each app restores its own rows; two apps of one file resume without a run."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from tests.spaces.market import Market


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path)


@pytest.mark.parametrize("order", [0, 1])
def test_both_apps_resume_without_a_run(market: Market, order: int) -> None:
    def counts() -> tuple[int, int, int]:
        openings = market.openings()
        with hw.together(*openings[:: 1 - 2 * order]) as spaces:
            stock, shop = spaces[:: 1 - 2 * order]
            assert (market.total(), market.row(3)) == (40, 13)
            assert (stock.explain_resume().fresh, shop.explain_resume().fresh) in ((2, 1), (0, 0), (1, 1))
            return stock.runs(market.value), stock.runs(market.row), shop.runs(market.total)

    assert counts() == (1, 1, 1)
    assert counts() == (0, 0, 0)


def test_only_what_is_concerned_runs_after_a_change_in_the_other_app(market: Market) -> None:
    sold = market.sold

    @market.shop.computed
    def own() -> int:
        return sold.value

    with market.together():
        market.total(), own()
    with market.stock.open(market.url):
        market.tea.value = 11
    with market.together() as (stock, shop):
        assert (market.total(), own()) == (44, 0)
        assert (stock.runs(market.value), shop.runs(market.total), shop.runs(own)) == (1, 1, 0)


def test_an_app_that_is_opened_later_restores_its_rows(market: Market) -> None:
    with market.together():
        market.total()
    with market.stock.open(market.url) as stock:
        with market.shop.open(market.url) as shop:
            assert (market.total(), shop.runs(market.total), stock.runs(market.value)) == (40, 0, 0)
        market.tea.value = 12
        with market.shop.open(market.url) as shop:
            assert (market.total(), shop.runs(market.total)) == (48, 1)


def test_calls_with_arguments_of_the_other_app_are_restored(market: Market) -> None:
    row = market.row

    @market.shop.computed
    def both() -> int:
        return row(1) + row(2)

    for runs in (1, 0):
        for order in (1, -1):
            with hw.together(*market.openings()[::order]) as spaces:
                stock, shop = spaces[::order]
                assert both() == 23
                assert (shop.runs(both), stock.runs(market.row)) == ((runs, 2 * runs) if order == 1 else (0, 0))
