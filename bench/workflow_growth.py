"""Of table `workflows`: what a run costs, and what people look at, when a million runs have gone before.

The history is made by copying the rows of one run that was really executed, in every table that a run leaves rows in.
Status documents and the store's log are not among them: how these behave as they grow is measured in table `store`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from bench.peers.flow_engines import Headwater
from bench.peers.job import Job, Ledger, Numbers
from bench.table import Table, paired
from headwater.workflow import run_queries
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import KEEP_RUNS

FEW: Final = 10_000
MANY: Final = int(os.environ.get("HEADWATER_BENCH_FINISHED", "1000000"))
RUNS: Final = 150
"""In one round."""

_COPIED: Final = {
    "flow_run": {"id": "{run} + k", "chain": "{run} + k"},
    "flow_event": {"id": "{event} + k", "message": "'old' || k"},
    "flow_take": {"run": "{run} + k", "event": "{event} + k"},
    # Keys are as good as random: each goes somewhere else in its index.
    "flow_call": {"run": "{run} + k", "key": "lower(hex(randomblob(13)))"},
    "flow_input": {"id": "{input} + k", "message": "'old' || k"},
    "flow_cause": {"event": "{event} + k", "input": "{input} + k"},
}
"""By table: what is not the same in a copy."""


def measure(table: Table, place: Path) -> None:
    """All rows."""
    job = Job(Ledger(place / "grown-ledger"))
    few, many = place / "few.db", place / "many.db"
    for path, runs in ((few, FEW), (many, MANY)):
        fill(path, job, runs)
    size = many.stat().st_size
    table.add(f"the file with {MANY:,} finished runs", f"{size / 1e6:,.0f} MB, {size / MANY:,.0f} B each")
    _rates(table, job, few, many)
    _looking(table, job, few, many)
    _letting_go(table, job, few, many)
    job.ledger.close()


def fill(path: Path, job: Job, runs: int) -> None:
    """A space in which so many runs have ended."""
    with closing(Headwater(path, job, keep_runs=None)) as engine:
        engine.serial([0])
    db = apsw.Connection(str(path))
    db.execute("pragma journal_mode = delete").fetchall()
    db.execute("pragma synchronous = off")
    db.execute("pragma cache_size = -400000")
    db.execute("pragma foreign_keys = off")
    db.execute("begin")
    numbers = f"with recursive n(k) as (values (1) union all select k + 1 from n where k < {runs - 1})"  # noqa: S608
    last = {each: db.execute(f"select max(id) from flow_{each}").get for each in ("run", "event", "input")}  # noqa: S608
    for name, changed in _COPIED.items():
        found = [str(row[1]) for row in db.execute(f"pragma table_info({name})")]
        kept = ", ".join(changed.get(column, column).format(**last) for column in found)
        # Before the run that has taken something there was one that only looked.
        only = "where taken > 0" if name == "flow_run" else ""
        source = f"(select * from {name} {only} limit 1)"  # noqa: S608  # names from above
        db.execute(f"{numbers} insert into {name}({', '.join(found)}) select {kept} from {source}, n")  # noqa: S608
        assert db.changes() == runs - 1, f"the first run has left nothing in {name}"
    # Counted by a trigger, as if they were new.
    db.execute("update flow_topic set pending = 0")
    db.execute("commit")
    db.close()


def _opened(path: Path, job: Job, keep_runs: int | None = None) -> tuple[Headwater, float]:
    start = time.perf_counter()
    engine = Headwater(path, job, keep_runs=keep_runs, drains=False)
    return engine, time.perf_counter() - start


NUMBERS: Final = Numbers(10_000_000)


def _rate(engine: Headwater, runs: int = RUNS) -> float:
    numbers = NUMBERS.take(runs)
    start = time.perf_counter()
    engine.serial(numbers)
    return runs / (time.perf_counter() - start)


def _both(job: Job, few: Path, many: Path, keep_runs: int | None, rounds: int = 5) -> tuple[float, float, float]:
    small, _ = _opened(few, job, keep_runs)
    large, _ = _opened(many, job, keep_runs)
    with closing(small), closing(large):
        for engine in (small, large):
            _rate(engine, 2 * RUNS)
        return paired(lambda: _rate(large), lambda: _rate(small), rounds)


def _rates(table: Table, job: Job, few: Path, many: Path) -> None:
    rate, small, ratio = _both(job, few, many, None)
    title = f"serial, with {MANY:,} finished runs, with {FEW:,}"
    table.add(title, f"{rate:,.0f}/s, {small:,.0f}/s: {ratio:.2f}x", ">= 0.8x", ratio >= 0.8)


def _letting_go(table: Table, job: Job, few: Path, many: Path) -> None:
    """As it comes: of those beyond what is kept, some go with every so many runs."""
    rate, small, ratio = _both(job, few, many, KEEP_RUNS, 3)
    title = f"serial, keeping {KEEP_RUNS:,}, while the others are let go"
    table.add(title, f"{rate:,.0f}/s, {small:,.0f}/s: {ratio:.2f}x")


def _looking(table: Table, job: Job, few: Path, many: Path) -> None:
    asked: dict[str, Callable[[WorkflowTables], object]] = {
        "workflow ls": run_queries.flows,
        "runs ls": run_queries.runs,
        "runs ls of a workflow": lambda tables: run_queries.runs(tables, "bench.flow0"),
        "runs ls --status failed": lambda tables: run_queries.runs(tables, status="failed"),
        "inputs": run_queries.inputs,
        "inputs that wait": lambda tables: run_queries.inputs(tables, status="pending"),
    }
    times: list[dict[str, float]] = []
    for path in (few, many):
        opened = min(_opening_s(path, job) for _ in range(3))
        engine, _ = _opened(path, job)
        with closing(engine):
            hub = engine.space.workflows.hub
            times.append({"opening": opened} | {name: _best_s(partial(hub.look, q)) for name, q in asked.items()})
    for name in times[0]:
        small, large = (each[name] * 1e3 for each in times)
        table.add(f"{name}: with {FEW:,} runs, with {MANY:,}", f"{small:.1f} ms, {large:.1f} ms")


def _opening_s(path: Path, job: Job) -> float:
    engine, seconds = _opened(path, job)
    engine.close()
    return seconds


def _best_s(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
