"""Table `resume`: what an opening takes over from the one before, what it costs, and what it costs to keep it.

Times are processor time of all threads, in one run; where the disk is waited for, the clock on the wall is shown too.
What keeping costs is measured by running the same program with and without.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import headwater as hw
from bench.apart import apart
from bench.reactive_counts import STATM
from bench.store import CountingVFS, through
from bench.table import Table
from headwater.runtime.restore import Restorer
from headwater.scheduler.runs.persistence import Persistence
from headwater.store.document import Documents
from headwater.store.state_cache import StateCache

COMPUTATIONS: Final = int(os.environ.get("HEADWATER_BENCH_RESUMED", "100000"))
TRACED: Final = 20_000
"""For memory: counting it takes four times as long."""
TAIL: Final = 8_000
"""Commits that no fold has taken in: almost as many as there can be."""
ROWS: Final = 1_000
EDITS: Final = int(os.environ.get("HEADWATER_BENCH_EDITS", "10000"))
"""Of the reference app: half a minute. With fewer of them the shares are larger, because what is kept of a run is
written out only the first time."""


def measure(table: Table) -> None:
    """All rows."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        _clean(table, place)
        _cone(table, place)
        _memory(table)
        _crash(table, place)
        _growth(table, place)


# --- taking over --------------------------------------------------------------------------------------------------


class Spent(NamedTuple):
    """Seconds."""

    cpu: float
    wall: float

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.cpu - other.cpu, self.wall - other.wall)


NO_TIME: Final = Spent(0.0, 0.0)


def _now() -> Spent:
    return Spent(time.process_time(), time.perf_counter())


class Wide:
    """Computations with one read each, of a cell of their own."""

    def __init__(self, width: int) -> None:
        self.app = app = hw.App("bench")
        self.cells = [app.cell(f"cell{number}", 0) for number in range(width)]
        self.computeds = [app.computed(name=f"plus{n}")(_plus_one(cell)) for n, cell in enumerate(self.cells)]

    def run_all(self, space: hw.Space) -> Spent:
        """Run all, until they are on disk. What they read is there before."""
        with space.transaction():
            for cell in self.cells:
                cell.value = 1
        space.sync()
        gc.collect()
        begun = _now()
        for computed in self.computeds:
            computed()
        space.sync()
        return _now() - begun


def _plus_one(cell: hw.Cell[int]) -> Callable[[], int]:
    return lambda: cell.value + 1


@dataclass(slots=True)
class Taken:
    """One taking over: how long, and how many documents were looked at for it."""

    spent: Spent = NO_TIME
    documents: int = 0
    is_on: bool = False


@contextmanager
def _watched() -> Iterator[Taken]:
    """Measure the next one."""
    taken = Taken()
    take_over, at, get = Restorer.take_over, Documents.at, StateCache.get

    def timed(self: Restorer, *args: Any) -> None:
        gc.collect()
        taken.is_on = True
        begun = _now()
        take_over(self, *args)
        taken.spent = _now() - begun
        taken.is_on = False

    def counted(self: Documents, *args: Any) -> Any:
        taken.documents += taken.is_on
        return at(self, *args)

    def got(self: StateCache, *args: Any) -> Any:
        taken.documents += taken.is_on
        return get(self, *args)

    looks = patch.object(Documents, "at", counted), patch.object(StateCache, "get", got)
    with patch.object(Restorer, "take_over", timed), looks[0], looks[1]:
        yield taken


def _clean(table: Table, place: Path) -> None:
    path = str(place / "wide.db")
    first = Wide(COMPUTATIONS)
    with first.app.open(path) as space:
        ran = first.run_all(space)
    del first
    again = Wide(COMPUTATIONS)
    with _watched() as taken, again.app.open(path) as space:
        restored = space.explain_resume().restored
        for computed in again.computeds:
            computed()
        runs = sum(space.stats.runs.values())
    what = f"{COMPUTATIONS:,} clean computations, one read each"
    figure = f"{runs} runs, {taken.documents} documents, {restored:,} restored"
    is_clean = not runs and not taken.documents and restored == COMPUTATIONS
    table.add(f"{what}: runs, documents looked at", figure, "0, 0", is_clean)
    spent = taken.spent
    each = spent.cpu / COMPUTATIONS * 1e6
    table.add(f"{what}: taking them over", f"{each:.1f} us each", "< 8 us", each < 8)
    waited = ran.wall / spent.wall
    figure = f"{ran.cpu / COMPUTATIONS * 1e6:.0f} us each: {ran.cpu / spent.cpu:.1f}x, on the wall {waited:.1f}x"
    table.add("the same, running them once: processor time", figure, ">= 20x", ran.cpu >= 20 * spent.cpu)


def _cone(table: Table, place: Path) -> None:
    """One input is changed by somebody who runs nothing."""
    path = str(place / "wide.db")
    asked = COMPUTATIONS // 2
    with hw.App("somebody_else").open(path) as space:
        space.cell(f"bench.cell{asked}", int).value = 41
    again = Wide(COMPUTATIONS)
    with _watched() as taken, again.app.open(path) as space:
        told = space.explain_resume()
        results = [computed() for computed in again.computeds]
        ran = [name for name, count in space.stats.runs.items() if count]
    right = ran == [f"plus{asked}"] and results[asked] == 42 and told.dirty == 1
    figure = f"{len(ran)} ran, {told.restored:,} restored, {taken.documents} documents"
    table.add(f"one changed input among {COMPUTATIONS:,}", figure, "its cone: 1", right)


# --- memory -------------------------------------------------------------------------------------------------------


def _memory(table: Table) -> None:
    for name, traced in (("Python's count", True), ("the process's size", False)):
        if traced or STATM.exists():
            with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
                path = str(Path(folder) / "memory.db")
                ran = apart(300, opened_bytes, path, traced=traced, fill=True) or 0.0
                resumed = apart(300, opened_bytes, path, traced=traced, fill=False) or 0.0
            figure = f"{resumed / TRACED:,.0f} B, {ran / TRACED:,.0f} B when run"
            table.add(f"memory of a restored computation ({name})", figure, "as when run", 0 < resumed <= ran)


def opened_bytes(path: str, *, traced: bool, fill: bool) -> float:
    """What an open space takes, after all have run, or were restored."""
    wide = Wide(TRACED)
    before = _used(traced=traced)
    with wide.app.open(path) as space:
        if fill:
            wide.run_all(space)
        assert sum(space.stats.runs.values()) == (TRACED if fill else 0)
        return _used(traced=traced) - before


def _used(*, traced: bool) -> int:
    gc.collect()
    if not traced:
        return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    return tracemalloc.get_traced_memory()[0]


# --- after a crash ------------------------------------------------------------------------------------------------


def _crash(table: Table, place: Path) -> None:
    path = str(place / "crash.db")
    child = get_context("spawn").Process(target=run_and_die, args=(path,))
    child.start()
    child.join()
    again = Wide(TAIL)
    start = time.perf_counter()
    with _watched() as taken, again.app.open(path) as space:
        opened = time.perf_counter() - start
        for computed in again.computeds:
            computed()
        runs = sum(space.stats.runs.values())
    figure = f"{runs} runs, {taken.spent.wall * 1e3:.0f} ms of {opened * 1e3:.0f} ms for opening"
    table.add(f"killed with {TAIL:,} results in the tail of the log", figure, "0 runs", runs == 0)


def run_and_die(path: str) -> None:
    """Run all, and end as a killed process does."""
    wide = Wide(TAIL)
    wide.run_all(wide.app.open(path).__enter__())
    os._exit(0)


# --- what keeping costs -------------------------------------------------------------------------------------------


class Item(hw.Doc):
    """A row."""

    name: str
    price: int = 100
    count: int = 1
    rate: int = 19
    weight: int = 300
    stock: int = 5


class Reference:
    """A table of rows; of each row ten computations, some of which read others."""

    def __init__(self) -> None:
        self.app = app = hw.App("shop")
        net = app.computed(name="net")(lambda item: item.price * item.count)
        tax = app.computed(name="tax")(lambda item: net(item) * item.rate // 100)
        gross = app.computed(name="gross")(lambda item: net(item) + tax(item))
        load = app.computed(name="load")(lambda item: item.weight * item.count)
        postage = app.computed(name="postage")(lambda item: 500 + load(item) // 10)
        total = app.computed(name="total")(lambda item: gross(item) + postage(item))
        missing = app.computed(name="missing")(lambda item: max(0, item.count - item.stock))
        days = app.computed(name="days")(lambda item: 3 + missing(item))
        label = app.computed(name="label")(lambda item: f"{item.count} x {item.name}")
        self.line = app.computed(name="line")(lambda item: f"{label(item)}: {total(item)}, {days(item)} days")

    def use(self, space: hw.Space) -> None:
        """Make the rows, look at all of them, and edit one after the other; whoever depends on it runs."""
        with space.transaction():
            rows = [Item(name=f"item {number}") for number in range(ROWS)]
        for row in rows:
            self.line(row)
        space.sync()
        for number in range(EDITS):
            row = rows[number * 7 % ROWS]
            row.count += 1 + number % 3
            self.line(row)
            if not number % 20:
                space.sync()


@dataclass(slots=True)
class Cost:
    """What a store has come to: bytes of the log's entries, bytes written to disk, the file when it is closed."""

    commits: int
    log: int
    written: int
    file: int


def _cost(path: Path, *, keeps: bool) -> Cost:
    vfs, reference = CountingVFS(), Reference()
    counted, opening = through(vfs), reference.app
    with counted, _keeping(keeps=keeps), opening.open(str(path)) as space:
        reference.use(space)
        commits = space.stats.seq
    vfs.unregister()
    with sqlite3.connect(path) as db:
        [[log]] = db.execute("select sum(length(body)) from log").fetchall()
    return Cost(commits, log, vfs.written, path.stat().st_size)


@contextmanager
def _keeping(*, keeps: bool) -> Iterator[None]:
    """Without: functions that say they cannot be told apart."""
    if keeps:
        yield
        return
    with patch.object(Persistence, "_body", lambda *_, **__: None):
        yield


def _growth(table: Table, place: Path) -> None:
    kept, bare = _cost(place / "kept.db", keeps=True), _cost(place / "bare.db", keeps=False)
    what = f"{ROWS:,} rows, 10 computations each, {EDITS:,} edits"
    table.add(f"{what}: commits", f"{kept.commits:,}, {bare.commits:,} if nothing is kept")

    def add(name: str, mine: float, other: float) -> None:
        share = mine / other - 1
        table.add(f"the same: {name}", f"{mine:,.0f} B, {other:,.0f} B: {share:+.1%}", "<= +25%", share <= 0.25)

    add("a commit in the log", kept.log / kept.commits, bare.log / bare.commits)
    add("written to disk for a commit", kept.written / kept.commits, bare.written / bare.commits)
    add("the file", kept.file, bare.file)
