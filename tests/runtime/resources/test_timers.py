"""Timers of a space: by the clock that nobody sets, and by the one on the wall."""

from __future__ import annotations

from headwater.runtime.timers import Timers


class Clocks:
    def __init__(self) -> None:
        self.now = 100.0
        self.wall = 5000.0
        self.log: list[str] = []
        self.timers = Timers(lambda: self.now, lambda: self.wall)

    def advance(self, ms: float) -> list[str]:
        """Both clocks, as time does; then what was done."""
        self.now += ms
        self.wall += ms
        self.timers.fire()
        log, self.log = self.log, []
        return log


def test_what_is_due_is_done_once_in_the_order_of_its_time() -> None:
    clocks = Clocks()
    for ms, name in ((30, "c"), (10, "a"), (10, "b")):
        clocks.timers.wait(ms, lambda name=name: clocks.log.append(name))  # type: ignore[misc]  # bound now
    assert clocks.timers.due_in() == 10
    assert clocks.advance(9) == []
    assert clocks.advance(1) == ["a", "b"]
    assert clocks.timers.due_in() == 20
    assert clocks.advance(1000) == ["c"]
    assert clocks.timers.due_in() is None
    assert clocks.advance(1000) == []


def test_one_that_is_cancelled_wakes_nobody() -> None:
    clocks = Clocks()
    timer = clocks.timers.wait(10, lambda: clocks.log.append("a"))
    clocks.timers.wait(30, lambda: clocks.log.append("b"))
    assert len(clocks.timers) == 2
    timer.cancel()
    assert (len(clocks.timers), clocks.timers.due_in()) == (1, 30)
    assert clocks.advance(50) == ["b"]


def test_a_wait_is_as_long_as_it_is_whoever_sets_the_clock_and_a_date_is_a_date() -> None:
    clocks = Clocks()
    clocks.timers.wait(100, lambda: clocks.log.append("wait"))
    clocks.timers.at(5100, lambda: clocks.log.append("date"))
    clocks.wall -= 1000
    assert clocks.timers.due_in() == 100
    assert clocks.advance(100) == ["wait"]
    assert clocks.timers.due_in() == 1000
    clocks.wall += 2000
    assert clocks.timers.due_in() == 0
    assert clocks.advance(0) == ["date"]


def test_a_time_by_both_clocks_comes_with_the_first_of_them_and_once() -> None:
    clocks = Clocks()
    clocks.timers.by(5100, lambda: clocks.log.append("back"))
    clocks.wall -= 1000
    assert (len(clocks.timers), clocks.timers.due_in()) == (1, 100)
    assert clocks.advance(100) == ["back"]
    assert (len(clocks.timers), clocks.advance(5000)) == (0, [])
    clocks.timers.by(clocks.wall + 100, lambda: clocks.log.append("forward"))
    clocks.wall += 1000
    assert clocks.advance(0) == ["forward"]
    assert clocks.advance(5000) == []


def test_what_is_set_while_others_are_done_waits_for_the_next_time() -> None:
    clocks = Clocks()

    def again() -> None:
        clocks.log.append("again")
        clocks.timers.wait(0, again)

    clocks.timers.wait(0, again)
    assert clocks.advance(0) == ["again"]
    assert clocks.advance(0) == ["again"]
    clocks.timers.clear()
    assert clocks.advance(0) == []
