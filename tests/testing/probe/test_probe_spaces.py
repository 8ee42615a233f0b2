"""Several apps in one probe: each in a space of its own, or all in one. Time and restarts are common to all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeliveryError, UsageError
from headwater.testing import ProbeError, probe


@dataclass
class Shops:
    """The basket reads the prices and sends to them."""

    prices: hw.App = field(default_factory=lambda: hw.App("prices"))
    basket: hw.App = field(default_factory=lambda: hw.App("basket"))
    shown: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tea = self.prices.cell("tea", 4)
        self.sold = self.prices.cell("sold", 0)
        self.count = self.basket.cell("count", 3)
        self.with_tax = self.prices.computed(name="with_tax")(lambda: self.tea.value * 12)
        self.late = self.prices.computed(name="late", debounce="1h")(lambda: self.tea.value)
        self.total = self.basket.computed(name="total")(lambda: self.count.value * self.with_tax())
        self.show = self.basket.sink(name="show")(lambda: self.shown.append(self.total()))
        self.note = self.prices.handler(name="note")(self._note)
        self.buy = self.basket.handler(name="buy")(self._buy)

    def _note(self, number: int) -> int:
        if number > 100:
            raise ValueError("too many")
        self.sold.value += number
        return self.sold.value

    def _buy(self, number: int) -> int:
        self.count.value -= 1
        self.note.send(number)
        self.sold.post.increment(1000)
        return self.late()


@pytest.fixture
def shops() -> Shops:
    return Shops()


def test_each_app_has_a_space_of_its_own_and_reads_across_are_live(shops: Shops) -> None:
    with probe(shops.prices, shops.basket) as t:
        first, second = t.spaces
        assert (first.name, second.name, first is t.space, first.id != second.id) == ("prices", "basket", True, True)
        shops.tea.value = 5
        assert shops.shown == [144, 180]
        assert (t.runs(shops.with_tax), t.runs(shops.total)) == (2, 2)


def test_a_restart_runs_nothing_that_has_read_the_same_there(shops: Shops) -> None:
    with probe(shops.basket, shops.prices) as t:
        shops.tea.value = 5
        ids = [space.id for space in t.spaces]
        for _ in range(2):
            t.restart()
            assert (t.runs(shops.with_tax), t.runs(shops.total)) == (2, 2)
        assert [space.id for space in t.spaces] == ids
        t.restart(crash=True)
        shops.tea.value = 6
        assert (shops.total(), shops.tea.value) == (216, 6)


def test_time_is_common_and_an_event_waits_for_a_function_of_the_other_space(shops: Shops) -> None:
    with probe(shops.prices, shops.basket) as t:
        assert shops.late() == 4
        shops.tea.value = 5
        ticket = shops.buy.send(2)
        t.advance("59m")
        assert ticket.state == "queued"
        t.advance("1m")
        assert (ticket.result(), shops.count.value, shops.sold.value) == (5, 2, 1002)


@pytest.mark.parametrize("crash", [False, True])
def test_what_was_sent_is_handled_once_over_restarts(shops: Shops, crash: bool) -> None:
    with probe(shops.prices, shops.basket) as t:
        shops.buy.send(2)
        t.restart(crash=crash)
        t.settle()
        assert (shops.count.value, shops.sold.value) == (2, 1002)
        t.restart(crash=crash)
        t.settle()
        assert (shops.sold.value, t.spaces[1].stats.undelivered, t.runs(shops.note)) == (1002, 0, 1)


def test_a_failure_in_the_other_space_is_an_error_of_the_test(shops: Shops) -> None:
    with probe(shops.prices, shops.basket) as t:
        shops.buy.send(101)
        t.settle()
        assert [type(error.__cause__) for error in t.errors] == [DeliveryError]
        assert shops.sold.value == 1000


def test_in_one_space_a_transaction_covers_all_apps(shops: Shops) -> None:
    with probe(shops.prices, shops.basket, one_space=True) as t:
        first, second = t.spaces
        assert (first.name, first.id) == ("main", second.id)
        with pytest.raises(KeyError), first.transaction():
            shops.tea.value, shops.count.value = 1, 1
            raise KeyError
        with second.transaction():
            shops.tea.value, shops.count.value = 10, 2
        assert shops.shown == [144, 240]
        t.restart()
        t.restart(crash=True)
        assert (shops.tea.value, shops.count.value, t.runs(shops.total)) == (10, 2, 2)


def test_functions_of_every_app_are_repeated_unless_they_read_another_space(shops: Shops) -> None:
    rates = [50]

    def price_in(app: hw.App, number: Callable[[], int]) -> Callable[[], int]:
        return app.computed(name="price")(lambda: number() * rates[0])

    prices = [price_in(shops.prices, shops.with_tax), price_in(shops.basket, lambda: shops.count.value)]
    far: Callable[[], int] = shops.basket.computed(name="far")(lambda: shops.with_tax() * rates[0])
    with probe(shops.prices, shops.basket) as t:
        assert [price() for price in (*prices, far)] == [2400, 150, 2400]
        t.restart()
        rates[0] = 60
        t.restart()
        assert [each.place for each in t.differences] == ["prices.price", "basket.price"]
        rates[0] = 50


def test_a_function_that_ran_although_it_was_current_is_told_in_every_app(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if what is stored of its runs could not be used."""
    with probe(shops.prices, shops.basket) as t:
        with monkeypatch.context() as patched:
            patched.setattr("headwater.scheduler.runs.persistence.decode_observation", lambda _: None)
            with pytest.raises(ProbeError) as told:
                t.restart()
        assert ("with_tax() ran again" in str(told.value), "total() ran again" in str(told.value)) == (True, True)


def test_apps_with_async_functions_share_a_loop(shops: Shops) -> None:
    @shops.prices.computed
    async def slow() -> int:
        number = shops.tea.value
        await asyncio.sleep(5)
        return number

    seen: list[Any] = []

    @shops.basket.sink
    def look() -> None:
        try:
            seen.append(slow())
        except hw.NotReadyError:
            seen.append(None)

    with probe(shops.basket, shops.prices) as t:
        t.advance("4s")
        assert seen == [None]
        t.advance("1s")
        assert seen == [None, 4]
        shops.tea.value = 7
        shops.buy.send(3)
        t.advance("2h")
        assert (seen[-1], shops.sold.value) == (7, 1003)
        t.restart()
        t.restart(crash=True)
        t.settle()
        assert (slow(), t.runs(slow), t.runs(shops.note), shops.sold.value) == (7, 2, 1, 1003)


def test_workflows_publish_to_another_space(shops: Shops) -> None:
    flow = shops.prices.workflow("mail")
    letters = flow.topic("letters", str)
    got: list[str] = []

    @flow.consumer(letters)
    class Read(hw.Consumer[str, str, None]):
        def prepare(self, pending: Any) -> Any:
            return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

        def mutate(self, _run: Any, data: str) -> None:
            got.append(data)

    @shops.basket.handler
    def write() -> None:
        letters.publish("tea", id="1")

    with probe(shops.basket, shops.prices) as t:
        write.send()
        t.settle()
        assert got == ["tea"]
        t.restart()
        t.settle()
        assert got == ["tea"]


@pytest.mark.parametrize("others", [(3,), (None,), ("basket",)])
def test_what_is_no_app_is_refused(shops: Shops, others: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match=r"hw\.App is expected"):
        probe(shops.prices, *others)


def test_an_app_that_is_given_twice_is_refused(shops: Shops) -> None:
    with pytest.raises(UsageError, match="there twice"):
        probe(shops.prices, shops.basket, shops.prices)


def test_if_one_app_cannot_be_opened_none_is_open(shops: Shops) -> None:
    @shops.basket.computed
    async def slow() -> int:
        return 1

    with pytest.raises(UsageError), probe(shops.prices, shops.basket, event_loop=False):
        pytest.fail("it has an async function")
    with pytest.raises(hw.HeadwaterError, match="no open space"):
        print(shops.tea.value)


def test_time_is_moved_by_the_test_alone(shops: Shops) -> None:
    with probe(shops.prices, shops.basket) as t:
        for space in t.spaces:
            with space.transaction(), pytest.raises(UsageError, match="called by the test itself"):
                t.advance("1s")
        with hw.App("other").open("memory:"), pytest.raises(UsageError, match="called by the test itself"):
            t.restart()
