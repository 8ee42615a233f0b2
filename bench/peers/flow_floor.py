"""The floor of table `workflows`: what a run has to keep, in plain SQLite. A yardstick, and no design.

One transaction each for: published, prepared, mutating, mutated, committed. No engine, no planner, no threads, no
status to look at, no inputs and causes; nothing is retried and nothing recovered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from bench.peers.job import Job

GROUP: Final = 64
"""Runs that take each step together, in one transaction: as many as the store puts into one group at most."""

_TABLES: Final = """
create table event(id integer primary key, payload text not null, consumed integer not null default 0);
create index event_pending on event(id) where consumed = 0;
create table run(id integer primary key, event integer not null, phase text not null, status text not null,
    prepare_result text, mutation_result text, created_at real not null, updated_at real not null);
create index run_active on run(status) where status = 'active';
"""


class Floor:
    """With the same safety settings as a space."""

    name = "floor"

    def __init__(self, path: Path, job: Job) -> None:
        self._job = job
        self._db = db = apsw.Connection(str(path))
        db.execute("pragma locking_mode = exclusive")
        db.execute("pragma journal_mode = wal").fetchall()
        db.execute("pragma synchronous = full")
        db.execute("pragma wal_autocheckpoint = 4000")
        db.execute(_TABLES)

    def serial(self, numbers: Sequence[int]) -> None:
        """One after the other."""
        for number in numbers:
            self._together([number])

    def many(self, numbers: Sequence[int]) -> None:
        """In groups."""
        for first in range(0, len(numbers), GROUP):
            self._together(numbers[first : first + GROUP])

    def _together(self, numbers: Sequence[int]) -> None:
        job, db = self._job, self._db
        self._write("insert into event(id, payload) values (?, ?)", [(number, str(number)) for number in numbers])
        query = "select id, payload from event where consumed = 0 order by id limit ?"
        found: list[Any] = db.execute(query, (len(numbers),)).fetchall()
        plans = [(event, job.prepare(int(payload))) for event, payload in found]
        now = time.time()
        self._write(
            "insert into run(id, event, phase, status, prepare_result, created_at, updated_at) "
            "values (?, ?, 'prepared', 'active', ?, ?, ?)",
            [(event, event, json.dumps(data), now, now) for event, data in plans],
        )
        self._write("update run set phase = 'mutating', updated_at = ? where id = ?", [(now, e) for e, _ in plans])
        results = [(event, job.mutate(event, data)) for event, data in plans]
        self._write(
            "update run set phase = 'mutated', mutation_result = ?, updated_at = ? where id = ?",
            [(json.dumps(result), now, event) for event, result in results],
        )
        for event, result in results:
            job.commit(event, result)
        db.execute("begin immediate")
        ended = [(now, event) for event, _ in results]
        db.executemany("update run set phase = 'committed', status = 'committed', updated_at = ? where id = ?", ended)
        db.executemany("update event set consumed = 1 where id = ?", [(event,) for event, _ in results])
        db.execute("commit")

    def _write(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        db = self._db
        db.execute("begin immediate")
        db.executemany(query, rows)
        db.execute("commit")

    def close(self) -> None:
        self._db.close()
