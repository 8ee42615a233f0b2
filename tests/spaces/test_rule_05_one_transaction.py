"""Rule 5: openings of different apps at one space share a runtime: one commit, one conflict check, one rollback."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import ConflictError, WriteError
from headwater.host.space_facade import opening_of
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from tests.spaces.market import Market, in_loop


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path)


@pytest.mark.parametrize("first", ["stock", "shop"])
def test_a_handler_writes_both_apps_in_one_commit(market: Market, first: str) -> None:
    """Also if the apps are opened one after the other, in any order."""
    apps = [market.stock, market.shop] if first == "stock" else [market.shop, market.stock]
    with apps[0].open(market.url, on_error="log") as one, apps[1].open(market.url) as two:
        assert opening_of(one).runtime is opening_of(two).runtime
        one.sync()
        commits = one.stats.seq
        market.sell.send(2).result()
        one.sync()
        assert (market.tea.value, market.sold.value, one.stats.seq - commits) == (8, 2, 2), "the handling, and value()"
        assert market.shown[-1] == (32, 2)


def test_a_failed_handler_leaves_nothing_in_either_app(market: Market) -> None:
    with market.together(on_error=market.errors.append):
        with pytest.raises(hw.EventFailedError, match="too much"):
            market.sell.send(6).result()
        assert (market.tea.value, market.sold.value) == (10, 0)
        assert market.shown == [(40, 0)]


def test_a_block_of_one_app_rolls_back_writes_of_the_other(market: Market) -> None:
    with market.together() as (stock, shop):
        for space in (stock, shop):
            with pytest.raises(KeyError), space.transaction():
                market.tea.value = 50
                market.sold.value = 5
                raise KeyError
        assert (market.tea.value, market.sold.value) == (10, 0)
        with stock.transaction():
            market.sold.value = 1
            with shop.transaction():  # a savepoint of the same transaction
                market.tea.value = 9
            assert (market.tea.value, market.sold.value) == (9, 1)
        assert market.shown[-1] == (36, 1)


def test_a_computed_may_write_neither_app(market: Market) -> None:
    @market.shop.computed
    def sly() -> int:
        market.tea.value = 77
        return 1

    with market.together(), pytest.raises(WriteError, match="HW104"):
        sly()


def test_a_block_that_read_the_other_app_conflicts_with_a_write_there(market: Market) -> None:
    with market.together() as (_, shop), market.shop.open(market.url, apart=True, on_error="log") as other:
        with shop.transaction():
            market.sold.value = market.tea.value
            other.cell("stock.tea", int).value = 3
            other.sync()
        with pytest.raises(ConflictError, match="HW211"):
            shop.sync()
        assert (market.tea.value, market.sold.value) == (3, 0)


def test_a_handler_waits_for_a_computed_of_the_other_app(market: Market) -> None:
    @market.shop.handler
    def note() -> int:
        return market.value()

    with market.together() as (stock, _):
        with stock.transaction():
            market.tea.value = 1
        assert note.send().result() == 4


def test_events_are_sent_to_the_other_app_in_the_transaction(market: Market) -> None:
    @market.shop.handler
    def order(n: int) -> None:
        market.refill.send(n)
        if n > 5:
            raise ValueError

    with market.together(on_error=market.errors.append) as (stock, _):
        order.send(3).result()
        stock.settle()
        assert market.tea.value == 13
        with pytest.raises(hw.EventFailedError):
            order.send(6).result()
        stock.settle()
        assert market.tea.value == 13, "not sent: the transaction was rolled back"


def test_a_document_of_one_app_is_linked_by_the_other(tmp_path: Path) -> None:
    class Person(hw.Doc):
        name: str

    people, tasks = hw.App("people"), hw.App("tasks")
    owner: hw.Cell[Person | None] = tasks.cell("owner", type=Person | None, default=None)
    seen: list[str] = []

    @tasks.sink
    def show() -> None:
        person = owner.value
        seen.append("" if person is None else person.name)

    url = str(tmp_path / "a.db")
    with hw.together(people.opening(url), tasks.opening(url)):
        ann = Person(name="Ann")
        owner.value = ann
        ann.name = "Anna"
    assert seen == ["", "Ann", "Anna"]


def test_two_apps_in_one_event_loop(market: Market) -> None:
    async def main() -> None:
        async with market.together() as (stock, shop):
            assert opening_of(stock).runtime is opening_of(shop).runtime
            await market.sell.send(2)
            await stock.settle()
            assert market.shown == [(40, 0), (32, 2)]
            with pytest.raises(KeyError), shop.transaction():
                market.tea.value = 50
                raise KeyError
            assert market.tea.value == 8
        async with market.stock.aopen(market.url) as stock, market.shop.aopen(market.url) as shop:
            assert opening_of(stock).runtime is opening_of(shop).runtime
            await stock.settle()
            assert market.shown[-1] == (32, 2)

    in_loop(main)


def test_two_apps_in_one_space_in_memory(market: Market) -> None:
    from headwater.host.space_files import open_space

    storage = open_space("memory:")

    def shared() -> Options:
        return Options(lease=lambda: Lease(storage, None, lambda: None))

    with market.stock.open_with(None, shared()) as stock, market.shop.open_with(None, shared()) as shop:
        assert opening_of(stock).runtime is opening_of(shop).runtime
        market.sell.send(1).result()
        assert market.shown[-1] == (36, 1)
    storage.close()
