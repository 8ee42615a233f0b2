"""The same for an app with async functions: the test is plain code all the same, and holds the loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headwater as hw
from headwater.core import SetDoc, doc_key
from headwater.errors import EventTimeoutError, NotReadyError, UsageError
from headwater.testing import probe, simulate
from headwater.testing.sim_clock import START_MS


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


def test_what_waits_for_the_disk_is_decided_by_the_test_itself_without_waiting_for_the_loop(app: hw.App) -> None:
    """Whoever decides tells the space, which must not turn the loop in the middle of that."""
    count = app.cell("count", 0)

    @app.computed
    async def slow() -> int:
        await asyncio.sleep(1)
        return count.value

    with probe(app) as t:
        # As a thread would: the test has not come to turn the loop after it.
        t.space._opening.replica.commit([SetDoc(doc_key("probed.count"), 2)])
        t.space._opening.wait_for_disk()
        t.settle()
        assert (count.value, t.space.stats.pending) == (2, 0)


def test_workflows_and_async_functions_go_by_one_clock(app: hw.App) -> None:
    flow = app.workflow("feed")
    notes = flow.topic("notes", str)
    got = app.cell("got", list[str]())
    seen: list[tuple[int, str]] = []
    polled: list[int] = []

    @app.computed
    async def slow() -> str:
        count = len(got.value)
        await asyncio.sleep(60)
        return f"{count} got"

    def minutes() -> int:
        return int((t.now - began).total_seconds()) // 60

    @app.sink
    def show() -> None:
        with suppress(NotReadyError):
            seen.append((minutes(), slow()))

    @flow.producer(every="1h")
    def poll() -> None:
        polled.append(minutes())
        notes.publish("x", id=str(len(polled)))

    @flow.consumer(notes)
    class Take(hw.Consumer[str, list[str], int]):
        def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            return hw.Plan([each.data for each in pending], take=pending) if pending else hw.Plan.idle()

        async def mutate(self, _run: Any, _data: list[str]) -> int:
            return 1

        def next(self, _run: Any, data: list[str], _outcome: Any) -> None:
            got.value = [*got.value, *data]

    t = probe(app)
    began = datetime.fromtimestamp(START_MS / 1000, UTC)
    with t:
        t.settle()
        t.advance("3h")
        t.restart()
        t.advance("61m")
        assert (polled, len(got.value)) == ([0, 60, 120, 180, 240], 5)
        shown = [(1, "1 got"), (61, "2 got"), (121, "3 got"), (180, "3 got"), (181, "4 got"), (241, "5 got")]
        assert seen == shown, "the fourth is the drawing of the new process"


def test_resources_are_asked_in_the_time_of_the_test(app: hw.App) -> None:
    city = app.cell("city", "Oslo")
    asked: list[str] = []
    seen: list[object] = []

    @app.resource(fresh_for="10m")
    async def weather(name: str) -> int:
        asked.append(name)
        await asyncio.sleep(2)
        return len(name) + len(asked)

    @app.sink
    def show() -> None:
        found = weather(city.value)
        seen.append(found.value if isinstance(found, hw.Ready) else "loading")

    with probe(app) as t:
        assert seen == ["loading"]
        t.advance("2s")
        assert (seen, asked) == (["loading", 5], ["Oslo"])
        t.advance("9m")
        assert len(asked) == 1
        t.restart()
        assert (seen[-1], len(asked)) == (5, 1), "with its age"
        t.advance("2m")
        assert (seen[-1], len(asked)) == (6, 2)


def test_clocks_tick_in_the_time_of_the_test(app: hw.App) -> None:
    seen: list[int] = []

    @app.computed
    def minute() -> int:
        return hw.clock(every="1m").minute

    app.sink(name="show")(lambda: seen.append(minute()))
    for event_loop in (False, True):
        seen.clear()
        with probe(app, event_loop=event_loop, start=datetime(2024, 1, 1, 12, 0, 30, tzinfo=UTC)) as t:
            t.advance("29s")
            assert seen == [0]
            t.advance("1s")
            assert seen == [0, 1]
            t.advance("5m")
            assert seen == [0, 1, 2, 3, 4, 5, 6]
            t.restart()
            assert seen[-1] == 6


def test_loop_that_never_comes_to_rest_is_told(app: hw.App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.testing.stage.TURNS_MAX", 100)
    go = app.cell("go", 0)

    @app.sink
    async def spin() -> None:
        while go.value:  # noqa: ASYNC110  # that is the mistake
            await asyncio.sleep(0)

    with pytest.raises(UsageError, match="does not come to rest"), probe(app):
        go.value = 1


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
