"""Rule 14: a handler sees far results as of now (I4): what is not current runs before it, or the event waits."""

from __future__ import annotations

import asyncio

import pytest

import headwater as hw
from headwater.runtime.options import Options
from headwater.testing import probe


def test_a_dormant_far_function_runs_before_the_handler_reads_it() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)

    @far.computed
    def total() -> int:
        return n.value * 10

    @near.computed
    def above() -> int:
        return total() + 1

    @near.handler
    def ask() -> tuple[int, int]:
        return total(), above()

    with far.open("memory:") as there, near.open("memory:"):
        assert ask.send().result() == (10, 11)
        n.value = 2
        assert there.runs(total) == 1
        assert ask.send().result() == (20, 21)
        assert there.runs(total) == 2


def test_an_event_parks_while_a_far_function_waits_for_its_time() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)

    @far.computed(debounce="1h")
    def slow() -> int:
        return n.value * 10

    @near.handler
    def ask() -> int:
        return slow()

    with far.open("memory:"), near.open("memory:") as here:
        assert ask.send().result("5s") == 10
        n.value = 2
        ticket = ask.send()
        here.settle()
        assert ticket.state == "queued"
        assert "waits for its time" in hw.why(ask)
        assert "main:far.slow()" in hw.why(ask)


def test_a_handler_and_a_computed_that_call_the_same_far_function_agree() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)

    @far.computed
    def total() -> int:
        return n.value * 10

    @near.handler
    def ask() -> int:
        return total()

    @near.computed
    def via() -> int:
        return total() + 1

    with far.open("memory:"), near.open("memory:"):
        assert (total(), via()) == (10, 11)
        n.value = 2
        assert (ask.send().result("5s"), via()) == (20, 21)


def test_an_event_parks_while_something_above_a_far_function_waits_for_its_time() -> None:  # noqa: C901  # three apps
    """What it reads is clean: it is below a function that is not, in that space or in a third one."""
    near, middle, far = hw.App("near"), hw.App("middle"), hw.App("far")
    n = middle.cell("n", 1)
    now = [0.0]

    @far.computed(debounce="1m")
    def slow() -> int:
        return n.value * 10

    @middle.computed(debounce="1m")
    def slow_here() -> int:
        return n.value * 100

    @middle.computed
    def above() -> int:
        return slow() + 1

    @middle.computed
    def above_here() -> int:
        return slow_here() + 1

    @near.handler
    def ask() -> int:
        return above()

    @near.handler
    def ask_there() -> int:
        return above_here()

    middle.sink(name="show")(lambda: (above(), above_here()))
    options = Options(now=lambda: now[0])
    with (
        far.open_with("memory:", options) as third,
        middle.open_with("memory:", options) as second,
        near.open_with("memory:", options) as first,
    ):
        for question, expected in ((ask, 21), (ask_there, 201)):
            n.value = 1
            now[0] += 120_000
            for space in (third, second, first):
                space.settle()
            n.value = 2
            ticket = question.send()
            first.sync()
            first.settle()
            assert not ticket.is_done
            now[0] += 120_000
            for _ in range(3):
                for space in (third, second, first):
                    space.settle()
            assert ticket.result() == expected


def test_an_event_gets_what_is_due_there_though_no_pass_of_that_space_was_first() -> None:
    """The time of a delayed function has come, and its space has not looked at its clock since."""
    near, middle, far = hw.App("near"), hw.App("middle"), hw.App("far")
    n = far.cell("n", 1)
    now = [0.0]

    @far.computed(debounce="1m")
    def slow() -> int:
        return n.value * 10

    @middle.computed
    def above() -> int:
        return slow() + 1

    @near.handler
    def ask() -> int:
        return above()

    middle.sink(name="show")(above)
    options = Options(now=lambda: now[0])
    with (
        far.open_with("memory:", options),
        middle.open_with("memory:", options),
        near.open_with("memory:", options) as first,
    ):
        n.value = 2
        ticket = ask.send()
        first.settle()
        assert not ticket.is_done
        now[0] += 120_000
        first.settle()
        assert ticket.result() == 21


def test_an_event_parks_while_something_far_above_a_far_function_waits_for_its_time() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    now = [0.0]

    @far.computed(debounce="1m")
    def slow() -> int:
        return n.value * 10

    @far.computed
    def middle() -> int:
        return slow() + 1

    @far.computed
    def above() -> int:
        return middle() + 1

    @near.handler
    def ask() -> int:
        return above()

    far.sink(name="show")(above)
    options = Options(now=lambda: now[0])
    with far.open_with("memory:", options) as there, near.open_with("memory:", options) as here:
        n.value = 2
        ticket = ask.send()
        here.settle()
        assert not ticket.is_done
        now[0] += 120_000
        there.settle()
        here.settle()
        assert ticket.result() == 22


def test_an_event_parks_while_the_run_of_a_far_async_function_is_in_progress() -> None:
    near, middle, far = hw.App("near"), hw.App("middle"), hw.App("far")
    n = far.cell("n", 1)
    shown: list[int] = []

    @far.computed
    async def slow() -> int:
        value = n.value
        await asyncio.sleep(1)
        return value * 10

    @middle.computed
    def passed_on() -> int:
        return slow() + 1

    @near.sink
    def show() -> None:
        shown.append(passed_on())

    @near.handler
    def ask() -> int:
        return slow()

    @near.handler
    def ask_middle() -> int:
        return passed_on()

    with probe(far, middle, near) as t:
        t.advance("5s")
        for value in (2, 3):
            n.value = value
            t.advance("200ms")
            # The run of slow() has begun.
            tickets = [ask.send(), ask_middle.send()]
            t.advance("200ms")
            assert [ticket.state for ticket in tickets] == ["queued", "queued"]
            t.advance("5s")
            assert [ticket.result() for ticket in tickets] == [value * 10, value * 10 + 1]
    assert shown == [11, 21, 31]


def test_an_event_waits_only_so_long_for_the_quiet_of_a_far_function() -> None:
    near, middle, far = hw.App("near"), hw.App("middle"), hw.App("far")
    n = far.cell("n", 1)

    @far.computed(debounce="1s")
    def calm() -> int:
        return n.value * 10

    @middle.computed
    def passed_on() -> int:
        return calm() + 1

    @near.handler
    def ask() -> tuple[int, int]:
        return passed_on(), n.value

    with pytest.raises(hw.UserCodeError, match="was run without its quiet"), probe(far, middle, near) as t:
        assert passed_on() == 11
        t.advance("5s")
        n.value = 2
        ticket = ask.send()
        waited = 0
        while ticket.state == "queued":
            t.advance("500ms")
            waited += 1
            n.value += 1
        # Its debounce, and ten seconds; then it runs without.
        assert waited == 22
        found, value = ticket.result()
        assert found == value * 10 + 1
