"""Computed functions that run although nobody looks."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import UsageError
from tests.app.workbench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_eager_computed_runs_when_the_app_is_opened_and_at_every_change(bench: Bench) -> None:
    count = bench.app.cell("count", 1)

    @bench.app.computed(eager=True)
    def doubled() -> int:
        bench.log.append(count.value)
        return count.value * 2

    with bench.open():
        assert bench.taken() == [1]
        count.value = 2
        assert bench.taken() == [2]
        assert (doubled(), bench.taken()) == (4, [])


def test_eager_computed_has_what_it_calls_run_and_nothing_else(bench: Bench) -> None:
    count = bench.app.cell("count", 1)

    @bench.app.computed
    def inner() -> int:
        bench.log.append("inner")
        return count.value

    @bench.app.computed
    def beside() -> int:
        bench.log.append("beside")
        return count.value

    @bench.app.computed(eager=True)
    def outer() -> int:
        bench.log.append("outer")
        return inner()

    with bench.open():
        assert bench.taken() == ["outer", "inner"]
        count.value = 2
        assert bench.taken() == ["inner", "outer"]
        assert beside() == 2


def test_error_in_an_eager_computed_that_nobody_calls_is_told(bench: Bench) -> None:
    count = bench.app.cell("count", 1)

    @bench.app.computed(eager=True)
    def halved() -> int:
        return 10 // count.value

    with bench.open():
        count.value = 0
        (error,) = bench.errors
        assert isinstance(error.__cause__, ZeroDivisionError)
        count.value = 0
        count.value = 5
        assert (halved(), len(bench.errors)) == (2, 1)


def test_with_demand_eager_everything_runs(bench: Bench) -> None:
    count = bench.app.cell("count", 1)

    @bench.app.computed
    def one() -> int:
        bench.log.append("one")
        return count.value

    @bench.app.computed
    def two() -> int:
        bench.log.append("two")
        return one() * 2

    with bench.app.open("memory:", demand="eager"):
        assert sorted(str(each) for each in bench.taken()) == ["one", "two"]
        count.value = 2
        assert bench.taken() == ["one", "two"]
    with bench.app.open("memory:"):
        assert bench.taken() == []


def test_demand_eager_does_not_change_what_is_shown(bench: Bench) -> None:
    count = bench.app.cell("count", 1)

    @bench.app.computed
    def parity() -> int:
        return count.value % 2

    @bench.app.sink
    def show() -> None:
        bench.log.append(parity())

    shown = []
    for demand in ("lazy", "eager"):
        kind: Any = demand
        with bench.app.open("memory:", demand=kind):
            for value in (2, 4, 5):
                count.value = value
        shown.append(bench.taken())
    assert shown == [[1, 0, 1], [1, 0, 1]]


def test_demand_that_is_none_is_refused(bench: Bench) -> None:
    bad: Any = "sometimes"
    with pytest.raises(UsageError, match="'sometimes' is no demand; 'lazy' or 'eager' is expected"):
        bench.app.open("memory:", demand=bad)


def test_instances_are_eager_once_they_have_been_asked_for(bench: Bench) -> None:
    factor = bench.app.cell("factor", 1)

    @bench.app.computed(eager=True)
    def times(number: int) -> int:
        bench.log.append(number)
        return number * factor.value

    with bench.open():
        assert bench.taken() == [], "nobody has said for what"
        assert (times(2), times(3)) == (2, 3)
        bench.taken()
        factor.value = 10
        assert bench.taken() == [2, 3]


def test_why_says_eager(bench: Bench) -> None:
    @bench.app.computed(eager=True)
    def one() -> int:
        return 1

    with bench.open():
        assert hw.why(one).startswith("one() is a computation, clean, live: eager")
