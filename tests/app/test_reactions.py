"""What runs because of a write: only what is wanted, once, in order, and never with half of a change in view.

The scheduler here is a first one; what these tests claim holds for any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

import headwater as hw
from headwater.errors import ClosedError, NotOpen, UserCodeError, WriteError
from headwater.scheduler.settle import RUNS_MAX, Scheduler
from tests.app.holding import in_thread


class Bench:
    """An app to be filled by a test, and a log of what ran."""

    def __init__(self) -> None:
        self.app = hw.App("bench")
        self.log: list[object] = []
        self.errors: list[UserCodeError] = []

    def open(self) -> hw.Space:
        space = self.app.open("memory:")
        space.on_error = self.errors.append
        return space

    def taken(self) -> list[object]:
        """What ran since the last look."""
        log, self.log = self.log, []
        return log


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- who runs ---------------------------------------------------------------------------------------------


def test_computed_that_nobody_wants_never_runs(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def unwanted() -> int:
        bench.log.append("unwanted")
        return x.value

    with bench.open() as space:
        x.value = 2
        space.settle()
        space.sync()
        assert (bench.log, space.runs(unwanted)) == ([], 0)


def test_computed_runs_for_a_caller_once_and_again_only_after_a_change(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def tripled() -> int:
        bench.log.append("tripled")
        return x.value * 3

    with bench.open() as space:
        assert [tripled(), tripled(), tripled()] == [3, 3, 3]
        assert space.runs(tripled) == 1
        x.value = 2
        x.value = 5
        assert space.runs(tripled) == 1, "nobody has asked since"
        assert (tripled(), space.runs(tripled)) == (15, 2)


def test_sink_runs_once_when_opened_and_once_for_each_change(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.sink
    def show() -> None:
        bench.log.append(x.value)

    with bench.open() as space:
        assert bench.taken() == [1]
        x.value = 2
        assert bench.taken() == [2], "before the next statement"
        with space.transaction():
            x.value = 3
            x.value = 4
            assert bench.log == []
        assert bench.taken() == [4]
        assert space.runs(show) == 3


def test_equal_value_runs_nobody(bench: Bench) -> None:
    x = bench.app.cell("x", 1)
    items = bench.app.cell("items", [1, 2])

    @bench.app.sink
    def show() -> None:
        bench.log.append((x.value, len(items.value)))

    with bench.open() as space:
        x.value = 2
        items.value = [1, 2]
        bench.taken()
        x.value = 2
        items.value = [1, 2]
        with space.transaction():
            x.value = 3
            items.value = []
            x.value = 2
            items.value = [1, 2]
        with space.transaction():
            x.value = x.value
        assert bench.log == []


def test_computed_with_an_equal_result_stops_the_change(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def is_even() -> bool:
        bench.log.append("is_even")
        return x.value % 2 == 0

    @bench.app.computed
    def word() -> str:
        bench.log.append("word")
        return "even" if is_even() else "odd"

    @bench.app.sink
    def show() -> None:
        bench.log.append(word())

    with bench.open():
        assert bench.taken() == ["word", "is_even", "odd"]
        x.value = 3
        assert bench.taken() == ["is_even"]
        x.value = 4
        assert bench.taken() == ["is_even", "word", "even"]


def test_diamond_shows_no_mixture_and_runs_each_part_once(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def left() -> int:
        bench.log.append("left")
        return x.value + 1

    @bench.app.computed
    def right() -> int:
        bench.log.append("right")
        return x.value * 10

    @bench.app.computed
    def both() -> tuple[int, int, int]:
        bench.log.append("both")
        return (x.value, left(), right())

    @bench.app.sink
    def show() -> None:
        bench.log.append(tuple(both()))

    with bench.open() as space:
        bench.taken()
        x.value = 2
        assert bench.taken() == ["left", "right", "both", (2, 3, 20)]
        assert {space.runs(node) for node in (left, right, both, show)} == {2}


def test_chain_runs_from_the_write_to_the_sink(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    calls: list[Callable[[], int]] = [lambda: x.value]
    for number in range(20):

        def step(above: Callable[[], int] = calls[-1], number: int = number) -> int:
            bench.log.append(number)
            return above() + 1

        def link(step: Callable[[], int] = step) -> Callable[[], int]:
            def run() -> int:
                return step()

            return bench.app.computed(name=f"step{number}")(run)

        calls.append(link())

    @bench.app.sink
    def show() -> None:
        bench.log.append(f"shows {calls[-1]()}")

    with bench.open():
        assert bench.taken()[-1] == "shows 20"
        x.value = 5
        assert bench.taken() == [*range(20), "shows 25"]


def test_sinks_run_in_the_order_they_were_declared_whoever_is_concerned(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    y = bench.app.cell("y", 0)
    for number, read in enumerate([(x,), (x, y), (y,), (x,)]):

        def show(number: int = number, read: tuple[hw.Cell[int], ...] = read) -> None:
            bench.log.append((number, *[cell.value for cell in read]))

        bench.app.sink(name=f"show{number}")(_without_parameters(show))
    with bench.open() as space:
        assert bench.taken() == [(0, 0), (1, 0, 0), (2, 0), (3, 0)]
        x.value = 1
        assert bench.taken() == [(0, 1), (1, 1, 0), (3, 1)]
        with space.transaction():
            y.value = 2
            x.value = 2
        assert bench.taken() == [(0, 2), (1, 2, 2), (2, 2), (3, 2)]


def _without_parameters(function: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        function()

    return run


# --- dynamic dependencies ---------------------------------------------------------------------------------


def test_branch_that_is_not_taken_any_more_wakes_nobody(bench: Bench) -> None:
    use_left = bench.app.cell("use_left", True)
    x = bench.app.cell("x", 1)
    y = bench.app.cell("y", 10)

    @bench.app.computed
    def left() -> int:
        bench.log.append("left")
        return x.value

    @bench.app.computed
    def right() -> int:
        bench.log.append("right")
        return y.value

    @bench.app.sink
    def show() -> None:
        bench.log.append(left() if use_left.value else right())

    with bench.open():
        assert bench.taken() == ["left", 1]
        y.value = 11
        assert bench.taken() == [], "right is not observed"
        use_left.value = False
        assert bench.taken() == ["right", 11]
        x.value = 2
        assert bench.taken() == []
        y.value = 12
        assert bench.taken() == ["right", 12]
        use_left.value = True
        assert bench.taken() == ["left", 2]


def test_computed_that_was_out_of_sight_while_things_changed_is_current_when_it_is_looked_at_again(
    bench: Bench,
) -> None:
    """Its own input is another computed, which nobody has brought up to date either."""
    looking = bench.app.cell("looking", True)
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def doubled() -> int:
        return x.value * 2

    @bench.app.computed
    def plus_one() -> int:
        return doubled() + 1

    @bench.app.sink
    def show() -> None:
        bench.log.append(plus_one() if looking.value else None)

    with bench.open() as space:
        looking.value = False
        x.value = 5
        x.value = 6
        assert space.runs(doubled) == space.runs(plus_one) == 1
        looking.value = True
        assert bench.taken() == [3, None, 13]
        assert space.runs(doubled) == space.runs(plus_one) == 2


def test_roles_of_two_computeds_can_be_exchanged(bench: Bench) -> None:
    """First `a` is made from `b`, then `b` from `a`: at no moment is there a circle."""
    forward = bench.app.cell("forward", True)

    @bench.app.computed
    def a() -> int:
        return b() + 1 if forward.value else 10

    @bench.app.computed
    def b() -> int:
        return 20 if forward.value else a() + 1

    @bench.app.sink
    def show() -> None:
        bench.log.append((a(), b()))

    with bench.open():
        forward.value = False
        forward.value = True
    assert (bench.log, bench.errors) == ([(21, 20), (10, 11), (21, 20)], [])


def test_peek_reads_without_subscribing(bench: Bench) -> None:
    x = bench.app.cell("x", 1)
    quiet = bench.app.cell("quiet", 1)

    @bench.app.sink
    def show() -> None:
        bench.log.append((x.value, quiet.peek()))

    with bench.open():
        quiet.value = 2
        x.value = 2
    assert bench.log == [(1, 1), (2, 2)]


def test_sink_depends_on_the_fields_it_read_and_on_no_others(bench: Bench) -> None:
    class Person(hw.Doc):
        name: str = "Ann"
        age: int = 30

    person = bench.app.doc("person", Person)

    @bench.app.sink
    def show() -> None:
        bench.log.append(person.name)

    with bench.open() as space:
        person.name = "Ann"
        bench.taken()
        person.age = 31
        assert bench.taken() == []
        with space.transaction():
            person.age = 32
            person.name = "Anna"
        assert bench.taken() == ["Anna"]


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
        assert isinstance(error, UserCodeError) and isinstance(error.__cause__, ValueError)
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
        with pytest.raises(WriteError, match=r"share\(\) is computed"):
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


# --- transactions -----------------------------------------------------------------------------------------


def test_computed_called_in_a_transaction_sees_what_the_transaction_has_written(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def doubled() -> int:
        return x.value * 2

    @bench.app.computed
    def plus_one() -> int:
        return doubled() + 1

    @bench.app.sink
    def show() -> None:
        bench.log.append(plus_one())

    with bench.open() as space:
        with space.transaction():
            assert plus_one() == 3
            x.value = 5
            assert (doubled(), plus_one()) == (10, 11)
            x.value = 6
            assert plus_one() == 13
            assert bench.log == [3], "nobody else sees it yet"
        assert (bench.log, plus_one()) == ([3, 13], 13)


def test_computeds_are_as_before_after_an_exception_has_rolled_a_transaction_back(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def doubled() -> int:
        return x.value * 2

    @bench.app.sink
    def show() -> None:
        bench.log.append(doubled())

    with bench.open() as space:
        runs = space.runs(doubled)
        with pytest.raises(KeyError), space.transaction():
            x.value = 5
            assert doubled() == 10
            raise KeyError
        assert (doubled(), space.runs(doubled), bench.log) == (2, runs, [2])
        with space.transaction():
            with pytest.raises(KeyError), space.transaction():
                x.value = 7
                assert doubled() == 14
                raise KeyError
            assert doubled() == 2
        assert (x.value, bench.log) == (1, [2])
        x.value = 2
        assert bench.log == [2, 4]


def test_transaction_that_read_a_computed_conflicts_when_that_has_changed_meanwhile(bench: Bench) -> None:
    x = bench.app.cell("x", 1)
    copy = bench.app.cell("copy", 0)

    @bench.app.computed
    def doubled() -> int:
        return x.value * 2

    with bench.open() as space:
        block = space.transaction()
        with pytest.raises(hw.HeadwaterError, match="HW211"), block:
            copy.value = doubled()
            in_thread(lambda: setattr(x, "value", 4))
            in_thread(doubled)
        assert (copy.value, doubled()) == (0, 8)


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
    space.catch_up()
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


def test_error_in_the_error_handler_reaches_the_writer_and_leaves_nobody_behind(bench: Bench) -> None:
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
        with pytest.raises(RuntimeError, match="handler"):
            x.value = 2
        space.settle()
        assert bench.log == [1, 2]


# --- cost -------------------------------------------------------------------------------------------------


def test_writing_a_cell_that_nobody_reads_makes_no_notification(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    original = Scheduler._on_change

    def spy(self: Scheduler, notification: object) -> None:
        told.append(notification)
        original(self, notification)  # type: ignore[arg-type]

    monkeypatch.setattr(Scheduler, "_on_change", spy)
    x = bench.app.cell("x", 1)
    unread = bench.app.cell("unread", 1)

    @bench.app.sink
    def show() -> None:
        bench.log.append(x.value)

    with bench.open() as space:
        told.clear()
        unread.value = 2
        with space.transaction():
            unread.value = 3
        assert told == []
        x.value = 2
        assert len(told) == 1
        space.sync()
        assert len(told) == 1, "that it is on disk now is no news to anybody"


def test_run_of_a_computed_whose_result_is_the_same_commits_nothing(bench: Bench) -> None:
    x = bench.app.cell("x", 1)

    @bench.app.computed
    def is_positive() -> bool:
        return x.value > 0

    @bench.app.sink
    def show() -> None:
        bench.log.append(is_positive())

    with bench.open() as space:
        space.sync()
        commits = space.stats.commits
        x.value = 2
        space.sync()
        assert (space.stats.commits - commits, space.runs(is_positive)) == (1, 2)
