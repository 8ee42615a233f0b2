"""Table `workflows`: what a durable run costs, beside DBOS and beside plain SQLite that keeps the same of it.

The job is the same for each: a step that reads, one effect, a step that commits, and whatever is known after each is on
disk before the next begins. All of it is in one process, with `synchronous=full`; engines take turns, and ratios are
medians of rounds. What is asked for is asked of DBOS on SQLite as it comes, which has a rollback journal; told to use a
write-ahead log it is several times as quick, and shown beside it.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench import workflow_crash, workflow_growth
from bench.peers.flow_engines import AT_ONCE, Dbos, FlowEngine, Headwater
from bench.peers.flow_floor import GROUP, Floor
from bench.peers.job import PREPARE, Job, Ledger, Numbers
from bench.store import CountingVFS, through
from bench.table import Table
from headwater.workflow.tables import WorkflowTables

ROUNDS: Final = 5
LOG_BYTES: Final = 4000 * 4096
"""The write-ahead log of a space and of the floor before it starts over. Until a file is that long the disk has to make
it longer, which takes several times as long as writing it again."""
PUBLISHED: Final = 200
GAP_S: Final = 0.02
IDLE_FLOWS: Final = 100
IDLE_S: Final = 4.0


def measure(table: Table) -> None:
    """All rows: first what is counted, which is the same on every machine."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        _counts(table, place)
        _idle(table, place)
        _latency(table, place)
        _rates(table, place)
        workflow_crash.measure(table, place)
        workflow_growth.measure(table, place)


@contextmanager
def _jobs(path: Path) -> Iterator[Job]:
    ledger = Ledger(path)
    try:
        yield Job(ledger)
    finally:
        ledger.close()


# --- counts -------------------------------------------------------------------------------------------------------


def _counts(table: Table, place: Path) -> None:
    serial = _counted(place / "counted.db", 1, 300, lambda engine: engine.serial)
    many = _counted(place / "counted-many.db", AT_ONCE, 1600, lambda engine: engine.many)
    title = "a run, one at a time: transitions, groups with an fsync each"
    table.add(title, f"{serial.transactions:.2f}, {serial.groups:.2f}", "<= 3 groups", serial.groups <= 3.1)
    figure = f"{many.transactions:.2f}, {many.groups:.2f}"
    table.add(f"the same, {AT_ONCE} at once", figure, "<= 1.5 groups", many.groups <= 1.5)
    for name, each, most in (("one at a time", serial, 23), (f"{AT_ONCE} at once", many, 18)):
        figure = f"{each.statements:.0f}, {each.rows:.1f}, {each.written:,.0f} B, {each.syncs:.2f}"
        title = f"a run, {name}: statements, rows, written, fsyncs"
        table.add(title, figure, f"<= {most} statements", each.statements <= most + 0.5)


@dataclass(slots=True)
class _Count:
    """Of everything: what it is for one run."""

    transactions: float
    groups: float
    statements: float
    rows: float
    written: float
    syncs: float


_ROWS: Final = (
    "flow_run",
    "flow_event",
    "flow_take",
    "flow_call",
    "flow_input",
    "flow_cause",
    "log",
)


def _rows(tables: WorkflowTables) -> int:
    return sum(tables.execute(f"select count(*) from {name}")[0][0] for name in _ROWS)  # noqa: S608  # names from above


def _counted(path: Path, flows: int, runs: int, verb: Callable[[Headwater], Callable[[Sequence[int]], None]]) -> _Count:
    vfs = CountingVFS()
    numbers, statements = Numbers(), 0

    def traced(*_: Any) -> bool:
        nonlocal statements
        statements += 1
        return True

    with through(vfs), _jobs(path.with_suffix(".ledger")) as job:
        engine = Headwater(path, job, flows)
        with closing(engine):
            work = verb(engine)
            work(numbers.take(runs // 4))
            hub, storage = engine.space.workflows.hub, engine.space._opening._lease.storage
            db = storage.call(lambda engine: engine.backend)._db  # type: ignore[attr-defined]  # it is the one of SQLite
            rows = hub.look(_rows)
            before = hub.transactions, engine.space.stats.groups, vfs.written, vfs.syncs
            db.exec_trace = traced
            work(numbers.take(runs))
            db.exec_trace = None
            after = hub.transactions, engine.space.stats.groups, vfs.written, vfs.syncs
            transactions, groups, written, syncs = (now - then for now, then in zip(after, before, strict=True))
            rows = hub.look(_rows) - rows
    vfs.unregister()
    return _Count(*(each / runs for each in (transactions, groups, statements, rows, written, syncs)))


# --- doing nothing ------------------------------------------------------------------------------------------------


def _idle(table: Table, place: Path) -> None:
    with _jobs(place / "idle.ledger") as job, closing(Headwater(place / "idle.db", job, IDLE_FLOWS)) as engine:
        workflows = engine.space.workflows
        workflows.start()
        engine.many(range(IDLE_FLOWS))
        time.sleep(1)
        wakeups, begun, start = workflows.wakeups, time.process_time(), time.perf_counter()
        time.sleep(IDLE_S)
        share = (time.process_time() - begun) / (time.perf_counter() - start)
        wakeups = workflows.wakeups - wakeups
    name = f"a host with {IDLE_FLOWS} workflows, idle for {IDLE_S:.0f} s: wakeups, processor"
    table.add(name, f"{wakeups}, {share:.3%}", "0, < 0.5%", wakeups == 0 and share < 0.005)


# --- from publishing to starting ----------------------------------------------------------------------------------


def _latency(table: Table, place: Path) -> None:
    with _jobs(place / "late.ledger") as job:
        with closing(Headwater(place / "late.db", job, AT_ONCE)) as engine:
            workflows = engine.space.workflows
            workflows.start()
            engine.many(range(AT_ONCE))
            wakeups = workflows.wakeups
            times = _delays(job, engine.publish, range(100, 100 + PUBLISHED), GAP_S)
            engine.rest()
            wakeups = workflows.wakeups - wakeups
        half, most = _at(times, 0.5), _at(times, 0.99)
        title = f"published by another thread, {PUBLISHED} times, until prepare is called: p50, p99"
        table.add(title, f"{half:.2f} ms, {most:.2f} ms", "< 5 ms, < 20 ms", half < 5 and most < 20)
        table.add("the same: wakeups for each", f"{wakeups / PUBLISHED:.2f}")
        with closing(Dbos(place / "late.sqlite", job)) as peer:
            peer.many(range(1_000, 1_020))
            direct = _delays(job, peer.submit, range(2_000, 2_050), GAP_S)
            peer.use_queue()
            queued = _delays(job, peer.enqueue, range(3_000, 3_012), 0.31)
    figure = "; ".join(f"{_at(each, 0.5):.1f} ms, {_at(each, 0.99):.1f} ms" for each in (direct, queued))
    table.add(f"the same, DBOS {version('dbos')}, started at once; by its queue", figure)


def _delays(job: Job, publish: Callable[[int], object], numbers: Sequence[int], gap_s: float) -> list[float]:
    """Milliseconds from before each is handed in, by a thread of its own, until its first step."""
    sent: dict[int, float] = {}

    def work() -> None:
        for number in numbers:
            time.sleep(gap_s)
            sent[number] = time.perf_counter()
            publish(number)

    job.expect(len(numbers))
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    job.wait()
    begun = {line.number: line.at for line in reversed(job.ledger.lines()) if line.step == PREPARE}
    return [(begun[number] - at) * 1e3 for number, at in sent.items()]


def _at(times: list[float], share: float) -> float:
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


# --- rates --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Turns:
    """One engine doing one thing: how often in a round, and what came of the rounds."""

    work: Callable[[Sequence[int]], None]
    runs: int
    rates: list[float] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)
    """Processor time of a run, in milliseconds, of all threads."""

    def round(self, numbers: Numbers) -> None:
        gc.collect()
        given = numbers.take(self.runs)
        spent, start = time.process_time(), time.perf_counter()
        self.work(given)
        self.rates.append(self.runs / (time.perf_counter() - start))
        self.spent.append((time.process_time() - spent) / self.runs * 1e3)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def over(self, other: _Turns) -> float:
        return statistics.median(mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True))


def _warm(path: Path, work: Callable[[Sequence[int]], None], numbers: Numbers, runs: int) -> None:
    """Until the log has started over once, and whatever is done the first time is done."""
    log = path.with_name(f"{path.name}-wal")
    work(numbers.take(runs))
    for _ in range(40):
        if log.stat().st_size >= LOG_BYTES:
            break
        work(numbers.take(runs))


def _in_turns(turns: Sequence[_Turns], numbers: Numbers, rounds: int = ROUNDS) -> None:
    for _ in range(rounds):
        for each in turns:
            each.round(numbers)


def _rates(table: Table, place: Path) -> None:
    numbers = Numbers()
    with ExitStack() as stack:
        job = stack.enter_context(_jobs(place / "rates.ledger"))

        def opened(name: str, make: Callable[[Path, Job], FlowEngine]) -> FlowEngine:
            return stack.enter_context(closing(make(place / name, job)))

        one, many = opened("one.db", Headwater), opened("many.db", partial(Headwater, flows=AT_ONCE))
        floor, groups = opened("floor.db", Floor), opened("groups.db", Floor)
        _warm(place / "one.db", one.serial, numbers, 100)
        _warm(place / "many.db", many.many, numbers, 640)
        _warm(place / "floor.db", floor.serial, numbers, 100)
        _warm(place / "groups.db", groups.many, numbers, 6400)
        with closing(Dbos(place / "wal.sqlite", job)) as peer:
            peer.serial(numbers.take(40))
            peer.many(numbers.take(64))
            serial = _Turns(one.serial, 200), _Turns(floor.serial, 400), _Turns(peer.serial, 40)
            together = _Turns(many.many, 640), _Turns(groups.many, 6400), _Turns(peer.many, 64)
            _in_turns([*serial, *together], numbers)
        _show_rates(table, serial, together)
        with closing(Dbos(place / "journal.sqlite", job, wal=False)) as peer:
            _as_it_comes(table, one, many, peer, numbers)
        host = _Turns(one.many, 300)
        host.round(numbers)
        table.add("one workflow, all published before, by a host", f"{host.rate:,.0f}/s")


def _show_rates(table: Table, serial: tuple[_Turns, _Turns, _Turns], together: tuple[_Turns, _Turns, _Turns]) -> None:
    theirs = f"DBOS {version('dbos')}"
    ours, floor, peer = serial
    ratio = ours.over(floor)
    figure = f"{ours.rate:,.0f}/s, {floor.rate:,.0f}/s: {ratio:.2f}x"
    table.add("runs one after the other, beside plain SQLite", figure, ">= 0.5x", ratio >= 0.5)
    ratio = ours.over(peer)
    figure = f"{ours.rate:,.0f}/s, {peer.rate:,.0f}/s: {ratio:.1f}x"
    table.add(f"the same, beside {theirs} with a write-ahead log", figure)
    ours, floor, peer = together
    ratio = ours.over(peer)
    figure = f"{ours.rate:,.0f}/s, {peer.rate:,.0f}/s: {ratio:.1f}x"
    table.add(f"{AT_ONCE} at once, beside {theirs} with a write-ahead log", figure)
    table.add(f"the same, plain SQLite in groups of {GROUP}", f"{floor.rate:,.0f}/s: {ours.over(floor):.3f}x")
    for name, turns in (("one after the other", serial), (f"{AT_ONCE} at once", together)):
        spent = [f"{statistics.median(each.spent):.2f} ms" for each in turns]
        table.add(f"processor time of a run, {name}: ours, floor, DBOS", ", ".join(spent))


def _as_it_comes(table: Table, one: FlowEngine, many: FlowEngine, peer: Dbos, numbers: Numbers) -> None:
    peer.serial(numbers.take(20))
    serial = _Turns(one.serial, 100), _Turns(peer.serial, 30)
    together = _Turns(many.many, 320), _Turns(peer.many, 64)
    _in_turns([*serial, *together], numbers, 3)
    for name, (ours, theirs), least in (("one after the other", serial, 6), (f"{AT_ONCE} at once", together, 20)):
        ratio = ours.over(theirs)
        figure = f"{ours.rate:,.0f}/s, {theirs.rate:.0f}/s: {ratio:.1f}x"
        table.add(f"{name}, beside DBOS {version('dbos')} as it comes", figure, f">= {least}x", ratio >= least)
    peer.use_queue()
    queued = _Turns(peer.queued, 32)
    queued.round(numbers)
    table.add("the same by its queue, which it looks at once a second", f"{queued.rate:.0f}/s")
