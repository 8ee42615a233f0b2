"""Rule 6: the same app twice, other threads and loops, and `apart=True` have a runtime of their own."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import CrossSpaceError
from headwater.host.space_facade import SpaceFacade, opening_of
from headwater.host.system_clock import SystemClock
from headwater.store.branching import fork
from tests.spaces.market import Market


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path)


def is_shared(*spaces: SpaceFacade) -> bool:
    return len({opening_of(space).runtime for space in spaces}) == 1


def test_the_same_app_twice_is_two_sessions(market: Market) -> None:
    with market.stock.open(market.url) as one, market.stock.open(market.url) as two:
        assert not is_shared(one, two)
        with market.shop.open(market.url) as shop:
            assert is_shared(one, shop)
            one.cell("stock.tea", int).value = 5
            one.sync()
            two.settle()
            assert two.cell("stock.tea", int).value == 5


def test_apps_of_one_name_are_one_app(market: Market) -> None:
    with hw.App("stock").open(market.url) as one, hw.App("stock").open(market.url) as two:
        assert not is_shared(one, two)


@pytest.mark.parametrize("other", [{"apart": True}, {"actor": "ann"}])
def test_an_opening_apart_or_for_another_actor_is_a_session_of_its_own(
    market: Market, other: dict[str, object]
) -> None:
    with market.stock.open(market.url) as stock, market.shop.open(market.url, on_error="log", **other) as shop:  # type: ignore[arg-type]
        assert not is_shared(stock, shop)
        with pytest.raises(CrossSpaceError, match="HW112"), shop.transaction():
            market.tea.value = 1


def test_another_branch_is_a_session_of_its_own(market: Market) -> None:
    with market.stock.open(market.url) as stock:
        stock._opening.ask_store(lambda engine: fork(engine, SystemClock(), "draft"))
        with market.shop.open(market.url, branch="draft", on_error="log") as shop:
            assert not is_shared(stock, shop)


def test_another_thread_has_a_runtime_of_its_own(market: Market) -> None:
    found: list[bool] = []
    with market.stock.open(market.url) as stock:

        def work() -> None:
            with market.shop.open(market.url, on_error="log") as shop:
                found.append(is_shared(stock, shop))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [False]


def test_a_loop_and_plain_code_have_runtimes_of_their_own(market: Market) -> None:
    async def main(stock: hw.Space) -> bool:
        async with market.shop.aopen(market.url, on_error="log") as shop:
            return is_shared(stock, shop)

    with market.stock.open(market.url) as stock:
        assert not asyncio.run(main(stock))
