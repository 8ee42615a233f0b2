"""Table `reactive`: what a write and all that follows from it cost, beside libraries of signals and beside the floor.

These keep nothing: no transactions, no log, no documents. Processor time, of all threads, is compared and not the time
on the wall: it counts the store's own thread, and leaves out whatever else the machine does. Ratios are those of the
means, so that folding the log counts; the minima are shown beside them.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final, NamedTuple, TypeAlias

from bench import reactive_counts
from bench.apart import apart
from bench.peers.engine import Counted, Engine, Headwater, OnFile
from bench.peers.floor import Floor
from bench.peers.libraries import Observ, Reaktiv, Signe
from bench.reactive_shapes import CUTOFF, SHAPES, Graph, Shape, Wide
from bench.table import Table, is_compiled

Make: TypeAlias = type[Engine]

ENGINES: Final[tuple[Make, ...]] = (Headwater, OnFile, Reaktiv, Signe, Observ, Floor)
LIBRARIES: Final = ("reaktiv", "signe", "observ")
PATIENCE_S: Final = 10.0
LINGER_S: Final = 0.06
"""The storage's thread looks for more commits for so long after the last."""
RECURSION: Final = 400_000
STACK_BYTES: Final = 1 << 30
"""Libraries follow a chain by recursion: without both of these none of them gets through the long one."""


class Effort(NamedTuple):
    """How long is measured: so many commits of ours, but no longer than that; others do as many writes, or stop there.

    Shapes with few commits and many runs are cut short by the time; but none has fewer than the least rounds.
    """

    rounds: int
    rounds_min: int
    commits: int
    ours_s: float
    peer_s: float


WHOLE: Final = Effort(6, 3, 20_000, 1.6, 0.5)
QUICK: Final = Effort(4, 1, 2_000, 0.3, 0.15)


class Limits(NamedTuple):
    """Of ratios, ours to theirs."""

    reaktiv: float
    worst: float
    signe: float
    observ: float
    file: float = 1.2


COMPILED: Final = Limits(0.8, 1.2, 2.5, 4.0)
PURE: Final = Limits(1.1, 1.5, math.inf, math.inf)


def measure(table: Table) -> None:
    """All rows."""
    _deeply(lambda: _shapes(table, ENGINES, WHOLE))
    _wide(table, "4-1000x12, 5 % dynamic", Wide(250, 12, 4, 0.05), Wide(1000, 12, 4, 0.05))
    _wide(table, "6-100x15, 50 % dynamic", Wide(25, 15, 6, 0.5), Wide(100, 15, 6, 0.5))
    if not is_compiled():
        # Counts replace methods of the core, and are the same on both forms.
        reactive_counts.measure(table)


def measure_quickly(table: Table) -> None:
    """The shapes beside reaktiv alone, with a tenth of the commits: noisy, and not checked."""
    _deeply(lambda: _shapes(table, (Headwater, Reaktiv), QUICK))


def _deeply(work: Callable[[], None]) -> None:
    """In a thread with a large stack."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # raised below, in the thread that waits
            failures.append(error)

    limit, stack = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(RECURSION)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        threading.stack_size(stack)
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
    for failure in failures:
        raise failure


# --- shapes -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ratios:
    """Ours to another's by shape, and what it does not get right."""

    means: list[float] = field(default_factory=list)
    minima: list[float] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)

    def add(self, ours: _Turns, other: _Turns) -> None:
        """One more shape."""
        self.means.append(ours.mean_us / other.mean_us)
        self.minima.append(ours.best_us / other.best_us)


def _shapes(table: Table, engines: Sequence[Make], effort: Effort) -> None:
    limits = COMPILED if is_compiled() else PURE
    ratios: dict[str, Ratios] = {}
    for shape in SHAPES:
        _shape(table, shape, engines, effort, limits, ratios)
    _summary(table, limits, ratios)
    # Ahead by three powers of ten: in the mean it would hide all others.
    _shape(table, CUTOFF, engines, effort, limits, {})


def _shape(
    table: Table, shape: Shape, engines: Sequence[Make], effort: Effort, limits: Limits, ratios: dict[str, Ratios]
) -> None:
    """One row."""
    mistakes = {} if effort is QUICK else _mistakes(engines, shape)
    if own := [f"{name}: {mistakes[name]}" for name in ("headwater", "file") if name in mistakes]:
        table.add(shape.name, "; ".join(own), "right", False)
        return
    ours, *others = _in_turns(shape, [make for make in engines if make.name not in mistakes], effort)
    parts = [f"{_us(ours.mean_us)} us ({_us(ours.best_us)}), {ours.commits:,} commits"]
    for other in others:
        ratio = ratios.setdefault(other.engine.name, Ratios())
        if other.engine.name == "file":
            ratio.add(other, ours)
        else:
            ratio.add(ours, other)
        parts.append(f"{other.engine.name} {_times(ratio.means[-1])} ({_times(ratio.minima[-1])})")
    for name, mistake in mistakes.items():
        ratios.setdefault(name, Ratios()).mistakes.append(f"{shape.name.partition(':')[0]} ({mistake})")
        parts.append(f"{name}: {mistake}")
    worst = ratios["reaktiv"].means[-1]
    table.add(shape.name, "; ".join(parts), f"<= {limits.worst}x reaktiv", worst <= limits.worst)


def _summary(table: Table, limits: Limits, ratios: dict[str, Ratios]) -> None:
    form = "compiled" if is_compiled() else "pure Python"
    for name, limit in (("reaktiv", limits.reaktiv), ("signe", limits.signe), ("observ", limits.observ)):
        if name in ratios:
            found = ratios[name]
            title = f"geometric mean of the {len(found.means)} ratios to {name} {version(name)}, {form}"
            _add_mean(table, title, found, limit)
            if found.mistakes:
                table.add(f"{name} does not get right", ", ".join(found.mistakes))
    if "file" in ratios:
        _add_mean(table, "a SQLite file over memory:, geometric mean", ratios["file"], limits.file)


def _add_mean(table: Table, title: str, found: Ratios, limit: float) -> None:
    mean, least = geometric_mean(found.means), geometric_mean(found.minima)
    figure = f"{mean:.2f}x, worst {max(found.means):.2f}x; by minima {least:.2f}x"
    if math.isinf(limit):
        table.add(title, figure)
    else:
        table.add(title, figure, f"<= {limit}x", mean <= limit)


def geometric_mean(ratios: Iterable[float]) -> float:
    """Of ratios the one that says nothing about which of two is the measure."""
    logs = list(map(math.log, ratios))
    return math.exp(sum(logs) / len(logs))


def _us(figure: float) -> str:
    return f"{figure:.1f}" if figure < 100 else f"{figure:.0f}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.1g}x"


def _tidy() -> None:
    """What lives by now is not looked through for garbage in what is measured next: most of it is another engine's."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _mistakes(engines: Iterable[Make], shape: Shape) -> dict[str, str]:
    """By the name of an engine, what it does not do as it must."""
    return {make.name: mistake for make in engines if (mistake := mistake_of(make(), shape.smaller or shape))}


def mistake_of(engine: Engine, shape: Shape) -> str:
    """What an engine does not do as it must; none if it does."""
    with closing(Counted(engine)) as counted:
        graph = shape.build(counted)
        for number in range(1, 5):
            before = counted.runs
            graph.write(number)
            if counted.runs - before not in shape.runs:
                return f"{counted.runs - before} runs, not {shape.runs[0]}"
            if not graph.is_right(number):
                return "wrong"
    return ""


@dataclass(slots=True)
class _Turns:
    """One engine with its graph, and its rounds so far."""

    engine: Engine
    graph: Graph
    number: int = 0
    rounds: int = 0
    writes: int = 0
    spent_s: float = 0.0
    best_us: float = math.inf
    commits: int = 0

    @property
    def mean_us(self) -> float:
        return self.spent_s / self.writes * 1e6

    def round(self, count: int) -> None:
        """So many writes, measured."""
        _tidy()
        write, first = self.graph.write, self.number + 1
        self.number += count
        before = self._made()
        start = time.process_time()
        for number in range(first, first + count):
            write(number)
        self.engine.rest()
        spent = time.process_time() - start
        self.commits += self._made() - before
        self.rounds += 1
        self.writes += count
        self.spent_s += spent
        self.best_us = min(self.best_us, spent / count * 1e6)

    def _made(self) -> int:
        return self.engine.commits if isinstance(self.engine, Headwater) else 0

    def calibrate(self, effort: Effort, writes: int | None) -> int:
        """How many writes a round has, at most as many as given. The first ones are slower, and do not count."""
        count = 1
        self.round(1)
        self.forget()
        while self.spent_s < min(0.01, effort.peer_s / effort.rounds):
            self.round(count)
            count *= 2
        is_ours = isinstance(self.engine, Headwater)
        least = (effort.ours_s if is_ours else effort.peer_s) / effort.rounds / self.spent_s * self.writes
        if is_ours and self.commits:
            writes = math.ceil(effort.commits / effort.rounds / self.commits * self.writes)
        self.forget()
        return max(1, min(round(least), writes or round(least)))

    def forget(self) -> None:
        """Begin anew."""
        self.rounds, self.writes, self.spent_s, self.best_us, self.commits = 0, 0, 0.0, math.inf, 0

    def is_enough(self, effort: Effort) -> bool:
        """A write that takes as long as a round should is a round by itself, and there need not be many."""
        if self.rounds < effort.rounds_min:
            return False
        if isinstance(self.engine, Headwater):
            return self.commits >= effort.commits or self.spent_s > effort.ours_s
        return self.rounds >= effort.rounds or self.spent_s > effort.peer_s


def _in_turns(shape: Shape, engines: Iterable[Make], effort: Effort) -> list[_Turns]:
    """A round of each engine after the other, so that noise hits all."""
    with ExitStack() as stack:
        turns: list[_Turns] = []
        counts: list[int] = []
        for make in engines:
            engine = stack.enter_context(closing(make()))
            turns.append(_Turns(engine, shape.build(engine)))
            counts.append(turns[-1].calibrate(effort, counts[0] if counts else None))
        while not all(each.is_enough(effort) for each in turns):
            for each, count in zip(turns, counts, strict=True):
                if each.is_enough(effort):
                    continue
                each.round(count)
                if isinstance(each.engine, Headwater):
                    time.sleep(LINGER_S)
        gc.unfreeze()
        return turns


# --- wide graphs ------------------------------------------------------------------------------------------------


def wide_us(make: Make, wide: Wide) -> float:
    """Processor time for each function that runs, if all sources change."""
    with closing(Counted(make())) as engine:
        write = wide.build(engine)
        write(1)
        engine.rest()
        best = math.inf
        for number in range(2, 5):
            _tidy()
            before, start = engine.runs, time.process_time()
            write(number)
            engine.rest()
            best = min(best, (time.process_time() - start) / (engine.runs - before) * 1e6)
        gc.unfreeze()
        return best


def _wide(table: Table, name: str, narrow: Wide, wide: Wide) -> None:
    """The library is not quick enough to be compared: that our time grows with what runs, and no faster, is shown."""
    small, large = wide_us(Headwater, narrow), wide_us(Headwater, wide)
    gc.disable()
    alone = wide_us(Headwater, wide) / wide_us(Headwater, narrow)
    gc.enable()
    figure = f"{_us(small)} us, {_us(large)} us: {large / small:.2f}x, without gc {alone:.2f}x"
    title = f"wide {name}: one run, at width {narrow.width}, at {wide.width}"
    table.add(title, figure, "<= 1.3x", large / small <= 1.3)
    peer = apart(PATIENCE_S, wide_us, Reaktiv, wide)
    table.add("the same, reaktiv", f"gave up after {PATIENCE_S:.0f} s" if peer is None else f"{_us(peer)} us")
