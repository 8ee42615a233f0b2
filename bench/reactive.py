"""Table `reactive`: what a write and all that follows from it cost, beside a library of signals and beside the floor.

Both of these keep nothing: no transactions, no log, no documents. Processor time, of all threads, is compared and not
the time on the wall: it counts the store's own thread, and leaves out whatever else the machine does.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from bench import reactive_counts
from bench.apart import apart
from bench.peers.engine import Counted, Engine, Headwater, Reaktiv
from bench.peers.floor import Floor
from bench.reactive_shapes import SHAPES, Graph, Shape, Wide
from bench.table import Table

ENGINES: Final[tuple[Callable[[], Engine], ...]] = (Headwater, Reaktiv, Floor)
ROUNDS: Final = 9
ROUND_S: Final = 0.05
"""Processor time of one round; a write that takes longer is a round of its own."""
PATIENCE_S: Final = 20.0


def measure(table: Table) -> None:
    """All rows."""
    ratios = [_shape(table, shape) for shape in SHAPES]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    name = f"geometric mean of the {len(ratios)} ratios to reaktiv {version('reaktiv')}"
    table.add(name, f"{mean:.2f}x", "<= 1.0x", mean <= 1.0)
    _wide(table, "4-1000x12, 5 % dynamic", Wide(250, 12, 4, 0.05), Wide(1000, 12, 4, 0.05))
    _wide(table, "6-100x15, 50 % dynamic", Wide(25, 15, 6, 0.5), Wide(100, 15, 6, 0.5))
    reactive_counts.measure(table)


# --- shapes -----------------------------------------------------------------------------------------------------


def _shape(table: Table, shape: Shape) -> float:
    """One row; its ratio."""
    mistakes = [mistake for make in ENGINES if (mistake := _mistake(make(), shape))]
    if mistakes:
        table.add(shape.name, "; ".join(mistakes), "<= 1.5x", False)
        return math.inf
    ours, peer, floor = _in_turns(shape)
    figure = f"{_us(ours)} us, reaktiv {_us(peer)}: {ours / peer:.2f}x, floor {_us(floor)}: {ours / floor:.1f}x"
    table.add(shape.name, figure, "<= 1.5x", ours / peer <= 1.5)
    return ours / peer


def _us(figure: float) -> str:
    return f"{figure:.1f}" if figure < 100 else f"{figure:.0f}"


def _tidy() -> None:
    """What lives by now is not looked through for garbage in what is measured next: most of it is another engine's."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _mistake(engine: Engine, shape: Shape) -> str:
    """What an engine does not do as it must; none if it does."""
    with closing(Counted(engine)) as counted:
        graph = shape.build(counted)
        for number in range(1, 5):
            before = counted.runs
            graph.write(number)
            if counted.runs - before not in shape.runs:
                return f"{engine.name} has {counted.runs - before} runs, not {shape.runs[0]}"
            if not graph.is_right(number):
                return f"{engine.name} is wrong"
    return ""


@dataclass(slots=True)
class _Turns:
    """One engine with its graph, and the best of its rounds."""

    engine: Engine
    graph: Graph
    number: int = 0
    count: int = 1
    best_us: float = math.inf

    def calibrate(self) -> None:
        """How many writes a round has. The first ones are slower than the rest and do not count."""
        while (spent := self.round()) < ROUND_S / 4:
            self.count *= 2
        self.count = max(1, round(self.count * ROUND_S / spent))
        self.best_us = math.inf

    def round(self) -> float:
        """Processor time of one, in seconds."""
        _tidy()
        write, first = self.graph.write, self.number + 1
        self.number += self.count
        start = time.process_time()
        for number in range(first, first + self.count):
            write(number)
        self.engine.rest()
        spent = time.process_time() - start
        self.best_us = min(self.best_us, spent / self.count * 1e6)
        return spent


def _in_turns(shape: Shape) -> list[float]:
    """Microseconds of a write on each engine: a round of each after the other, so that noise hits all."""
    with ExitStack() as stack:
        engines = [stack.enter_context(closing(make())) for make in ENGINES]
        turns = [_Turns(engine, shape.build(engine)) for engine in engines]
        for each in turns:
            each.calibrate()
        for _ in range(ROUNDS):
            for each in turns:
                each.round()
        gc.unfreeze()
        return [each.best_us for each in turns]


# --- wide graphs ------------------------------------------------------------------------------------------------


def wide_us(make: Callable[[], Engine], wide: Wide) -> float:
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
