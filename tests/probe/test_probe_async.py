"""The same for an app with async functions: the test is plain code all the same, and holds the loop."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import headwater as hw
from headwater.errors import EventTimeoutError, NotReadyError, UsageError
from headwater.testing import probe, simulate


@pytest.fixture
def app() -> hw.App:
    return hw.App("probed")


def test_async_function_is_ready_when_its_time_has_passed(app: hw.App) -> None:
    text = app.cell("text", "a")

    @app.computed
    async def slow() -> str:
        read = text.value
        await asyncio.sleep(2)
        return read.upper()

    with probe(app) as t:
        with pytest.raises(NotReadyError):
            slow()
        t.advance("1999ms")
        with pytest.raises(NotReadyError):
            slow()
        t.advance("1ms")
        assert (slow(), t.runs(slow)) == ("A", 1)
        text.value = "b"
        t.advance("2s")
        assert slow() == "A", "nobody looks: it is begun by the call"
        t.advance("2s")
        assert (slow(), t.runs(slow)) == ("B", 2)


def test_what_follows_from_a_write_has_run_before_the_next_statement(app: hw.App) -> None:
    """As in plain code: async functions have gone as far as they can without time."""
    count = app.cell("count", 0)
    seen: list[object] = []

    @app.computed
    def doubled() -> int:
        return count.value * 2

    @app.sink
    async def show() -> None:
        seen.append(doubled())
        await asyncio.sleep(1)
        seen.append("drawn")

    with probe(app) as t:
        assert seen == [0], "no time passes while it is opened"
        t.advance("1s")
        count.value = 1
        assert seen == [0, "drawn", 2]
        t.advance("1s")
        assert seen[3:] == ["drawn"]
        with t.space.transaction():
            count.value = 2
            count.value = 3
        assert seen[4:] == [6]


def test_gates_and_sleeps_go_by_one_clock(app: hw.App) -> None:
    go = app.cell("go", 0)
    ran: list[tuple[str, float]] = []

    @app.sink(debounce="300ms")
    def quiet() -> None:
        if go.value:
            ran.append(("quiet", (t.now - began).total_seconds()))

    @app.sink
    async def slow() -> None:
        if go.value:
            await asyncio.sleep(0.2)
            ran.append(("slow", (t.now - began).total_seconds()))

    with probe(app) as t:
        began = t.now
        go.value = 1
        t.advance("1s")
        assert ran == [("slow", 0.2), ("quiet", 0.3)]
        assert t.now - began == timedelta(seconds=1)


def test_restart_takes_over_what_async_functions_have_come_to(app: hw.App) -> None:
    text = app.cell("text", "a")

    @app.computed
    async def slow() -> str:
        read = text.value
        await asyncio.sleep(2)
        return read.upper()

    @app.sink
    def show() -> None:
        slow()

    with probe(app) as t:
        t.advance("2s")
        t.restart()
        assert (slow(), t.runs(slow)) == ("A", 1)
        text.value = "b"
        t.restart()
        t.advance("2s")
        assert (slow(), t.runs(slow)) == ("B", 3), "what was under way is begun again"
        t.restart(crash=True)
        assert (slow(), t.errors) == ("B", [])


def test_tickets_are_waited_for_in_the_time_of_the_test(app: hw.App) -> None:
    @app.handler
    async def act(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    with probe(app) as t:
        began = t.now
        assert act.send(5.0).result() == 5.0
        assert t.now - began == timedelta(seconds=5)
        with pytest.raises(EventTimeoutError):
            act.send(60.0).result(timeout="10s")
        assert t.now - began == timedelta(seconds=15)
        ticket = act.send(1.0)
        t.advance("51s")
        assert ticket.result() == 1.0
        assert t.now - began == timedelta(seconds=66)


def test_error_of_an_async_sink_is_raised_at_the_end_of_the_block(app: hw.App) -> None:
    @app.sink
    async def show() -> None:
        await asyncio.sleep(1)
        raise RuntimeError("no paper")

    with pytest.raises(hw.UserCodeError, match="no paper"), probe(app) as t:
        t.advance("2s")


def test_functions_that_are_not_async_are_checked_here_too(app: hw.App) -> None:
    chance = iter(range(100))
    count = app.cell("count", 0)

    @app.computed
    async def waits() -> int:
        await asyncio.sleep(0)
        return next(chance)

    @app.computed
    def differs() -> int:
        return count.value + next(chance)

    @app.sink
    def show() -> None:
        waits()
        differs()

    with probe(app) as t:
        assert {each.node for each in t.differences} == {"differs"}


def test_probe_inside_of_an_event_loop_is_refused(app: hw.App) -> None:
    @app.computed
    async def slow() -> int:
        return 1

    async def main() -> None:
        with probe(app):
            pass

    with pytest.raises(UsageError, match="make the test a plain function"):
        simulate(main())


def test_nothing_is_left_under_way(app: hw.App) -> None:
    ended: list[str] = []

    @app.computed
    async def slow() -> int:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("ended")
        return 1

    @app.sink
    def show() -> None:
        slow()

    with probe(app) as t:
        t.advance("1s")
        assert ended == []
    assert ended == ["ended"]
