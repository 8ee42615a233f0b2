"""Rule 7: one scheduler for all apps; output, errors, counts, demand and closing are those of each opening."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import NotOpen, UsageError
from tests.spaces.market import Market, in_loop


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path)


def test_each_change_runs_each_function_once_writers_first(market: Market) -> None:
    with market.together() as (stock, shop):
        for n in range(20):
            market.tea.value = n
        assert market.shown == [(40, 0)] + [(n * 4, 0) for n in range(20)]
        assert (stock.runs(market.value), shop.runs(market.show), shop.runs(market.total)) == (21, 21, 0)


def test_what_is_not_observed_by_any_app_does_not_run(market: Market) -> None:
    with market.together() as (stock, shop):
        market.show.stop()
        runs = stock.runs(market.value)
        market.tea.value = 3
        assert stock.runs(market.value) == runs
        assert (market.total(), stock.runs(market.value), shop.runs(market.total)) == (12, runs + 1, 1)


def test_runs_are_counted_by_the_opening_of_the_function(market: Market) -> None:
    with market.together() as (stock, shop):
        assert (set(stock.stats.runs), set(shop.stats.runs)) == ({"value", "row", "refill"}, {"total", "show", "sell"})
        with pytest.raises(UsageError, match="is not a function of this app"):
            shop.runs(market.value)


def test_errors_and_output_go_to_the_opening_of_the_function(
    market: Market, capsys: pytest.CaptureFixture[str]
) -> None:
    told: dict[str, list[str]] = {"stock": [], "shop": [], "stock says": [], "shop says": []}

    @market.stock.sink
    def broken() -> None:
        print("stock prints")
        raise ValueError(market.tea.value)

    @market.shop.sink
    def loud() -> None:
        print("shop prints")

    def options(name: str) -> dict[str, object]:
        def said(line: hw.Console) -> str:
            told[f"{name} says"].append(line.text)
            return ""

        return {"on_error": lambda error: told[name].append(error.facts["node"]), "on_console": said}

    openings = [
        market.stock.opening(market.url, **options("stock")),  # type: ignore[arg-type]
        market.shop.opening(market.url, **options("shop")),  # type: ignore[arg-type]
    ]
    with hw.together(*openings), pytest.raises(hw.EventFailedError):
        market.sell.send(6).result()
    assert told == {
        "stock": ["broken"],
        "shop": ["sell"],
        "stock says": ["stock prints"],
        "shop says": ["shop prints"],
    }
    assert capsys.readouterr().out == ""


def test_demand_is_of_each_opening(market: Market) -> None:
    with hw.together(market.stock.opening(market.url), market.shop.opening(market.url, demand="eager")) as (
        stock,
        shop,
    ):
        market.show.stop()
        market.sold.value = 1
        assert shop.runs(market.total) == 2, "eager"

        @market.stock.computed
        def lazy() -> int:
            return market.tea.value

        market.tea.value = 2
        assert stock.runs(lazy) == 0


def test_the_one_that_reads_goes_on_when_the_other_is_closed(market: Market) -> None:
    stock = market.stock.open(market.url)
    with market.shop.open(market.url, on_error=market.errors.append) as shop:
        assert market.shown == [(40, 0)]
        market.refill.send(1)
        stock.close()
        assert market.shown[-1] == (44, 0), "handled before it was closed"
        assert (stock.closed, shop.closed) == (True, False)
        assert shop.runs(market.show) == 2
        shop.settle()
        assert market.errors == [], "its readers keep the last value"
        market.sold.value = 1
        assert [type(error.__cause__) for error in market.errors] == [NotOpen], "a new run needs it"
        with market.stock.open(market.url):
            assert market.shown[-1] == (44, 1), "it runs again when the app is open"


@pytest.mark.parametrize("last", ["stock", "shop"])
def test_each_may_be_closed_first(market: Market, last: str) -> None:
    spaces = {
        "stock": market.stock.open(market.url, on_error="log"),
        "shop": market.shop.open(market.url, on_error="log"),
    }
    first = spaces["shop" if last == "stock" else "stock"]
    first.close()
    if last == "stock":
        market.tea.value = 7
        assert market.refill.send(2).result() == 9
    else:
        market.sold.value = 7
        assert market.sold.value == 7
    spaces[last].close()
    with market.together():
        assert (market.tea.value, market.sold.value) == ((9, 0) if last == "stock" else (10, 7))


def test_events_of_a_closed_app_wait_for_its_next_opening(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.host import plain_opening

    monkeypatch.setattr(plain_opening, "CLOSE_MS", 0.0)

    @market.stock.computed(debounce="1h")
    def slow() -> int:
        return market.tea.value

    @market.stock.sink
    def watch() -> None:
        slow()

    @market.stock.handler
    def later() -> int:
        return slow()

    with market.shop.open(market.url, on_error="log") as shop:
        with market.stock.open(market.url):
            market.tea.value = 11
            later.send()
        assert (shop.stats.events["waiting"], market.stock.declared["later"]) == (0, later)
        with market.stock.open(market.url) as stock:
            stock.settle()
            assert stock.runs(later) == 1


def test_closing_one_app_in_a_loop_leaves_the_other(market: Market) -> None:
    @market.stock.sink
    async def slow() -> None:
        market.value()

    async def main() -> None:
        async with market.shop.aopen(market.url, on_error=market.errors.append) as shop:
            async with market.stock.aopen(market.url) as stock:
                market.tea.value = 5
                await stock.settle()
                assert market.shown[-1] == (20, 0)
            market.errors.clear()
            market.sold.value = 3
            await shop.settle()
            assert market.sold.value == 3
            async with market.stock.aopen(market.url) as stock:
                await stock.settle()
                assert market.shown[-1] == (20, 3)

    in_loop(main)


def test_a_clock_of_each_app_ticks(tmp_path: Path) -> None:
    one, two = hw.App("one"), hw.App("two")
    first = one.computed(name="first")(lambda: hw.clock("1h").year > 0)
    second = two.computed(name="second")(lambda: hw.clock("1h").year > 0)
    url = str(tmp_path / "a.db")
    with hw.together(one.opening(url), two.opening(url)):
        assert (first(), second()) == (True, True)
