"""Of table `workflows`: what is lost and what is done twice when the process is killed in the middle of many runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.flow_engines import AT_ONCE, Dbos, Headwater
from bench.peers.job import COMMIT, MUTATE, Job, Ledger, Line
from bench.table import Table

JOBS: Final = 200
PAUSE_S: Final = 0.02
"""Between an effect and its being told: when the process is killed, most of those at work are there."""
PATIENCE_S: Final = 15.0
"""Without a step more, what is missing by then is lost."""
ACCEPTED: Final = "accepted"


class Audit(NamedTuple):
    """What became of the jobs that were on disk when they were accepted."""

    accepted: int
    lost: int
    doubled: int
    seconds: float
    """From the new start to the end of the last one."""


def measure(table: Table, place: Path) -> None:
    """Both rows."""
    ours = audit(place / "headwater", run_headwater)
    title = f"killed in the middle of {JOBS} runs, {AT_ONCE} at once: lost, effects doubled"
    table.add(title, _told(ours), "0, 0", not ours.lost and not ours.doubled)
    theirs = audit(place / "dbos", run_dbos)
    table.add(f"the same, DBOS {version('dbos')}, whose steps may happen again", _told(theirs))


def _told(found: Audit) -> str:
    return f"{found.lost}, {found.doubled} of {found.accepted}; done in {found.seconds:.1f} s"


def audit(folder: Path, run: Callable[[Path, int], None]) -> Audit:
    """Kill it when half of the steps are done, start it again, and read what has happened."""
    folder.mkdir()
    ledger = Ledger(folder / "ledger")
    child = _started(run, folder, JOBS)
    _await(ledger, lambda lines: sum(line.step != ACCEPTED for line in lines) >= JOBS * 3 // 2, child)
    child.kill()
    child.join()
    begun = time.perf_counter()
    child = _started(run, folder, 0)
    accepted = {line.number for line in ledger.lines() if line.step == ACCEPTED}
    _await(ledger, lambda lines: accepted <= _done(lines), child)
    seconds = time.perf_counter() - begun
    child.kill()
    child.join()
    lines = ledger.lines()
    ledger.close()
    effects = Counter(line.number for line in lines if line.step == MUTATE)
    lost = accepted - _done(lines)
    return Audit(len(accepted), len(lost), sum(count - 1 for count in effects.values()), seconds)


def _done(lines: list[Line]) -> set[int]:
    return {line.number for line in lines if line.step == COMMIT}


def _started(run: Callable[[Path, int], None], folder: Path, jobs: int) -> BaseProcess:
    child = get_context("spawn").Process(target=run, args=(folder, jobs))
    child.start()
    return child


def _await(ledger: Ledger, is_enough: Callable[[list[Line]], bool], child: BaseProcess) -> None:
    """Until enough has happened, or nothing does any more."""
    seen, since = 0, time.perf_counter()
    while time.perf_counter() - since < PATIENCE_S:
        if not child.is_alive():
            raise RuntimeError("a process ended before it was killed; see above")
        lines = ledger.lines()
        if is_enough(lines):
            return
        if len(lines) > seen:
            seen, since = len(lines), time.perf_counter()
        time.sleep(0.005)


# --- in a process of its own --------------------------------------------------------------------------------------


def run_headwater(folder: Path, jobs: int) -> None:
    """Publish so many, and execute what there is until somebody ends it."""
    ledger = Ledger(folder / "ledger")
    engine = Headwater(folder / "space.db", Job(ledger, PAUSE_S), AT_ONCE, drains=False)
    engine.space.workflows.start()
    for number in range(jobs):
        engine.publish(number)
        engine.space.workflows.hub.wait()
        ledger.note(number, ACCEPTED)
    _stay()


def run_dbos(folder: Path, jobs: int) -> None:
    """Likewise."""
    ledger = Ledger(folder / "ledger")
    engine = Dbos(folder / "dbos.sqlite", Job(ledger, PAUSE_S))
    for number in range(jobs):
        engine.submit(number)
        ledger.note(number, ACCEPTED)
    _stay()


def _stay() -> None:
    while True:
        time.sleep(1)
