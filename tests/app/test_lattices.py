"""Graphs that are deeper than the stack and wide as well: each function is asked for by several, in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from tests.support.halves import examples

Row = Sequence[Callable[[], int]]


def lattice(app: hw.App, source: hw.Cell[int], layers: int, width: int) -> list[Row]:
    """Each is made of two of the layer before it."""
    rows: list[Row] = []

    def body(before: Row | None, at: int) -> Callable[[], int]:
        if before is None:
            return lambda: source.value + at
        return lambda: (before[at]() + before[(at + 1) % width]()) % 1009

    for layer in range(layers):
        before = rows[-1] if rows else None
        rows.append([app.computed(name=f"f{layer}_{at}")(body(before, at)) for at in range(width)])
    return rows


def expected(value: int, layers: int, width: int) -> int:
    row = [value + at for at in range(width)]
    for _ in range(layers - 1):
        row = [(row[at] + row[(at + 1) % width]) % 1009 for at in range(width)]
    return sum(row)


@pytest.mark.parametrize(("layers", "width"), [(80, 25), (200, 4), (90, 2)])
def test_a_sink_sees_all_of_it_at_its_first_run(layers: int, width: int) -> None:
    app = hw.App("lattice")
    source = app.cell("source", 1)
    rows = lattice(app, source, layers, width)
    seen: list[int] = []
    told: list[hw.UserCodeError] = []

    @app.sink
    def show() -> None:
        seen.append(sum(each() for each in rows[-1]))

    with app.open("memory:", on_error=told.append) as space:
        source.value = 2
        assert told == []
        assert seen == [expected(1, layers, width), expected(2, layers, width)]
        assert set(space.stats.runs.values()) == {2}


@pytest.mark.parametrize("asks", ["call", "event", "eager", "async"])
def test_every_way_to_ask(asks: str) -> None:
    layers, width = 80, 12
    app = hw.App("lattice")
    source = app.cell("source", 1)
    rows = lattice(app, source, layers, width)
    told: list[hw.UserCodeError] = []

    def total() -> int:
        return sum(each() for each in rows[-1])

    if asks == "eager":
        app.computed(name="total", eager=True)(total)
        with app.open("memory:", on_error=told.append) as space:
            assert space.cell("lattice.total").value == expected(1, layers, width)
    elif asks == "event":
        handler = app.handler(name="act")(total)
        with app.open("memory:", on_error=told.append):
            assert handler.send().result("60s") == expected(1, layers, width)
    elif asks == "call":
        with app.open("memory:", on_error=told.append):
            assert total() == expected(1, layers, width)
    else:
        seen: list[int] = []

        @app.sink
        async def show() -> None:
            seen.append(total())

        async def main() -> None:
            async with app.aopen("memory:", on_error=told.append) as space:
                await space.settle()

        asyncio.run(main())
        assert seen == [expected(1, layers, width)]
    assert told == []


@settings(max_examples=examples(60), deadline=None)
@given(
    graph=st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=4), min_size=2, max_size=30),
    nested=st.integers(2, 6),
    values=st.lists(st.integers(0, 3), max_size=3),
)
def test_any_graph_with_little_stack(graph: list[list[int]], nested: int, values: list[int]) -> None:
    """Number n is made of some with smaller numbers; the stack has room for a few."""
    app = hw.App("graph")
    source = app.cell("source", 1)
    functions: list[Callable[[], int]] = []

    def body(above: list[int]) -> Callable[[], int]:
        return lambda: 1 + sum(functions[each]() for each in above) % 1009 if above else source.value

    graph = [[each % number for each in above] if number else [] for number, above in enumerate(graph)]
    functions += [app.computed(name=f"f{number}")(body(above)) for number, above in enumerate(graph)]
    seen: list[list[int]] = []
    told: list[hw.UserCodeError] = []
    app.sink(name="show")(lambda: seen.append([each() for each in reversed(functions)]))

    def naive(value: int) -> list[int]:
        found: list[int] = []
        for above in graph:
            found.append(1 + sum(found[each] for each in above) % 1009 if above else value)
        return found[::-1]

    with mock.patch("headwater.scheduler.runs.pull.NESTED_MAX", nested), app.open("memory:", on_error=told.append):
        assert seen[-1] == naive(1)
        for value in values:
            source.value = value
            assert seen[-1] == naive(value)
    assert told == []
