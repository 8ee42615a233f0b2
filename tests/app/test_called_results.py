"""What a transaction has called is part of what it has read: the result, and whether there was one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

import headwater as hw
from headwater.core import SetDoc, doc_key
from headwater.errors import ConflictError
from headwater.host.space_facade import opening_of


class Shop:
    """A function that fails for negative prices and is not observed, and a cell for what a transaction makes of it."""

    def __init__(self) -> None:
        self.app = app = hw.App("shop")
        self.price = app.cell("price", 1)
        self.noted = app.cell("noted", 0)
        self.runs = 0
        price = self.price

        @app.computed
        def doubled() -> int:
            self.runs += 1
            if price.value < 0:
                raise ValueError(price.value)
            return abs(price.value) * 2

        @app.computed
        def times(factor: int) -> int:
            return price.value * factor

        self.doubled, self.times = doubled, times

    def called(self) -> int:
        try:
            return self.doubled()
        except ValueError as error:
            return int(str(error))

    def change(self, price: int) -> None:
        """As another thread does while a transaction is open."""
        thread = Thread(target=lambda: setattr(self.price, "value", price))
        thread.start()
        thread.join()


@pytest.mark.parametrize("called", [lambda shop: shop.doubled(), lambda shop: shop.times(3)])
def test_block_is_rejected_if_a_function_that_nothing_observes_gives_another_result(
    called: Callable[[Shop], int],
) -> None:
    """The function has not run for the change: its result is as before."""
    shop = Shop()
    with shop.app.open("memory:") as space:
        with pytest.raises(ConflictError), space.transaction():
            shop.noted.value = called(shop)
            shop.change(5)
        assert shop.noted.value == 0
        with space.transaction():
            shop.noted.value = called(shop)
        assert shop.noted.value == called(shop)


@pytest.mark.parametrize(("before", "after"), [(1, -1), (-1, 1), (-1, -2)])
def test_block_is_rejected_if_a_function_that_it_has_called_fails_since_or_no_longer_or_in_another_way(
    before: int, after: int
) -> None:
    """A failure is no document: the store would accept the commit."""
    shop = Shop()
    with shop.app.open("memory:") as space:
        shop.price.value = before
        shop.called()
        with pytest.raises(ConflictError), space.transaction():
            shop.noted.value = shop.called()
            shop.change(after)
        assert shop.noted.value == 0


def test_block_is_rejected_if_a_function_fails_since_although_another_caller_has_found_that_out() -> None:
    shop = Shop()
    with shop.app.open("memory:") as space, pytest.raises(ConflictError, match="fails"), space.transaction():
        shop.noted.value = shop.called()

        def change_and_call() -> None:
            shop.change(-1)
            shop.called()

        thread = Thread(target=change_and_call)
        thread.start()
        thread.join()


@pytest.mark.parametrize("price", [1, -1])
def test_block_is_committed_if_a_function_gives_or_raises_the_same_again(price: int) -> None:
    shop = Shop()
    unrelated = shop.app.cell("unrelated", 0)
    with shop.app.open("memory:") as space:
        shop.price.value = price
        with space.transaction():
            shop.noted.value = shop.called()
            shop.change(7)
            shop.change(price)
            thread = Thread(target=lambda: setattr(unrelated, "value", 1))
            thread.start()
            thread.join()
        assert shop.noted.value == shop.called()


def test_block_that_reads_the_last_result_of_a_failed_function_as_a_cell_is_committed() -> None:
    shop = Shop()
    with shop.app.open("memory:") as space:
        assert shop.called() == 2
        shop.price.value = -1
        assert shop.called() == -1
        with space.transaction():
            shop.noted.value = space.cell("shop.doubled", int).value
        assert shop.noted.value == 2


def test_commit_of_a_block_runs_no_function_that_is_current() -> None:
    shop = Shop()
    with shop.app.open("memory:") as space:
        for _ in range(3):
            with space.transaction():
                shop.noted.value = shop.called()
        assert shop.runs == 1


@pytest.mark.parametrize(("before", "after"), [(1, -1), (-1, 1), (1, 3)])
def test_handler_is_called_again_if_a_function_that_it_has_called_fails_since_or_no_longer(
    before: int, after: int
) -> None:
    shop = Shop()
    found: list[int] = []

    @shop.app.handler
    def note() -> None:
        found.append(shop.called())
        shop.noted.value = found[-1]
        if len(found) == 1:
            # As a thread would do that does not wait for the pass.
            opening_of(space).replica.commit([SetDoc(doc_key("shop.price"), after)])

    with shop.app.open("memory:") as space:
        shop.price.value = before
        ticket = note.send()
        ticket.result("60s")
        assert len(found) == 2
        assert shop.noted.value == found[-1] == shop.called()


def test_run_is_repeated_if_a_function_that_it_has_called_fails_since() -> None:
    shop = Shop()
    shown: list[int] = []

    @shop.app.computed
    def again() -> int:
        return shop.called()

    @shop.app.sink
    def show() -> None:
        found = shop.called()
        if shop.noted.value and not shown:
            opening_of(space).replica.commit([SetDoc(doc_key("shop.price"), -1)])
            again()
        shown[:] = [found]

    with shop.app.open("memory:") as space:
        shown.clear()
        shop.noted.value = 1
        assert shown == [-1]


def test_async_sink_runs_again_if_the_function_that_it_waits_for_has_failed_before_the_sink_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The function failed as in the opening before: that is no news for other readers."""
    app, url = hw.App("shop"), str(tmp_path / "shop.db")
    count = app.cell("count", 1)

    @app.computed
    async def total() -> int:
        raise ValueError("no prices")

    @app.sink(resume="quiet")
    async def show() -> None:
        try:
            total()
        except ValueError:
            print("failed with", count.value)

    async def opened() -> None:
        async with app.aopen(url) as space:
            await space.idle()

    asyncio.run(opened())
    with hw.App("other").open(url) as space:
        space.cell("shop.count", int).value = 2
    asyncio.run(opened())
    assert capsys.readouterr().out == "failed with 1\nfailed with 2\n"


def test_reader_that_has_seen_a_failure_before_a_restart_does_not_run_because_another_reader_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app, url = hw.App("shop"), str(tmp_path / "shop.db")

    @app.computed
    async def total() -> int:
        await asyncio.sleep(0)
        raise ValueError("no prices")

    @app.sink
    def loud() -> None:
        try:
            total()
        except ValueError:
            print("loud")

    @app.sink(resume="quiet")
    def quiet() -> None:
        try:
            total()
        except ValueError:
            print("quiet")

    async def opened() -> None:
        async with app.aopen(url) as space:
            await space.idle()

    asyncio.run(opened())
    assert sorted(capsys.readouterr().out.split()) == ["loud", "quiet"]
    asyncio.run(opened())
    assert capsys.readouterr().out.split() == ["loud"]
