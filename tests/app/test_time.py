"""Functions that wait for quiet, or for their turn, in plain code; and a program that stays wakes for them."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.core import SetDoc, doc_key
from headwater.errors import DeclarationError, UsageError
from headwater.host import process_lifetime
from headwater.runtime.options import Options
from headwater.scheduler.scheduler_limits import AUTO_DEBOUNCE_MS, BACKOFF_MS
from tests.app.timed import Timed


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    return Timed(monkeypatch)


# --- declared ---------------------------------------------------------------------------------------------


def test_debounced_function_waits_until_typing_stops(timed: Timed) -> None:
    query = timed.app.cell("query", "")

    @timed.app.computed(debounce="250ms")
    def hits() -> list[str]:
        timed.log.append(query.value)
        return [word for word in ("apple", "plum") if query.value in word]

    @timed.app.sink
    def show() -> None:
        timed.log.append(hits())

    with timed.open() as space:
        assert timed.taken() == ["", ["apple", "plum"]]
        for text in ("a", "ap", "app"):
            query.value = text
            space.wait("100ms")
        assert timed.taken() == []
        space.wait("1s")
        assert timed.taken() == ["app", ["apple"]]


def test_throttled_sink_draws_at_most_so_often_and_never_loses_the_last(timed: Timed) -> None:
    count = timed.app.cell("count", 0)

    @timed.app.sink(throttle="1s")
    def show() -> None:
        timed.log.append((timed.time, count.value))

    with timed.open() as space:
        for value in range(1, 26):
            count.value = value
            space.wait("100ms")
        space.wait("5s")
    times = [entry[0] for entry in timed.log if isinstance(entry, tuple)]
    assert all(later - earlier >= 1000 for earlier, later in pairwise(times))
    assert isinstance(timed.log[-1], tuple)
    assert (len(times), timed.log[-1][1]) == (4, 25)


@pytest.mark.parametrize("options", [{"debounce": 250}, {"throttle": 0.5}])
def test_a_bare_number_is_no_duration(timed: Timed, options: Any) -> None:
    with pytest.raises(DeclarationError, match=r"@app\.sink show\(\), \w+=: .* a number says no unit"):
        timed.app.sink(name="show", **options)(lambda: None)
    with timed.open() as space, pytest.raises(UsageError, match="a number says no unit"):
        space.wait(1)


@pytest.mark.parametrize("duration", ["250ms", timedelta(milliseconds=250), "0.25s"])
def test_durations_are_given_as_text_or_timedelta(timed: Timed, duration: Any) -> None:
    count = timed.app.cell("count", 0)
    timed.app.sink(name="show", debounce=duration)(lambda: timed.log.append(count.value))
    with timed.open() as space:
        count.value = 1
        assert space._opening.wake_in() == 0.25


@pytest.mark.parametrize("option", ["debounce", "throttle"])
@pytest.mark.parametrize("duration", ["soon", "-1s", -1, True, "250"])
def test_duration_that_is_none_is_refused_where_it_is_declared(timed: Timed, option: str, duration: Any) -> None:
    with pytest.raises(DeclarationError, match=rf"@app.sink show\(\), {option}=: .* is no duration; write"):
        timed.app.sink(name="show", **{option: duration})(lambda: None)
    with timed.open():
        pass


def test_timeout_of_a_plain_function_is_refused(timed: Timed) -> None:
    with pytest.raises(DeclarationError, match="timeout= is for async functions"):
        timed.app.sink(name="show", timeout="1s")(lambda: None)


def test_slow_sink_waits_for_quiet_by_itself_unless_it_says_otherwise(timed: Timed) -> None:
    count = timed.app.cell("count", 0)

    def draw(name: str) -> None:
        timed.log.append((name, count.value))
        timed.time += 60

    timed.app.sink(name="patient")(lambda: draw("patient"))
    timed.app.sink(name="hasty", auto_debounce=False)(lambda: draw("hasty"))
    with timed.open(wake=lambda: None) as space:
        for value in range(1, 3):
            count.value = value
        timed.taken()
        count.value = 3
        assert timed.taken() == [("hasty", 3)]
        space.wait(f"{AUTO_DEBOUNCE_MS}ms")
        assert timed.taken() == [("patient", 3)]


def test_slow_sink_is_run_for_every_write_where_nobody_would_come_for_it_later(timed: Timed) -> None:
    """Plain code: what follows from a write has run before the next statement."""
    count = timed.app.cell("count", 0)

    @timed.app.sink
    def draw() -> None:
        timed.log.append(count.value)
        timed.time += 60

    with timed.open():
        for value in range(1, 7):
            count.value = value
        assert timed.taken() == [0, 1, 2, 3, 4, 5, 6]


# --- callers ----------------------------------------------------------------------------------------------


def test_caller_gets_the_last_value_of_a_gated_computed_and_the_first_at_once(timed: Timed) -> None:
    count = timed.app.cell("count", 1)

    @timed.app.computed(throttle="1s")
    def doubled() -> int:
        return count.value * 2

    with timed.open() as space:
        assert doubled() == 2
        count.value = 5
        assert doubled() == 2
        space.wait("1s")
        assert doubled() == 10


def test_sink_that_calls_a_gated_computed_gets_its_last_value_and_runs_again_when_there_is_another(
    timed: Timed,
) -> None:
    count, other = timed.app.cell("count", 1), timed.app.cell("other", 0)

    @timed.app.computed(debounce="100ms")
    def doubled() -> int:
        return count.value * 2

    @timed.app.sink
    def show() -> None:
        timed.log.append((other.value, doubled()))

    with timed.open() as space:
        timed.taken()
        count.value = 5
        other.value = 1
        assert timed.taken() == [(1, 2)]
        space.wait("100ms")
        assert timed.taken() == [(1, 10)]


def test_gated_computed_in_a_transaction_that_has_written_is_a_plain_call(timed: Timed) -> None:
    """There its own writes count, which nobody else can see."""
    count = timed.app.cell("count", 1)

    @timed.app.computed(debounce="100ms")
    def doubled() -> int:
        return count.value * 2

    with timed.open() as space:
        assert doubled() == 2
        with space.transaction():
            count.value = 5
            assert doubled() == 10
        assert doubled() == 2


# --- waiting ----------------------------------------------------------------------------------------------


def test_wait_sleeps_no_longer_than_needed_and_looks_for_news(timed: Timed) -> None:
    count = timed.app.cell("count", 0)
    timed.app.sink(name="show", debounce="30ms")(lambda: timed.log.append((timed.time, count.value)))
    with timed.open() as space:
        count.value = 1
        timed.taken()
        space.wait("1s")
        assert timed.taken() == [(1030, 1)], "at its time, and not later"
        assert (timed.time, max(timed.slept)) == (2000, 0.05)


def test_what_others_write_is_seen_while_waiting(timed: Timed, tmp_path: Path) -> None:
    count = timed.app.cell("count", 0)
    timed.app.sink(name="show")(lambda: timed.log.append(count.value))
    url = str(tmp_path / "timed.db")
    with timed.open(url) as space:
        other = space._opening._lease.storage.attach()
        timed.taken()

        def write() -> None:
            other.commit([SetDoc(doc_key("timed.count"), len(timed.slept))])
            other.sync()

        timed.while_asleep = write
        space.wait("100ms")
        assert timed.taken() == [1, 2]


def test_wait_for_no_time_is_a_settle(timed: Timed) -> None:
    count = timed.app.cell("count", 0)
    timed.app.sink(name="show", debounce="100ms")(lambda: timed.log.append(count.value))
    with timed.open() as space:
        count.value = 1
        timed.taken()
        timed.time += 100
        space.wait(0)
        assert (timed.taken(), timed.slept) == ([1], [])


def test_wait_inside_a_run_lets_time_pass_and_runs_nobody(timed: Timed) -> None:
    count = timed.app.cell("count", 0)
    spaces: list[hw.Space] = []

    @timed.app.sink
    def show() -> None:
        timed.log.append(("show", count.value))
        for space in spaces:
            space.settle()
            space.wait("50ms")

    timed.app.sink(name="other")(lambda: timed.log.append(("other", count.value)))
    with timed.open() as space:
        timed.taken()
        spaces.append(space)
        count.value = 1
        assert timed.taken() == [("show", 1), ("other", 1)]
        spaces.clear()


@pytest.mark.parametrize("duration", ["soon", -1])
def test_wait_for_what_is_no_duration_is_refused(timed: Timed, duration: Any) -> None:
    with timed.open() as space, pytest.raises(UsageError, match=r"space.wait\(...\): .* is no duration"):
        space.wait(duration)


def test_wake_in_says_how_long_there_is_nothing_to_do(timed: Timed) -> None:
    count = timed.app.cell("count", 0)
    timed.app.sink(name="late", debounce="10s")(lambda: timed.log.append(count.value))
    timed.app.sink(name="soon", debounce="2s")(lambda: timed.log.append(count.value))
    with timed.open() as space:
        assert space._opening.wake_in() is None
        count.value = 1
        assert space._opening.wake_in() == 2
        timed.time += 500
        assert space._opening.wake_in() == 1.5
        timed.time += 5000
        assert space._opening.wake_in() == 0, "its time is over"
        space.settle()
        assert space._opening.wake_in() == 4.5


def test_write_runs_also_what_its_time_has_come_for(timed: Timed) -> None:
    count, other = timed.app.cell("count", 0), timed.app.cell("other", 0)
    timed.app.sink(name="show", debounce="100ms")(lambda: timed.log.append(("show", count.value)))
    timed.app.sink(name="beside")(lambda: timed.log.append(("beside", other.value)))
    with timed.open():
        timed.taken()
        count.value = 1
        timed.time += 200
        other.value = 1
        assert timed.taken() == [("show", 1), ("beside", 1)]


def test_nothing_runs_after_close_though_its_time_would_have_come(timed: Timed) -> None:
    count = timed.app.cell("count", 0)
    timed.app.sink(name="show", debounce="100ms")(lambda: timed.log.append(count.value))
    with timed.open() as space:
        count.value = 1
        timed.taken()
    timed.time += 1000
    assert (timed.taken(), space._opening.wake_in()) == ([], None)


def test_functions_that_do_not_settle_rest_and_are_tried_again(timed: Timed) -> None:
    on, ping, pong = (timed.app.cell(name, 0) for name in ("on", "ping", "pong"))

    @timed.app.sink(name="ping sink")
    def ping_sink() -> None:
        if on.value:
            ping.value = pong.value + 1

    @timed.app.sink(name="pong sink")
    def pong_sink() -> None:
        pong.value = ping.value

    with timed.open() as space:
        on.value = 1
        (error,) = timed.errors
        assert error.facts["nodes"] == ("ping sink",)
        assert space._opening.wake_in() == BACKOFF_MS / 1000
        before = ping.value
        space.wait("250ms")
        assert (ping.value > before, len(timed.errors)) == (True, 1)
        on.value = 0
        space.wait("2s")
        assert space._opening.wake_in() is None


# --- a program that stays ---------------------------------------------------------------------------------


def test_program_that_stays_wakes_for_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits exactly as long as there is nothing to do."""
    app = hw.App("stays")
    count = app.cell("count", 0)
    time, shown, waits = [1000.0], list[int](), list[float | None]()

    @app.sink(debounce="2s")
    def show() -> None:
        shown.append(count.value)

    def wait(self: process_lifetime.Stay, timeout: float | None = None) -> bool:
        waits.append(timeout)
        if len(waits) == 1:
            count.value = 5
        elif timeout is not None:
            time[0] += timeout * 1000
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        return not self._ended

    monkeypatch.setattr(process_lifetime.Stay, "wait", wait)
    monkeypatch.setattr("headwater.app.Options", lambda **given: Options(**given, now=lambda: time[0]))
    app.run("memory:")
    assert (shown, waits) == ([0, 5], [None, 2.0, None])
