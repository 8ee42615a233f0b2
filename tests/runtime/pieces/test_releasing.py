"""A piece that is stopped releases everything: counts are as they were, however often, and memory does not grow."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import headwater as hw
from tests.runtime.pieces.kit import check_held, held

ROUNDS = 1000


class Item(hw.Doc):
    title: str


@hw.pattern
def part(p: hw.Builder, number: int) -> hw.Computed[[], int]:
    @p.computed
    def squared() -> int:
        return number * number

    return squared


@hw.pattern
def busy(p: hw.Builder, number: int, scale: hw.Cell[int]) -> dict[str, Any]:
    n = p.cell("n", number)
    item = p.doc("item", Item)
    inner = p.start(part, "inner", number=number)

    @p.computed
    def row(index: int) -> int:
        return n.value * index * scale.value

    @p.computed
    def total() -> int:
        return row(1) + row(2) + inner.outputs() + len(hw.start(part, "child", number=number).key)

    @p.sink
    def show() -> None:
        total()

    @p.handler
    def more() -> int:
        n.value += 1
        return n.value

    return {"total": total, "more": more, "item": item}


@pytest.mark.slow
def test_counts_return_to_their_start_after_many_rounds() -> None:
    app = hw.App("t")
    scale = app.cell("scale", 1)
    with app.open("memory:") as space:
        space.start(busy, "first", number=1, scale=scale).stop()
        space.sync()
        before = held(space), space.stats.documents, len(space.scheduler.graph.index.docs)
        for number in range(ROUNDS):
            piece = space.start(busy, f"k{number}", number=number, scale=scale)
            if not number % 50:
                assert held(space).running == 3
                check_held(space)
            piece.stop()
        space.sync()
        assert (held(space), space.stats.documents, len(space.scheduler.graph.index.docs)) == before
        assert not space.scheduler.origins
        check_held(space)


@pytest.mark.slow
def test_memory_does_not_grow_with_pieces_that_were_stopped(tmp_path: Path) -> None:
    app = hw.App("t")
    scale = app.cell("scale", 1)

    def rounds(space: hw.Space, start: int) -> int:
        for number in range(start, start + 60):
            space.start(busy, f"k{number}", number=number, scale=scale).stop()
        space.sync()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    with app.open(tmp_path / "t.db") as space:
        rounds(space, 0)
        tracemalloc.start()
        try:
            taken = [rounds(space, start) for start in range(60, 420, 60)]
        finally:
            tracemalloc.stop()
        # In one round a thread of the store may make a table or a buffer anew; a leak grows in every round.
        growth = median(after - before for before, after in itertools.pairwise(taken))
        assert growth < 60 * 100, "not even a hundred bytes for each"


@pytest.mark.slow
def test_the_same_piece_may_come_and_go_as_often_as_it_likes() -> None:
    app = hw.App("t")
    scale = app.cell("scale", 1)
    with app.open("memory:") as space:
        piece = space.start(busy, "k", number=1, scale=scale)
        total = piece.outputs["total"]
        for _ in range(ROUNDS):
            piece.stop()
            assert space.start(busy, "k", number=1, scale=scale) is piece
        assert (piece.generation, held(space).running, total()) == (1, 3, 9)
        check_held(space)


def test_children_that_come_and_go_leave_nothing() -> None:
    app = hw.App("t")
    number = app.cell("number", 0)

    @app.sink
    def keep() -> None:
        hw.start(part, str(number.value), number=number.value)

    with app.open("memory:") as space:
        before = held(space)
        for each in range(1, ROUNDS + 1):
            number.value = each
        assert held(space) == before
        space.sync()
        assert space.stats.documents < 10
        check_held(space)
