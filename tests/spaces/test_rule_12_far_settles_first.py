"""Rule 12: after a write, the space that is read settles first; spaces that read each other take turns."""

from __future__ import annotations

import asyncio

import pytest

import headwater as hw
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
        assert len([text for text in told if "settle" in text]) == 1


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


def test_a_circle_of_calls_is_told_as_one() -> None:
    one, two = hw.App("one"), hw.App("two")

    @one.computed
    def ask() -> int:
        return answer() + 1

    @two.computed
    def answer() -> int:
        return ask() + 1

    with (
        one.open("memory:", on_error="log"),
        two.open("memory:", on_error="log"),
        pytest.raises(hw.UserCodeError, match="reads itself, directly or through what it calls"),
    ):
        ask()
