"""Handlers in an event loop: async ones, those that read async or debounced functions, and waiting for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, UsageError
from tests.app.holding import SAFETY_S
from tests.app.shop import run
from tests.app.simulated import Lab, pause


@pytest.fixture
def lab() -> Lab:
    return Lab()


# --- one after the other ----------------------------------------------------------------------------------


def test_events_wait_for_the_async_handler_before_them_and_other_work_goes_on(lab: Lab) -> None:
    x = lab.app.cell("x", 0)
    y = lab.app.cell("y", 0)

    @lab.app.handler
    async def slow(by: int) -> int:
        lab.note("slow begins")
        await pause(100)
        x.value += by
        return x.value

    @lab.app.handler
    def quick(by: int) -> int:
        lab.note("quick")
        x.value += by
        return x.value

    @lab.app.sink
    def show() -> None:
        lab.note("show", x.value, y.value)

    async def main() -> None:
        async with lab.open():
            lab.taken()
            first, second = slow.send(1), quick.send(10)
            await pause(50)
            assert [first.state, second.state] == ["running", "queued"]
            y.value = 1
            assert (await first, await second) == (1, 11)
        assert lab.taken() == [
            (0, "slow begins"),
            (50, "show", 0, 1),
            (100, "quick"),
            (100, "show", 11, 1),
        ]

    lab.run(main)


def test_event_of_a_transaction_that_waits_is_handled_when_that_has_ended(lab: Lab) -> None:
    x = lab.app.cell("x", 0)

    @lab.app.handler
    def look() -> int:
        lab.note("look")
        return x.value

    async def main() -> None:
        async with lab.open() as space:
            with space.transaction():
                x.value = 1
                ticket = look.send()
                await pause(100)
                assert ticket.state == "queued"
                x.value = 2
            assert await ticket == 2
        assert lab.taken() == [(100, "look")]

    lab.run(main)


def test_ticket_may_be_awaited_by_several_and_again(lab: Lab) -> None:
    @lab.app.handler
    async def answer() -> int:
        await pause(10)
        return 42

    async def main() -> None:
        async with lab.open():
            ticket = answer.send()
            assert list(await asyncio.gather(ticket, ticket)) == [42, 42]
            assert (await ticket, ticket.result(), ticket.state) == (42, 42, "confirmed")
        assert await ticket == 42

    lab.run(main)


def test_who_gives_up_waiting_does_not_stop_the_handler(lab: Lab) -> None:
    x = lab.app.cell("x", 0)

    @lab.app.handler
    async def slow() -> int:
        await pause(100)
        x.value += 1
        return x.value

    async def main() -> None:
        async with lab.open():
            ticket = slow.send()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ticket, 0.01)
            assert ticket.state == "running"
            assert await ticket == 1

    lab.run(main)


# --- how they end -----------------------------------------------------------------------------------------


def test_async_handler_that_raises_has_written_nothing_and_the_next_event_is_handled(lab: Lab) -> None:
    x = lab.app.cell("x", 0)

    @lab.app.handler
    async def fail() -> None:
        x.value = 5
        await pause(10)
        raise ValueError("no")

    @lab.app.handler
    async def look() -> int:
        return x.value

    async def main() -> None:
        async with lab.open():
            bad, good = fail.send(), look.send()
            with pytest.raises(hw.EventFailedError, match=r"fail\(\) did not handle .*: ValueError: no") as failed:
                await bad
            assert isinstance(failed.value.__cause__, ValueError)
            assert await good == 0

    lab.run(main)
    assert [error.facts["node"] for error in lab.errors] == ["fail"]


def test_async_handler_that_takes_too_long_fails(lab: Lab) -> None:
    x = lab.app.cell("x", 0)

    @lab.app.handler(timeout="50ms")
    async def slow() -> None:
        x.value = 5
        try:
            await pause(1000)
        finally:
            lab.note("stopped")

    async def main() -> None:
        async with lab.open():
            with pytest.raises(hw.EventFailedError, match=r"TimeoutError: slow\(\) did not end within 50 ms"):
                await slow.send()
            assert (x.value, lab.taken()) == (0, [(50, "stopped")])

    lab.run(main)


def test_async_handler_that_waits_for_something_cancelled_has_failed(lab: Lab) -> None:
    @lab.app.handler
    async def wait() -> None:
        task = asyncio.create_task(pause(1000))
        asyncio.get_running_loop().call_later(0.01, task.cancel)
        await task

    async def main() -> None:
        async with lab.open():
            with pytest.raises(hw.EventFailedError, match="waited for something that was cancelled"):
                await wait.send()

    lab.run(main)


def test_async_handler_that_is_cancelled_has_failed_and_the_next_event_is_handled(lab: Lab) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    @lab.app.handler
    async def wait() -> None:
        tasks.append(asyncio.current_task())
        await pause(1000)

    @lab.app.handler
    def look() -> int:
        return 1

    async def main() -> None:
        async with lab.open():
            ticket, behind = wait.send(), look.send()
            await pause(10)
            assert tasks[0] is not None
            tasks[0].cancel()
            with pytest.raises(hw.EventFailedError, match="cancelled"):
                await ticket
            assert await behind == 1

    lab.run(main)


def test_what_it_has_read_and_somebody_changed_while_it_waited_makes_it_begin_anew(lab: Lab) -> None:
    x = lab.app.cell("x", 1)
    y = lab.app.cell("y", 0)

    @lab.app.handler
    async def copy() -> int:
        found = x.value
        lab.note("read", found)
        await pause(100)
        y.value = found
        return found

    async def main() -> None:
        async with lab.open():
            ticket = copy.send()
            await pause(50)
            x.value = 2
            assert (await ticket, y.value) == (2, 2)
            assert [each[1:] for each in lab.taken()] == [("read", 1), ("read", 2)]  # type: ignore[index]

    lab.run(main)


def test_what_it_has_not_read_may_change_while_it_waits(lab: Lab) -> None:
    x = lab.app.cell("x", 1)
    y = lab.app.cell("y", 0)

    @lab.app.handler
    async def add() -> int:
        lab.note("begins")
        await pause(100)
        y.value += x.value
        return y.value

    async def main() -> None:
        async with lab.open():
            ticket = add.send()
            await pause(50)
            x.value = 2
            assert await ticket == 2
            assert len(lab.taken()) == 1

    lab.run(main)


# --- what they read ---------------------------------------------------------------------------------------


def test_event_waits_until_the_async_function_that_its_handler_reads_has_landed(lab: Lab) -> None:
    x = lab.app.cell("x", 1)
    other = lab.app.cell("other", 0)

    @lab.app.computed
    async def fetched() -> int:
        number = x.value
        await pause(100)
        return number * 10

    @lab.app.handler
    def look() -> int:
        return fetched()

    @lab.app.handler
    async def look_late() -> int:
        await pause(10)
        return fetched()

    @lab.app.sink
    def show() -> None:
        lab.note("show", other.value)

    async def main() -> None:
        async with lab.open():
            ticket = look.send()
            await pause(50)
            assert ticket.state == "queued"
            other.value = 1
            assert await ticket == 10
            lab.note("looked")
            x.value = 2
            tickets = [look.send(), look_late.send()]
            assert [await ticket for ticket in tickets] == [20, 20]
            lab.note("looked")
        assert lab.taken() == [(0, "show", 0), (50, "show", 1), (100, "looked"), (210, "looked")]

    lab.run(main)
    assert lab.errors == []


def test_event_waits_until_the_debounced_function_that_its_handler_reads_is_calm(lab: Lab) -> None:
    x = lab.app.cell("x", 1)

    @lab.app.computed(debounce="200ms")
    def calm() -> int:
        return x.value

    @lab.app.handler
    def look() -> list[int]:
        before = calm()
        x.value += 100
        return [before, calm()]

    async def main() -> None:
        async with lab.open():
            assert await look.send() == [1, 101]
            await pause(1000)
            ticket = look.send()
            for _ in range(5):
                x.value += 1
                await pause(100)
            assert ticket.state == "queued"
            assert await ticket == [106, 206]
            lab.note("looked")
        assert lab.taken() == [(1600, "looked")]

    lab.run(main)


def test_event_is_woken_by_a_timer_that_rings_early_by_the_rounding_of_clocks(lab: Lab) -> None:
    """720 ms and 200 ms are 919.9999999999999 ms, where clocks count in seconds."""
    x = lab.app.cell("x", 0)
    calm = lab.app.computed(name="calm", debounce="200ms")(lambda: x.value)
    look = lab.app.handler(name="look")(lambda: calm())  # noqa: PLW0108  # a handler is a function

    async def main() -> None:
        async with lab.open() as space:
            await pause(720)
            assert calm() == 0
            x.value = 1
            ticket = look.send()
            await space.settle()
            assert await ticket == 1

    lab.run(main)


def test_handler_cannot_keep_to_itself_that_it_has_to_wait(lab: Lab) -> None:
    x = lab.app.cell("x", 1)
    found = lab.app.cell("found", 0)

    @lab.app.computed(debounce="200ms")
    def calm() -> int:
        return x.value

    @lab.app.handler
    def look() -> None:
        found.value = -1
        with contextlib.suppress(BaseException):
            found.value = calm()

    @lab.app.handler
    async def look_late() -> None:
        await pause(1)
        with contextlib.suppress(BaseException):
            found.value = calm()

    async def main() -> None:
        async with lab.open():
            await look.send()
            for number, handler in ((2, look), (3, look_late)):
                x.value = number
                await handler.send()
                assert found.value == number

    lab.run(main)


# --- quiet ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["settle", "idle", "settled"])
def test_quiet_is_when_no_event_waits_or_is_handled(lab: Lab, wait: str) -> None:
    x = lab.app.cell("x", 1)

    @lab.app.computed(debounce="200ms")
    def calm() -> int:
        return x.value

    @lab.app.handler
    def look() -> int:
        return calm()

    @lab.app.handler
    async def slow() -> None:
        await pause(50)

    async def main() -> None:
        async with lab.open() as space:
            assert calm() == 1
            x.value = 2
            tickets = [look.send(), slow.send()]
            await getattr(space, wait)()
            lab.note("quiet")
            assert all(ticket.state in ("pending", "confirmed") for ticket in tickets)
        assert lab.taken() == [(250, "quiet")]

    lab.run(main)


@pytest.mark.parametrize("wait", ["settle", "idle", "synced", "own result", "ticket in the loop"])
def test_handler_that_waits_for_its_own_end_is_told(lab: Lab, wait: str) -> None:
    spaces: list[hw.AsyncSpace] = []

    @lab.app.handler
    async def wait_for_itself() -> None:
        if wait == "own result":
            await wait_for_itself.send()
        elif wait == "ticket in the loop":
            wait_for_itself.send().result()
        else:
            await getattr(spaces[0], wait)()

    async def main() -> None:
        async with lab.open() as space:
            spaces.append(space)
            with pytest.raises(hw.EventFailedError) as failed:
                await wait_for_itself.send()
            assert isinstance(failed.value.__cause__, UsageError)

    lab.run(main)


def test_many_events_let_the_loop_have_its_turn_in_between() -> None:
    app = hw.App("lab")
    x = app.cell("x", 0)
    turns: list[int] = []

    @app.handler
    def add() -> None:
        x.value += 1

    async def main() -> None:
        async def look() -> None:
            while x.value < 2000:
                turns.append(x.value)
                await asyncio.sleep(0)

        async with app.aopen("memory:") as space:
            for _ in range(2000):
                add.send()
            looking = asyncio.create_task(look())
            await space.settle()
            await looking
        assert len(set(turns)) >= 3

    run(main())


# --- threads ----------------------------------------------------------------------------------------------


def test_thread_may_send_into_an_async_space_and_wait_for_the_result() -> None:
    app = hw.App("lab")
    x = app.cell("x", 0)

    @app.handler
    async def add(by: int) -> int:
        await asyncio.sleep(0)
        x.value += by
        return x.value

    async def main() -> None:
        results: list[int] = []

        def work() -> None:
            results.extend(add.send(1).result(timeout="120s") for _ in range(20))

        async with app.aopen("memory:"):
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                await asyncio.to_thread(thread.join, SAFETY_S)
            assert await asyncio.to_thread(lambda: add.send(1).result()) == 81
            assert sorted(results) == list(range(1, 81))

    run(main())


def test_thread_that_does_not_want_to_wait_so_long_is_told() -> None:
    app = hw.App("lab")
    told: list[str] = []

    async def main() -> None:
        going = asyncio.Event()

        @app.handler
        async def slow() -> None:
            await going.wait()

        def work() -> None:
            try:
                slow.send().result(timeout="10ms")
            except TimeoutError as error:
                told.append(str(error))

        async with app.aopen("memory:"):
            await asyncio.to_thread(work)
            going.set()

    run(main())
    assert "has not handled" in told[0]
    assert "within 10 ms" in told[0]


def test_result_in_the_loop_itself_is_refused(lab: Lab) -> None:
    @lab.app.handler
    def look() -> int:
        return 1

    async def main() -> None:
        async with lab.open():
            ticket = look.send()
            with pytest.raises(UsageError, match=r"would hold up the event loop .*; await the ticket"):
                ticket.result()
            assert await ticket == 1
            assert ticket.result() == 1

    lab.run(main)


# --- declaring --------------------------------------------------------------------------------------------


def test_async_handler_needs_an_event_loop(lab: Lab) -> None:
    async def wait() -> None: ...

    told = r"wait\(\) is async and needs an event loop: open the app with `async with app.aopen"
    plain = hw.App("plain")
    with plain.open("memory:"), pytest.raises(DeclarationError, match=told):
        plain.handler(wait)
    lab.app.handler(wait)
    with pytest.raises(DeclarationError, match=told):
        lab.app.open("memory:")


def test_async_handler_may_be_called_by_another_as_a_part_of_it(lab: Lab) -> None:
    x = lab.app.cell("x", 0)

    @lab.app.handler
    async def add(by: int) -> int:
        await pause(1)
        x.value += by
        return x.value

    @lab.app.handler
    async def add_twice(by: int) -> int:
        return await add(by) + await add(by)

    async def main() -> None:
        async with lab.open() as space:
            assert await add_twice.send(2) == 6
            assert (x.value, space.runs(add)) == (4, 0)
            with space.transaction():
                assert await add(1) == 5
            with pytest.raises(UsageError, match=r"send it an event with add\.send"):
                await add(1)

    lab.run(main)


def test_handler_that_is_declared_again_in_a_notebook_lets_the_one_under_way_end(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.__IPYTHON__", True, raising=False)

    def declare(name: str) -> hw.Handler[[], str]:
        @lab.app.handler(name="work")
        async def work() -> str:
            await pause(100)
            return name

        return work

    async def main() -> None:
        async with lab.open():
            first = declare("first")
            under_way, waits = first.send(), first.send()
            await pause(10)
            second = declare("second")
            assert [await under_way, await waits, await second.send()] == ["first", "second", "second"]

    lab.run(main)
