"""Threads that share one opening: nothing is missed, nothing runs twice at once, and nobody is told nonsense."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import headwater as hw
from headwater.core import doc_key
from headwater.errors import UserCodeError
from headwater.store.commit import SetDoc
from tests.app.holding import SAFETY_S, in_thread


class Shop:
    def __init__(self) -> None:
        self.app = hw.App("shop")
        self.count = self.app.cell("count", 0)
        self.shown: list[int] = []

    def slip_in(self, space: hw.Space, value: int) -> None:
        """What a thread does that commits in the middle of a run, without waiting for what follows."""
        space._opening.replica.commit([SetDoc(doc_key("shop.count"), value)])


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_change_that_comes_while_a_sink_is_running_for_the_first_time_is_shown(shop: Shop) -> None:
    spaces: list[hw.Space] = []
    on = shop.app.cell("on", False)

    @shop.app.sink
    def show() -> None:
        if on.value:
            shop.shown.append(shop.count.value)
            if shop.count.value == 0:
                shop.slip_in(spaces[0], 5)

    with shop.app.open("memory:") as space:
        spaces.append(space)
        on.value = True
        assert shop.shown == [0, 5]


def test_change_that_comes_while_a_sink_fails_makes_it_run_again(shop: Shop) -> None:
    spaces: list[hw.Space] = []
    errors: list[UserCodeError] = []
    on = shop.app.cell("on", False)

    @shop.app.sink
    def show() -> None:
        if on.value:
            shop.shown.append(shop.count.value)
            if shop.count.value == 0:
                shop.slip_in(spaces[0], 5)
                raise ValueError

    with shop.app.open("memory:") as space:
        spaces.append(space)
        space.on_error = errors.append
        on.value = True
        assert (shop.shown, len(errors)) == ([0, 5], 1)


@pytest.mark.parametrize("stored", [False, True])
def test_change_that_comes_while_a_computed_is_running_is_in_what_the_caller_gets(shop: Shop, *, stored: bool) -> None:
    """Also if the result made from the old value is the same as the one that is stored."""
    spaces: list[hw.Space] = []
    slip = [5]

    @shop.app.computed
    def doubled() -> int:
        seen = shop.count.value
        while slip and spaces:
            shop.slip_in(spaces[0], slip.pop())
        return seen * 2

    with shop.app.open("memory:") as space:
        if stored:
            assert doubled() == 0
            space.cell("shop.unrelated", int).value = 1
            shop.count.value = 1
            shop.count.value = 0
        spaces.append(space)
        assert doubled() == 10


def test_computed_that_never_sees_the_same_twice_is_given_up(shop: Shop) -> None:
    spaces: list[hw.Space] = []

    @shop.app.computed
    def chased() -> int:
        seen = shop.count.value
        shop.slip_in(spaces[0], seen + 1)
        return seen

    with shop.app.open("memory:") as space:
        spaces.append(space)
        with pytest.raises(UserCodeError, match=r"chased\(\) does not settle"):
            chased()


def test_computed_that_one_thread_is_running_is_waited_for_by_another(shop: Shop) -> None:
    started, go_on = threading.Event(), threading.Event()

    @shop.app.computed
    def slow() -> int:
        started.set()
        assert go_on.wait(SAFETY_S)
        return shop.count.value + 1

    with shop.app.open("memory:") as space, ThreadPoolExecutor(2) as pool:
        first = pool.submit(slow)
        assert started.wait(SAFETY_S)
        second = pool.submit(slow)
        go_on.set()
        assert (first.result(SAFETY_S), second.result(SAFETY_S), space.runs(slow)) == (1, 1, 1)


def test_threads_that_write_and_call_leave_everything_up_to_date(shop: Shop) -> None:
    """Switching between threads as often as possible."""
    cells = [shop.app.cell(f"c{number}", 0) for number in range(4)]
    errors: list[UserCodeError] = []

    @shop.app.computed
    def total() -> int:
        return sum(cell.value for cell in cells)

    @shop.app.computed
    def pair() -> int:
        return cells[0].value + cells[total() % 4].value

    @shop.app.sink
    def show() -> None:
        shop.shown.append(total() + pair())

    def work(number: int) -> None:
        for value in range(25):
            cells[number].value = value
            assert pair() >= 0

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with shop.app.open("memory:") as space:
            space.on_error = errors.append
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(work, range(4)))
            assert (total(), shop.shown[-1]) == (96, 96 + 24 + 24)
    finally:
        sys.setswitchinterval(before)
    assert errors == []


def test_space_may_be_closed_by_another_thread(shop: Shop) -> None:
    with shop.app.open("memory:") as space:
        shop.count.value = 1
        in_thread(space.close)
        assert space.closed


def test_space_that_two_threads_close_at_once_is_closed_once(shop: Shop) -> None:
    space, other = shop.app.open("memory:"), shop.app.open("memory:")
    barrier = threading.Barrier(2)

    def close() -> None:
        barrier.wait(SAFETY_S)
        space.close()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(close) for _ in range(2)]:
            done.result(SAFETY_S)
    assert space.closed and not other.closed
    other.close()
