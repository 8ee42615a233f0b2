"""A handler sees far results as of now (I4): far functions that are not current run before it, or it waits."""

from __future__ import annotations

import headwater as hw


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
