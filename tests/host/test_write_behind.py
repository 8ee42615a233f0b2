"""A group is written while the next one is decided; nothing of either is told before it is durable."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from headwater.cells.pending_commit import PendingCommit
from headwater.errors import ClosedError, PoisonedError, StoreFullError
from headwater.host.disk_writer import DiskWrite, DiskWriter, NotWrittenError
from headwater.host.storage import Storage
from headwater.runtime.attached_replica import AttachedReplica
from headwater.store import engine
from headwater.store.backend import LogRow
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.commit import Committed, Conflict
from headwater.store.verification import verify
from headwater.testing import Disk
from headwater.values.address import doc_key
from headwater.values.ids import NEVER
from tests.host.test_disk_faults import after_power_loss, faulty, found_on
from tests.host.test_interrupts import POINTS, Stop
from tests.support.hosts import on_disk
from tests.support.naive import plain
from tests.support.spaces import edit, increment, put

GROUP = 4
WAIT_S = 60


def counter(storage: Storage) -> AttachedReplica:
    replica = storage.attach()
    replica.commit([put("count", {"n": 0})])
    replica.sync()
    return replica


def add(replica: AttachedReplica, times: int) -> list[PendingCommit]:
    return [replica.commit([edit("count", increment("n"))]) for _ in range(times)]


def count_on(disk: Disk) -> object:
    return found_on(after_power_loss(disk), "count")


class SlowSync:
    """A disk whose syncs wait for something, from a certain moment on."""

    def __init__(self, disk: Disk) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.go.set()
        disk.on_io = self._on_io

    def _on_io(self, kind: str, name: str) -> None:
        if kind == "sync" and name.endswith("-wal"):
            self.begun.set()
            assert self.go.wait(WAIT_S)


def test_next_group_is_decided_while_the_disk_is_busy_with_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    slow = SlowSync(disk)
    decided = 0
    original = Storage._append

    def counting(storage: Storage, rows: Sequence[LogRow], *rest: Any) -> Any:
        """The rows of a group that was just decided."""
        nonlocal decided
        if not slow.go.is_set():
            decided += len(rows)
            if decided == 2 * GROUP:
                # Only now does the disk go on with the first group.
                slow.go.set()
        return original(storage, rows, *rest)

    monkeypatch.setattr(Storage, "_append", counting)
    with on_disk(disk, group_max=GROUP) as storage:
        ann = counter(storage)
        slow.go.clear()
        sent = add(ann, 2 * GROUP + 1)
        assert decided == 2 * GROUP
        ann.sync()
        assert all(pending.accepted for pending in sent)
        assert storage.groups == 4


def test_groups_are_decided_while_a_fold_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold takes as long as deciding many groups: a caller that goes on does not wait for it."""
    disk = Disk()
    slow = SlowSync(disk)
    with on_disk(disk, group_max=GROUP) as storage:
        ann = counter(storage)
        slow.go.clear()
        monkeypatch.setattr(engine, "FOLD_COMMITS", 1)
        sent = add(ann, GROUP + 1)
        monkeypatch.setattr(engine, "FOLD_COMMITS", sys.maxsize)
        sent += add(ann, 3 * GROUP)
        assert [each.write.is_long for each in storage._written] == [True, False, False, False]
        slow.go.set()
        ann.sync()
        assert all(pending.accepted for pending in sent)
        check_log(storage)


def test_group_that_is_being_written_is_not_told() -> None:
    disk = Disk()
    slow = SlowSync(disk)
    with on_disk(disk, group_max=GROUP) as storage:
        ann = counter(storage)
        told = count_on(disk)
        slow.begun.clear()
        slow.go.clear()
        sent = add(ann, GROUP + 1)
        assert slow.begun.wait(WAIT_S)
        ann.refresh()
        assert not any(pending.settled for pending in sent)
        assert count_on(disk) == told
        slow.go.set()
        storage.wait()
        ann.refresh()
        assert all(pending.accepted for pending in sent)
        assert count_on(disk) == [{"n": GROUP + 1}]


@pytest.mark.parametrize(
    "use",
    [
        lambda storage: storage.attach().seq,
        lambda storage: storage.call(lambda engine: engine.head),
        lambda storage: storage.fork("draft"),
    ],
)
def test_who_looks_at_the_space_sees_no_commit_that_is_not_on_disk(use: Callable[[Storage], int]) -> None:
    disk = Disk()
    with on_disk(disk, group_max=GROUP) as storage:
        ann = counter(storage)
        add(ann, GROUP + 1)
        assert storage._written
        assert use(storage) >= GROUP + 1
        assert not storage._written
        assert count_on(disk) == [{"n": GROUP}]


def test_document_is_read_as_of_before_while_a_later_write_of_it_is_on_its_way() -> None:
    disk = Disk()
    slow = SlowSync(disk)
    with on_disk(disk, group_max=GROUP) as storage:
        ann, bob = counter(storage), storage.attach()
        slow.go.clear()
        add(ann, GROUP + 1)
        assert plain(bob.read(doc_key("count"))) == {"n": 0}
        slow.go.set()
        bob.sync()
        assert plain(bob.read(doc_key("count"))) == {"n": GROUP + 1}


def test_thread_of_a_space_tells_a_written_group_that_nobody_waits_for() -> None:
    with on_disk(Disk(), still=False, group_max=GROUP) as storage:
        told = threading.Event()
        ann = counter(storage)
        storage.attach(wake=told.set)
        told.clear()
        add(ann, GROUP + 1)
        assert told.wait(WAIT_S)


def test_writer_that_comes_too_late_is_refused_while_the_close_waits_for_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the holder of the lock may wait for a written group: of two that wait, one would wait for ever."""
    disk = Disk()
    slow = SlowSync(disk)
    waits = threading.Event()
    original = DiskWrite.wait_ended

    def wait_ended(write: DiskWrite) -> None:
        assert threading.current_thread() is closing
        waits.set()
        original(write)

    def interrupted() -> None:
        raise KeyboardInterrupt

    def close() -> None:
        with suppress(KeyboardInterrupt):
            storage.close()

    closing = threading.Thread(target=close)
    with on_disk(disk, group_max=GROUP) as storage:
        ann = counter(storage)
        slow.go.clear()
        sent = add(ann, GROUP + 1)
        # Ctrl-C ends the wait of the close, not the close.
        monkeypatch.setattr(storage, "wait", interrupted)
        monkeypatch.setattr(DiskWrite, "wait_ended", wait_ended)
        closing.start()
        try:
            assert waits.wait(WAIT_S)
            with pytest.raises(ClosedError):
                add(ann, 1)
        finally:
            slow.go.set()
            closing.join()
        ann.refresh()
        assert all(pending.accepted for pending in sent)
    assert count_on(disk) == [{"n": GROUP + 1}]


# --- a disk that does not accept the group -----------------------------------------------------------------------


def test_group_without_room_and_the_one_decided_on_top_of_it_are_decided_again() -> None:
    disk = Disk()
    with faulty(disk, group_max=GROUP) as storage:
        ann, bob = counter(storage), storage.attach()
        disk.capacity_bytes = sum(map(len, disk.files().values()))
        large = [ann.commit([put(f"d{number}", "x" * 100_000)]) for number in range(GROUP)]
        # Written by another session, and read through the group that is lost.
        other = [bob.commit([put(f"d{number}", "bob")]) for number in range(GROUP)]
        disk.capacity_bytes += 80_000
        storage.wait()
        disk.capacity_bytes = None
        for replica in (ann, bob):
            replica.sync()
        assert all(isinstance(pending.error, StoreFullError) for pending in large)
        assert all(pending.accepted for pending in other)
        last = add(ann, 3 * GROUP)
        ann.sync()
        assert all(pending.accepted for pending in last)
        check_log(storage)
    assert found_on(disk.files(), "d0", "count") == ["bob", {"n": 3 * GROUP}]


def test_fold_without_room_and_the_groups_decided_behind_it_are_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    with faulty(disk, group_max=GROUP) as storage:
        ann = counter(storage)
        disk.capacity_bytes = sum(map(len, disk.files().values()))
        monkeypatch.setattr(engine, "FOLD_COMMITS", 1)
        large = [ann.commit([put(f"d{number}", "x" * 100_000)]) for number in range(GROUP)]
        small = add(ann, 1)
        monkeypatch.setattr(engine, "FOLD_COMMITS", sys.maxsize)
        small += add(ann, 2 * GROUP)
        storage.wait()
        disk.capacity_bytes = None
        ann.sync()
        assert all(isinstance(pending.error, StoreFullError) for pending in large)
        assert {type(pending.error) for pending in small} <= {type(None), StoreFullError}
        last = add(ann, 3 * GROUP)
        ann.sync()
        assert all(pending.accepted for pending in last)
        landed = sum(pending.accepted for pending in small + last)
        assert plain(ann.read(doc_key("count"))) == {"n": landed}
        check_log(storage)
    assert found_on(disk.files(), "count") == [{"n": landed}]


def test_failed_sync_of_a_written_group_ends_the_session_and_tells_no_success() -> None:
    disk = Disk()
    with faulty(disk, group_max=GROUP) as storage:
        ann = counter(storage)
        disk.failing_syncs = range(disk.sync_count + 1, sys.maxsize)
        sent = add(ann, 3 * GROUP)
        with suppress(PoisonedError):
            ann.sync()
        assert sent
        assert all(isinstance(pending.error, PoisonedError) for pending in sent)


def test_verdict_that_a_lost_group_has_caused_is_not_given() -> None:
    """The second group conflicts with the first, which then does not exist."""
    disk = Disk()
    with faulty(disk, group_max=GROUP) as storage:
        ann, bob = counter(storage), storage.attach()
        bob.read(doc_key("count"))
        disk.capacity_bytes = sum(map(len, disk.files().values()))
        lost = [ann.commit([put("count", {"n": "x" * 100_000})]) for _ in range(GROUP)]
        mark = bob.read_mark(doc_key("count"), ("n",))
        kept = [bob.commit([put(f"b{number}", 1)], reads=[mark]) for number in range(GROUP)]
        disk.capacity_bytes += 80_000
        storage.wait()
        bob.sync()
        ann.refresh()
        assert [type(pending.verdict) for pending in kept] == [Committed] * GROUP
        assert not any(pending.accepted for pending in lost)


def test_conflict_with_a_group_that_is_being_written_is_told_after_it() -> None:
    with on_disk(Disk(), group_max=GROUP) as storage:
        ann, bob = counter(storage), storage.attach()
        bob.read(doc_key("count"))
        mark = bob.read_mark(doc_key("count"), ("n",))
        order: list[str] = []
        storage.join(Listener(order))
        first = add(ann, GROUP)
        second = [bob.commit([put("b", 1)], reads=[mark]) for _ in range(GROUP)]
        storage.wait()
        for replica in (ann, bob):
            replica.refresh()
        assert all(pending.accepted for pending in first)
        assert [type(pending.verdict) for pending in second] == [Conflict] * GROUP
        assert order == ["Committed"] * GROUP + ["Conflict"] * GROUP


class Listener:
    def __init__(self, order: list[str]) -> None:
        self._order = order

    def deliver(self, decided: Any) -> None:
        self._order += [type(each.verdict).__name__ for each in decided]


def test_write_behind_a_failed_one_is_left_out_until_the_writer_is_restarted() -> None:
    """Its rows follow rows that do not exist: they must not reach the file."""
    begun, go = threading.Event(), threading.Event()
    done: list[str] = []

    def failing() -> None:
        begun.set()
        assert go.wait(WAIT_S)
        message = "no room"
        raise OSError(message)

    writer = DiskWriter("writer", MemoryBackend())
    first = writer.start(failing)
    assert begun.wait(WAIT_S)
    second = writer.start(lambda: done.append("second"))
    go.set()
    second.wait_ended()
    # Nothing has acknowledged the error yet.
    third = writer.start(lambda: done.append("third"))
    third.wait_ended()
    assert (type(first.error), type(second.error), type(third.error)) == (OSError, NotWrittenError, NotWrittenError)
    writer.restart()
    writer.start(lambda: done.append("fourth")).wait_ended()
    writer.close()
    assert done == ["fourth"]


# --- interrupts --------------------------------------------------------------------------------------------------

BEHIND = [
    (DiskWriter, "start", "before"),
    (DiskWriter, "start", "after"),
    (DiskWriter, "settle", "before"),
    (DiskWriter, "settle", "after"),
    (DiskWrite, "wait_begun", "before"),
    (DiskWrite, "wait_begun", "after"),
    (DiskWrite, "wait_ended", "before"),
    (DiskWrite, "wait_ended", "after"),
    (Storage, "_append", "before"),
    (Storage, "_append", "after"),
    (Storage, "_end_written", "before"),
    (Storage, "_end_written", "after"),
    (Storage, "_deliver", "before"),
    (Storage, "_deliver", "after"),
    (Storage, "_work", "after"),
]


@pytest.mark.parametrize("nth", [1, 2, 3, 5])
@pytest.mark.parametrize(("owner", "name", "when"), [*POINTS, *BEHIND])
def test_interrupt_while_a_group_is_written_behind_loses_nothing_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch, *, owner: type, name: str, when: str, nth: int
) -> None:
    disk = Disk()
    with on_disk(disk, group_max=GROUP) as storage:
        ann, bob = counter(storage), storage.attach()
        bob.read(doc_key("count"))
        sent: list[PendingCommit] = []
        interrupted = 0
        if name == "settle":
            # The backend has this method from the first write on: it would stay replaced after the test.
            sent += add(ann, GROUP + 1)
            ann.sync()
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, Stop(nth, when).around(getattr(owner, name)))
            for number in range(4 * GROUP):
                try:
                    sent.append((ann, bob)[number % 2].commit([edit("count", increment("n"))]))
                except KeyboardInterrupt:
                    interrupted += 1
        assert interrupted <= 1
        for replica in (ann, bob):
            replica.sync()
        assert all(pending.accepted for pending in sent), [(p.verdict, p.error) for p in sent]
        places = {pending.verdict.seq for pending in sent if isinstance(pending.verdict, Committed)}
        assert len(places) == len(sent)
        landed = plain(ann.read(doc_key("count")))["n"]
        assert landed in (len(sent), len(sent) + interrupted)
        assert plain(bob.read(doc_key("count"))) == {"n": landed}
        assert count_on(disk) == [{"n": landed}]
        check_log(storage)


def check_log(storage: Storage) -> None:
    engine = storage._engine
    assert verify(engine).ok
    assert [row.seq for row in engine.backend.log(NEVER, engine.head)] == list(range(1, engine.head + 1))
