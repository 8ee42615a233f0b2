"""Code in an event loop: passes run between awaits, and tasks and threads do not disturb each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import doc_key, open_space
from headwater.errors import AmbiguousError, ClosedError, ConflictError, NotOpen, UserCodeError
from headwater.store.commit import SetDoc
from tests.app.holding import SAFETY_S, disk_held
from tests.app.shop import Shop, plain_thread, run


@pytest.fixture
def shop() -> Shop:
    return Shop()


# --- reading, writing, passes -----------------------------------------------------------------------------


def test_reads_writes_and_transactions_go_across_awaits(shop: Shop, tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")

    async def main() -> None:
        async with shop.app.aopen(url) as space:
            shop.count.value = 1
            await asyncio.sleep(0)
            assert shop.count.value == 1
            with space.transaction():
                shop.count.value += 1
                await asyncio.sleep(0)
                shop.other.value = shop.count.value
                assert shop.doubled() == 4
            with pytest.raises(KeyError), space.transaction():
                shop.count.value = 100
                await asyncio.sleep(0)
                raise KeyError
            assert (shop.count.value, shop.other.value) == (2, 2)
            await space.synced()
            assert space.stats.pending == 0
        with pytest.raises(NotOpen):
            shop.count.value  # noqa: B018

    run(main())
    with shop.app.open(url):
        assert (shop.count.value, shop.other.value) == (2, 2)


def test_sinks_run_when_it_is_opened_and_between_awaits(shop: Shop) -> None:
    shop.with_sink()

    async def main() -> None:
        async with shop.app.aopen("memory:"):
            assert shop.shown == [0]
            shop.count.value = 1
            shop.count.value = 2
            assert shop.shown == [0], "not in the middle of a line"
            await asyncio.sleep(0)
            assert shop.shown == [0, 4]

    run(main())


def test_settle_waits_for_quiet(shop: Shop) -> None:
    """A sink that writes wakes another: both have run."""
    shop.app.sink(name="copy")(lambda: setattr(shop.other, "value", shop.count.value + 1))
    shop.app.sink(name="show")(lambda: shop.shown.append(shop.other.value))

    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            shop.shown.clear()
            shop.count.value = 5
            await space.settle()
            assert shop.shown == [6]
            await space.settle()
            assert shop.shown == [6]

    run(main())


def test_settle_returns_although_a_caller_was_first(shop: Shop) -> None:
    """The caller has brought up to date what a pass was asked for."""

    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            assert shop.doubled() == 0
            shop.count.value = 1
            assert shop.doubled() == 2
            await space.settle()
            shop.count.value = 2
            await space.settle()
            assert shop.doubled() == 4

    run(main())


def test_error_in_a_sink_stops_neither_the_loop_nor_other_sinks(shop: Shop) -> None:
    errors: list[UserCodeError] = []

    @shop.app.sink
    def fails() -> None:
        if shop.count.value:
            raise ValueError(shop.count.value)

    shop.with_sink()

    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            space.on_error = errors.append
            shop.count.value = 1
            await asyncio.sleep(0)
            shop.count.value = 2
            await space.settle()

    run(main())
    assert shop.shown == [0, 2, 4]
    assert [str(error.__cause__) for error in errors] == ["1", "2"]


def test_what_another_opening_commits_wakes_the_sinks_of_this_one(shop: Shop, tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    woken = asyncio.Event()
    writer = hw.App("shop")
    there = writer.cell("count", 0)

    @shop.app.sink
    def show() -> None:
        shop.shown.append(shop.doubled())
        if shop.shown[-1] == 4:
            woken.set()

    def write() -> None:
        with writer.open(url):
            there.value = 2

    async def main() -> None:
        async with shop.app.aopen(url):
            await asyncio.to_thread(write)
            await woken.wait()

    run(main())
    assert shop.shown == [0, 4]


# --- threads ----------------------------------------------------------------------------------------------


def test_thread_started_inside_a_transaction_is_part_of_it(shop: Shop) -> None:
    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            with space.transaction():
                shop.count.value = 5
                assert await asyncio.to_thread(lambda: (shop.count.value, shop.doubled())) == (5, 10)
                await asyncio.to_thread(setattr, shop.count, "value", 6)
                assert shop.count.value == 6
                assert space.stats.commits == 0
            assert shop.count.value == 6
            with pytest.raises(KeyError), space.transaction():
                await asyncio.to_thread(setattr, shop.count, "value", 7)
                raise KeyError
            assert shop.count.value == 6

    run(main())


def test_thread_that_calls_a_computed_does_not_keep_others_of_its_transaction_from_writing(shop: Shop) -> None:
    started, go_on = threading.Event(), threading.Event()

    @shop.app.computed
    def slow() -> int:
        started.set()
        assert go_on.wait(SAFETY_S)
        return shop.other.value

    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            with space.transaction():
                shop.count.value = 1
                task = asyncio.create_task(asyncio.to_thread(slow))
                await asyncio.to_thread(started.wait, SAFETY_S)
                shop.count.value = 2
                shop.other.value = 3
                go_on.set()
                assert await task == 3
            assert shop.count.value == 2

    run(main())


def test_write_of_a_thread_is_shown_by_the_loop(shop: Shop) -> None:
    threads: set[int] = set()

    @shop.app.sink
    def show() -> None:
        shop.shown.append(shop.count.value)
        threads.add(threading.get_ident())

    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            await asyncio.to_thread(setattr, shop.count, "value", 1)
            await space.settle()
            await asyncio.to_thread(lambda: plain_thread(lambda: setattr(shop.count, "value", 2)))
            await space.settle()

    run(main())
    assert shop.shown == [0, 1, 2]
    assert threads == {threading.get_ident()}


def test_pass_that_comes_while_a_thread_has_its_turn_is_made_up_for(shop: Shop) -> None:
    """A computation that takes long, asked for in a thread: the loop turns, and its sinks run afterwards."""
    started, go_on = threading.Event(), threading.Event()

    @shop.app.computed
    def slow() -> int:
        started.set()
        assert go_on.wait(SAFETY_S)
        return 1

    shop.app.sink(name="show")(lambda: shop.shown.append(shop.count.value))

    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            task = asyncio.create_task(asyncio.to_thread(slow))
            await asyncio.to_thread(started.wait, SAFETY_S)
            shop.count.value = 1
            for _ in range(10):
                await asyncio.sleep(0)
            assert shop.shown == [0], "whose turn it is runs, and nobody else"
            settling = asyncio.create_task(space.settle())
            await asyncio.sleep(0)
            assert not settling.done()
            go_on.set()
            assert await task == 1
            await settling
            assert shop.shown == [0, 1]

    run(main())


# --- tasks ------------------------------------------------------------------------------------------------


def test_transactions_of_tasks_are_apart_and_the_one_that_read_what_changed_is_told(shop: Shop) -> None:
    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            both_read, first_done = asyncio.Event(), asyncio.Event()

            async def first() -> None:
                with space.transaction():
                    shop.count.value += 1
                    await both_read.wait()
                first_done.set()

            async def second() -> None:
                with space.transaction():
                    assert shop.count.value == 0, "not committed"
                    both_read.set()
                    await first_done.wait()
                    assert shop.count.value == 0, "what it saw once it goes on seeing"
                    shop.count.value += 10

            results = await asyncio.gather(first(), second(), return_exceptions=True)
            assert results[0] is None and isinstance(results[1], ConflictError)
            assert r"shop.count" in str(results[1])
            assert shop.count.value == 1
            await space.synced()
            assert space.stats.rejected == 0, "it never travelled"

    run(main())


def test_transactions_of_tasks_that_do_not_touch_each_other_all_land(shop: Shop) -> None:
    cells = [shop.app.cell(f"c{number}", 0) for number in range(20)]

    async def main() -> None:
        async with shop.app.aopen("memory:") as space:

            async def work(number: int) -> None:
                for _ in range(3):
                    with space.transaction():
                        cells[number].value += number
                        await asyncio.sleep(0)

            await asyncio.gather(*[work(number) for number in range(20)])
            await space.synced()
            assert [cell.value for cell in cells] == [number * 3 for number in range(20)]

    run(main())


def test_conflict_that_the_store_finds_is_told_by_synced(shop: Shop) -> None:
    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            assert shop.count.value == 0
            rival = space._opening._lease.storage.attach()
            rival.read(doc_key("shop.count"))
            with disk_held(space._opening):
                rival.commit([SetDoc(doc_key("shop.count"), 7)])
                with space.transaction():
                    shop.count.value += 1
            with pytest.raises(ConflictError, match=r"shop\.count"):
                await space.synced()
            assert (shop.count.value, space.stats.rejected) == (7, 1)
            await space.synced()

    run(main())


def test_conflict_that_nobody_asked_about_is_told_at_the_end_of_the_block(shop: Shop) -> None:
    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            assert shop.count.value == 0
            rival = space._opening._lease.storage.attach()
            rival.read(doc_key("shop.count"))
            with disk_held(space._opening):
                rival.commit([SetDoc(doc_key("shop.count"), 7)])
                with space.transaction():
                    shop.count.value += 1

    with pytest.raises(ConflictError):
        run(main())
    assert "open in 0 spaces" in repr(shop.app)


def test_cancelled_transaction_is_rolled_back(shop: Shop) -> None:
    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            inside = asyncio.Event()

            async def work() -> None:
                with space.transaction():
                    shop.count.value = 5
                    inside.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            await inside.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() and shop.count.value == 0 and space.stats.commits == 0

    run(main())


def test_cancelled_block_is_closed_and_what_was_committed_is_kept(shop: Shop, tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")

    async def main() -> None:
        inside = asyncio.Event()

        async def work() -> None:
            async with shop.app.aopen(url):
                shop.count.value = 5
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run(main())
    with open_space(url, create=False) as space:
        assert space.attach().read(doc_key("shop.count")) == 5


def test_block_that_is_left_before_an_async_function_has_taken_its_first_step_is_closed(shop: Shop) -> None:
    @shop.app.sink
    async def show() -> None:
        shop.shown.append(shop.count.value)

    async def main() -> None:
        async with shop.app.aopen("memory:"):
            shop.count.value = 1
            await asyncio.sleep(0)

    run(main())
    assert shop.shown == [0]


def test_task_that_outlives_its_block_is_told(shop: Shop) -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def late(use: Callable[[], object]) -> None:
            await over.wait()
            with pytest.raises(ClosedError, match=r"cannot be used: space 'main' was closed"):
                use()

        async with shop.app.aopen("memory:") as space:
            uses: list[Callable[[], object]] = [
                lambda: shop.count.value,
                lambda: setattr(shop.count, "value", 1),
                shop.doubled,
                lambda: space.transaction().__enter__(),
            ]
            tasks = [asyncio.create_task(late(use)) for use in uses]
            with space.transaction():
                shop.count.value = 1
                tasks += [asyncio.create_task(late(use)) for use in uses]
        over.set()
        await asyncio.gather(*tasks)
        for method in (space.settle, space.synced):
            with pytest.raises(ClosedError):
                await method()
        await space.close()

    run(main())


def test_task_that_outlives_the_transaction_it_was_started_in_is_told(shop: Shop) -> None:
    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            over = asyncio.Event()

            async def late() -> None:
                await over.wait()
                with pytest.raises(ClosedError, match="needs a transaction of its own"):
                    shop.count.value = 5

            with space.transaction():
                task = asyncio.create_task(late())
                shop.count.value = 1
            over.set()
            await task
            assert shop.count.value == 1

    run(main())


def test_tasks_each_mean_their_own_opening(shop: Shop, tmp_path: Path) -> None:
    async def work(number: int, barrier: asyncio.Barrier) -> None:
        async with shop.app.aopen(str(tmp_path / f"{number}.db")):
            await barrier.wait()
            shop.count.value = number
            await barrier.wait()
            assert (shop.count.value, shop.doubled()) == (number, number * 2)
            await barrier.wait()

    async def main() -> None:
        barrier = asyncio.Barrier(3)
        await asyncio.gather(*[work(number, barrier) for number in range(3)])

    run(main())


def test_task_without_an_opening_around_it_is_told_when_there_are_several(shop: Shop) -> None:
    async def main() -> None:
        ready, over = asyncio.Event(), asyncio.Event()

        async def outside() -> None:
            await ready.wait()
            with pytest.raises(AmbiguousError):
                shop.count.value  # noqa: B018
            over.set()

        task = asyncio.create_task(outside())
        async with shop.app.aopen("memory:"), shop.app.aopen("memory:"):
            ready.set()
            await over.wait()
        await task

    run(main())
