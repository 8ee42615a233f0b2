"""Rows of table `reactive` that are counts: they are exact, and the same on every machine."""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Final

import headwater as hw
from bench.apart import apart
from bench.table import Table
from headwater.cells.pending_commit import Mark
from headwater.scheduler.graph.reader_index import ReaderIndex
from headwater.values.address import doc_key
from headwater.values.ids import DocKey
from headwater.values.notifications import Change

COMPUTATIONS: Final = 20_000
STATM: Final = Path("/proc/self/statm")

VISITS: Final = "visits"
LIVE_WRITES: Final = "live_writes"


def measure(table: Table) -> None:
    """All rows."""
    _dormant(table)
    _cutoff(table)
    _index(table)
    _chain(table)
    _remount(table)
    _memory(table)


def _during(space: hw.Space, counter: str, work: Callable[[], None]) -> int | None:
    """By how much a count of the scheduler grows; None if it does not count that."""
    before = _count(space, counter)
    work()
    after = _count(space, counter)
    return None if before is None or after is None else after - before


def _count(space: hw.Space, counter: str) -> int | None:
    return getattr(space.scheduler.get_stats(), counter, None)


def _add_pair(table: Table, name: str, few: float | None, many: float | None, limit: str, holds: bool) -> None:
    if few is None or many is None:
        table.add(name, "not counted", limit)
    else:
        table.add(name, f"{few:.3g}, {many:.3g}", limit, holds)


def _runs(space: hw.Space) -> int:
    return sum(space.stats.runs.values())


# --- runs -------------------------------------------------------------------------------------------------------


def _dormant(table: Table) -> None:
    """Each has run once, because somebody asked; nobody looks at it any more."""
    app = hw.App("bench")
    cells = [app.cell(f"cell{number}", 0) for number in range(1000)]
    computeds = [app.computed(name=f"computed{n}")(plus_one(cells[n % 1000])) for n in range(100_000)]

    def write() -> None:
        for cell in cells:
            cell.value += 1

    with app.open("memory:") as space:
        for computed in computeds:
            computed()
        before = _runs(space)
        reads = _looks(space, write)
        runs = _runs(space) - before
    figure = f"{runs} runs, {reads} documents read"
    table.add(
        "100,000 computations nobody looks at, 1,000 writes to what they read", figure, "0", not runs and not reads
    )


def _looks(space: hw.Space, work: Callable[[], None]) -> int:
    """How often a transaction looks at a document. Writes of single cells have none."""
    looks = 0
    hold = space._opening.replica.snapshot

    def counted(doc: DocKey) -> Mark:
        nonlocal looks
        looks += 1
        return hold(doc)

    space._opening.replica.snapshot = counted  # type: ignore[method-assign]  # counted, not changed
    try:
        work()
    finally:
        del space._opening.replica.snapshot
    return looks


def plus_one(cell: hw.Cell[int]) -> Callable[[], int]:
    def plus_one() -> int:
        return cell.value + 1

    return plus_one


def _cutoff(table: Table) -> None:
    (few_runs, few), (many_runs, many) = _cutoff_of(10), _cutoff_of(10_000)
    name = "a result that stays the same, 10 readers, 10,000"
    table.add(f"{name}: runs", f"{few_runs}, {many_runs}", "1", few_runs == many_runs == 1)
    _add_pair(table, f"{name}: places visited", few, many, "equal", few == many)


def _cutoff_of(readers: int) -> tuple[int, int | None]:
    app = hw.App("bench")
    cell = app.cell("cell", 1)
    sign = app.computed(name="sign")(lambda: cell.value > 0)

    def look() -> None:
        sign()

    for number in range(readers):
        app.sink(name=f"sink{number}")(look)

    def write() -> None:
        cell.value += 1

    with app.open("memory:") as space:
        write()
        before = _runs(space)
        visits = _during(space, VISITS, write)
        return _runs(space) - before, visits


def _chain(table: Table) -> None:
    app = hw.App("bench")
    cell = app.cell("cell", 0)
    frames: list[int] = []

    def first() -> int:
        frame, count = sys._getframe(), 1
        while frame.f_back is not None:
            frame, count = frame.f_back, count + 1
        frames.append(count)
        return cell.value

    def after(above: Callable[[], int]) -> Callable[[], int]:
        def following() -> int:
            return above() + 1

        return following

    last = app.computed(first)
    for number in range(1, 10_000):
        last = app.computed(name=f"computed{number}")(after(last))
    shown: list[int] = []
    show = app.sink(name="show")(lambda: shown.append(last()))
    with app.open("memory:") as space:
        before = _runs(space) - space.runs(show)
        cell.value = 1
        runs = _runs(space) - space.runs(show) - before
    assert shown == [9_999, 10_000], "the end of the chain is shown"
    figure = f"{runs:,} runs, {frames[-1]} frames deep"
    table.add("chain of 10,000, one write", figure, "10,000 runs, < 100 frames", runs == 10_000 and frames[-1] < 100)


# --- the index, and who is looked at ----------------------------------------------------------------------------


def _index(table: Table) -> None:
    (few, _), (many, right) = _visits(1), _visits(100_000)
    figure = f"{few}, {many} places visited"
    name = "10 reads in 1 document, 1,000,000 in 100,000; one place changes"
    table.add(name, figure, "equal, <= 10", right and few == many <= 10)


def _visits(documents: int) -> tuple[int, bool]:
    """How many places one change visits, and whether it found its reader and no other."""
    index: ReaderIndex[int] = ReaderIndex()
    for document in range(documents):
        key = doc_key(f"item:{document}")
        for field in range(10):
            index.add(key, (f"field{field}",), False, 10 * document + field)
    middle = documents // 2
    before = index.visits
    found = index.match(Change(doc_key(f"item:{middle}"), ("field7",), 1, 2))
    return index.visits - before, found == [10 * middle + 7]


def _remount(table: Table) -> None:
    few, many = _live_writes(10), _live_writes(40)
    name = "a card leaves a list of 10, of 40, or comes back: nodes written"
    _add_pair(table, name, few, many, "equal, <= 1", few == many and (many or 0) <= 1)


def _live_writes(count: int) -> float | None:
    """For each card that comes or goes: one after the other, and then all at once."""
    app = hw.App("bench")
    shown = app.cell("shown", list(range(count)))
    cards = [app.computed(name=f"card{n}")(plus_one(app.cell(f"title{n}", n))) for n in range(count)]

    @app.sink
    def board() -> None:
        for number in shown.value:
            cards[number]()

    def remount() -> None:
        for number in range(count):
            others = [other for other in shown.value if other != number]
            shown.value = others
            shown.value = [*others, number]
        shown.value = []
        shown.value = list(range(count))

    with app.open("memory:") as space:
        written = _during(space, LIVE_WRITES, remount)
    return None if written is None else written / (4 * count)


# --- memory -----------------------------------------------------------------------------------------------------


def _memory(table: Table) -> None:
    for name, traced in (("Python's", True), ("the process's", False)):
        if traced or STATM.exists():
            each = apart(120, computation_bytes, traced=traced) or 0.0
            stored = apart(120, cell_bytes, traced=traced) or 0.0
            title = f"memory of a computation with one read that has run ({name})"
            table.add(title, f"{each - stored:,.0f} B", "<= 1,638 B", 0 < each - stored <= (1638 if traced else 2560))
            table.add("besides, its stored result: as a cell that was written once", f"{stored:,.0f} B")


def computation_bytes(*, traced: bool) -> float:
    """What one takes, with its result in the memory store. The cells it reads and the function are there before."""
    app = hw.App("bench")
    cells = [app.cell(f"cell{number}", 0) for number in range(COMPUTATIONS)]
    functions = [plus_one(cell) for cell in cells]
    with app.open("memory:") as space:
        for cell in cells:
            cell.value += 1
        before = _memory_used(space, traced=traced)
        computeds = [app.computed(name=f"computed{number}")(fn) for number, fn in enumerate(functions)]
        for computed in computeds:
            computed()
        return (_memory_used(space, traced=traced) - before) / COMPUTATIONS


def cell_bytes(*, traced: bool) -> float:
    """What a cell takes that was written: in the store and in the replica."""
    app = hw.App("bench")
    cells = [app.cell(f"cell{number}", 0) for number in range(COMPUTATIONS)]
    with app.open("memory:") as space:
        before = _memory_used(space, traced=traced)
        for cell in cells:
            cell.value += 1
        return (_memory_used(space, traced=traced) - before) / COMPUTATIONS


def _memory_used(space: hw.Space, *, traced: bool) -> int:
    space.sync()
    gc.collect()
    if not traced:
        return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    return tracemalloc.get_traced_memory()[0]
