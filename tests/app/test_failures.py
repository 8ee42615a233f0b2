"""Functions that raise, write where they may not, read themselves, wake each other, or are interrupted; and the end."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

import headwater as hw
from headwater.errors import ClosedError, NotOpen, UserCodeError, WriteError
from headwater.scheduler.scheduler_limits import RUNS_MAX
from tests.app.workbench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- errors -----------------------------------------------------------------------------------------------


def test_error_in_a_computed_reaches_the_caller_each_time_and_goes_away_with_its_cause(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.computed
    def inverse() -> float:
        return 1 / x.value

    with bench.open() as space:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                inverse()
        assert space.runs(inverse) == 1
        x.value = 2
        assert inverse() == 0.5
        x.value = 0
        with pytest.raises(ZeroDivisionError):
            inverse()
    assert bench.errors == [], "who called was told"


def test_traceback_of_a_kept_error_does_not_grow_with_each_caller(bench: Bench) -> None:
    @bench.app.computed
    def broken() -> int:
        raise ValueError("always")

    def depth() -> int:
        with pytest.raises(ValueError, match="always") as caught:
            broken()
        return len(caught.traceback)

    with bench.open():
        assert len({depth() for _ in range(5)}) == 1


def test_sink_whose_computed_fails_is_told_and_runs_again_when_that_is_mended(bench: Bench) -> None:
    """The sink has read nothing but the computed, which has no value yet."""
    x = bench.app.cell("x", 0)

    @bench.app.computed
    def inverse() -> float:
        return 1 / x.value

    @bench.app.sink
    def show() -> None:
        bench.log.append(inverse())

    with bench.open() as space:
        assert (bench.taken(), space.runs(show)) == ([], 1)
        x.value = 4
        assert bench.taken() == [0.25]
        x.value = 0
        assert [type(error.__cause__) for error in bench.errors] == [ZeroDivisionError]
        x.value = 4
        assert bench.taken() == [0.25], "the value it had before it failed, and still news"
        assert space.runs(show) == 4


def test_sink_that_has_an_answer_for_a_failure_gives_it(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def inverse() -> float:
        return 1 / x.value

    @bench.app.computed
    def text() -> str:
        try:
            return str(inverse())
        except ZeroDivisionError:
            return "none"

    @bench.app.sink
    def show() -> None:
        bench.log.append(text())

    with bench.open():
        for number in (0, 2, 0, 1):
            x.value = number
    assert (bench.log, bench.errors) == (["1.0", "none", "0.5", "none", "1.0"], [])


def test_error_in_a_sink_is_told_with_its_cause_and_the_sink_runs_again_when_its_inputs_change(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.sink
    def show() -> None:
        if x.value == 2:
            raise ValueError("two")
        bench.log.append(x.value)

    @bench.app.sink
    def other() -> None:
        bench.log.append(f"other {x.value}")

    with bench.open() as space:
        for number in (2, 3):
            x.value = number
        assert bench.log == [1, "other 1", "other 2", 3, "other 3"], "the writer goes on, and so do other sinks"
        [error] = bench.errors
        assert type(error) is UserCodeError and isinstance(error.__cause__, ValueError)
        assert error.facts["node"] == "show" and error.facts["space"] == space.name
        assert "show() in space 'main' raised ValueError: two" in str(error)


def test_error_in_the_first_run_of_a_sink_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    @bench.app.sink
    def show() -> None:
        raise ValueError("at once")

    with caplog.at_level(logging.ERROR), bench.open():
        pass
    [record] = caplog.records
    assert record.name == "headwater" and "show() in space 'main' raised ValueError: at once" in record.message
    assert record.exc_info is not None and record.exc_info[0] is ValueError


def test_failed_run_of_a_sink_writes_nothing(bench: Bench) -> None:
    x = bench.app.cell("x", 1)
    seen = bench.app.cell("seen", 0)

    @bench.app.sink
    def note() -> None:
        seen.value = x.value
        if x.value == 2:
            raise ValueError

    with bench.open():
        x.value = 2
        assert seen.value == 1
        x.value = 3
        assert seen.value == 3


def test_computed_result_that_does_not_fit_its_declared_type_is_an_error_of_the_computed(bench: Bench) -> None:
    @bench.app.computed
    def number() -> int:
        return "seven"  # type: ignore[return-value]

    with bench.open(), pytest.raises(hw.HeadwaterError, match=r"number\(\)"):
        number()


WRITES = r"HW104: total\(\) is computed and may not write bench\.qty; move the write to a @app\.handler"


def test_computed_that_writes_is_refused_in_the_words_of_the_guide(bench: Bench) -> None:
    qty = bench.app.cell("qty", 1)

    @bench.app.computed
    def total() -> int:
        qty.value = 5
        return 1

    with bench.open():
        with pytest.raises(WriteError, match=WRITES):
            total()
        assert qty.value == 1


def test_computed_that_writes_is_refused_also_where_it_is_a_plain_call(bench: Bench) -> None:
    """In a transaction with writes of its own, and with parameters."""
    qty = bench.app.cell("qty", 1)

    @bench.app.computed
    def total() -> int:
        qty.value = 5
        return 1

    @bench.app.computed
    def share(of: int) -> int:
        qty.value = of
        return of

    with bench.open() as space:
        with space.transaction():
            qty.value = 2
            with pytest.raises(WriteError, match=WRITES):
                total()
            with pytest.raises(WriteError, match=r"share\(\) is computed and may not write bench\.qty"):
                share(3)
            qty.value += 2
        assert qty.value == 4
        with pytest.raises(WriteError, match=r"share\(3\) is computed"):
            share(3)
        assert qty.value == 4


def test_computed_may_not_make_documents_or_open_a_transaction_to_write(bench: Bench) -> None:
    class Person(hw.Doc):
        name: str

    spaces: list[hw.Space] = []

    @bench.app.computed
    def makes() -> int:
        Person(name="Ann")
        return 1

    x = bench.app.cell("x", 1)

    @bench.app.computed
    def sneaks() -> int:
        with spaces[0].transaction():
            x.value = 2
        return 1

    with bench.open() as space:
        spaces.append(space)
        for function in (makes, sneaks):
            with pytest.raises(WriteError, match=r"is computed and may not write"):
                function()
        assert x.value == 1


def test_computed_that_reads_itself_is_told_so(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def me() -> int:
        return me() + 1 if x.value == 1 else 0

    @bench.app.computed
    def here() -> int:
        return there()

    @bench.app.computed
    def there() -> int:
        return here()

    with bench.open():
        with pytest.raises(UserCodeError, match=r"me\(\) reads itself"):
            me()
        for function in (here, there):
            with pytest.raises(UserCodeError, match=r"(here|there)\(\) reads itself"):
                function()
        x.value = 2
        assert me() == 0


def test_sink_above_a_circle_is_told_once_and_recovers_when_the_circle_opens(bench: Bench) -> None:
    closed = bench.app.cell("closed", False)

    @bench.app.computed
    def here() -> int:
        return there() if closed.value else 1

    @bench.app.computed
    def there() -> int:
        return here() + 1

    @bench.app.sink
    def show() -> None:
        bench.log.append(there())

    with bench.open():
        closed.value = True
        assert bench.taken() == [2]
        assert len(bench.errors) == 1 and "reads itself" in str(bench.errors[0])
        closed.value = False
        assert bench.taken() == [2] and len(bench.errors) == 1


def test_two_sinks_that_wake_each_other_are_stopped_and_reported(bench: Bench) -> None:
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

    @bench.app.sink
    def bystander() -> None:
        bench.log.append(x.value)

    with bench.open() as space:
        before = space.runs(ping)
        going.value = True
        assert RUNS_MAX <= space.runs(ping) - before <= RUNS_MAX + 1
        assert bench.errors and all("does not settle" in str(error) for error in bench.errors)
        assert len(bench.errors) <= 2, "once for each at most"
        assert bench.log[-1] == x.value, "others are not left behind"
        going.value = False
        told = len(bench.errors)
        x.value = 100
        assert (bench.log[-1], len(bench.errors)) == (100, told)


def test_sink_that_writes_what_it_reads_runs_once(bench: Bench) -> None:
    x = bench.app.cell("x", 0)

    @bench.app.sink
    def count() -> None:
        x.value += 1

    with bench.open() as space:
        assert (x.value, space.runs(count)) == (1, 1)
        x.value = 10
        assert (x.value, space.runs(count), bench.errors) == (11, 2, [])


# --- the end ----------------------------------------------------------------------------------------------


def test_nothing_runs_after_close(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def doubled() -> int:
        bench.log.append("doubled")
        return x.value * 2

    @bench.app.sink
    def show() -> None:
        bench.log.append(doubled())

    space = bench.open()
    bench.taken()
    space.close()
    with pytest.raises(NotOpen):
        x.value = 2
    with pytest.raises(NotOpen):
        doubled()
    with pytest.raises(ClosedError):
        space.settle()
    space._opening.catch_up()
    assert bench.log == []


def test_sink_that_closes_the_space_is_the_last_to_run(bench: Bench) -> None:
    x = bench.app.cell("x", 1)
    spaces: list[hw.Space] = []

    @bench.app.sink
    def stop() -> None:
        if x.value == 2:
            spaces[0].close()

    @bench.app.sink
    def show() -> None:
        bench.log.append(x.value)

    spaces.append(bench.open())
    x.value = 2
    assert (bench.log, bench.errors, spaces[0].closed) == ([1], [], True)


def test_interrupt_in_a_sink_reaches_the_writer_and_leaves_nobody_behind(bench: Bench) -> None:
    x = bench.app.cell("x", 1)
    interrupts: Iterator[type[BaseException]] = iter([KeyboardInterrupt])

    @bench.app.sink
    def first() -> None:
        bench.log.append(f"first {x.value}")
        if x.value == 2:
            for interrupt in interrupts:
                raise interrupt

    @bench.app.sink
    def second() -> None:
        bench.log.append(f"second {x.value}")

    with bench.open() as space:
        bench.taken()
        with pytest.raises(KeyboardInterrupt):
            x.value = 2
        assert bench.taken() == ["first 2"]
        space.settle()
        assert bench.taken() == ["first 2", "second 2"]
        x.value = 3
        assert bench.taken() == ["first 3", "second 3"]


def test_error_in_the_error_handler_stops_neither_the_writer_nor_other_sinks(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a function of the author's, too. Before, it reached whoever happened to write; see test_error_context."""
    x = bench.app.cell("x", 1)

    @bench.app.sink
    def first() -> None:
        if x.value == 2:
            raise ValueError("two")

    @bench.app.sink
    def second() -> None:
        bench.log.append(x.value)

    def handler(error: UserCodeError) -> None:
        raise RuntimeError("handler") from error

    with bench.open() as space:
        space.on_error = handler
        x.value = 2
        assert bench.log == [1, 2]
    assert [record.name for record in caplog.records] == ["headwater"]
