"""Table `far`: what it costs that a function reads another space, beside the same in one space.

Times are processor time, measured in turns in one process. Of the turns, the median counts, and of the ratios of each
turn their median: other work on the machine then disturbs both programs of a turn. Runs are counted: they are exact.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from operator import truediv
from pathlib import Path
from typing import Final, NamedTuple

import headwater as hw
from bench.table import Table

WRITES: Final = 200
TURNS: Final = 31
READS: Final = 1_000
RESTORED: Final = 3_000
CHANGED: Final = 5


class Program(NamedTuple):
    """Apps in the order of opening, the cell that is written, and what the sink has shown."""

    apps: list[hw.App]
    cell: hw.Cell[int]
    shown: list[int]


class Town(hw.Doc):
    country: int
    size: int


def measure(table: Table) -> None:
    """All rows."""
    _writes(table)
    _many_reads(table)
    _queries(table)
    _restart(table)


def _program(*, far: bool, through: bool = False) -> Program:
    near = hw.App("near")
    other = hw.App("far") if far else near
    cell, shown = other.cell("n", 0), list[int]()

    @(other if through else near).computed
    def above() -> int:
        return cell.value + 1

    @near.sink
    def show() -> None:
        shown.append(above())

    return Program([other, near] if far else [near], cell, shown)


def _wide(*, far: bool) -> Program:
    near = hw.App("near")
    other = hw.App("far") if far else near
    cells, shown = [other.cell(f"n{number}", 0) for number in range(READS)], list[int]()

    @near.sink
    def show() -> None:
        shown.append(sum([cell.value for cell in cells]))

    return Program([other, near] if far else [near], cells[READS // 2], shown)


class Compared(NamedTuple):
    """Of each program: microseconds of a write, the ratio to the first program, and the runs of its sink."""

    took: list[float]
    ratios: list[float]
    runs: list[int]


def _compared(programs: list[Program], writes: int) -> Compared:
    with ExitStack() as stack:
        for program in programs:
            for app in program.apps:
                stack.enter_context(app.open("memory:"))
            _written(program.cell, writes)
        took: list[list[float]] = [[] for _ in programs]
        for _ in range(TURNS):
            for index, program in enumerate(programs):
                took[index].append(_written(program.cell, writes))
        ratios = [statistics.median(map(truediv, each, took[0])) for each in took]
        return Compared([statistics.median(each) for each in took], ratios, [len(each.shown) for each in programs])


def _written(cell: hw.Cell[int], writes: int) -> float:
    started = time.process_time()
    for _ in range(writes):
        cell.value += 1
    return (time.process_time() - started) / writes * 1e6


def _writes(table: Table) -> None:
    programs = [_program(far=False), _program(far=True), _program(far=True, through=True)]
    (near, cell, function), (_, far, through), runs = _compared(programs, WRITES)
    table.add("write, computed, sink, all in one space", f"{near:.1f} us")
    table.add("  the cell in another space", f"{cell:.1f} us, {far:.2f}x", "1.3x", far <= 1.3)
    table.add("  the computed in another space, too", f"{function:.1f} us, {through:.2f}x")
    expected = WRITES * (TURNS + 1) + 1
    table.add("  runs of each sink", str(runs), str(expected), runs == [expected] * 3)


def _many_reads(table: Table) -> None:
    writes = 10
    (near, far), (_, ratio), runs = _compared([_wide(far=False), _wide(far=True)], writes)
    table.add(f"a sink with {READS:,} reads in its space, one write", f"{near:.0f} us")
    table.add("  the reads in another space", f"{far:.0f} us, {ratio:.2f}x", "1.5x", ratio <= 1.5)
    expected = writes * (TURNS + 1) + 1
    table.add("  runs of each sink", str(runs), str(expected), runs == [expected] * 2)


def _asking(*, far: bool, stack: ExitStack) -> tuple[hw.Space, list[tuple[int, int]]]:
    """The space of a collection with rows, and what a sink has shown that asks for their number and the first ones."""
    near = hw.App("near")
    other = hw.App("far") if far else near
    towns, shown = other.collection(Town, indexes=[(Town.country, Town.size)]), list[tuple[int, int]]()
    here = towns.where(Town.country == 1)

    @near.sink
    def show() -> None:
        shown.append((here.count(), len(here.order_by(Town.size).limit(5).ids())))

    home = stack.enter_context(other.open("memory:"))
    if far:
        stack.enter_context(near.open("memory:"))
    with home.transaction():
        towns.insert_many([{"country": number % 2, "size": number} for number in range(2 * READS)])
    return home, shown


def _queries(table: Table) -> None:
    took: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        programs = [_asking(far=False, stack=stack), _asking(far=True, stack=stack)]
        for turn in range(TURNS):
            for index, (home, _) in enumerate(programs):
                started = time.process_time()
                for number in range(READS // 50):
                    with home.transaction():
                        Town(country=1, size=-turn * READS - number)
                took[index].append((time.process_time() - started) / (READS // 50) * 1e6)
        near, far, ratio = *map(statistics.median, took), statistics.median(map(truediv, took[1], took[0]))
        table.add("a sink with two queries of 1,000 documents in its space, one insert", f"{near:.0f} us")
        table.add("  the collection in another space", f"{far:.0f} us, {ratio:.2f}x", "1.5x", ratio <= 1.5)
        shown = [each[1][-1] for each in programs]
        expected = (READS + TURNS * (READS // 50), 5)
        table.add("  what each sink has shown last", str(shown), str(expected), shown == [expected] * 2)


def _readers() -> tuple[hw.App, hw.App, list[hw.Cell[int]], list[Callable[[], int]]]:
    far, near = hw.App("far"), hw.App("near")
    cells = [far.cell(f"c{number}", 0) for number in range(RESTORED)]

    def reader(cell: hw.Cell[int]) -> Callable[[], int]:
        return lambda: cell.value + 1

    functions = [near.computed(name=f"f{number}", version=1)(reader(cell)) for number, cell in enumerate(cells)]
    return far, near, cells, list(functions)


def _restart(table: Table) -> None:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        far, near, cells, functions = _readers()
        with far.open(place / "far.db") as there, near.open(place / "near.db"):
            with there.transaction():
                for cell in cells:
                    cell.value = 1
            for function in functions:
                function()
        runs, loaded, took = _reopened(place)
        table.add(
            f"{RESTORED:,} functions with one far read each, restored", f"{took:.1f} us each", "25 us", took <= 25
        )
        table.add("  runs, far documents loaded", f"{runs}, {loaded}", "0, 0", (runs, loaded) == (0, 0))
        far, _, cells, _ = _readers()
        with far.open(place / "far.db"):
            for cell in cells[:CHANGED]:
                cell.value = 2
        runs, _, _ = _reopened(place)
        table.add(f"  {CHANGED} far cells changed meanwhile: runs", str(runs), str(CHANGED), runs == CHANGED)


def _reopened(place: Path) -> tuple[int, int, float]:
    """Runs, far documents loaded by the opening, and microseconds for each function."""
    far, near, _, functions = _readers()
    with far.open(place / "far.db") as there:
        before = there.stats.documents
        started = time.process_time()
        with near.open(place / "near.db") as here:
            took = (time.process_time() - started) / RESTORED * 1e6
            loaded = there.stats.documents - before
            for function in functions:
                function()
            return sum(here.runs(function) for function in functions), loaded, took
