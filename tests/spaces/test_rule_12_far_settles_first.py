"""Rule 12: after a write, the space that is read settles first; spaces that read each other take turns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw
from headwater.testing import probe
from tests.app.shop import run


def test_a_function_that_reads_two_spaces_runs_once_for_a_write_that_reaches_it_both_ways() -> None:
    one, two, three = hw.App("one"), hw.App("two"), hw.App("three")
    n = one.cell("n", 1)
    seen: list[tuple[int, int]] = []

    @two.computed
    def doubled() -> int:
        return n.value * 2

    @three.sink
    def show() -> None:
        seen.append((n.value, doubled()))

    with one.open("memory:"), three.open("memory:", on_error="log"), two.open("memory:"):
        n.value = 2
        n.value = 3
    assert seen == [(1, 2), (2, 4), (3, 6)]


def test_spaces_whose_functions_read_each_other_in_a_chain_are_exact() -> None:
    one, two = hw.App("one"), hw.App("two")
    n = one.cell("n", 1)
    ran: list[str] = []

    @two.computed
    def second() -> int:
        ran.append("second")
        return n.value + 1

    @one.computed
    def third() -> int:
        ran.append("third")
        return n.value + second()

    @two.sink
    def fourth() -> None:
        ran.append(f"fourth {third() + second()}")

    with one.open("memory:"), two.open("memory:"):
        ran.clear()
        n.value = 2
    assert ran == ["second", "third", "fourth 8"]


def test_a_ring_that_never_settles_backs_off_and_is_reported_once() -> None:
    one, two = hw.App("one"), hw.App("two")
    a, b = one.cell("a", 0), two.cell("b", 0)

    @one.sink
    def forth() -> None:
        a.value = b.value + 1

    @two.sink
    def back() -> None:
        b.value = a.value + 1

    told: list[str] = []
    with two.open("memory:", on_error=lambda error: told.append(str(error))) as first:
        with one.open("memory:", on_error=lambda error: told.append(str(error))) as second:
            ran = first.runs(back), second.runs(forth)
            assert max(ran) <= 12
            assert a.value >= 9
            resting = [
                node.name
                for space in (first, second)
                for node in space._opening.scheduler.registry.nodes
                if node.gate is not None and node.gate.backoff_ms
            ]
            assert resting
        assert [text.partition(", each time")[0] for text in told if "settle" in text] == [
            "HW150: back() and forth() of space 'main' do not settle: they ran 10 times in turn"
        ]


def _ring() -> tuple[hw.App, hw.App]:
    """Two apps whose sinks each write what the other one reads."""
    one, two = hw.App("one"), hw.App("two")
    a, b = one.cell("a", 0), two.cell("b", 0)

    @one.sink
    def forth() -> None:
        a.value = b.value + 1

    @two.sink
    def back() -> None:
        b.value = a.value + 1

    return one, two


def test_a_ring_rests_longer_each_time_and_is_reported_once() -> None:
    one, two = _ring()
    with probe(one, two) as t:
        first, sizes = t.spaces[0], list[int]()
        for _ in range(10):
            before = sum(first.stats.runs.values())
            t.advance("250ms")
            sizes.append(sum(first.stats.runs.values()) - before)
        # Rested 250 ms, 500 ms, 1 s: most of these moments have no run.
        assert sum(size == 0 for size in sizes) >= 5
        assert max(sizes) <= 12
        assert len([error for error in t.errors if "do not settle" in str(error)]) == 1


@pytest.mark.parametrize("is_together", [True, False])
def test_a_ring_in_an_event_loop_rests_and_lets_other_tasks_run(*, is_together: bool) -> None:
    one, two = _ring()
    told: list[str] = []

    def note(error: Exception) -> None:
        told.append(str(error))

    async def main() -> None:
        openings = one.opening("memory:", on_error=note), two.opening("memory:", on_error=note)
        if is_together:
            async with hw.together(*openings) as spaces:
                await spaces[0].settle()
        else:
            async with two.aopen("memory:", on_error=note), one.aopen("memory:", on_error=note) as space:
                await space.settle()

    run(main())
    assert len([text for text in told if "do not settle: they ran 10 times in turn" in text]) == 1


def test_in_an_event_loop_the_same_happens_between_awaits() -> None:
    prices, basket = hw.App("prices"), hw.App("basket")
    tea, count = prices.cell("tea", 4), basket.cell("count", 3)
    seen: list[int] = []

    @prices.computed
    def with_tax() -> int:
        return tea.value * 12

    @basket.computed
    def total() -> int:
        return count.value * with_tax()

    @basket.sink
    async def show() -> None:
        await asyncio.sleep(0)
        seen.append(total())

    async def main() -> None:
        async with prices.aopen("memory:") as far, basket.aopen("memory:") as near:
            await near.settle()
            tea.value = 5
            # Read your own writes, before any pass.
            assert total() == 180
            await far.settle()
            await near.settle()
            tea.value = 5
            count.value = 1
            await near.settle()
            assert (far.runs(with_tax), near.runs(total)) == (2, 3)

    run(main())
    assert seen == [144, 180, 60]


def test_a_circle_of_calls_is_told_as_one(tmp_path: Path) -> None:
    one, two = hw.App("one"), hw.App("two")

    @one.computed
    def ask() -> int:
        return answer() + 1

    @two.computed
    def answer() -> int:
        return ask() + 1

    with (
        one.open(f"{tmp_path}/", space="one", on_error="log"),
        two.open(f"{tmp_path}/", space="two", on_error="log"),
        pytest.raises(hw.UserCodeError) as caught,
    ):
        ask()
    circle = "ask() of space 'one' calls answer() of space 'two' calls ask() of space 'one'"
    assert f"ask() reads itself: {circle}; a value cannot be made of itself" in str(caught.value)


def test_a_circle_of_calls_in_one_space_is_named() -> None:
    app = hw.App("one")

    @app.computed
    def left() -> int:
        return right()

    @app.computed
    def right() -> int:
        return middle()

    @app.computed
    def middle() -> int:
        return right()

    with app.open("memory:", on_error="log"), pytest.raises(hw.UserCodeError) as caught:
        left()
    assert "right() reads itself: right() calls middle() calls right(); a value" in str(caught.value)
