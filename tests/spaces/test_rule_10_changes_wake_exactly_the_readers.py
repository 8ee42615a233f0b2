"""Rule 10: a change of a far document wakes the functions that read it, and no other."""

from __future__ import annotations

from unittest.mock import patch

import headwater as hw
from headwater.runtime.opening import Opening


def runtime(space: hw.Space) -> Opening:
    return space._opening


def test_only_readers_of_the_changed_part_run() -> None:
    near, far = hw.App("near"), hw.App("far")
    record = far.cell("record", {"a": 1, "b": 2})
    other = far.cell("other", 0)
    ran: list[str] = []

    @near.sink
    def show_a() -> None:
        ran.append(f"a={record.key('a').value}")

    @near.sink
    def show_b() -> None:
        ran.append(f"b={record.key('b').value}")

    with far.open("memory:"), near.open("memory:"):
        record.value = {"a": 2, "b": 2}
        ran.clear()
        record.key("a").value = 5
        other.value = 1
        record.key("b").value = 2
        assert ran == ["a=5"]


def test_an_equal_result_of_a_far_function_wakes_nothing() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    ran: list[bool] = []

    @far.computed
    def is_odd() -> bool:
        return n.value % 2 == 1

    @near.sink
    def show() -> None:
        ran.append(is_odd())

    with far.open("memory:") as there, near.open("memory:"):
        n.value = 3
        n.value = 4
        assert (ran, there.runs(is_odd)) == ([True, False], 3)


def test_a_document_with_the_same_name_in_another_space_is_another_read() -> None:
    near, one, two = hw.App("near"), hw.App("far"), hw.App("far")
    first, second, uses_first = one.cell("n", 1), two.cell("n", 10), near.cell("uses_first", default=True)
    shown: list[int] = []

    @near.sink
    def show() -> None:
        shown.append(first.value if uses_first.value else second.value)

    with one.open("memory:"), two.open("memory:"), near.open("memory:"):
        first.value = 2
        uses_first.value = False
        second.value = 11
        assert shown == [1, 2, 10, 11]
        first.value = 3
        assert shown == [1, 2, 10, 11]


def test_a_far_document_that_is_not_read_costs_one_lookup_and_no_notice() -> None:
    near, far = hw.App("near"), hw.App("far")
    read, unread = far.cell("read", 1), far.cell("unread", 1)

    @near.sink
    def show() -> None:
        assert read.value

    with far.open("memory:"), near.open("memory:") as here:
        told: list[object] = []
        bridge = next(iter(runtime(here).bridges.out.values()))
        with patch.object(runtime(here), "notice", told.append):
            unread.value = 2
            assert told == []
            read.value = 2
            assert told == [bridge.there]
        assert list(bridge.keys) == ["space/far.read"]


def test_a_document_that_is_no_longer_read_is_forgotten_with_its_next_change() -> None:
    near, far = hw.App("near"), hw.App("far")
    which, one, two = near.cell("which", "one"), far.cell("one", 1), far.cell("two", 2)

    @near.sink
    def show() -> None:
        assert (one if which.value == "one" else two).value

    with far.open("memory:"), near.open("memory:") as here:
        bridge = next(iter(runtime(here).bridges.out.values()))
        assert set(bridge.keys) == {"space/far.one"}
        which.value = "two"
        one.value = 5
        assert set(bridge.keys) == {"space/far.two"}
        which.value = "one"
        assert here.runs(show) == 3
        one.value = 6
        assert here.runs(show) == 4


def test_a_program_with_one_space_has_no_bridge() -> None:
    app = hw.App("app")
    n = app.cell("n", 1)

    @app.computed
    def double() -> int:
        return n.value * 2

    with app.open("memory:") as space:
        assert double() == 2
        scheduler = runtime(space).scheduler
        assert (scheduler.runner.far, scheduler.invalidation.abroad, scheduler.graph.on_writers) == (None, None, None)


def test_a_failure_there_and_its_end_reach_callers_here() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    seen: list[str] = []

    @far.computed
    def checked() -> int:
        if n.value < 0:
            raise ValueError(n.value)
        return n.value

    @near.sink
    def show() -> None:
        try:
            seen.append(str(checked()))
        except ValueError as error:
            seen.append(f"fails with {error}")

    with far.open("memory:", on_error="log"), near.open("memory:"):
        n.value = -1
        n.value = -2
        n.value = 1
        n.value = 4
    assert seen == ["1", "fails with -1", "fails with -2", "1", "4"]
