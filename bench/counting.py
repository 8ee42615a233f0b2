"""Counts of what some work does: Python calls, objects, journal entries, commits, SQLite statements.

They are the same on every machine, so tests hold them to limits. What is counted is done several times, and the most
frequent count is the count: now and then the storage's own thread decides what the caller would have decided.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mode
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias
from unittest.mock import patch

import apsw

import headwater as hw
from headwater.cells import transaction
from headwater.cells.journal import Journal

Work: TypeAlias = Callable[[], object]

ROOT: Final = Path(hw.__file__).parent
WARM_UP: Final = 30
TIMES: Final = 15
KEPT_ROUNDS: Final = 3
KEPT_TIMES: Final = 100
"""For objects: tables grow by doubling, so a single repetition has none or many."""


def warm_up(work: Work, times: int = WARM_UP) -> None:
    """Do it some times without counting: code that runs first looks things up that are then remembered."""
    for _ in range(times):
        work()


# --- calls --------------------------------------------------------------------------------------------------------


@contextmanager
def counted_threads() -> Iterator[None]:
    """Threads that are started meanwhile are counted, too: a space that is opened has one that decides commits."""
    threading.setprofile(_record)
    try:
        yield
    finally:
        threading.setprofile(None)


def calls_of(work: Work, times: int = TIMES) -> int:
    """Calls of functions in the product's files, for one time. None are seen in compiled modules.

    The fewest of some times: if the thread of the storage decides before the caller does, it takes some calls more.
    """
    return min(calls_by_name(work).total() for _ in range(times))


def calls_by_name(work: Work) -> Counter[str]:
    """The same for this one time, by file and function: to find out what has become more."""
    found: Counter[str] = Counter()
    _counters.append(found)
    sys.setprofile(_record)
    try:
        work()
    finally:
        sys.setprofile(None)
        _counters.remove(found)
    return found


_counters: Final[list[Counter[str]]] = []
_names: Final[dict[CodeType, str]] = {}


def _record(frame: FrameType, event: str, _arg: Any) -> None:
    if event == "call" and _counters:
        code = frame.f_code
        name = _names.get(code)
        if name is None:
            path = Path(code.co_filename)
            is_ours = path.is_relative_to(ROOT)
            name = _names[code] = f"{path.relative_to(ROOT)} {code.co_qualname}" if is_ours else ""
        if name:
            _counters[-1][name] += 1


# --- objects ------------------------------------------------------------------------------------------------------


def objects_of(work: Work, times: int = KEPT_TIMES) -> float:
    """Objects that Python's collector looks after and that are still there afterwards, for one time."""
    return _kept(work, times, lambda: len(gc.get_objects()))


def blocks_of(work: Work, times: int = KEPT_TIMES) -> float:
    """Blocks of memory that were handed out and not given back, for one time: objects of all kinds, and tables."""
    return _kept(work, times, sys.getallocatedblocks)


def _kept(work: Work, times: int, count: Callable[[], int]) -> float:
    """The least of some rounds. Without the collector: what only it could free is counted, too."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return min(_kept_once(work, times, count) for _ in range(KEPT_ROUNDS if times > 1 else 1))
    finally:
        if was_enabled:
            gc.enable()


def _kept_once(work: Work, times: int, count: Callable[[], int]) -> float:
    gc.collect()
    before = count()
    for _ in range(times):
        work()
    return (count() - before) / times


# --- what is written ----------------------------------------------------------------------------------------------


def journal_entries_of(work: Work, times: int = TIMES) -> int:
    """Places that transactions note as read or written, for one time."""
    return mode(_entries(work) for _ in range(times))


def _entries(work: Work) -> int:
    made: list[Journal] = []

    def noted() -> Journal:
        made.append(Journal())
        return made[-1]

    with patch.object(transaction, "Journal", noted):
        work()
    return sum(map(len, made))


def commits_of(space: hw.Space, work: Work) -> int:
    """Commits of this opening, for one time."""
    before = space.stats.commits
    work()
    return space.stats.commits - before


def statements_of(space: hw.Space, work: Work, times: int = TIMES) -> int:
    """Statements of SQLite on the space's file, for one time. The work has to wait until its commits are on disk."""
    found: list[int] = []
    for _ in range(times):
        with traced_statements(space) as statements:
            work()
        found.append(len(statements))
    return mode(found)


@contextmanager
def traced_statements(space: hw.Space) -> Iterator[list[str]]:
    """The statements that are executed meanwhile, by whichever thread."""
    storage = space._opening._lease.storage
    db = storage.call(lambda engine: engine.backend)._db  # type: ignore[attr-defined]  # it is the one of SQLite
    statements: list[str] = []

    def traced(_cursor: object, sql: str, _bindings: object) -> bool:
        statements.append(sql)
        return True

    db.exec_trace = traced
    try:
        yield statements
    finally:
        db.exec_trace = None


def statements_of_opening(work: Work) -> int:
    """Statements of SQLite on every connection that is opened meanwhile."""
    count = 0

    def traced(_cursor: object, _sql: str, _bindings: object) -> bool:
        nonlocal count
        count += 1
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = traced

    apsw.connection_hooks.append(hook)
    try:
        work()
    finally:
        apsw.connection_hooks.remove(hook)
    return count
