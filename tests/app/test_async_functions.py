"""Async functions: others go on while they wait, and what they have read can change meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headwater.errors import NotReadyError, WriteError
from tests.app.simulated import Lab, pause


@pytest.fixture
def lab() -> Lab:
    return Lab()


# --- others go on -----------------------------------------------------------------------------------------


def test_function_that_waits_does_not_stall_the_others(lab: Lab) -> None:
    count = lab.app.cell("count", 1)

    @lab.app.computed
    async def slow() -> int:
        found = count.value
        await pause(100)
        return found * 10

    @lab.app.sink
    def quick() -> None:
        lab.note("quick", count.value)

    @lab.app.sink
    def show() -> None:
        try:
            lab.note("show", slow())
        except NotReadyError:
            lab.note("loading")

    async def main() -> None:
        async with lab.open() as space:
            assert lab.taken() == [(0, "quick", 1), (0, "loading"), (100, "show", 10)]
            count.value = 2
            await asyncio.sleep(0)
            assert lab.taken() == [(100, "quick", 2)], "at once, while the other is under way"
            assert slow() == 10, "its last value, as long as there is no other"
            await space.settle()
            assert lab.taken() == [(200, "show", 20)]

    lab.run(main)
    assert lab.errors == []


def test_several_wait_at_the_same_time(lab: Lab) -> None:
    app = lab.app

    def fetch(name: str, ms: float) -> Callable[[], int]:
        async def run() -> int:
            await pause(ms)
            lab.note(name)
            return int(ms)

        return app.computed(name=name)(run)  # type: ignore[return-value]

    parts = [fetch("a", 300), fetch("b", 100), fetch("c", 200)]

    @app.computed
    def total() -> int:
        return sum(part() for part in parts)

    async def main() -> None:
        async with lab.open(demand="eager"):
            assert total() == 600
            assert lab.taken() == [(100, "b"), (200, "c"), (300, "a")]

    lab.run(main)


def test_at_most_one_run_of_a_function_is_under_way(lab: Lab) -> None:
    count = lab.app.cell("count", 0)
    flying = [0, 0]

    @lab.app.sink
    async def slow() -> None:
        flying[0] += 1
        flying[1] = max(flying)
        try:
            lab.note(count.value)
            await pause(50)
        finally:
            flying[0] -= 1

    async def main() -> None:
        async with lab.open() as space:
            for value in range(1, 6):
                count.value = value
                await pause(10)
            await space.settle()

    lab.run(main)
    assert flying == [0, 1]


# --- what was read changes --------------------------------------------------------------------------------


def test_run_is_begun_anew_when_something_it_has_read_changes_while_it_waits(lab: Lab) -> None:
    query = lab.app.cell("query", "a")

    @lab.app.sink
    async def search() -> None:
        text = query.value
        lab.note("begins", text)
        try:
            await pause(100)
        except asyncio.CancelledError:
            lab.note("stopped", text)
            raise
        lab.note("found", text)

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            query.value = "b"
            await pause(60)
            query.value = "c"
            await space.settle()
            assert lab.taken() == [
                (100, "begins", "b"),
                (160, "stopped", "b"),
                (160, "begins", "c"),
                (260, "found", "c"),
            ]

    lab.run(main)


def test_run_may_be_finished_first_but_its_result_is_dropped(lab: Lab) -> None:
    query = lab.app.cell("query", "a")

    @lab.app.computed(on_invalid="finish")
    async def search() -> str:
        text = query.value
        await pause(100)
        lab.note("found", text)
        return text

    @lab.app.sink
    def show() -> None:
        lab.note("show", search())

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            query.value = "b"
            await pause(60)
            query.value = "c"
            await space.settle()
            assert lab.taken() == [(200, "found", "b"), (300, "found", "c"), (300, "show", "c")]

    lab.run(main)


def test_result_is_dropped_also_if_it_has_waited_again_after_the_change(lab: Lab) -> None:
    query = lab.app.cell("query", "a")

    @lab.app.computed(on_invalid="finish")
    async def search() -> str:
        text = query.value
        for _ in range(4):
            await pause(25)
        return text

    @lab.app.sink
    def show() -> None:
        lab.note("show", search())

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            query.value = "b"
            await pause(30)
            query.value = "c"
            await space.settle()
            assert lab.taken() == [(300, "show", "c")]

    lab.run(main)


def test_what_is_read_after_a_wait_counts_from_then_on(lab: Lab) -> None:
    first, second = lab.app.cell("first", 1), lab.app.cell("second", 1)

    @lab.app.computed(eager=True)
    async def both() -> int:
        one = first.value
        await pause(100)
        two = second.value
        lab.note("read", one, two)
        await pause(100)
        return one + two

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            first.value = 2
            await pause(50)
            second.value = 20
            await pause(100)
            assert lab.taken() == [(300, "read", 2, 20)], "not read yet when it changed: nothing to begin anew"
            second.value = 21
            await space.settle()
            assert lab.taken() == [(450, "read", 2, 21)]
            assert both() == 23

    lab.run(main)


def test_change_of_what_it_did_not_read_does_not_disturb_it(lab: Lab) -> None:
    count, other = lab.app.cell("count", 1), lab.app.cell("other", 1)

    @lab.app.sink
    async def slow() -> None:
        lab.note(count.value)
        await pause(100)

    async def main() -> None:
        async with lab.open() as space:
            count.value = 2
            await pause(50)
            other.value = 2
            await space.settle()

    lab.run(main)
    assert lab.taken() == [(0, 1), (100, 2)]


def test_value_that_is_as_it_was_when_it_lands_is_kept(lab: Lab) -> None:
    """Changed and changed back while it waited, and told to finish: what it has seen is so."""
    count = lab.app.cell("count", 1)
    count_runs: list[int] = []

    @lab.app.computed(on_invalid="finish", eager=True)
    async def slow() -> int:
        found = count.value
        count_runs.append(found)
        await pause(100)
        return found

    async def main() -> None:
        async with lab.open() as space:
            count.value = 2
            await pause(10)
            count.value = 3
            await pause(10)
            count.value = 2
            await space.settle()
            assert slow() == 2

    lab.run(main)
    assert count_runs[:2] == [1, 2]


# --- values, errors, callers ------------------------------------------------------------------------------


def test_caller_of_one_that_has_no_value_yet_is_told_and_runs_again_when_there_is_one(lab: Lab) -> None:
    @lab.app.computed
    async def slow() -> int:
        await pause(100)
        return 7

    @lab.app.computed
    def plus_one() -> int:
        return slow() + 1

    @lab.app.sink
    def show() -> None:
        lab.note("show", plus_one())

    async def main() -> None:
        async with lab.open() as space:
            assert lab.taken() == [(100, "show", 8)]
            assert space.runs(plus_one) == 2

    lab.run(main)
    assert lab.errors == [], "that something is not there yet is no error"


def test_plain_code_that_calls_one_without_a_value_is_told(lab: Lab) -> None:
    @lab.app.computed
    async def slow() -> int:
        await pause(100)
        return 7

    async def main() -> None:
        async with lab.open() as space:
            with pytest.raises(NotReadyError, match=r"HW151: slow\(\) has no value yet: it is under way"):
                slow()
            await space.settle()
            assert slow() == 7

    lab.run(main)


def test_error_in_the_middle_is_raised_where_it_is_called_and_mended_by_a_change(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.computed
    async def slow() -> int:
        await pause(10)
        found = count.value
        await pause(10)
        return 10 // found

    @lab.app.sink
    def show() -> None:
        try:
            lab.note("show", slow())
        except ZeroDivisionError:
            lab.note("failed")

    async def main() -> None:
        async with lab.open() as space:
            assert lab.taken() == [(20, "failed")]
            with pytest.raises(ZeroDivisionError):
                slow()
            count.value = 5
            await space.settle()
            assert lab.taken() == [(40, "show", 2)]

    lab.run(main)
    assert lab.errors == []


def test_error_in_an_async_sink_is_told_with_its_triggers(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.sink
    async def show() -> None:
        await pause(10)
        if count.value:
            raise ValueError("too much")

    async def main() -> None:
        async with lab.open() as space:
            count.value = 1
            await space.settle()
            count.value = 0
            await space.settle()

    lab.run(main)
    (error,) = lab.errors
    assert isinstance(error.__cause__, ValueError)
    assert (error.facts["node"], error.facts["triggers"]) == ("show", ("lab.count",))


def test_failed_run_writes_nothing_and_a_good_one_all(lab: Lab) -> None:
    count, seen = lab.app.cell("count", 0), lab.app.cell("seen", 0)

    @lab.app.sink
    async def show() -> None:
        found = count.value
        seen.value = found
        await pause(10)
        if found == 1:
            raise ValueError

    async def main() -> None:
        async with lab.open() as space:
            count.value = 1
            await space.settle()
            assert seen.value == 0
            count.value = 2
            await space.settle()
            assert seen.value == 2

    lab.run(main)


def test_nobody_sees_what_it_has_written_before_it_has_ended(lab: Lab) -> None:
    count, seen = lab.app.cell("count", 0), lab.app.cell("seen", 0)

    @lab.app.sink
    async def copy() -> None:
        seen.value = count.value
        assert seen.value == count.value, "but it does itself"
        await pause(100)

    async def main() -> None:
        async with lab.open() as space:
            count.value = 5
            await pause(50)
            assert seen.value == 0
            await space.settle()
            assert seen.value == 5

    lab.run(main)


def test_async_computed_may_not_write(lab: Lab) -> None:
    count = lab.app.cell("count", 0)

    @lab.app.computed
    async def slow() -> int:
        await pause(10)
        count.value = 1
        return 1

    async def main() -> None:
        async with lab.open() as space:
            with pytest.raises(NotReadyError):
                slow()
            await space.settle()
            with pytest.raises(WriteError, match="HW104"):
                slow()

    lab.run(main)


def test_async_computed_calls_plain_ones_and_is_called_by_them(lab: Lab) -> None:
    count = lab.app.cell("count", 1)

    @lab.app.computed
    def doubled() -> int:
        return count.value * 2

    @lab.app.computed
    async def slow() -> int:
        found = doubled()
        await pause(10)
        return found + doubled()

    @lab.app.computed
    def text() -> str:
        return f"<{slow()}>"

    @lab.app.sink
    def show() -> None:
        lab.note(text())

    async def main() -> None:
        async with lab.open() as space:
            assert lab.taken() == [(10, "<4>")]
            count.value = 3
            await space.settle()
            assert lab.taken() == [(20, "<12>")]
            assert (space.runs(doubled), space.runs(slow)) == (2, 2)

    lab.run(main)


def test_async_computed_that_calls_another_waits_for_it_by_being_run_again(lab: Lab) -> None:
    count = lab.app.cell("count", 1)

    @lab.app.computed
    async def first() -> int:
        found = count.value
        await pause(10)
        return found

    @lab.app.computed
    async def second() -> int:
        found = first()
        await pause(10)
        return found * 10

    @lab.app.sink
    def show() -> None:
        lab.note(second())

    async def main() -> None:
        async with lab.open() as space:
            assert lab.taken() == [(20, 10)]
            count.value = 2
            await space.settle()
            assert lab.taken() == [(40, 20)]

    lab.run(main)
    assert lab.errors == []


def test_change_of_a_plain_computed_begins_the_run_anew_only_if_its_result_differs(lab: Lab) -> None:
    count = lab.app.cell("count", 1)

    @lab.app.computed
    def parity() -> int:
        return count.value % 2

    @lab.app.sink
    async def show() -> None:
        found = parity()
        lab.note("begins", found)
        await pause(100)

    async def main() -> None:
        async with lab.open() as space:
            lab.taken()
            count.value = 2
            await pause(50)
            count.value = 4
            await space.settle()
            assert lab.taken() == [(100, "begins", 0)]

    lab.run(main)
