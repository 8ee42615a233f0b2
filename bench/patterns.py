"""Table `patterns`: what pieces, lists and resources cost: first what is counted, then what takes time and memory.

A small piece is one cell, one computed and one sink. Times are processor time of all threads, so the store's own thread
is in them, and what else the machine does is not; time on the wall is told beside it.
"""

from __future__ import annotations

import gc
import tempfile
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import headwater as hw
from bench import pattern_counts
from bench.apart import apart, traced
from bench.pattern_counts import small
from bench.table import Table

PIECES: Final = 10_000
RESUMED: Final = 1_000
TRACED: Final = 3_000
"""With every allocation written down, which takes several times as long."""
QUARTERS: Final = 4


def measure(table: Table) -> None:
    """All rows."""
    pattern_counts.measure(table)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        _starting(table, place)
        _resuming(table, place)
        _memory(table, place)


def opened(path: Path) -> hw.Space:
    """A space on a file, in which what is made once, at first use, is made."""
    space = hw.App("bench").open(path)
    for number in range(50):
        space.start(small, f"before {number}", n=number).stop()
    space.sync()
    gc.collect()
    return space


# --- time ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds for each piece."""

    quarters: list[float]
    """Of starting, processor time: the first quarter of them, the next, ..."""
    wall: float
    stop: float
    runs: float
    """Of functions, for each piece."""
    commits: float


def started(path: Path, pieces: int, *, collects: bool = True) -> Took:
    """Start so many in turn, wait until all of that is on disk, and stop them. Perhaps without looking for garbage."""
    if not collects:
        gc.disable()
    with opened(path) as space:
        quarters: list[float] = []
        found = []
        runs, commits = space.scheduler.get_stats().runs, space.stats.commits
        wall = time.perf_counter()
        for quarter in range(QUARTERS):
            share = pieces // QUARTERS
            begun = time.process_time()
            found += [space.start(small, str(n), n=n) for n in range(quarter * share, (quarter + 1) * share)]
            space.sync()
            quarters.append((time.process_time() - begun) / share * 1e3)
        wall = (time.perf_counter() - wall) / pieces * 1e3
        runs, commits = space.scheduler.get_stats().runs - runs, space.stats.commits - commits
        begun = time.process_time()
        for piece in found:
            piece.stop()
        space.sync()
        stop = (time.process_time() - begun) / pieces * 1e3
    return Took(quarters, wall, stop, runs / pieces, commits / pieces)


def _starting(table: Table, place: Path) -> None:
    took = apart(600, started, place / "started.db", PIECES)
    alone = apart(600, started, place / "uncollected.db", PIECES, collects=False)
    what = f"{PIECES:,} small pieces on a file"
    if took is None or alone is None:
        table.add(f"{what}: starting one", "gave up after 600 s", "< 1.5 ms", False)
        return
    figure = f"{took.runs:.2f} runs, {took.commits:.2f} commits"
    table.add(f"{what}: for each", figure, "2 runs, 2 commits", took.runs == took.commits == 2)
    each = sum(took.quarters) / QUARTERS
    table.add(f"{what}: starting one", f"{each:.2f} ms, on the wall {took.wall:.2f}", "< 1.5 ms", each < 1.5)
    ratio, bare = took.quarters[-1] / took.quarters[0], alone.quarters[-1] / alone.quarters[0]
    figure = f"{', '.join(f'{quarter:.2f}' for quarter in took.quarters)} ms: {ratio:.2f}x, without gc {bare:.2f}x"
    table.add("the same, in quarters: the last over the first", figure, "<= 1.5x, 1.3x", ratio <= 1.5 and bare <= 1.3)
    table.add("the same: stopping one", f"{took.stop:.3f} ms")


@dataclass(frozen=True, slots=True)
class Resumed:
    """What going on with pieces took that another process had started."""

    runs: int
    """Of their computeds."""
    drawn: int
    """Of their sinks: a new process has a new screen."""
    commits: int
    each_ms: float


def resumed(path: Path, pieces: int) -> Resumed:
    """Start them under the same keys, with the same inputs."""
    with hw.App("bench").open(path) as space:
        commits, begun = space.stats.commits, time.process_time()
        found = [space.start(small, str(n), n=n) for n in range(pieces)]
        each = (time.process_time() - begun) / pieces * 1e3
        assert [piece.outputs() for piece in found] == [2 * n for n in range(pieces)]
        counts = space.stats.runs
        return Resumed(counts["doubled"], counts["show"], space.stats.commits - commits, each)


def left_running(path: Path, pieces: int) -> int:
    """Start them, and close the space."""
    with hw.App("bench").open(path) as space:
        return len([space.start(small, str(n), n=n) for n in range(pieces)])


def _resuming(table: Table, place: Path) -> None:
    path = place / "resumed.db"
    assert apart(300, left_running, path, RESUMED) == RESUMED
    found = apart(300, resumed, path, RESUMED)
    assert found is not None
    figure = f"{found.runs}, {found.drawn:,}, {found.commits}"
    title = f"{RESUMED:,} pieces in a new process: runs of computeds, of sinks; commits"
    table.add(title, figure, f"0, {RESUMED:,}, 0", (found.runs, found.drawn, found.commits) == (0, RESUMED, 0))
    table.add("the same: going on with one", f"{found.each_ms:.2f} ms")


# --- memory -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that Python has handed out and not got back since the process began: code, too."""

    empty: int
    """An open space in which some pieces were started and stopped."""
    full: int
    """With all of them."""
    stopped: int
    """All of them stopped, and synced."""
    again: int
    """So many others started and stopped, and synced."""


def memory(path: Path, pieces: int) -> Memory:
    """Of pieces that are started under keys of their own, twice."""
    with opened(path) as space:
        empty = _used(space)
        found = [space.start(small, f"first {n}", n=n) for n in range(pieces)]
        full = _used(space)
        while found:
            found.pop().stop()
        stopped = _used(space)
        found = [space.start(small, f"second {n}", n=n) for n in range(pieces)]
        while found:
            found.pop().stop()
        return Memory(empty, full, stopped, _used(space))


def _used(space: hw.Space) -> int:
    space.sync()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _memory(table: Table, place: Path) -> None:
    with traced():
        found = apart(600, memory, place / "memory.db", TRACED)
    assert found is not None
    each = (found.full - found.empty) / TRACED
    what = f"memory of {TRACED:,} small pieces (Python's count)"
    table.add(f"{what}: one", f"{each:,.0f} B")
    figure = f"{found.empty / 1e3:,.0f}, {found.full / 1e3:,.0f}, {found.stopped / 1e3:,.0f} KB"
    is_back = found.stopped <= 1.05 * found.empty
    table.add("the same: the process before, with them, with them stopped", figure, "<= +5% of before", is_back)
    # Told beside it: how much stays of what the pieces took, and that more of the same take no more.
    stays = found.stopped - found.empty
    share = stays / (found.full - found.empty)
    table.add("the same: what stays, of what they took", f"{stays / 1e3:,.0f} KB: {share:.1%}", "<= 5%", share <= 0.05)
    more = found.again / found.stopped - 1
    figure = f"{found.again / 1e3:,.0f} KB: {more:+.1%}"
    table.add("the same: so many others, stopped; over those before", figure, "<= +5%", more <= 0.05)
