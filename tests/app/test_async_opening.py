"""Opening in an event loop: the disk holds up nobody, other loops are refused, and nothing is left open."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import app as app_module
from headwater.core import open_space
from headwater.errors import DeclarationError, NotFoundError, NotOpen, UsageError
from headwater.host.loop_opening import LoopOpening
from headwater.host.space_files import share_space
from headwater.host.storage import Storage
from headwater.runtime.event_service import EventService
from headwater.runtime.lease import Lease
from tests.app.holding import SAFETY_S, disk_held
from tests.app.shop import Shop, plain_thread, run


@pytest.fixture
def shop() -> Shop:
    return Shop()


# --- the disk ---------------------------------------------------------------------------------------------


def test_busy_disk_holds_up_neither_writes_nor_transactions_nor_sinks(shop: Shop, tmp_path: Path) -> None:
    shop.with_sink()

    async def main() -> None:
        async with shop.app.aopen(str(tmp_path / "shop.db")) as space:
            with disk_held(space._opening):
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


def test_busy_disk_does_not_hold_up_the_loop_while_a_space_is_opened_or_closed(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "shop.db")
    asked = threading.Event()

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            asked.set()
            return function(*args, **options)

        return call

    async def main() -> None:
        async with shop.app.aopen(url) as space:
            # With nothing to sync: all that is asked of the disk is to be let in, and to be let go.
            monkeypatch.setattr(Storage, "wait", lambda *_args: None)
            monkeypatch.setattr(Storage, "attach", noted(Storage.attach))
            opening = shop.app.aopen(url)
            with disk_held(space._opening):
                entering = asyncio.create_task(opening.__aenter__())
                await asyncio.to_thread(asked.wait, SAFETY_S)
                await asyncio.sleep(0)
                assert not entering.done()
            second = await entering
            asked.clear()
            monkeypatch.setattr(Storage, "detach", noted(Storage.detach))
            with disk_held(space._opening):
                closing = asyncio.create_task(second.close())
                await asyncio.to_thread(asked.wait, SAFETY_S)
                await asyncio.sleep(0)
                assert not closing.done()
            await closing
            monkeypatch.undo()

    run(main())


def test_wake_after_the_end_is_harmless(shop: Shop) -> None:
    shop.with_sink()

    async def main() -> hw.AsyncSpace:
        async with shop.app.aopen("memory:") as space:
            pass
        space._opening.call_in_loop(space._opening.runtime.run_pass)
        space._opening.catch_up()
        await asyncio.sleep(0)
        return space

    space = asyncio.run(main())
    space._opening.call_in_loop(space._opening.runtime.run_pass)
    space._opening.catch_up()
    assert shop.shown == [0]


def test_loop_that_ended_without_closing_does_not_hold_up_who_still_writes(shop: Shop, tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    shop.with_sink()
    opening = shop.app.aopen(url)
    space = asyncio.run(opening.__aenter__())
    shop.count.value = 3
    assert shop.count.value == 3
    space._opening.abandon()
    with shop.app.open(url):
        assert shop.count.value == 3


# --- loops ------------------------------------------------------------------------------------------------


def test_second_event_loop_is_refused_with_what_to_do(shop: Shop) -> None:
    async def intrude(space: hw.AsyncSpace) -> None:
        uses: list[Callable[[], object]] = [
            lambda: shop.count.value,
            lambda: setattr(shop.count, "value", 1),
            shop.doubled,
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
    started, go_on = threading.Event(), threading.Event()
    storages: list[Storage] = []

    def slow(*args: Any, **options: Any) -> Lease:
        started.set()
        assert go_on.wait(SAFETY_S)
        lease = share_space(*args, **options)
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


def test_opening_that_is_cancelled_when_it_is_just_there_leaves_nothing_open(shop: Shop, tmp_path: Path) -> None:
    """In the first pass of its sinks."""
    url = str(tmp_path / "shop.db")
    tasks: list[asyncio.Task[hw.AsyncSpace]] = []

    @shop.app.sink
    def show() -> None:
        tasks[0].cancel()

    async def main() -> None:
        tasks.append(asyncio.create_task(shop.app.aopen(url).__aenter__()))
        await asyncio.wait(tasks)
        assert tasks[0].cancelled()

    run(main())
    assert "open in 0 spaces" in repr(shop.app)
    open_space(url).close()


def test_a_pass_that_is_asked_for_while_a_thread_makes_the_space_leaves_the_lock_free(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The store reports what an earlier run left behind as soon as a replica is attached: before the space is complete.
    make = EventService.__init__

    def make_slowly(self: EventService, space: LoopOpening, *args: Any) -> None:
        space.catch_up()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), space.loop).result()
        make(self, space, *args)

    monkeypatch.setattr(EventService, "__init__", make_slowly)
    shop.with_sink()
    errors: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        async with shop.app.aopen(str(tmp_path / "shop.db")) as space:
            await asyncio.to_thread(_set, shop, 7, space._opening)
            await space.settle()

    run(main())
    assert errors == []
    assert shop.shown[-1] == 14


def _set(shop: Shop, count: int, space: LoopOpening) -> None:
    assert space.lock.acquire(timeout=SAFETY_S)
    space.lock.release()
    shop.count.value = count
