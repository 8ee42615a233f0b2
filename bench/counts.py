"""Table `counts`: what a write, run, event, workflow run and node take, in counts that every machine has.

`bench/limits.toml` holds them, and may only shrink: `./hw bench counts --lower` writes down what has become less. Each
unit waits until all of it is decided, so what is done behind the caller counts as well.
"""

from __future__ import annotations

import math
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from itertools import count as count_from
from pathlib import Path
from typing import Final, TypeAlias

import headwater as hw
from bench.counting import (
    Work,
    blocks_of,
    calls_of,
    commits_of,
    counted_threads,
    journal_entries_of,
    objects_of,
    statements_of,
    statements_of_opening,
    warm_up,
)
from bench.peers.flow_engines import Headwater
from bench.peers.job import Job, Ledger, Numbers
from bench.table import Table, is_compiled

Counts: TypeAlias = dict[str, float]
"""By kind: calls, objects, blocks, entries, commits, statements."""

LIMITS: Final = Path(__file__).with_name("limits.toml")
_SEEN_IN_SOURCES: Final = {
    "calls": calls_of,
    "objects": objects_of,
    "blocks": blocks_of,
    "entries": journal_entries_of,
}
"""Kinds that are counted in Python sources only: compiled modules make no calls that can be seen, and fewer objects."""
MARGINS: Final = {"calls": 1.01, "objects": 1.1, "blocks": 1.1}
"""Which of two threads decides a commit, and when a table grows, is not the same each time."""
OPENINGS: Final = 3
MORE: Final = 10
"""Runs, of which one is the share: what the write around them takes is subtracted."""
RESTORED: Final = 100

_HEADER: Final = """\
# What the units of table `counts` take. A limit may only shrink: after a change that needs less,
# `./hw bench counts --lower` writes it down. It raises none.
"""


# --- units --------------------------------------------------------------------------------------------------------


def write_alone() -> Counts:
    """`cell.value += 1`, of which nobody knows."""
    app = hw.App("counts")
    cell = app.cell("cell", 0)
    return _of_writes(app, cell)


def write_observed() -> Counts:
    """The same with a computed and a sink that read it."""
    app = hw.App("counts")
    cell = app.cell("cell", 0)
    _chain(app, cell, 1)
    return _of_writes(app, cell)


def run_that_commits() -> Counts:
    """One more computed in a chain."""

    def chain(length: int) -> Counts:
        app = hw.App("counts")
        cell = app.cell("cell", 0)
        _chain(app, cell, length)
        return _of_writes(app, cell)

    return _share(chain(1), chain(1 + MORE), MORE)


def run_without_commit() -> Counts:
    """One more sink that reads the cell."""

    def sinks(count: int) -> Counts:
        app = hw.App("counts")
        cell = app.cell("cell", 0)

        def look() -> None:
            cell.value  # noqa: B018  # read, and nothing else

        for number in range(count):
            app.sink(name=f"sink{number}")(look)
        return _of_writes(app, cell)

    return _share(sinks(1), sinks(1 + MORE), MORE)


def event() -> Counts:
    """One event whose handler writes a cell."""
    app = hw.App("counts")
    cell = app.cell("cell", 0)

    @app.handler
    def add(number: int) -> None:
        cell.value += number

    return _of_file(app, lambda _: add.send(1))


def workflow_run() -> Counts:
    """One run of three steps, from its event being published until it is done."""
    numbers = Numbers()
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder, ExitStack() as stack:
        ledger = Ledger(Path(folder) / "ledger")
        stack.callback(ledger.close)
        engine = stack.enter_context(closing(Headwater(Path(folder) / "flow.db", Job(ledger))))
        return _all_of(engine.space, lambda: engine.serial(numbers.take(1)))


def restored_node() -> Counts:
    """One more computation that a new opening takes over; it is not asked for."""
    return {"commits": 0, **_share(_opening(RESTORED), _opening(2 * RESTORED), RESTORED)}


def created_and_removed() -> Counts:
    """A cell, a computed and a sink that are declared in an open space, run, and are removed."""
    app, numbers = hw.App("counts"), count_from(1)

    def work(space: hw.Space) -> None:
        number = next(numbers)
        cell = app.cell(f"cell{number}", number)
        computed = app.computed(name=f"computed{number}")(_plus_one(cell))
        sink = app.sink(name=f"sink{number}")(_asks(computed))
        space._opening.drop(sink)
        space._opening.drop(computed)

    return _of_file(app, work)


UNITS: Final[dict[str, Callable[[], Counts]]] = {
    "write_alone": write_alone,
    "write_observed": write_observed,
    "run_that_commits": run_that_commits,
    "run_without_commit": run_without_commit,
    "event": event,
    "workflow_run": workflow_run,
    "restored_node": restored_node,
    "created_and_removed": created_and_removed,
}


def _plus_one(cell: hw.Cell[int]) -> Callable[[], int]:
    def plus_one() -> int:
        return cell.value + 1

    return plus_one


def _asks(computed: Callable[[], int]) -> Callable[[], None]:
    def ask() -> None:
        computed()

    return ask


def _chain(app: hw.App, cell: hw.Cell[int], length: int) -> None:
    def after(above: Callable[[], int]) -> Callable[[], int]:
        return lambda: above() + 1

    last = app.computed(name="computed0")(lambda: cell.value + 1)
    for number in range(1, length):
        last = app.computed(name=f"computed{number}")(after(last))

    @app.sink
    def show() -> None:
        last()


def _of_writes(app: hw.App, cell: hw.Cell[int]) -> Counts:
    def write(_space: hw.Space) -> None:
        cell.value += 1

    return _of_file(app, write)


def _of_file(app: hw.App, work: Callable[[hw.Space], object]) -> Counts:
    """On a file: what is counted in memory has no statements, and is otherwise the same but for less."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-bench-"))
        space = stack.enter_context(app.open(str(Path(folder) / "space.db")))

        def until_decided() -> None:
            work(space)
            space.sync()

        return _all_of(space, until_decided)


def _all_of(space: hw.Space, work: Work) -> Counts:
    warm_up(work)
    found: Counts = {"commits": commits_of(space, work), "statements": statements_of(space, work)}
    if not is_compiled():
        found |= {kind: count(work) for kind, count in _SEEN_IN_SOURCES.items()}
    return found


def _opening(computations: int) -> Counts:
    """Of one opening of a space in which so many have run."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        path = str(Path(folder) / "space.db")
        app, computeds = _computations(computations)
        with app.open(path) as space:
            for computed in computeds:
                computed()
            space.sync()
        kinds: dict[str, Callable[[Work], float]] = {"statements": statements_of_opening}
        if not is_compiled():
            kinds |= {kind: partial(count, times=1) for kind, count in _SEEN_IN_SOURCES.items()}
        return {
            kind: min(_of_opening(_computations(computations)[0], path, count) for _ in range(OPENINGS))
            for kind, count in kinds.items()
        }


def _computations(count: int) -> tuple[hw.App, list[Callable[[], int]]]:
    app = hw.App("counts")

    def plus_one(cell: hw.Cell[int]) -> Callable[[], int]:
        return lambda: cell.value + 1

    return app, [app.computed(name=f"computed{n}")(plus_one(app.cell(f"cell{n}", 0))) for n in range(count)]


def _of_opening(app: hw.App, path: str, count: Callable[[Work], float]) -> float:
    held: list[hw.Space] = []
    found = count(lambda: held.append(app.open(path).__enter__()))
    space = held.pop()
    runs, commits = sum(space.stats.runs.values()), space.stats.commits
    space.__exit__(None, None, None)
    assert not runs and not commits, "all of them are restored"
    return found


def _share(few: Counts, many: Counts, more: int) -> Counts:
    return {kind: (many[kind] - few[kind]) / more for kind in few}


# --- limits -------------------------------------------------------------------------------------------------------


def limits(path: Path = LIMITS) -> dict[str, Counts]:
    """By unit."""
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def lowered(held: Mapping[str, Counts], measured: Mapping[str, Counts]) -> dict[str, Counts]:
    """The limits after a measurement: none is higher than before; a unit or kind that is new gets what it takes."""
    after: dict[str, Counts] = {}
    for unit, counts in measured.items():
        before = held.get(unit, {})
        after[unit] = before | {kind: min(before.get(kind, count), count) for kind, count in counts.items()}
    return after


def write_limits(limits_by_unit: Mapping[str, Counts], path: Path = LIMITS) -> None:
    """As TOML."""
    parts = [_HEADER]
    for unit, counts in limits_by_unit.items():
        parts.append(f"\n[{unit}]\n")
        parts += [f"{kind} = {count:g}\n" for kind, count in counts.items()]
    path.write_text("".join(parts), encoding="utf-8")


def holds(kind: str, measured: float, limit: float) -> bool:
    """Whether a count is within its limit."""
    return measured <= limit * MARGINS.get(kind, 1.0)


def count(unit: str) -> Counts:
    """Of one unit, rounded up: what is kept of a hundred repetitions is not always a hundred times the same."""
    with counted_threads():
        measured = UNITS[unit]()
    return {kind: _rounded(kind, count) for kind, count in measured.items()}


def _rounded(kind: str, count: float) -> float:
    return math.ceil(count) if kind in ("objects", "blocks") else round(count)


def measure(table: Table) -> None:
    """All rows, beside their limits."""
    held = limits()
    for unit in UNITS:
        for kind, measured in count(unit).items():
            limit = held[unit][kind]
            less = "" if measured >= limit else ", may be lowered"
            table.add(f"{unit}: {kind}", f"{measured:g}{less}", f"<= {limit:g}", holds(kind, measured, limit))


def lower() -> None:
    """Measure, and write down what has become less."""
    write_limits(lowered(limits(), {unit: count(unit) for unit in UNITS}))
