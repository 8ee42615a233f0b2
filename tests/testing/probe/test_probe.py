"""An app opened for a test: time, runs, restarts and errors are in the test's hands."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headwater as hw
from headwater.errors import EventTimeoutError, UsageError
from headwater.testing import ProbeError, probe


class Item(hw.Doc):
    title: str = ""


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()


@pytest.fixture
def app() -> hw.App:
    return hw.App("probed")


# --- time -------------------------------------------------------------------------------------------------


def test_what_waits_for_quiet_runs_at_its_time_and_not_before(app: hw.App) -> None:
    text = app.cell("text", "")
    seen: list[str] = []

    @app.sink(debounce="250ms")
    def show() -> None:
        seen.append(text.value)

    with probe(app) as t:
        text.value = "a"
        t.advance("249ms")
        assert seen == [""]
        t.advance("1ms")
        assert (seen, t.runs(show)) == (["", "a"], 2)


def test_what_is_due_runs_in_the_order_of_its_time_and_sees_that_time(app: hw.App) -> None:
    go = app.cell("go", 0)
    ran: list[tuple[str, float]] = []

    def note(name: str, ms: int) -> None:
        @app.sink(name=name, debounce=timedelta(milliseconds=ms))
        def sink() -> None:
            if go.value:
                ran.append((name, (t.now - began).total_seconds()))

    note("last", 900)
    note("first", 100)
    note("second", 500)
    with probe(app) as t:
        began = t.now
        go.value = 1
        t.advance("10s")
        assert ran == [("first", 0.1), ("second", 0.5), ("last", 0.9)]
        assert t.now - began == timedelta(seconds=10)


def test_time_stands_still_while_the_test_works(app: hw.App) -> None:
    start = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
    count = app.cell("count", 0)
    with probe(app, start=start) as t:
        count.value = 1
        t.settle()
        assert (t.now, t.now_ms()) == (start, int(start.timestamp() * 1000))
        t.advance("1d")
        assert t.now == datetime(2024, 3, 1, 12, 0, tzinfo=UTC)


def test_code_that_waits_lets_the_time_of_the_test_pass(app: hw.App) -> None:
    """`space.wait` and a ticket with a timeout do not sleep: nobody would move the clock meanwhile."""
    level = app.cell("level", 0)

    @app.computed(debounce="5s")
    def slow() -> int:
        return level.value

    with probe(app) as t:
        assert slow() == 0
        level.value = 1
        began = t.now
        space = t.space
        assert isinstance(space, hw.Space)
        space.wait("5s")
        assert (slow(), t.now - began) == (1, timedelta(seconds=5))


def test_ticket_of_an_event_that_waits_times_out_in_the_time_of_the_test(app: hw.App) -> None:
    level = app.cell("level", 0)

    @app.computed(debounce="1h")
    def slow() -> int:
        return level.value

    app.sink(name="look")(slow)

    @app.handler
    def act() -> int:
        return slow()

    with probe(app) as t:
        assert act.send().result() == 0
        level.value = 1
        ticket = act.send()
        with pytest.raises(EventTimeoutError):
            ticket.result(timeout="10s")
        t.advance("1h")
        assert ticket.result() == 1


@pytest.mark.parametrize("wrong", ["soon", -1, None, object()])
def test_duration_that_is_none_is_refused(app: hw.App, wrong: Any) -> None:
    with probe(app) as t, pytest.raises(UsageError):
        t.advance(wrong)


# --- the same in every run --------------------------------------------------------------------------------


def made(seed: int) -> list[str]:
    app = hw.App("ids")
    board = app.doc("board", Board)
    with probe(app, seed=seed):
        for title in "abc":
            board.items.append(Item(title=title))
        return [hw.id_of(item) for item in board.items]


def test_ids_are_the_same_in_every_run_with_a_seed_and_others_with_another() -> None:
    assert made(0) == made(0)
    assert set(made(0)).isdisjoint(made(1))


# --- restarts ---------------------------------------------------------------------------------------------


def test_restart_keeps_what_was_written_and_runs_nothing_that_need_not(app: hw.App) -> None:
    count = app.cell("count", 1)
    seen: list[int] = []

    @app.computed
    def doubled() -> int:
        return count.value * 2

    @app.sink
    def show() -> None:
        seen.append(doubled())

    with probe(app) as t:
        count.value = 5
        before = t.space
        t.restart()
        assert (count.value, doubled(), seen) == (5, 10, [2, 10, 10])
        assert (t.runs(doubled), t.runs(show)) == (2, 3), "a sink draws once per opening"
        assert (before.closed, t.space.closed, t.space is before) == (True, False, False)
        count.value = 6
        t.restart()
        t.restart()
        assert (t.runs(doubled), doubled()) == (3, 12)


def test_restart_takes_over_each_set_of_arguments(app: hw.App) -> None:
    factor = app.cell("factor", 2)

    @app.computed
    def times(number: int) -> int:
        return number * factor.value

    app.sink(name="show")(lambda: [times(number) for number in range(5)])
    with probe(app) as t:
        assert t.runs(times) == 5
        t.restart()
        assert t.runs(times) == 5
        factor.value = 3
        assert (t.runs(times), times(4)) == (10, 12)


def test_time_goes_on_over_a_restart(app: hw.App) -> None:
    with probe(app) as t:
        t.advance("1h")
        then = t.now
        t.restart()
        assert t.now == then


def test_events_that_wait_outlive_a_crash(app: hw.App) -> None:
    level, got = app.cell("level", 0), app.cell("got", list[int]())

    @app.computed(debounce="1m")
    def slow() -> int:
        return level.value

    app.sink(name="look")(slow)

    @app.handler
    def act() -> None:
        got.value = [*got.value, slow()]

    @app.handler
    def begin() -> None:
        act.send()

    with probe(app) as t:
        level.value = 1
        begin.send()
        t.restart(crash=True)
        t.advance("2m")
        assert (got.value, slow()) == ([1], 1)


def test_lists_of_the_test_that_functions_append_to_do_not_make_them_other_functions(app: hw.App) -> None:
    """In a new process they would be as they were when the program began."""
    ran: list[int] = []
    count = app.cell("count", 1)

    @app.computed
    def noted() -> int:
        ran.append(count.value)
        return count.value

    app.sink(name="show")(noted)
    with probe(app, idempotency=False) as t:
        count.value = 2
        t.restart()
        assert (ran, t.runs(noted)) == ([1, 2], 2)


def test_restart_tells_of_a_function_that_ran_although_it_was_current(
    app: hw.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if what is kept of its runs could not be used."""
    count = app.cell("count", 1)

    @app.computed
    def doubled() -> int:
        return count.value * 2

    app.sink(name="show")(doubled)
    with probe(app) as t:
        monkeypatch.setattr("headwater.scheduler.runs.persistence.decode_observation", lambda _: None)
        with pytest.raises(ProbeError, match=r"ran although nothing .*\n  doubled\(\) ran again: what is kept of it"):
            t.restart()
        assert t.runs(doubled) == 2


def test_restart_allows_what_had_to_run_anyway(app: hw.App) -> None:
    """One that failed, one that calls others with arguments that cannot be stored, one of a user's own."""
    count, mine = app.cell("count", 0), app.cell("mine", 1, scope="user")

    @app.computed
    def failing() -> int:
        return 1 // count.value

    @app.computed
    def row(number: int) -> int:
        return number + count.value

    @app.computed
    def page() -> list[int]:
        return [row(1), row(2)]

    @app.computed
    def first(pair: tuple[int, tuple[int, int]]) -> int:
        return pair[0]

    @app.computed
    def odd() -> int:
        return first((1, (2, 3)))

    @app.computed
    def own() -> int:
        return mine.value

    @app.sink
    def show() -> None:
        page()
        odd()
        own()
        with pytest.raises(ZeroDivisionError):
            failing()

    with probe(app, actor="ann") as t:
        t.restart()
        assert (t.runs(page), t.runs(row), t.runs(odd), t.runs(first), t.runs(failing)) == (1, 2, 2, 1, 2)


# --- errors -----------------------------------------------------------------------------------------------


def test_error_of_a_sink_is_raised_at_the_end_of_the_block(app: hw.App) -> None:
    count = app.cell("count", 0)

    @app.sink
    def show() -> None:
        if count.value:
            raise RuntimeError("no paper")

    with pytest.raises(hw.UserCodeError, match=r"show\(\) in space 'main' raised RuntimeError: no paper"), probe(app):
        count.value = 1
        assert count.value == 1, "it does not stop the test in the middle"


def test_error_that_somebody_has_looked_at_is_not_raised(app: hw.App) -> None:
    count = app.cell("count", 0)
    app.sink(name="show")(lambda: 1 // count.value)
    with probe(app) as t:
        (error,) = t.errors
        assert isinstance(error.__cause__, ZeroDivisionError)
        count.value = 1
        assert t.errors == [error]
    with pytest.raises(hw.UserCodeError), probe(app) as t:
        assert len(t.errors) == 1
        count.value = -1
        count.value = 0


def test_failing_test_shows_its_own_error_and_the_others_as_notes(app: hw.App) -> None:
    app.sink(name="show")(lambda: 1 // 0)
    with pytest.raises(AssertionError, match="mine") as told, probe(app):
        raise AssertionError("mine")
    assert told.value.__notes__[0].startswith("besides: ")
    assert "show() in space 'main' raised ZeroDivisionError" in told.value.__notes__[0]


def test_several_errors_are_told_with_the_first(app: hw.App) -> None:
    app.sink(name="one")(lambda: 1 // 0)
    app.sink(name="two")(lambda: int("x"))
    with pytest.raises(hw.UserCodeError, match=r"one\(\)") as told, probe(app):
        pass
    assert "two()" in told.value.__notes__[0]


def test_app_that_never_comes_to_rest_is_told_and_closed(app: hw.App, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that it is not ten thousand events each time.
    monkeypatch.setattr("headwater.host.plain_runtime.CHAIN_MAX", 200)
    count = app.cell("count", 0)

    @app.handler
    def again() -> None:
        count.value += 1
        again.send()

    with pytest.raises(UsageError, match="does not come to rest"), probe(app) as t:
        again.send()
        t.settle()
    with pytest.raises(hw.HeadwaterError, match="no open space"):
        count.value = 1


def test_functions_that_wake_each_other_rest_and_are_told_in_the_time_of_the_test(app: hw.App) -> None:
    ping, pong = app.cell("ping", 0), app.cell("pong", 0)

    @app.sink
    def one() -> None:
        ping.value = pong.value + 1

    @app.sink
    def two() -> None:
        pong.value = ping.value

    with probe(app) as t:
        first = t.runs(one)
        assert first == 10
        t.advance("250ms")
        assert t.runs(one) == 20
        assert ["does not settle" in str(error) for error in t.errors] == [True]


# --- used wrongly -----------------------------------------------------------------------------------------


def test_probe_is_entered_once_and_used_inside(app: hw.App) -> None:
    t = probe(app)
    with pytest.raises(UsageError, match="inside of its `with` block"):
        t.advance("1s")
    with t:
        pass
    uses: list[Callable[[], object]] = [lambda: t.advance("1s"), t.settle, t.restart, lambda: t.space]
    uses.append(lambda: t.runs(None))
    for use in uses:
        with pytest.raises(UsageError, match="inside of its `with` block"):
            use()
    with pytest.raises(UsageError, match="entered once"):
        t.__enter__()


@pytest.mark.parametrize("wrong", [None, "app", hw.App])
def test_what_is_no_app_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"an hw.App is expected"):
        probe(wrong)


@pytest.mark.parametrize("wrong", [datetime(2024, 1, 1), 5, "2024-01-01"])  # noqa: DTZ001  # that is the mistake
def test_start_without_a_time_zone_is_refused(app: hw.App, wrong: Any) -> None:
    with pytest.raises(UsageError, match="a datetime with a time zone is expected"):
        probe(app, start=wrong)


def test_time_cannot_be_moved_in_a_transaction_or_in_a_run(app: hw.App) -> None:
    found: list[str] = []
    go = app.cell("go", 0)

    @app.sink
    def show() -> None:
        uses: list[Callable[[], object]] = [lambda: t.advance("1s"), t.settle, t.restart]
        for use in uses if go.value else []:
            with pytest.raises(UsageError, match="called by the test itself") as told:
                use()
            found.append(told.value.message)

    t = probe(app)
    with t:
        with t.space.transaction(), pytest.raises(UsageError, match="called by the test itself"):
            t.restart()
        go.value = 1
        assert len(found) == 3


def test_runs_of_what_is_no_function_is_refused(app: hw.App) -> None:
    with probe(app) as t, pytest.raises(UsageError, match="is not a function of this app"):
        t.runs(print)


def test_app_is_left_closed_whatever_happens(app: hw.App) -> None:
    count = app.cell("count", 0)
    with pytest.raises(ZeroDivisionError), probe(app):
        raise ZeroDivisionError
    with pytest.raises(hw.HeadwaterError, match="no open space"):
        count.value = 1


# --- workflows --------------------------------------------------------------------------------------------


def test_workflows_run_when_their_time_comes_and_go_on_after_a_restart(app: hw.App) -> None:
    flow = app.workflow("feed")
    notes = flow.topic("notes", str)
    got = app.cell("got", list[str]())
    polled: list[float] = []

    @flow.producer(every="1h")
    def poll() -> None:
        polled.append((t.now - began).total_seconds() / 3600)
        notes.publish(f"note {len(polled)}", id=str(len(polled)))

    @flow.consumer(notes)
    class Take(hw.Consumer[str, list[str], None]):
        def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            return hw.Plan([each.data for each in pending], take=pending) if pending else hw.Plan.idle()

        def mutate(self, _run: Any, _data: list[str]) -> None:
            return None

        def next(self, _run: Any, data: list[str], _outcome: Any) -> None:
            got.value = [*got.value, *data]

    with probe(app) as t:
        began = t.now
        t.settle()
        assert (polled, got.value) == ([0.0], ["note 1"])
        t.advance("90m")
        assert polled == [0.0, 1.0]
        t.restart()
        t.advance("29m")
        assert len(polled) == 2
        t.advance("2m")
        assert (polled, got.value) == ([0.0, 1.0, 2.0], ["note 1", "note 2", "note 3"])
