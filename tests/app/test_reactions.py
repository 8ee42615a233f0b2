"""What runs because of a write: only what is wanted, once, in order, and never with half of a change in view.

The scheduler here is a first one; what these tests claim holds for any.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.scheduler.scheduler import Scheduler
from tests.app.holding import in_thread
from tests.app.workbench import Bench


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

    def link(number: int, above: Callable[[], int]) -> Callable[[], int]:
        def run() -> int:
            bench.log.append(number)
            return above() + 1

        return bench.app.computed(name=f"link{number}")(run)

    last: Callable[[], int] = lambda: x.value  # noqa: E731
    for number in range(20):
        last = link(number, last)

    @bench.app.sink
    def show() -> None:
        bench.log.append(f"shows {last()}")

    with bench.open():
        assert bench.taken()[-1] == "shows 20"
        x.value = 5
        assert bench.taken() == [*range(20), "shows 25"]


def test_sinks_run_in_the_order_they_were_declared_whoever_is_concerned(bench: Bench) -> None:
    x = bench.app.cell("x", 0)
    y = bench.app.cell("y", 0)

    def show(number: int, *read: hw.Cell[int]) -> None:
        bench.app.sink(name=f"show{number}")(lambda: bench.log.append((number, *[cell.value for cell in read])))

    show(0, x)
    show(1, x, y)
    show(2, y)
    show(3, x)
    with bench.open() as space:
        assert bench.taken() == [(0, 0), (1, 0, 0), (2, 0), (3, 0)]
        x.value = 1
        assert bench.taken() == [(0, 1), (1, 1, 0), (3, 1)]
        with space.transaction():
            y.value = 2
            x.value = 2
        assert bench.taken() == [(0, 2), (1, 2, 2), (2, 2), (3, 2)]


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


# --- cost -------------------------------------------------------------------------------------------------


def test_writing_a_cell_that_nobody_reads_makes_no_notification(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    original = Scheduler._receive

    def spy(self: Scheduler, notification: object) -> None:
        told.append(notification)
        original(self, notification)  # type: ignore[arg-type]

    monkeypatch.setattr(Scheduler, "_receive", spy)
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


def test_what_is_computed_from_a_users_own_cell_is_that_users_own(tmp_path: Path) -> None:
    app = hw.App("own")
    rate = app.cell("rate", 2)
    draft = app.cell("draft", 1, scope="user")

    @app.computed
    def doubled() -> int:
        return draft.value * rate.value

    @app.computed
    def text() -> str:
        return f"it is {doubled()}"

    url = str(tmp_path / "own.db")
    with app.open(url, actor="ann") as ann:
        draft.value = 10
        assert text() == "it is 20"
        with app.open(url, actor="bob") as bob:
            assert text() == "it is 2"
            draft.value = 4
            assert text() == "it is 8"
            bob.sync()
        ann.sync()
        assert text() == "it is 20"
        rate.value = 3
        assert text() == "it is 30"
        assert ann.runs(doubled) == 2
    with app.open(url, actor="bob"):
        assert text() == "it is 12"
