"""What a read of another space costs, in calls of functions: those of one thread, which no other work disturbs.

Table `far` measures the times.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import pytest

import headwater as hw
from bench.counting import calls_of, warm_up

pytestmark = pytest.mark.pure("compiled modules make no calls that can be seen")

READS = 200
NOISE = 20


def calls_of_a_write(*, far: bool, through: bool = False) -> int:
    """A write, a computed that reads it, a sink that shows that: the cell, or both, in another space."""
    near = hw.App("near")
    other = hw.App("far") if far else near
    cell, shown = other.cell("n", 0), list[int]()
    above = (other if through else near).computed(name="above")(lambda: cell.value + 1)
    near.sink(name="show")(lambda: shown.append(above()))
    return counted([other, near] if far else [near], cell)


def calls_of_reads(*, far: bool) -> int:
    """A write to one of the cells that a sink reads."""
    near = hw.App("near")
    other = hw.App("far") if far else near
    cells, shown = [other.cell(f"n{number}", 0) for number in range(READS)], list[int]()
    near.sink(name="show")(lambda: shown.append(sum([cell.value for cell in cells])))
    return counted([other, near] if far else [near], cells[READS // 2])


def calls_beside(bridges: int) -> tuple[int, int, int]:
    """Writes in a space that reads so many others: of a cell here, of one that is read there, of one that is not."""
    near = hw.App("near")
    others = [hw.App(f"far{number}") for number in range(bridges)]
    own, shown = near.cell("own", 0), list[int]()
    near.sink(name="look")(lambda: shown.append(own.value))
    read, unread = [other.cell("read", 0) for other in others], others[0].cell("unread", 0)
    for number, cell in enumerate(read):
        near.sink(name=f"look{number}")(partial(look_at, cell, shown))
    return tuple(counted([*others, near], cell) for cell in (own, read[0], unread))  # type: ignore[return-value]


def look_at(cell: hw.Cell[int], shown: list[int]) -> None:
    shown.append(cell.value)


def counted(apps: list[hw.App], cell: hw.Cell[int]) -> int:
    with ExitStack() as stack:
        spaces = [stack.enter_context(app.open("memory:")) for app in apps]

        def write() -> None:
            cell.value += 1

        warm_up(write)
        for space in spaces:
            space.sync()
        return calls_of(write)


def test_a_cell_in_another_space_costs_less_than_one_and_a_half_writes() -> None:
    near = calls_of_a_write(far=False)
    assert near < calls_of_a_write(far=True) <= 1.4 * near
    assert calls_of_a_write(far=True, through=True) <= 2 * near


def test_many_reads_in_another_space_cost_as_many_calls_as_here() -> None:
    assert calls_of_reads(far=True) <= 1.2 * calls_of_reads(far=False)


def test_a_write_costs_the_same_beside_a_hundred_bridges() -> None:
    # Another thread may decide some of the commits: a few calls more or less.
    for one, hundred in zip(calls_beside(1), calls_beside(100), strict=True):
        assert abs(hundred - one) <= NOISE
