"""Waiting for async functions, and for their time; and threads beside them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

import headwater as hw
from headwater.errors import DeclarationError, NotReadyError, PoisonedError, UsageError
from headwater.host.async_runtime import AsyncRuntime
from headwater.host.space_facade import opening_of
from headwater.scheduler.graph.node import OnInvalid
from tests.app.shop import plain_thread, run
from tests.app.simulated import Lab, pause


@pytest.fixture
def lab() -> Lab:
    return Lab()


# --- waiting for them -------------------------------------------------------------------------------------


def test_settle_waits_for_what_is_under_way_and_what_follows_from_it(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.computed
    async def one() -> int:
        found = count.value
        await pause(100)
        return found

    @lab.app.computed
    async def two() -> int:
        found = one()
        await pause(100)
        return found

    @lab.app.sink
    def show() -> None:
        lab.note(two())

    async def main() -> None:
        async with lab.open() as space:
            count.value = 5
            await space.settle()
            assert lab.taken()[-1] == (400, 5)
            count.value = 6
            await space.idle()
            assert lab.taken()[-1] == (600, 6)
            count.value = 7
            await space.settled()
            assert lab.taken()[-1] == (800, 7)

    lab.run(main)


def test_fresh_gives_the_value_that_is_current(lab: Lab) -> None:
    count = lab.app.cell("count", 1)

    @lab.app.computed
    async def slow() -> int:
        found = count.value
        await pause(100)
        return found * 10

    @lab.app.computed
    def text() -> str:
        return f"<{slow()}>"

    async def main() -> None:
        async with lab.open() as space:
            assert await space.fresh(slow) == 10
            count.value = 2
            assert slow() == 10
            assert await space.fresh(slow) == 20
            count.value = 3
            assert await space.fresh(text) == "<30>"

    lab.run(main)


def test_fresh_does_not_wait_for_what_has_nothing_to_do_with_it(lab: Lab) -> None:
    @lab.app.computed
    async def slow() -> int:
        await pause(100)
        return 7

    @lab.app.computed
    async def never() -> int:
        await asyncio.Event().wait()
        return 0

    async def main() -> None:
        async with lab.open() as space:
            with pytest.raises(NotReadyError):
                never()
            assert await space.fresh(slow) == 7
            lab.note("there")

    lab.run(main)
    assert lab.taken() == [(100, "there")]


def test_fresh_raises_what_the_function_raised(lab: Lab) -> None:
    @lab.app.computed
    async def slow() -> int:
        await pause(100)
        raise KeyError("no")

    async def main() -> None:
        async with lab.open() as space:
            with pytest.raises(KeyError, match="no"):
                await space.fresh(slow)

    lab.run(main)


def test_fresh_does_not_raise_the_error_of_an_outdated_run(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.computed
    async def slow() -> int:
        found = count.value
        await pause(100)
        return 10 // found

    @lab.app.computed
    def text() -> str:
        return f"<{slow()}>"

    async def main() -> None:
        async with lab.open() as space:
            for function in (slow, text):
                with pytest.raises(ZeroDivisionError):
                    await space.fresh(function)
            count.value = 2
            assert await space.fresh(slow) == 5
            count.value = 0
            with pytest.raises(ZeroDivisionError):
                await space.fresh(text)
            count.value = 5
            assert await space.fresh(text) == "<2>"

    lab.run(main)


def test_fresh_with_arguments(lab: Lab) -> None:
    factor = lab.app.cell("factor", 2)

    @lab.app.computed
    async def times(number: int) -> int:
        found = factor.value
        await pause(number)
        return found * number

    async def main() -> None:
        async with lab.open() as space:
            assert await space.fresh(times, 10) == 20
            assert list(await asyncio.gather(space.fresh(times, 20), space.fresh(times, 30))) == [40, 60]
            factor.value = 3
            assert await space.fresh(times, number=10) == 30

    lab.run(main)


@pytest.mark.parametrize("wait", ["settle", "idle", "settled", "synced"])
def test_function_that_waits_for_its_own_end_is_told(lab: Lab, wait: str) -> None:
    spaces: list[hw.AsyncSpace] = []
    go = lab.app.cell("go", 0)

    @lab.app.sink
    async def show() -> None:
        if go.value:
            await getattr(spaces[0], wait)()

    async def main() -> None:
        async with lab.open() as space:
            spaces.append(space)
            go.value = 1
            await space.settle()

    lab.run(main)
    (error,) = lab.errors
    assert isinstance(error.__cause__, UsageError)
    assert "would wait for itself" in str(error.__cause__)


# --- time -------------------------------------------------------------------------------------------------


def test_debounced_and_throttled_functions_run_at_their_time(lab: Lab) -> None:
    text = lab.app.cell("text", "")

    @lab.app.sink(debounce="250ms")
    def search() -> None:
        lab.note("search", text.value)

    @lab.app.sink(throttle="1s")
    def draw() -> None:
        lab.note("draw", text.value)

    async def main() -> None:
        async with lab.open():
            lab.taken()
            for typed in ("a", "ap", "app"):
                text.value = typed
                await pause(100)
            await pause(2000)
            assert lab.taken() == [(450, "search", "app"), (1000, "draw", "app")]

    lab.run(main)


def test_settle_does_not_wait_for_what_waits_for_its_time(lab: Lab) -> None:
    text = lab.app.cell("text", "")

    @lab.app.sink(debounce="250ms")
    def search() -> None:
        lab.note("search", text.value)

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            text.value = "a"
            await space.settle()
            assert lab.taken() == []

    lab.run(main)


@pytest.mark.parametrize("ms", [0.1, 0.3, 33.3, 66.6, 99.9, 1234.567])
def test_wake_is_not_lost_by_the_rounding_of_clocks(lab: Lab, ms: float) -> None:
    """The timer of the loop and the clock of the gates are not exact to the last bit."""
    count = lab.app.cell("count", 0)

    @lab.app.sink(debounce=f"{ms}ms")
    def show() -> None:
        lab.log.append(count.value)

    async def main() -> None:
        async with lab.open():
            await pause(1e9 / 7)
            for value in range(1, 20):
                count.value = value
                await pause(ms * 1.01 + 0.01)
            assert lab.taken() == list(range(20))

    lab.run(main)


def test_gate_that_is_changed_moves_the_wake(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.sink(debounce="10s")
    def show() -> None:
        lab.note(count.value)

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            node = space.nodes[show]
            count.value = 1
            await pause(100)
            space.scheduler.set_debounce(node, 50)
            await pause(100)
            assert lab.taken() == [(150, 1)]
            space.scheduler.set_debounce(node, 10_000)
            count.value = 2
            await pause(100)
            space.scheduler.clear_debounce(node)
            await pause(1)
            assert lab.taken() == [(300, 2)]

    lab.run(main)


def test_debounced_async_function_is_begun_anew_only_after_quiet(lab: Lab) -> None:
    text = lab.app.cell("text", "")

    @lab.app.sink(debounce="100ms")
    async def search() -> None:
        lab.note("begins", text.value)
        await pause(50)

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            text.value = "a"
            await pause(120)
            text.value = "ab"
            await pause(300)
            assert lab.taken() == [(150, "begins", "a"), (270, "begins", "ab")]
            assert space.scheduler.outstanding().is_idle

    lab.run(main)


# --- threads ----------------------------------------------------------------------------------------------


def test_thread_may_be_the_first_to_ask_for_a_value(lab: Lab) -> None:
    """In a real loop: its function is started in the loop all the same."""
    threads: list[int] = []

    @lab.app.computed
    async def slow() -> int:
        threads.append(threading.get_ident())
        await asyncio.sleep(0)
        return 7

    def ask() -> None:
        with suppress(NotReadyError):
            slow()

    async def main() -> None:
        async with lab.app.aopen("memory:") as space:
            await asyncio.to_thread(ask)
            await space.settle()
            assert await asyncio.to_thread(slow) == 7
            assert threads == [threading.get_ident()]

    run(main())


def test_plain_thread_that_writes_stops_what_is_under_way(lab: Lab) -> None:
    count = lab.app.cell("count", 0)
    began, stopped = asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    @lab.app.sink
    async def slow() -> None:
        seen.append(count.value)
        if count.value == 1:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    async def main() -> None:
        async with lab.app.aopen("memory:") as space:
            count.value = 1
            await began.wait()
            await asyncio.to_thread(plain_thread, lambda: setattr(count, "value", 2))
            await stopped.wait()
            await space.settle()
            assert seen == [0, 1, 2]

    run(main())


def test_threads_that_write_and_ask_leave_everything_up_to_date(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.computed
    async def slow() -> int:
        found = count.value
        await asyncio.sleep(0)
        return found * 2

    shown: list[int] = []

    @lab.app.sink
    def show() -> None:
        shown.append(slow())

    def work() -> None:
        for _ in range(20):
            count.increment()
            with suppress(NotReadyError):
                assert slow() % 2 == 0

    async def main() -> None:
        async with lab.app.aopen("memory:", on_error=lab.errors.append) as space:
            await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
            assert await space.fresh(slow) == 160
            await space.settle()
            assert shown[-1] == 160

    run(main())
    assert lab.errors == []


def test_async_functions_need_an_event_loop(lab: Lab) -> None:
    """Also one that is declared while the app is open, with parameters or without."""

    async def slow() -> int:
        return 1

    async def slower(of: int) -> int:
        return of

    with lab.app.open("memory:"):
        for fn in (slow, slower):
            with pytest.raises(DeclarationError, match=rf"{fn.__name__}\(\) is async and needs an event loop"):
                lab.app.computed(fn)
    with lab.app.open("memory:"):
        pass


@pytest.mark.parametrize("on_invalid", ["restart", "finish"])
def test_function_may_wait_for_a_fresh_value_of_another(lab: Lab, on_invalid: OnInvalid) -> None:
    count = lab.app.cell("count", 1)
    spaces: list[hw.AsyncSpace] = []

    @lab.app.computed
    async def first() -> int:
        found = count.value
        await pause(100)
        return found * 10

    @lab.app.computed(on_invalid=on_invalid)
    async def second() -> int:
        return await spaces[0].fresh(first) + 1

    async def main() -> None:
        async with lab.open() as space:
            spaces.append(space)
            assert await space.fresh(second) == 11
            count.value = 2
            assert await space.fresh(second) == 21

    lab.run(main)
    assert lab.errors == []


def test_async_sink_that_calls_a_failing_async_function_with_an_argument_comes_to_rest(lab: Lab) -> None:
    """While it is suspended it has not read the result yet; the instance and its error are kept until it has."""
    count = lab.app.cell("count", 0)
    runs: list[str] = []

    @lab.app.computed
    async def part(n: int) -> int:
        runs.append("part")
        await pause(10)
        raise KeyError(n)

    @lab.app.sink
    async def show() -> None:
        runs.append("show")
        found = count.value
        await pause(20)
        with suppress(KeyError):
            part(found)

    async def main() -> None:
        async with lab.open() as space:
            await space.settle()
            assert runs == ["show", "part", "show"]
            count.value = 1
            await space.settle()
            assert runs == ["show", "part", "show"] * 2

    lab.run(main)


@pytest.mark.pure("replaces a method")
def test_caller_that_waits_for_a_pass_goes_on_if_the_pass_fails() -> None:
    """As after a failure of the disk. The caller waited for ever; it gets the error with a pass of its own."""

    async def main() -> None:
        async with hw.App("shop").aopen("memory:") as space:
            runtime = opening_of(space).runtime
            assert isinstance(runtime, AsyncRuntime)
            waiting = asyncio.create_task(runtime.next_pass())
            await asyncio.sleep(0)
            settle = runtime.scheduler.settle

            def failing() -> float | None:
                runtime.scheduler.settle = settle  # type: ignore[method-assign]  # once
                raise PoisonedError("the disk failed")

            runtime.scheduler.settle = failing  # type: ignore[method-assign]
            runtime.has_work = True
            with pytest.raises(PoisonedError):
                runtime.run_pass()
            async with asyncio.timeout(60):
                await waiting

    asyncio.run(main())
