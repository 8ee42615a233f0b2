"""Async functions that are stopped: by a change, by being replaced, by the end of the space, and by time."""

from __future__ import annotations

import asyncio

import pytest

import headwater as hw
from headwater.core import RetryImmediately, doc_key
from headwater.errors import UsageError
from headwater.scheduler.scheduler_limits import RUNS_MAX
from tests.app.simulated import Lab, pause


@pytest.fixture
def lab() -> Lab:
    return Lab()


# --- being stopped ----------------------------------------------------------------------------------------


def test_function_that_swallows_its_cancellation_is_run_again_all_the_same(lab: Lab) -> None:
    query = lab.app.cell("query", "a")

    @lab.app.computed
    async def search() -> str:
        text = query.value
        try:
            await pause(100)
        except asyncio.CancelledError:
            lab.note("swallowed", text)
            return f"half of {text}"
        return text

    @lab.app.sink
    def show() -> None:
        lab.note("show", search())

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            query.value = "b"
            await pause(50)
            query.value = "c"
            await space.settle()
            assert lab.taken() == [(150, "swallowed", "b"), (250, "show", "c")], "half a result is none"

    lab.run(main)


def test_function_that_goes_on_after_its_cancellation_is_waited_for_and_run_again(lab: Lab) -> None:
    query = lab.app.cell("query", "a")

    @lab.app.sink
    async def search() -> None:
        text = query.value
        try:
            await pause(100)
        except asyncio.CancelledError:
            await pause(1000)
        lab.note("done", text)

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            query.value = "b"
            await pause(50)
            query.value = "c"
            await pause(50)
            query.value = "d"
            await space.settle()
            assert lab.taken() == [(1150, "done", "b"), (1250, "done", "d")]

    lab.run(main)


def test_clean_up_is_not_disturbed_by_further_changes(lab: Lab) -> None:
    """It is told once that it is too late, not once for each change."""
    query = lab.app.cell("query", "a")

    @lab.app.sink
    async def search() -> None:
        text = query.value
        try:
            await pause(100)
        except asyncio.CancelledError:
            await pause(500)
            lab.note("cleaned up", text)
            raise

    async def main() -> None:
        async with lab.open() as space:
            query.value = "b"
            await pause(50)
            for text in "cdef":
                query.value = text
                await pause(50)
            await space.settle()

    lab.run(main)
    assert lab.taken() == [(650, "cleaned up", "b")]


def test_replaced_function_is_stopped(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.__IPYTHON__", True, raising=False)

    @lab.app.sink(name="show")
    async def first() -> None:
        try:
            await pause(1000)
        except asyncio.CancelledError:
            lab.note("stopped")
            raise

    async def second() -> None:
        await pause(10)
        lab.note("second")

    async def main() -> None:
        opening = asyncio.create_task(lab.open().__aenter__())
        await pause(50)
        lab.app.sink(name="show")(second)
        space = await opening
        await space.settle()
        assert lab.taken() == [(50, "stopped"), (60, "second")]
        await space.close()

    lab.run(main)


def test_closing_stops_what_is_under_way(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.sink
    async def slow() -> None:
        if count.value:
            try:
                await asyncio.Event().wait()
            finally:
                lab.note("stopped")

    async def main() -> None:
        async with lab.open():
            count.value = 1
            await pause(50)
        assert lab.taken() == [(50, "stopped")]

    lab.run(main)


def test_closing_does_not_wait_for_what_the_last_write_started(lab: Lab) -> None:
    """It begins while the space is being closed, and would wait for ever."""
    count = lab.app.cell("count", 0)

    @lab.app.sink
    async def slow() -> None:
        if count.value:
            lab.note("begins")
            await asyncio.Event().wait()

    async def main() -> None:
        async with lab.open():
            count.value = 1

    lab.run(main)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_closing_stops_also_what_has_not_begun_yet(lab: Lab, steps: int) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.sink
    async def slow() -> None:
        if count.value:
            await asyncio.Event().wait()

    async def main() -> None:
        async with lab.open() as space:
            count.value = 1
            for _ in range(steps):
                await asyncio.sleep(0)
        assert space.closed

    lab.run(main)


def test_function_that_is_removed_before_it_has_begun_leaves_nothing_under_way(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.sink
    async def slow() -> None:
        if count.value:
            await asyncio.Event().wait()

    async def main() -> None:
        async with lab.open() as space:
            count.value = 1
            space._opening.runtime.run_pass()
            space._opening.drop(slow)
            await space.settle()
            assert space.scheduler.get_stats().in_flight == 0

    lab.run(main)


def test_nothing_runs_after_close(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.sink(debounce="100ms")
    async def show() -> None:
        lab.note(count.value)

    async def main() -> None:
        async with lab.open():
            count.value = 1
            await pause(10)
            lab.taken()
        await pause(1000)
        assert lab.taken() == []

    lab.run(main)


# --- timeouts ---------------------------------------------------------------------------------------------


def test_run_that_takes_too_long_fails_and_is_tried_again_after_a_change(lab: Lab) -> None:
    delay = lab.app.cell("delay", 500)

    @lab.app.computed(timeout="200ms")
    async def slow() -> int:
        await pause(delay.value)
        return delay.value

    @lab.app.sink
    def show() -> None:
        try:
            lab.note("show", slow())
        except TimeoutError as error:
            lab.note(str(error))

    async def main() -> None:
        async with lab.open() as space:
            assert lab.taken() == [(200, "slow() did not end within 200 ms")]
            delay.value = 100
            await space.settle()
            assert lab.taken() == [(300, "show", 100)]

    lab.run(main)


def test_timeout_of_the_functions_own_is_its_own(lab: Lab) -> None:
    @lab.app.sink(timeout="1s")
    async def slow() -> None:
        async with asyncio.timeout(0.1):
            await pause(500)

    async def main() -> None:
        async with lab.open():
            pass

    lab.run(main)
    (error,) = lab.errors
    assert isinstance(error.__cause__, TimeoutError)
    assert "did not end within" not in str(error.__cause__)


# --- run again --------------------------------------------------------------------------------------------


def test_function_that_asks_to_be_run_again_is(lab: Lab) -> None:
    tries = [1, 1, 1]

    @lab.app.computed(eager=True)
    async def slow() -> int:
        await pause(10)
        if tries:
            tries.pop()
            raise RetryImmediately
        return 7

    async def main() -> None:
        async with lab.open() as space:
            assert (slow(), space.runs(slow)) == (7, 1)
            lab.note("there")

    lab.run(main)
    assert lab.taken() == [(40, "there")]


def test_function_that_always_asks_to_be_run_again_rests(lab: Lab) -> None:
    tries: list[int] = []

    @lab.app.computed(eager=True)
    async def slow() -> int:
        await pause(10)
        tries.append(1)
        raise RetryImmediately

    async def main() -> None:
        async with lab.open():
            assert len(tries) == RUNS_MAX

    lab.run(main)
    assert [error.facts["nodes"] for error in lab.errors] == [("slow",)]


# --- odd ends ---------------------------------------------------------------------------------------------


def test_function_that_closes_its_own_space_is_told_and_the_space_can_still_be_closed(lab: Lab) -> None:
    spaces: list[hw.AsyncSpace] = []
    go = lab.app.cell("go", 0)

    @lab.app.sink
    async def show() -> None:
        if go.value:
            await spaces[0].close()

    async def main() -> None:
        async with lab.open() as space:
            spaces.append(space)
            go.value = 1
            await space.settle()
            assert not space.closed
        assert space.closed

    lab.run(main)
    (error,) = lab.errors
    assert isinstance(error.__cause__, UsageError)
    assert "cannot close the space that it runs in" in str(error.__cause__)


def test_what_has_ended_by_itself_is_kept_although_the_space_is_closed_at_once(lab: Lab) -> None:
    """It was done before anybody thought of closing."""
    go, seen = lab.app.cell("go", 0), lab.app.cell("seen", 0)
    done = asyncio.Event()

    @lab.app.sink
    async def copy() -> None:
        if go.value:
            seen.value = go.value
            await pause(10)
            done.set()

    async def main() -> None:
        async with lab.open() as space:
            go.value = 5
            await done.wait()
            await space.close()
            stored = space._opening.replica.read(doc_key("lab.seen"))
        assert stored == 5

    lab.run(main)


def test_instance_of_an_async_function_is_stopped_when_another_is_declared_in_its_place(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.__IPYTHON__", True, raising=False)

    @lab.app.computed(name="fetch")
    async def first(number: int) -> int:
        try:
            await pause(1000)
        except asyncio.CancelledError:
            lab.note("stopped", number)
            raise
        return number

    @lab.app.sink
    def show() -> None:
        lab.note("show", first(7))

    async def second(number: int) -> int:
        await pause(10)
        return number * 2

    async def main() -> None:
        opening = asyncio.create_task(lab.open().__aenter__())
        await pause(50)
        lab.app.computed(name="fetch")(second)
        space = await opening
        assert lab.taken() == [(50, "stopped", 7), (60, "show", 14)]
        await space.close()

    lab.run(main)


def test_interrupt_in_an_async_function_ends_the_program_and_not_its_data(lab: Lab) -> None:
    go, seen = lab.app.cell("go", 0), lab.app.cell("seen", 0)

    @lab.app.sink
    async def show() -> None:
        found = go.value
        await pause(10)
        if found:
            seen.value = 1
            raise KeyboardInterrupt

    async def main() -> None:
        async with lab.open() as space:
            go.value = 1
            await space.settle()

    with pytest.raises(KeyboardInterrupt):
        lab.run(main)
    assert lab.errors == []
