"""Opening in an event loop: passes run between awaits, tasks do not disturb each other, and the disk holds up nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import app as app_module
from headwater.core import doc_key, open_space
from headwater.errors import (
    AmbiguousError,
    ClosedError,
    ConflictError,
    DeclarationError,
    NotFoundError,
    NotOpen,
    UsageError,
    UserCodeError,
)
from headwater.host.opening import Lease
from headwater.host.storage import Storage
from headwater.store.commit import SetDoc
from tests.app.holding import SAFETY_S, disk_held


def run(main: Coroutine[Any, Any, object]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SAFETY_S):
            await main

    asyncio.run(bounded())


class Shop:
    def __init__(self) -> None:
        self.app = hw.App("shop")
        self.count = self.app.cell("count", 0)
        self.other = self.app.cell("other", 0)
        self.shown: list[int] = []
        self.doubled = self.app.computed(name="doubled")(self._double)

    def _double(self) -> int:
        return self.count.value * 2

    def with_sink(self) -> Shop:
        self.app.sink(name="show")(lambda: self.shown.append(self.doubled()))
        return self


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
    shop.with_sink()

    async def main() -> None:
        async with shop.app.aopen(url):
            shop.app.sink(name="later")(lambda: None)
            writer = hw.App("shop")
            there = writer.cell("count", 0)
            done = asyncio.create_task(shown_is(4))

            def write() -> None:
                with writer.open(url):
                    there.value = 2

            await asyncio.to_thread(write)
            await done

    async def shown_is(value: int) -> None:
        while shop.shown[-1:] != [value]:
            await asyncio.sleep(0)
        woken.set()

    run(main())
    assert shop.shown == [0, 4] and woken.is_set()


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


def test_write_of_a_thread_is_shown_by_the_loop(shop: Shop) -> None:
    threads: set[int] = set()
    shop.app.sink(name="show")(lambda: (shop.shown.append(shop.count.value), threads.add(threading.get_ident())))

    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            await asyncio.to_thread(setattr, shop.count, "value", 1)
            await space.settle()
            await asyncio.to_thread(lambda: plain_thread(lambda: setattr(shop.count, "value", 2)))
            await space.settle()

    run(main())
    assert shop.shown == [0, 1, 2]
    assert threads == {threading.get_ident()}


def plain_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(SAFETY_S)


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
            rival = space._lease.storage.attach()
            rival.read(doc_key("shop.count"))
            with disk_held(space):
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
            rival = space._lease.storage.attach()
            rival.read(doc_key("shop.count"))
            with disk_held(space):
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
                lambda: shop.doubled(),
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


# --- the disk ---------------------------------------------------------------------------------------------


def test_busy_disk_holds_up_neither_writes_nor_transactions_nor_sinks(shop: Shop, tmp_path: Path) -> None:
    shop.with_sink()

    async def main() -> None:
        async with shop.app.aopen(str(tmp_path / "shop.db")) as space:
            with disk_held(space):
                shop.count.value = 1
                with space.transaction():
                    shop.count.value += 1
                await space.settle()
                assert shop.shown[-1] == 4
                synced = asyncio.create_task(space.synced())
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not synced.done() and space.stats.pending
            await synced
            assert not space.stats.pending

    run(main())


def test_busy_disk_does_not_hold_up_the_loop_while_a_space_is_opened_or_closed(shop: Shop, tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")

    async def turns(while_: Awaitable[object]) -> None:
        task = asyncio.ensure_future(while_)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()

    async def main() -> None:
        async with shop.app.aopen(url) as space:
            opening = shop.app.aopen(url)
            with disk_held(space):
                entering = asyncio.create_task(opening.__aenter__())
                await turns(asyncio.shield(entering))
            second = await entering
            with disk_held(space):
                closing = asyncio.create_task(second.close())
                await turns(asyncio.shield(closing))
            await closing
            assert second.closed

    run(main())


def test_wake_after_the_end_is_harmless(shop: Shop) -> None:
    shop.with_sink()

    async def main() -> hw.AsyncSpace:
        async with shop.app.aopen("memory:") as space:
            pass
        space._wake()
        space.catch_up()
        await asyncio.sleep(0)
        return space

    space = asyncio.run(main())
    space._wake()
    space.catch_up()
    assert shop.shown == [0]


def test_loop_that_ended_without_closing_does_not_hold_up_who_still_writes(shop: Shop, tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    shop.with_sink()
    opening = shop.app.aopen(url)
    space = asyncio.run(opening.__aenter__())
    shop.count.value = 3
    assert shop.count.value == 3
    space.abandon()
    with shop.app.open(url):
        assert shop.count.value == 3


# --- loops ------------------------------------------------------------------------------------------------


def test_second_event_loop_is_refused_with_what_to_do(shop: Shop) -> None:
    async def intrude(space: hw.AsyncSpace) -> None:
        uses: list[Callable[[], object]] = [
            lambda: shop.count.value,
            lambda: setattr(shop.count, "value", 1),
            lambda: shop.doubled(),
            lambda: space.cell("shop.count"),
            lambda: space.transaction().__enter__(),
        ]
        for use in uses:
            with pytest.raises(UsageError, match=r"cannot be used from this event loop") as caught:
                use()
            assert "open it here as well, with `async with app.aopen(...)`" in caught.value.message
        with pytest.raises(UsageError):
            await space.synced()

    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            assert shop.count.value == 0
            await asyncio.to_thread(lambda: asyncio.run(intrude(space)))
            await asyncio.to_thread(lambda: plain_thread(lambda: asyncio.run(intrude(space))))
            assert (shop.count.value, space.stats.commits) == (0, 0)

    run(main())


def test_second_event_loop_opens_the_file_as_well(shop: Shop, tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")

    async def elsewhere() -> None:
        async with shop.app.aopen(url) as space:
            shop.count.value = 5
            await space.synced()

    async def main() -> None:
        async with shop.app.aopen(url) as space:
            await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
            await space.settle()
            assert shop.count.value == 5

    run(main())


def test_plain_opening_may_be_used_in_an_event_loop(shop: Shop) -> None:
    shop.with_sink()

    async def main(space: hw.Space) -> None:
        with space.transaction():
            shop.count.value += 1
            await asyncio.sleep(0)
        assert shop.shown == [0, 2], "as in plain code: before the next statement"
        await space.synced()

    with shop.app.open("memory:") as space:
        asyncio.run(main(space))


# --- opening that fails -----------------------------------------------------------------------------------


def test_opening_is_entered_once(shop: Shop) -> None:
    async def main() -> None:
        opening = shop.app.aopen("memory:")
        async with opening:
            with pytest.raises(UsageError, match="an opening is entered once"):
                await opening.__aenter__()

    run(main())


def test_opening_that_fails_leaves_nothing_open(shop: Shop, tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")

    @shop.app.computed
    def broken() -> NoSuchType:  # type: ignore[name-defined]  # noqa: F821
        return 1

    async def main() -> None:
        with pytest.raises(NotFoundError):
            async with shop.app.aopen(url, create=False):
                pass
        with pytest.raises(DeclarationError, match=r"broken\(\)"):
            async with shop.app.aopen(url):
                pass
        with pytest.raises(NotOpen):
            shop.count.value  # noqa: B018

    run(main())
    assert "open in 0 spaces" in repr(shop.app)
    open_space(url).close()


def test_opening_that_is_cancelled_while_it_waits_for_the_disk_leaves_nothing_open(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "shop.db")
    started, go_on, original = threading.Event(), threading.Event(), app_module.share_space
    storages: list[Storage] = []

    def slow(*args: Any, **options: Any) -> Lease:
        started.set()
        assert go_on.wait(SAFETY_S)
        lease = original(*args, **options)
        storages.append(lease.storage)
        return lease

    monkeypatch.setattr(app_module, "share_space", slow)

    async def main() -> None:
        task = asyncio.create_task(shop.app.aopen(url).__aenter__())
        await asyncio.to_thread(started.wait, SAFETY_S)
        task.cancel()
        go_on.set()
        await asyncio.wait([task])
        assert task.cancelled()

    run(main())
    assert storages[0]._closed and "open in 0 spaces" in repr(shop.app)
    open_space(url).close()


def test_opening_that_is_cancelled_when_it_is_just_there_leaves_nothing_open(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first pass of its sinks."""
    url = str(tmp_path / "shop.db")
    tasks: list[asyncio.Task[hw.AsyncSpace]] = []
    shop.app.sink(name="show")(lambda: tasks[0].cancel())

    async def main() -> None:
        tasks.append(asyncio.create_task(shop.app.aopen(url).__aenter__()))
        await asyncio.wait(tasks)
        assert tasks[0].cancelled()

    run(main())
    assert "open in 0 spaces" in repr(shop.app)
    open_space(url).close()
