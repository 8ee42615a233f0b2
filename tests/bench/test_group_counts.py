"""What a durable commit and an event take in groups, in counts that every machine has. The limits may only shrink."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

import headwater as hw
from bench.counting import traced_statements
from bench.store import CountingVFS, through
from headwater.core import doc_key
from headwater.host import storage as storage_module
from headwater.host.storage import GROUP_MAX, Storage
from headwater.host.system_clock import SystemClock
from headwater.machine import machine
from headwater.store.backends.sqlite import SqliteBackend
from tests.support.hosts import StillStorage
from tests.support.naive import plain
from tests.support.spaces import edit, put, replace

ROOT: Final = str(Path(hw.__file__).parent)

COMMIT_CALLS: Final = 24.6
"""Python calls of one commit in full groups, from the replica to the disk."""
EVENT_CALLS: Final = 209
"""Python calls of one event in full groups, from `send` to its verdict."""


class Counts(NamedTuple):
    calls: int
    statements: list[str]
    syncs: int


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    found = [0]

    def record(frame: FrameType, event: str, _arg: Any) -> None:
        found[0] += event == "call" and frame.f_code.co_filename.startswith(ROOT)

    sys.setprofile(record)
    try:
        yield found
    finally:
        sys.setprofile(None)


@contextmanager
def counted_storage(path: Path) -> Iterator[tuple[Storage, Callable[[Callable[[], object]], Counts]]]:
    """A storage without a thread that decides: the caller decides all, so that the counts are the same each time."""
    vfs = CountingVFS()
    backend = SqliteBackend(str(path / "space.db"), vfs=vfs.name)
    statements: list[str] = []

    def trace(_cursor: object, sql: str, _bindings: object) -> bool:
        statements.append(sql)
        return True

    def count(work: Callable[[], object]) -> Counts:
        backend._db.exec_trace = trace
        statements.clear()
        syncs = vfs.syncs
        with counted_calls() as calls:
            work()
        backend._db.exec_trace = None
        return Counts(calls[0], list(statements), vfs.syncs - syncs)

    with StillStorage(backend, SystemClock(), machine(), name="counted") as storage:
        yield storage, count
    vfs.unregister()


def test_a_full_group_is_one_statement_and_one_sync(tmp_path: Path) -> None:
    groups = 6
    with counted_storage(tmp_path) as (storage, count):
        replica = storage.attach()
        docs = [f"d{number}" for number in range(50)]
        for doc in docs:
            replica.commit([put(doc, {"n": 0})])
        replica.sync()

        def work() -> None:
            for number in range(groups * GROUP_MAX):
                replica.commit([edit(docs[number % 50], replace("n", to=number))])
            replica.sync()

        work()
        found = count(work)
    inserts = [sql for sql in found.statements if sql.startswith("insert into log")]
    # All but the last are written behind the caller, each as a transaction of its own.
    assert len(inserts) == groups
    assert len(found.statements) == groups + 2
    assert found.syncs == groups
    assert found.calls / (groups * GROUP_MAX) <= COMMIT_CALLS


def test_a_commit_alone_is_one_statement_and_one_sync(tmp_path: Path) -> None:
    with counted_storage(tmp_path) as (storage, count):
        replica = storage.attach()
        replica.commit([put("a", {"n": 0})])
        replica.sync()
        replica.commit([edit("a", replace("n", to=1))])
        found = count(replica.sync)
        assert plain(replica.read(doc_key("a"))) == {"n": 1}
    assert [sql.split("(")[0] for sql in found.statements] == ["insert into log values "]
    assert found.syncs == 1


def test_an_event_in_a_full_group_takes_less_than_two_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its own thread would decide some of them, now and then.
    monkeypatch.setattr(storage_module.Storage, "_run", lambda _: None)
    app = hw.App("counts")
    cell = app.cell("cell", 0)

    @app.handler
    def add(number: int) -> None:
        cell.value = number

    vfs = CountingVFS()
    events = 4 * GROUP_MAX
    with through(vfs), app.open(str(tmp_path / "space.db")) as space:

        def work() -> None:
            for number in range(events):
                add.send(number)
            space.sync()

        work()
        syncs = vfs.syncs
        with traced_statements(space) as statements, counted_calls() as calls:
            work()
        syncs = vfs.syncs - syncs
    vfs.unregister()
    # Two that look up the receipts of a group, and its insert; the last group is written by the caller.
    assert len([sql for sql in statements if not sql.startswith("insert into log values (?, ?, ?, ?)")]) <= 2 * 4 + 2
    assert len(statements) / events <= 0.35
    assert syncs <= 4
    assert calls[0] / events <= EVENT_CALLS
