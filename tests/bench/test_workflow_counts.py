"""What a workflow run takes does not become more: transitions, groups, fsyncs, statements and calls, by part.

`LIMITS` may only shrink. Table `counts` of `./hw bench` holds the sums; this file says where they come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import mode
from typing import Any, Final

import apsw
import pytest

from bench.counting import TIMES, calls_by_name, counted_threads, traced_statements
from bench.peers.flow_engines import Headwater
from bench.peers.job import Job, Ledger, Numbers
from bench.store import CountingVFS, through
from bench.table import is_compiled

QUEUED: Final = 10
LIMITS: Final[dict[str, dict[str, int]]] = {
    # One at a time: published and begun, prepared with its intent, ended with the result of its call.
    "serial": {"transactions": 5, "groups": 3, "fsyncs": 3, "statements": 23, "writes": 12, "reads": 2},
    # Ten events that wait: all are published in one group, and the end of a run begins the next.
    "queued": {"transactions": 41, "groups": 21, "fsyncs": 21, "statements": 203, "writes": 120, "reads": 20},
}
CALLS: Final = {"workflow/": 178, "runtime/workflows/": 96, "declare/": 36, "host/": 54}
"""Python calls of one run in the parts that workflows are made of. Of those in `workflow/`, 14 ask for lanes."""
BEGINNINGS: Final = ("begin", "commit", "insert into log")
"""Of the store: once for each group, and for each commit with a status."""


class Counted:
    """An engine, and the counts of what it does."""

    def __init__(self, engine: Headwater, vfs: CountingVFS) -> None:
        self.engine = engine
        self.numbers = Numbers()
        self._vfs = vfs

    def serial(self) -> None:
        """One run."""
        self.engine.serial(self.numbers.take(1))

    def queued(self) -> None:
        """Several runs of one workflow, whose events were published before."""
        for number in self.numbers.take(QUEUED):
            self.engine.publish(number)
        self.engine.space.workflows.drain()

    def sums(self) -> Counter[str]:
        """All counts up to now, but those of statements."""
        space = self.engine.space
        hub, groups = space.workflows.hub, space.stats.groups
        return Counter(transactions=hub.transactions, groups=groups, fsyncs=self._vfs.syncs)

    def once(self, verb: str) -> Counter[str]:
        """The counts of one time."""
        before = self.sums()
        with traced_statements(self.engine.space) as statements:
            getattr(self, verb)()
        found = self.sums()
        found.subtract(before)
        found["statements"] = len(statements)
        found["reads"] = sum(text.startswith("select") for text in statements)
        found["writes"] = sum(not text.startswith(("select", *BEGINNINGS)) for text in statements)
        return found


@contextmanager
def opened(path: Path) -> Iterator[Counted]:
    ledger, vfs = Ledger(path / "ledger"), CountingVFS()
    try:
        with through(vfs), closing(Headwater(path / "flow.db", Job(ledger))) as engine:
            yield Counted(engine, vfs)
    finally:
        ledger.close()
        vfs.unregister()


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    with opened(tmp_path) as found:
        for _ in range(30):
            found.serial()
        yield found


def usual(found: Sequence[Counter[str]]) -> dict[str, int]:
    """The most frequent count: now and then, the storage's own thread decides what the caller would have decided."""
    return {kind: mode(each[kind] for each in found) for kind in found[0]}


@pytest.mark.parametrize("verb", LIMITS)
def test_runs_take_no_more_than_they_did(counted: Counted, verb: str) -> None:
    found = usual([counted.once(verb) for _ in range(TIMES)])
    assert {kind: count for kind, count in found.items() if count > LIMITS[verb][kind]} == {}


def test_no_statement_of_a_run_is_planned_again(counted: Counted) -> None:
    planned: list[Any] = []

    def note(*asked: Any) -> int:
        planned.append(asked)
        return apsw.SQLITE_OK

    storage: Any = counted.engine.space._opening._lease.storage
    db = storage.call(lambda engine: engine.backend)._db
    db.authorizer = note  # asked whenever a statement is planned; with a new one, each is planned once more
    for _ in range(TIMES):
        counted.serial()
    planned.clear()
    for _ in range(TIMES):
        counted.serial()
    db.authorizer = None
    assert not planned


@pytest.mark.skipif(is_compiled(), reason="compiled modules make no calls that can be seen")
def test_the_parts_of_a_run_make_no_more_calls_than_they_did(tmp_path: Path) -> None:
    with counted_threads(), opened(tmp_path) as counted:
        for _ in range(30):
            counted.serial()
        found = [by_part(calls_by_name(counted.serial)) for _ in range(TIMES)]
    assert {part: count for part, count in usual(found).items() if count > CALLS[part]} == {}


def by_part(calls: Counter[str]) -> Counter[str]:
    return Counter({part: sum(n for name, n in calls.items() if name.startswith(part)) for part in CALLS})
