"""The simulated event loop: time passes by itself, in order, and the same way each time."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from headwater.testing import SimLoop, simulate
from headwater.testing.sim_loop import StuckError
from tests.app.holding import SAFETY_S


def test_an_hour_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    assert simulate(main()) == pytest.approx(3600)
    assert time.perf_counter() - began < SAFETY_S


def test_time_stands_still_while_anything_is_ready() -> None:
    async def main() -> set[float]:
        times = set()
        for _ in range(100):
            times.add(asyncio.get_running_loop().time())
            await asyncio.sleep(0)
        return times

    assert simulate(main()) == {0.0}


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    async def main() -> list[tuple[str, float]]:
        woken = []

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            woken.append((name, round(asyncio.get_running_loop().time(), 6)))

        async with asyncio.TaskGroup() as group:
            for name, seconds in (("c", 3), ("a", 1), ("d", 3.5), ("b", 2)):
                group.create_task(sleeper(name, seconds))
        return woken

    first, second = simulate(main()), simulate(main())
    assert first == second == [("a", 1), ("b", 2), ("c", 3), ("d", 3.5)]


def test_timeouts_happen_at_their_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert simulate(main()) == pytest.approx(5)


def test_large_times_do_not_make_it_turn_on_the_spot() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1e9)
        for _ in range(1000):
            await asyncio.sleep(0.0001)
        return int(loop.time())

    assert simulate(main()) >= 1_000_000_000


def test_work_for_threads_is_done_in_the_loop_in_its_turn() -> None:
    async def main() -> list[object]:
        here = threading.get_ident()
        done: list[object] = []

        def work(name: str) -> str:
            assert threading.get_ident() == here
            done.append(name)
            return name

        results = await asyncio.gather(asyncio.to_thread(work, "a"), asyncio.to_thread(work, "b"))
        return [*done, *results]

    assert simulate(main()) == ["a", "b", "a", "b"]


def test_error_in_work_for_threads_reaches_who_waits_for_it() -> None:
    def fail() -> None:
        raise KeyError("no")

    async def main() -> None:
        await asyncio.to_thread(fail)

    with pytest.raises(KeyError, match="no"):
        simulate(main())


def test_work_that_was_cancelled_in_time_is_not_done() -> None:
    done: list[int] = []

    async def main() -> None:
        task = asyncio.create_task(asyncio.to_thread(done.append, 1))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    simulate(main())
    assert done == []


def test_other_threads_wake_it() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(future.set_result, 7))
        thread.start()
        found = await future
        thread.join(SAFETY_S)
        return found

    assert simulate(main()) == 7


def test_loop_that_would_wait_for_ever_says_so() -> None:
    loop = SimLoop(patience_s=0.0)
    try:
        with pytest.raises(StuckError, match=r"at 2\.000000 s nothing is ready, no timer is set"):
            loop.run_until_complete(forever())
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()


async def forever() -> None:
    await asyncio.sleep(2)
    await asyncio.Event().wait()


def test_milliseconds_are_the_same_time() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        await asyncio.sleep(1.5)
        return loop.time(), loop.now_ms()

    assert simulate(main()) == (1.5, 1500)
