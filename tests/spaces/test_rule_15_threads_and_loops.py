"""Rule 15: spaces in different threads or loops: a notice goes to the other one, and nothing of it runs here."""

from __future__ import annotations

import asyncio
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING

import pytest

import headwater as hw
from headwater.errors import UsageError
from headwater.runtime.bridge import BridgedSpace
from headwater.runtime.bridges import Bridges

if TYPE_CHECKING:
    from headwater.machine import Lock


def test_a_space_of_another_thread_is_notified_and_runs_in_its_own_thread() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    seen: list[tuple[int, str]] = []
    opened, written, done = Event(), Event(), Event()

    @near.sink
    def show() -> None:
        seen.append((n.value, current_thread().name))

    def other() -> None:
        with near.open("memory:") as here:
            opened.set()
            written.wait(20)
            here.settle()
            done.set()

    with far.open("memory:"):
        thread = Thread(target=other, name="other")
        thread.start()
        assert opened.wait(20)
        n.value = 2
        assert [value for value, _ in seen] == [1]
        written.set()
        assert done.wait(20)
        thread.join()
    assert seen == [(1, "other"), (2, "other")]


def test_an_event_loop_is_woken_by_a_write_of_a_thread() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    seen: list[int] = []
    come: list[asyncio.Event] = []

    @near.sink
    def show() -> None:
        seen.append(n.value)
        if n.value == 2:
            come[0].set()

    async def main() -> None:
        come.append(asyncio.Event())
        async with near.aopen("memory:") as here:
            await here.settle()
            await asyncio.to_thread(setattr, n, "value", 2)
            await come[0].wait()

    with far.open("memory:"):
        asyncio.run(asyncio.wait_for(main(), 30))
    assert seen == [1, 2]


def test_a_space_of_another_event_loop_can_be_read() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    opened, done = Event(), Event()
    seen: list[int] = []

    @far.computed
    def double() -> int:
        return n.value * 2

    @near.computed
    def mirror() -> int:
        return double() + n.value

    async def away() -> None:
        async with far.aopen("memory:"):
            opened.set()
            await asyncio.to_thread(done.wait, 30)

    come: list[asyncio.Event] = []

    @near.sink
    def show() -> None:
        # Not ready at first: only its own loop can run the far function.
        seen.append(mirror())
        come[0].set()

    async def home() -> None:
        come.append(asyncio.Event())
        async with near.aopen("memory:"):
            await come[0].wait()

    thread = Thread(target=lambda: asyncio.run(away()))
    thread.start()
    try:
        assert opened.wait(20)
        asyncio.run(asyncio.wait_for(home(), 30))
    finally:
        done.set()
        thread.join()
    assert seen == [3]


def test_two_threads_whose_spaces_read_each_other_do_not_block_each_other() -> None:
    """Neither waits for the lock of the other while a function of its own runs."""
    one, two = hw.App("one"), hw.App("two")
    a, b = one.cell("a", 0), two.cell("b", 0)

    @one.computed
    def of_one() -> int:
        return a.value * 1000 + b.value

    @two.computed
    def of_two() -> int:
        return b.value * 1000 + a.value

    one.sink(name="show")(lambda: seen.append(of_two()))
    two.sink(name="show")(lambda: seen.append(of_one()))
    opened, ended = [Event(), Event()], [Event(), Event()]
    seen: list[int] = []

    def work(mine: int, app: hw.App, cell: hw.Cell[int]) -> None:
        with app.open("memory:", on_error="log") as space:
            opened[mine].set()
            opened[1 - mine].wait(20)
            for _ in range(60):
                cell.value += 1
            space.settle()
            ended[mine].set()
            ended[1 - mine].wait(20)

    threads = [Thread(target=work, args=args) for args in ((0, one, a), (1, two, b))]
    for thread in threads:
        thread.start()
    assert all(each.wait(20) for each in ended)
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


def test_a_space_that_is_closed_does_not_wait_for_the_lock_of_its_readers() -> None:
    """Two spaces that read each other, and are closed by two threads, would wait for each other."""
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    seen: list[int] = []
    near.sink(name="show")(lambda: seen.append(n.value))
    held, closed, waited = Event(), Event(), Event()

    def hold(lock: Lock) -> None:
        with lock:
            held.set()
            if not closed.wait(5):
                waited.set()

    there = far.open("memory:")
    with near.open("memory:") as here:
        thread = Thread(target=hold, args=(here._opening.lock,))
        thread.start()
        assert held.wait(20)
        there.close()
        closed.set()
        thread.join()
    assert seen == [1]
    assert not waited.is_set()


def test_a_space_that_is_opened_does_not_wait_for_the_locks_of_others() -> None:
    """Each of two threads that open a space at the same time holds the lock of its own."""
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    seen: list[int] = []
    near.sink(name="show")(lambda: seen.append(n.value))
    held, opened, waited = Event(), Event(), Event()

    def hold(lock: Lock) -> None:
        with lock:
            held.set()
            if not opened.wait(30):
                waited.set()

    with near.open("memory:", on_error="log") as here:
        assert seen == [], "the other space is not open yet"
        thread = Thread(target=hold, args=(here._opening.lock,))
        thread.start()
        assert held.wait(20)
        with far.open("memory:"):
            opened.set()
            thread.join()
            assert not waited.is_set()
            here.settle()
            assert seen == [1], "notified, when the lock was free"


def test_a_pass_that_is_refused_while_another_space_is_opened_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    seen: list[int] = []
    found, refused, come = Bridges.found, Event(), list[asyncio.Event]()

    @near.sink
    def show() -> None:
        seen.append(n.value)
        come[0].set()

    async def main() -> None:
        come.append(asyncio.Event())
        async with near.aopen("memory:", on_error="log") as here:
            await here.settle()
            runtime, loop = here._opening.runtime, asyncio.get_running_loop()

            def pass_now() -> None:
                # The thread that opens the other space has the lock.
                runtime.run_pass()
                refused.set()

            def found_slowly(self: Bridges, space: BridgedSpace) -> None:
                found(self, space)
                loop.call_soon_threadsafe(pass_now)
                assert refused.wait(20)

            monkeypatch.setattr(Bridges, "found", found_slowly)
            closed = Event()

            def open_far() -> None:
                with far.open("memory:"):
                    closed.wait(20)

            thread = Thread(target=open_far)
            thread.start()
            await come[0].wait()
            closed.set()
            await asyncio.to_thread(thread.join)

    asyncio.run(asyncio.wait_for(main(), 30))
    assert seen == [1]


def test_settle_and_fresh_wait_for_runs_in_other_spaces_of_the_loop() -> None:
    near, middle, far = hw.App("near"), hw.App("middle"), hw.App("far")
    n = far.cell("n", 1)
    seen: list[int] = []

    @far.computed
    async def slow() -> int:
        value = n.value
        for _ in range(5):
            await asyncio.sleep(0)
        return value * 10

    @middle.computed
    def passed_on() -> int:
        return slow() + 1

    @near.sink
    def show() -> None:
        seen.append(passed_on())

    @near.computed
    def dormant() -> int:
        return passed_on() * 100

    async def main() -> None:
        async with far.aopen("memory:"), middle.aopen("memory:"), near.aopen("memory:") as space:
            await space.settle()
            assert seen == [11]
            n.value = 2
            await space.settle()
            assert seen == [11, 21]
            n.value = 3
            assert await space.fresh(dormant) == 3100

    asyncio.run(main())


def test_a_run_that_waits_for_what_depends_on_it_in_another_space_is_refused() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    spaces: list[hw.AsyncSpace] = []
    errors: list[hw.HeadwaterError] = []

    @far.computed
    async def slow() -> int:
        value = n.value
        await asyncio.sleep(0)
        if value == 2:
            await spaces[0].settle()
        return value

    @near.sink
    def show() -> None:
        slow()

    async def main() -> None:
        async with far.aopen("memory:", on_error=errors.append), near.aopen("memory:", on_error="log") as space:
            spaces.append(space)
            await space.settle()
            n.value = 2
            await space.settle()

    asyncio.run(asyncio.wait_for(main(), 30))
    assert isinstance(errors[0].__cause__, UsageError)
    assert "that waits for what depends on it" in str(errors[0])
    assert "would wait for itself" in str(errors[0])
