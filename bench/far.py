"""Table `far`: what it costs that a function reads another space, beside the same in one space.

Times are processor time, measured in turns in one process, by means. Runs are counted: they are exact.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import headwater as hw
from bench.table import Table

WRITES: Final = 200
TURNS: Final = 15
READS: Final = 1_000
RESTORED: Final = 3_000
CHANGED: Final = 5


class Program(NamedTuple):
    """Apps in the order of opening, the cell that is written, and what the sink has shown."""

    apps: list[hw.App]
    cell: hw.Cell[int]
    shown: list[int]


def measure(table: Table) -> None:
    """All rows."""
    _writes(table)
    _many_reads(table)
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


def _compared(programs: list[Program], writes: int) -> tuple[list[float], list[int]]:
    """Microseconds of one write of each, and the runs of each sink."""
    with ExitStack() as stack:
        for program in programs:
            for app in program.apps:
                stack.enter_context(app.open("memory:"))
            _written(program.cell, writes)
        took: list[list[float]] = [[] for _ in programs]
        for _ in range(TURNS):
            for index, program in enumerate(programs):
                took[index].append(_written(program.cell, writes))
        return [statistics.mean(each) for each in took], [len(program.shown) for program in programs]


def _written(cell: hw.Cell[int], writes: int) -> float:
    started = time.process_time()
    for _ in range(writes):
        cell.value += 1
    return (time.process_time() - started) / writes * 1e6


def _writes(table: Table) -> None:
    programs = [_program(far=False), _program(far=True), _program(far=True, through=True)]
    (near, cell, function), runs = _compared(programs, WRITES)
    table.add("write, computed, sink, all in one space", f"{near:.1f} us")
    table.add("  the cell in another space", f"{cell:.1f} us, {cell / near:.2f}x", "1.3x", cell / near <= 1.3)
    table.add("  the computed in another space, too", f"{function:.1f} us, {function / near:.2f}x")
    expected = WRITES * (TURNS + 1) + 1
    table.add("  runs of each sink", str(runs), str(expected), runs == [expected] * 3)


def _many_reads(table: Table) -> None:
    writes = 10
    (near, far), runs = _compared([_wide(far=False), _wide(far=True)], writes)
    table.add(f"a sink with {READS:,} reads in its space, one write", f"{near:.0f} us")
    table.add("  the reads in another space", f"{far:.0f} us, {far / near:.2f}x", "1.5x", far / near <= 1.5)
    expected = writes * (TURNS + 1) + 1
    table.add("  runs of each sink", str(runs), str(expected), runs == [expected] * 2)


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
