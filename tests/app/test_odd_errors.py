"""An exception that cannot be shown is one like any other: told, kept, and in the way of nothing else."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import HeadwaterError
from headwater.scheduler.events.failed_events import stored
from tests.support.odd_errors import ODD, OddValue, odd_id

pytestmark = pytest.mark.parametrize("kind", ODD, ids=odd_id)


def test_from_a_sink_it_does_not_reach_the_assignment(kind: type[Exception]) -> None:
    app = hw.App("odd")
    x = app.cell("x", 0)
    told: list[hw.UserCodeError] = []
    seen: list[int] = []

    @app.sink
    def fails() -> None:
        if x.value == 1:
            raise kind

    @app.sink
    def after() -> None:
        seen.append(x.value)

    with app.open("memory:", on_error=told.append):
        x.value = 1
        assert "fails()" in hw.why(fails)
        x.value = 2
    assert seen == [0, 1, 2]
    assert [type(error.__cause__) is kind for error in told] == [True]
    assert kind.__qualname__ in str(told[0])


def test_from_a_computed_it_reaches_those_who_call(kind: type[Exception]) -> None:
    app = hw.App("odd")
    x = app.cell("x", 0)
    seen: list[object] = []

    @app.computed
    def fails() -> int:
        if x.value in (1, 2):
            raise kind
        return x.value

    @app.sink
    def calls() -> None:
        try:
            seen.append(fails())
        except Exception as error:  # noqa: BLE001
            seen.append(type(error) is kind)

    with app.open("memory:"):
        for value in (1, 2, 3):
            x.value = value
        assert seen[0] == 0
        assert seen[1] is True
        assert seen[-1] == 3
        assert fails() == 3


def test_an_event_fails_loudly_and_is_kept(kind: type[Exception], tmp_path: Path) -> None:
    told: list[hw.UserCodeError] = []
    app = hw.App("odd")
    done = app.cell("done", list[str]())

    @app.handler
    def pay(what: str) -> None:
        if what == "first":
            raise kind
        done.append(what)

    with app.open(str(tmp_path / "a.db"), on_error=told.append) as space:
        first, second = pay.send("first"), pay.send("second")
        space.settle()
        assert first.state == "failed"
        with pytest.raises(hw.EventFailedError) as failed:
            first.result("10s")
        assert kind.__qualname__ in str(failed.value)
        assert failed.value.__cause__ is not None
        second.result("10s")
        assert done.value == ["second"]
        [record] = stored(space._opening.replica)
        assert kind.__qualname__ in str(record["error"])
        assert kind.__qualname__ in str(record["traceback"])
    assert len(told) == 1


def test_logging_shows_it(kind: type[Exception], caplog: pytest.LogCaptureFixture) -> None:
    app = hw.App("odd")
    x = app.cell("x", 0)

    @app.sink
    def fails() -> None:
        if x.value == 1:
            raise kind

    with caplog.at_level(logging.ERROR, "headwater"), app.open("memory:", on_error="log"):
        x.value = 1
    assert kind.__qualname__ in caplog.text
    # As a log file does: a record that cannot be encoded would be missing in it.
    assert caplog.text.encode()


def test_an_error_handler_may_raise_it(kind: type[Exception], caplog: pytest.LogCaptureFixture) -> None:
    app = hw.App("odd")
    x = app.cell("x", 0)

    @app.sink
    def fails() -> None:
        if x.value == 1:
            raise ValueError("no")

    def wrong(_: hw.UserCodeError) -> None:
        raise kind

    with caplog.at_level(logging.ERROR, "headwater"), app.open("memory:", on_error=wrong):
        x.value = 1
    assert "on_error raised" in caplog.text


def test_in_an_event_loop(kind: type[Exception]) -> None:
    app = hw.App("odd")
    x = app.cell("x", 0)
    seen: list[int] = []
    told: list[hw.UserCodeError] = []

    @app.sink
    async def fails() -> None:
        if x.value == 1:
            raise kind

    @app.sink
    def after() -> None:
        seen.append(x.value)

    @app.handler
    async def act() -> None:
        hw.after_commit(later)
        if x.value == 1:
            raise kind

    async def later() -> None:
        raise kind

    async def main() -> None:
        async with app.aopen("memory:", on_error=told.append) as space:
            x.value = 1
            await space.settle()
            ticket = act.send()
            with pytest.raises(hw.EventFailedError):
                await asyncio.wait_for(ticket, 60)
            x.value = 2
            await act.send()
            await space.settle()

    asyncio.run(main())
    assert seen == [0, 1, 2]
    assert len(told) == 3


def test_a_result_that_cannot_be_shown_is_refused(kind: type[Exception]) -> None:
    app = hw.App("odd")
    x = app.cell("x", 0)
    told: list[hw.UserCodeError] = []

    @app.computed
    def value() -> object:
        return x.value if x.value != 1 else OddValue()

    @app.computed
    def text() -> object:
        return x.value if x.value != 1 else kind()

    @app.sink
    def reads() -> None:
        value()

    with app.open("memory:", on_error=told.append):
        x.value = 1
        assert len(told) == 1
        with pytest.raises(HeadwaterError, match=kind.__qualname__):
            text()
        x.value = 2
        assert (value(), text()) == (2, 2)
