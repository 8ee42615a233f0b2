"""Rule 8: looking in from outside lists functions and events by app."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spaces.market import Market


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path)


def test_the_graph_of_an_app_has_its_own_functions(market: Market) -> None:
    with market.together() as (stock, shop):
        assert "show" not in stock.graph()
        assert "value" in stock.graph()
        assert "show" in shop.graph()
        assert "stock.value  document" in shop.graph(), "the result of the other app is a document here"
        assert "refill" not in shop.graph()
