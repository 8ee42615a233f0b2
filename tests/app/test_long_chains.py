"""Chains of functions that are longer than Python's stack."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable

import pytest

import headwater as hw
from headwater.cells.pending_commit import PendingCommit
from headwater.errors import UserCodeError
from headwater.host.storage import GROUP_MAX

LENGTH = 600


def chain(app: hw.App, source: hw.Cell[int], length: int, name: str) -> list[Callable[[], int]]:
    """Each adds one to the one before it."""
    links: list[Callable[[], int]] = []

    def link(number: int) -> Callable[[], int]:
        def body() -> int:
            return (links[number - 1]() if number else source.value) + 1

        return body

    links += [app.computed(name=f"{name}{number}")(link(number)) for number in range(length)]
    return links


def test_chain_longer_than_the_stack_is_run_from_its_end_once_for_each_change() -> None:
    app = hw.App("chain")
    source = app.cell("source", 0)
    links = chain(app, source, LENGTH, "link")
    seen: list[int] = []
    entered: list[None] = []

    def show() -> None:
        entered.append(None)
        seen.append(links[-1]())

    app.sink(name="show")(show)
    with app.open("memory:") as space:
        source.value = 5
        assert seen == [LENGTH, LENGTH + 5]
        assert len(entered) == 2  # a sink is never stopped half-way
        assert set(space.stats.runs.values()) == {2}


def test_function_that_turns_to_a_long_chain_it_did_not_read_before_is_not_lost() -> None:
    app = hw.App("chain")
    source, far = app.cell("source", 0), app.cell("far", False)
    links = chain(app, source, LENGTH, "link")
    seen: list[int] = []

    @app.computed
    def either() -> int:
        return links[-1]() if far.value else -1

    app.sink(name="show")(lambda: seen.append(either()))
    with app.open("memory:"):
        far.value = True
        source.value = 1
    assert seen == [-1, LENGTH, LENGTH + 1]


def test_error_at_the_far_end_of_a_chain_reaches_the_caller_and_ends_with_its_cause() -> None:
    app = hw.App("chain")
    source = app.cell("source", 0)
    links = chain(app, source, LENGTH, "link")

    @app.computed
    def risky() -> int:
        if not source.value:
            raise ZeroDivisionError("not yet")
        return links[-1]()

    with app.open("memory:"):
        with pytest.raises(ZeroDivisionError, match="not yet"):
            risky()
        source.value = 1
        assert risky() == LENGTH + 1


def test_circle_longer_than_the_stack_is_found() -> None:
    app = hw.App("circle")
    links: list[Callable[[], int]] = []

    def link(number: int) -> Callable[[], int]:
        return lambda: links[(number + 1) % LENGTH]() + 1

    links += [app.computed(name=f"link{number}")(link(number)) for number in range(LENGTH)]
    with app.open("memory:"), pytest.raises(UserCodeError, match="reads itself"):
        links[0]()


def test_long_pass_does_not_keep_the_commits_of_its_runs() -> None:
    """They are decided in groups while it goes on. Kept until its end, each collection of garbage would visit them."""
    app = hw.App("chain")
    source = app.cell("source", 0)
    links = chain(app, source, LENGTH, "link")
    waiting: list[int] = []
    with app.open("memory:") as space:

        @app.sink
        def show() -> None:
            links[-1]()
            waiting.append(space._opening.replica.pending_count)

        waiting.clear()
        for number in range(1, 4):
            source.value = number
        assert len(waiting) == 3
        # A group that is being written, one that waits, and those that ran since the last look.
        assert max(waiting) <= 3 * GROUP_MAX
        gc.collect()
        kept = Counter(type(each) for each in gc.get_objects())
        assert kept[PendingCommit] <= 3 * GROUP_MAX, "a version holds the commits that made it, and they none"
        assert kept[hw.Transaction] <= 3 * GROUP_MAX
