"""What authors are told of errors; that telling stops nobody; and functions that ask to be run again."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import ABSENT, NodeKind, NodeSpec, RetryImmediately, doc_key, open_space
from headwater.errors import UserCodeError
from headwater.runtime.options import Options
from headwater.scheduler.scheduler_limits import BACKOFF_MS, RUNS_MAX
from headwater.testing import SimClock
from tests.app.shop import run
from tests.app.workbench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


FACTS = {"piece", "node", "space", "event", "triggers", "run"}


# --- what is told -----------------------------------------------------------------------------------------


def test_error_says_whose_it_is_where_why_it_ran_and_for_which_time(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    ages = bench.app.cell("ages", type=dict[str, int], default={})

    @bench.app.sink
    def show() -> None:
        raise ValueError(x.value, ages.value)

    with bench.app.open("memory:", space="shelf", on_error=bench.errors.append) as space:
        ages.value = {"ann": 1, "bob": 2}
        with space.transaction():
            x.value = 1
            ages.key("ann").value = 3
    told = [error.facts for error in bench.errors]
    common = {"piece": "", "node": "show", "space": "shelf", "event": None}
    assert told == [
        {**common, "triggers": (), "run": 1},
        {**common, "triggers": ("bench.ages",), "run": 2},
        {**common, "triggers": ("bench.x", "bench.ages/ann"), "run": 3},
    ]
    assert [type(error.__cause__) for error in bench.errors] == [ValueError] * 3
    assert bench.errors[0].message == (
        "show() in space 'shelf' raised ValueError: (0, {}). It runs again when what it read changes"
    )


def test_error_of_a_function_in_a_piece_names_the_piece(bench: Bench) -> None:
    def broken() -> None:
        raise ValueError

    with bench.open() as space:
        space._opening.add_node(broken, NodeSpec(name="broken", fn=broken, kind=NodeKind.EFFECT, piece="heating"))
        space.settle()
    assert [(error.facts["piece"], error.facts["node"]) for error in bench.errors] == [("heating", "broken")]


def test_function_that_does_not_settle_is_told_of_with_the_same_facts(bench: Bench) -> None:
    going = bench.app.cell("going", False)
    x = bench.app.cell("x", 0)
    y = bench.app.cell("y", 0)

    @bench.app.sink
    def ping() -> None:
        if going.value:
            y.value = x.value + 1

    @bench.app.sink
    def pong() -> None:
        if going.value:
            x.value = y.value + 1

    with bench.open():
        going.value = True
        going.value = False
    assert bench.errors
    for error in bench.errors:
        assert "does not settle" in str(error)
        assert error.facts.keys() == FACTS | {"nodes"}
        assert error.facts["space"] == "main" and error.facts["triggers"]


def test_computed_that_nobody_called_is_told_of_with_the_same_facts(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.computed(eager=True)
    def inverse() -> float:
        return 1 / x.value

    with bench.app.open("memory:", on_error=bench.errors.append):
        pass
    [error] = bench.errors
    assert error.facts == {"piece": "", "node": "inverse", "space": "main", "event": None, "triggers": (), "run": 1}


# --- the first pass ---------------------------------------------------------------------------------------


def failing(bench: Bench) -> None:
    @bench.app.sink
    def show() -> None:
        raise ValueError("at once")


def test_handler_given_at_opening_is_told_of_the_first_run(bench: Bench) -> None:
    failing(bench)
    with bench.app.open("memory:", on_error=bench.errors.append):
        assert len(bench.errors) == 1


def test_handler_given_at_opening_in_a_loop_is_told_of_the_first_run(bench: Bench) -> None:
    failing(bench)

    async def main() -> None:
        async with bench.app.aopen("memory:", on_error=bench.errors.append):
            assert len(bench.errors) == 1

    run(main())


def test_handler_of_an_app_that_stays_is_told_of_the_first_run(bench: Bench) -> None:
    @bench.app.sink
    def show() -> None:
        signal.raise_signal(signal.SIGTERM)
        raise ValueError("at once")

    bench.app.run("memory:", on_error=bench.errors.append)
    assert len(bench.errors) == 1


# --- handlers that raise ----------------------------------------------------------------------------------


def raises(_: UserCodeError) -> None:
    raise RuntimeError("handler")


def raises_from(error: UserCodeError) -> None:
    raise RuntimeError("handler") from error


@pytest.mark.parametrize("handler", [raises, raises_from])
def test_error_in_the_error_handler_is_logged_once_with_both_errors(
    bench: Bench, caplog: pytest.LogCaptureFixture, handler: Callable[[UserCodeError], None]
) -> None:
    failing(bench)
    with bench.app.open("memory:", on_error=handler):
        pass
    [record] = caplog.records
    assert (record.name, record.levelno) == ("headwater", logging.ERROR)
    assert record.getMessage() == (
        "on_error raised RuntimeError: handler. It was called with: "
        "HW150: show() in space 'main' raised ValueError: at once. "
        "It runs again when what it read changes"
    )
    shown = logging.Formatter().format(record)
    assert [shown.count(f"\n{line}") for line in ("ValueError: at once", "RuntimeError: handler")] == [1, 1]


def test_error_in_the_error_handler_does_not_stop_a_loop(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.sink
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError(x.value)

    @bench.app.sink
    def show() -> None:
        bench.log.append(x.value)

    async def main() -> None:
        async with bench.app.aopen("memory:", on_error=raises) as space:
            x.value = 1
            await space.settle()

    run(main())
    assert bench.log == [0, 1]
    assert len(caplog.records) == 2


def test_interrupt_in_the_error_handler_reaches_the_writer_and_leaves_nobody_behind(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.sink
    def first() -> None:
        if x.value == 2:
            raise ValueError("two")

    @bench.app.sink
    def second() -> None:
        bench.log.append(x.value)

    def interrupt(_: UserCodeError) -> None:
        raise KeyboardInterrupt

    with bench.open() as space:
        space.on_error = interrupt
        with pytest.raises(KeyboardInterrupt):
            x.value = 2
        space.settle()
        assert bench.log == [1, 2]


def test_logging_that_fails_as_well_stops_nobody(bench: Bench) -> None:
    class Broken(logging.Handler):
        def emit(self, _: logging.LogRecord) -> None:
            raise OSError("no log")

    failing(bench)
    x = bench.app.cell("x", 0)
    bench.app.sink(name="second")(lambda: bench.log.append(x.value))
    logger, handler = logging.getLogger("headwater"), Broken()
    logger.addHandler(handler)
    try:
        with bench.app.open("memory:", on_error="log"):
            x.value = 1
    finally:
        logger.removeHandler(handler)
    assert bench.log == [0, 1]


# --- functions that ask to be run again -------------------------------------------------------------------


def test_retry_runs_the_function_again_in_the_same_pass_and_keeps_nothing_of_the_attempt(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    seen = bench.app.cell("seen", -1)
    tries: list[int] = []

    @bench.app.sink
    def note() -> None:
        seen.value = 100 + len(tries)
        tries.append(x.value)
        if len(tries) < 3:
            raise RetryImmediately
        seen.value = x.value

    with bench.open() as space:
        assert (tries, seen.value, space.runs(note)) == ([0, 0, 0], 0, 1)
        assert space.stats.commits == 1
    assert bench.errors == []


def test_retry_cannot_be_swallowed_by_who_catches_exceptions(bench: Bench) -> None:
    tries: list[str] = []

    def carefully() -> None:
        try:
            tries.append("try")
            if len(tries) == 1:
                raise RetryImmediately
        except Exception:  # noqa: BLE001
            tries.append("swallowed")

    bench.app.sink(name="careful")(carefully)
    with bench.open():
        assert tries == ["try", "try"]


def test_retry_of_a_computed_is_not_the_callers(bench: Bench) -> None:
    x = bench.app.cell("x", 1)
    tries: list[int] = []

    @bench.app.computed
    def doubled() -> int:
        tries.append(x.value)
        if len(tries) % 3:
            raise RetryImmediately
        return x.value * 2

    @bench.app.sink
    def show() -> None:
        bench.log.append("asked")
        bench.log.append(doubled())

    with bench.open() as space:
        assert (bench.taken(), tries) == (["asked", 2], [1, 1, 1])
        x.value = 2
        assert (bench.taken(), tries) == (["asked", 4], [1, 1, 1, 2, 2, 2])
        assert (space.runs(doubled), space.runs(show)) == (2, 2)
        assert doubled() == 4


def test_causes_are_kept_for_the_attempt_that_counts(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    tries: list[int] = []
    heard: list[hw.Console] = []

    @bench.app.sink
    def show() -> None:
        if x.value:
            tries.append(x.value)
            print("try")
            if len(tries) < 3:
                raise RetryImmediately
            raise ValueError("at last")

    with bench.open() as space:
        space.on_console = heard.append
        x.value = 1
        assert "because bench.x changed" in hw.why(show)
    [error] = bench.errors
    assert (error.facts["triggers"], error.facts["run"]) == (("bench.x",), 2)
    assert [(each.triggers, each.run) for each in heard] == [(("bench.x",), 2)] * 3


def test_function_that_always_asks_is_stopped_told_of_and_tried_again_later(bench: Bench) -> None:
    clock = SimClock()
    options = Options(on_error=bench.errors.append, now=clock.now_ms)
    x = bench.app.cell("x", 0)
    tries: list[int] = []

    @bench.app.sink
    def never() -> None:
        tries.append(x.value)
        raise RetryImmediately

    bench.app.sink(name="other")(lambda: bench.log.append(x.value))
    with bench.app.open_with("memory:", options) as space:
        assert (len(tries), bench.taken(), space.runs(never)) == (RUNS_MAX, [0], 0)
        [error] = bench.errors
        assert f"never() does not settle: it ran {RUNS_MAX} times in one pass" in str(error)
        assert error.facts["node"] == "never" and error.facts["space"] == "main"
        x.value = 1
        assert (len(tries), bench.taken()) == (RUNS_MAX, [1]), "it rests, others do not"
        clock.advance(BACKOFF_MS)
        space.settle()
        assert (len(tries), len(bench.errors)) == (2 * RUNS_MAX, 1), "told once"


def test_computed_that_always_asks_is_an_error_of_the_caller(bench: Bench) -> None:
    tries: list[int] = []

    @bench.app.computed
    def never() -> int:
        tries.append(1)
        raise RetryImmediately

    with bench.open():
        with pytest.raises(UserCodeError, match=r"never\(\) does not settle"):
            never()
        assert len(tries) == RUNS_MAX


def test_async_function_may_ask_after_it_has_waited(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    seen = bench.app.cell("seen", -1)
    tries: list[int] = []
    notes: list[int] = []

    @bench.app.computed
    async def slow() -> int:
        await asyncio.sleep(0)
        tries.append(x.value)
        if len(tries) < 3:
            raise RetryImmediately
        return x.value + 1

    @bench.app.sink
    async def note() -> None:
        seen.value = 100
        await asyncio.sleep(0)
        notes.append(x.value)
        if len(notes) < 2:
            raise RetryImmediately
        seen.value = x.value

    async def main() -> None:
        async with bench.app.aopen("memory:", on_error=bench.errors.append) as space:
            assert await space.fresh(slow) == 1
            await space.settle()
            assert (len(tries), space.runs(slow)) == (3, 1)
            assert (len(notes), space.runs(note), seen.value) == (2, 1, 0)

    run(main())
    assert bench.errors == []


def test_async_function_that_always_asks_is_stopped_and_told_of(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    tries: list[int] = []

    @bench.app.sink
    async def never() -> None:
        tries.append(x.value)
        await asyncio.sleep(0)
        raise RetryImmediately

    async def main() -> None:
        async with bench.app.aopen("memory:", on_error=bench.errors.append) as space:
            await space.settle()
            assert (len(tries), space.runs(never)) == (RUNS_MAX, 0)

    run(main())
    [error] = bench.errors
    assert "never() does not settle" in str(error)
    assert error.facts.keys() == FACTS | {"nodes"}


def test_interrupt_in_an_async_function_keeps_nothing_of_it(bench: Bench, tmp_path: Path) -> None:
    url = str(tmp_path / "bench.db")
    on = bench.app.cell("on", False)
    seen = bench.app.cell("seen", 0)
    interrupts: Iterator[type[BaseException]] = iter([KeyboardInterrupt])

    @bench.app.sink
    async def note() -> None:
        if on.value:
            for interrupt in interrupts:
                seen.value = 1
                await asyncio.sleep(0)
                raise interrupt

    async def main() -> None:
        async with bench.app.aopen(url) as space:
            on.value = True
            try:
                await space.settle()
            finally:
                await asyncio.sleep(0)

    with pytest.raises(KeyboardInterrupt):
        run(main())
    with open_space(url) as there:
        assert there.attach().read(doc_key("bench.seen")) is ABSENT
