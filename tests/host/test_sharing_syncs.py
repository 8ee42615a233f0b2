"""Commits that wait share one trip to the disk; each has its own verdict, and none is told before it is durable."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pytest

from headwater.errors import ClosedError, UnavailableError
from headwater.host import storage as module
from headwater.host.storage import Storage
from headwater.store.commit import Absent, Committed, Conflict, Refused
from headwater.testing import Disk
from headwater.testing.disk_history import MarkOp, SyncOp, WriteOp
from headwater.values.address import doc_key
from headwater.values.tree import ABSENT
from tests.support.hosts import in_memory, on_disk
from tests.support.limits import small_limits
from tests.support.naive import plain
from tests.support.spaces import edit, increment, put, replace


def test_commits_that_wait_share_groups_and_syncs() -> None:
    disk = Disk()
    with on_disk(disk) as storage:
        ann = storage.attach()
        ann.commit([put("a", {"n": 0})])
        ann.sync()
        groups, syncs = storage.groups, disk.sync_count
        sent = [ann.commit([edit("a", increment("n"))]) for _ in range(200)]
        ann.sync()
        assert all(pending.accepted for pending in sent)
        assert storage.groups - groups == 4  # of at most 64
        assert disk.sync_count - syncs <= 8


def test_every_commit_of_a_group_has_its_own_verdict() -> None:
    storage = in_memory()
    ann, bob = storage.attach(), storage.attach()
    ann.commit([put("a", {"x": 0})])
    ann.sync()
    bob.refresh()
    sent = [
        bob.commit([edit("a", replace("x", to="bob"))], reads=[bob.read_mark(doc_key("a"), ("x",))]),
        ann.commit([put("c", "ann")], preconditions=[Absent(doc_key("a"))]),
        ann.commit([edit("a", replace("x", to="ann"))], reads=[ann.read_mark(doc_key("a"), ("x",))]),
        ann.commit([put("b", 1)]),
    ]
    groups = storage.groups
    ann.sync()
    bob.sync()
    assert storage.groups - groups == 1
    assert [type(pending.verdict) for pending in sent] == [Committed, Refused, Conflict, Committed]
    assert plain(ann.read(doc_key("a"))) == plain(bob.read(doc_key("a"))) == {"x": "bob"}


def test_one_commit_at_a_time_is_one_group_each() -> None:
    storage = in_memory()
    ann = storage.attach()
    for number in range(5):
        ann.commit([put("a", number)])
        ann.sync()
    assert storage.groups == 5


def test_commit_is_on_the_disk_before_anybody_is_told() -> None:
    """Between the bytes of a commit and the mark of its verdict stands a sync of the file they went to."""
    disk = Disk()
    names = [f"needle-{number:03}" for number in range(60)]
    with small_limits(FOLD_COMMITS=10, CHECKPOINT_PAGES=12), on_disk(disk, group_max=7) as storage:
        ann = storage.attach()
        for number, name in enumerate(names):
            pending = ann.commit([put(f"d{number % 5}", name)])
            pending.on_settled(lambda p, name=name: disk.mark((name, p.accepted)))  # type: ignore[misc]
            if number % 9 == 0:
                ann.sync()
        ann.sync()
        operations = list(disk.operations)
    told = {
        op.label[0]: at for at, op in enumerate(operations) if isinstance(op, MarkOp) and isinstance(op.label, tuple)
    }
    assert set(told) == set(names)
    for name in names:
        written = next(
            (at, op.file) for at, op in enumerate(operations) if isinstance(op, WriteOp) and name.encode() in op.data
        )
        synced = [
            at
            for at, op in enumerate(operations)
            if isinstance(op, SyncOp) and op.file == written[1] and at > written[0]
        ]
        assert synced and synced[0] < told[name], f"{name} was acknowledged before it was synced"


def test_commits_are_decided_without_anybody_waiting() -> None:
    storage = in_memory(still=False)
    woken = threading.Event()
    ann = storage.attach(wake=woken.set)
    pending = ann.commit([put("a", 1)])
    assert woken.wait(120)
    ann.refresh()
    assert pending.accepted
    storage.close()


def test_commits_of_a_program_without_event_loop_are_decided_too() -> None:
    storage = in_memory(still=False)
    told = threading.Event()
    listener = storage.attach(wake=told.set)
    ann = storage.attach()
    ann.commit([put("a", 1)])
    assert told.wait(120), "no caller waits: only the thread can have woken it"
    listener.refresh()
    assert listener.read(doc_key("a")) == 1
    storage.close()


class Bell(threading.Event):
    """Tells when somebody waits for it without an end: then the thread sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            self.slept.set()
        return super().wait(timeout)


def sleeping_storage() -> Storage:
    storage = in_memory(still=False)
    bell = storage._bell = Bell()
    assert bell.slept.wait(120)
    return storage


def test_sleeping_thread_is_woken_by_a_commit() -> None:
    with small_limits(LINGER_ROUNDS=60):
        storage = sleeping_storage()
        woken = threading.Event()
        ann = storage.attach(wake=woken.set)
        ann.commit([put("a", 1)])
        assert woken.wait(120)
        storage.close()


def test_wake_that_fails_holds_up_nobody() -> None:
    storage = in_memory(still=False)

    def closed_loop() -> None:
        raise RuntimeError("Event loop is closed")

    dead, ann = storage.attach(wake=closed_loop), storage.attach()
    pending = ann.commit([put("a", 1)])
    ann.sync()
    assert pending.accepted
    dead.refresh()
    assert dead.read(doc_key("a")) == 1
    storage.close()


def test_many_threads_commit_and_nothing_is_lost() -> None:
    storage = in_memory(still=False, group_max=8)
    storage.attach().commit([put("a", {"n": 0})])
    storage.wait()
    failures: list[object] = []

    def write() -> None:
        replica = storage.attach()
        for number in range(150):
            pending = replica.commit([edit("a", increment("n"))])
            if number % 7 == 0:
                replica.sync()
                if not pending.accepted:
                    failures.append(pending)
        replica.sync()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert plain(storage.attach().read(doc_key("a"))) == {"n": 600}
    assert storage.groups < 600
    storage.close()


class Pausing(deque[Any]):
    """Stops the first thread that appends, right after it did."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go = threading.Event(), threading.Event()
        self.first = True

    def append(self, item: Any) -> None:
        super().append(item)
        if self.first:
            self.first = False
            self.reached.set()
            assert self.go.wait(120)


def test_sync_covers_own_commits_whatever_other_threads_are_in_the_middle_of() -> None:
    storage = in_memory(group_max=1)
    queue = Pausing()
    storage._waiting = queue
    ann, bob = storage.attach(), storage.attach()
    other = threading.Thread(target=lambda: ann.commit([put("a", 1)]))
    other.start()
    assert queue.reached.wait(120)
    mine = bob.commit([put("b", 1)])
    bob.sync()
    queue.go.set()
    other.join()
    assert mine.accepted


# --- back-pressure ---


def test_writer_that_is_faster_than_the_disk_is_slowed_down() -> None:
    with small_limits(WAITING_MAX=20):
        storage = in_memory(group_max=8)
        ann = storage.attach()
        longest = 0
        for number in range(200):
            ann.commit([put("a", number)])
            longest = max(longest, len(storage._waiting))
        assert longest <= 21
        ann.sync()
        assert ann.read(doc_key("a")) == 199


def test_writer_with_an_event_loop_is_slowed_down_too() -> None:
    with small_limits(WAITING_MAX=20):
        storage = in_memory(group_max=8)
        ann = storage.attach(wake=lambda: None)
        longest = 0
        for number in range(200):
            ann.commit([put("a", number)])
            longest = max(longest, len(storage._waiting))
        assert longest <= 22


def test_wait_that_takes_too_long_says_how_many_are_left() -> None:
    storage = in_memory()
    ann = storage.attach()
    ann.commit([put("a", 1)])
    storage._lock.acquire()
    try:
        with pytest.raises(UnavailableError, match="1 commits") as caught:
            ann.sync(timeout=0.01)
    finally:
        storage._lock.release()
    assert caught.value.facts == {"waiting": 1}
    ann.sync(timeout=120)
    assert ann.pending_count == 0


# --- the end ---


def test_close_decides_what_waits_and_folds() -> None:
    disk = Disk()
    with on_disk(disk) as storage:
        ann = storage.attach()
        pending = ann.commit([put("a", 1)])
        storage.close()
        ann.refresh()
        assert pending.accepted
    with on_disk(Disk(disk.files())) as again:
        assert again._engine.documents.folded == again._engine.head == 1
        assert again.attach().read(doc_key("a")) == 1


def test_close_twice_does_no_harm_and_ends_the_thread() -> None:
    storage = in_memory(still=False)
    thread = storage._thread
    assert thread.is_alive()
    storage.close()
    storage.close()
    assert not thread.is_alive()


def test_close_while_the_thread_sleeps_ends_it() -> None:
    with small_limits(LINGER_ROUNDS=60):
        storage = sleeping_storage()
        storage.close()
        assert not storage._thread.is_alive()


def test_use_after_close_says_so() -> None:
    storage = in_memory()
    ann = storage.attach()
    ann.commit([put("a", 1)])
    ann.sync()
    storage.close()
    assert ann.read(doc_key("a")) == 1, "what is held can still be read"
    for use in (
        lambda: ann.commit([put("a", 2)]),
        lambda: ann.read(doc_key("other")),
        storage.attach,
        lambda: storage.call(lambda engine: engine.head),
        lambda: storage.fork("draft"),
        lambda: storage.merge("draft"),
    ):
        with pytest.raises(ClosedError, match="notes"):
            use()
    assert ann.read(doc_key("a")) == 1, "the refused commit left nothing"
    ann.sync()
    ann.detach()


def test_commit_queued_while_the_space_closes_is_still_decided() -> None:
    class Late(Storage):
        """Another thread gets a commit in between the last wait and the end."""

        def _run(self) -> None:
            pass

        def wait(self, timeout: float | None = None) -> None:
            super().wait(timeout)
            if not self._closed and late:
                sent.append(bob.commit([put("late", 1)]))
                late.clear()

    from headwater.store.backends.memory_backend import MemoryBackend
    from headwater.testing import SeededEntropy, SimClock

    late = [True]
    sent: list[Any] = []
    storage = Late(MemoryBackend(), SimClock(), SeededEntropy(1), name="notes")
    bob = storage.attach()
    storage.close()
    bob.refresh()
    assert sent[0].accepted


def test_detached_replica_hears_no_more_and_its_commits_still_land() -> None:
    storage = in_memory()
    ann, bob = storage.attach(), storage.attach()
    ann.commit([put("a", 1)])
    ann.detach()
    ann.detach()
    bob.sync()
    ann.refresh()
    assert ann.pending_count == 1
    assert bob.read(doc_key("a")) == 1


def test_replica_of_a_branch_sees_merges_and_forks_at_once() -> None:
    storage = in_memory()
    main = storage.attach()
    main.commit([put("a", 1)])
    main.sync()
    storage.fork("draft")
    draft = storage.attach(branch="draft")
    draft.commit([put("b", 2)])
    draft.sync()
    main.refresh()
    assert main.read(doc_key("b")) is ABSENT
    storage.merge("draft")
    main.refresh()
    assert (main.read(doc_key("b")), draft.read(doc_key("a"))) == (2, 1)


def test_replica_that_lags_behind_reads_as_of_its_own_place() -> None:
    storage = in_memory()
    ann, bob = storage.attach(), storage.attach()
    for number in range(3):
        ann.commit([put("a", number)])
        ann.sync()
    assert bob.read(doc_key("a")) is ABSENT
    bob.refresh()
    assert bob.read(doc_key("a")) == 2


def test_compaction_does_not_take_the_past_from_under_a_replica_that_lags_behind() -> None:
    from headwater.store.compaction import compact

    storage = in_memory()
    ann, bob = storage.attach(), storage.attach()
    ann.commit([put("a", 1)])
    ann.sync()
    bob.refresh()
    ann.commit([put("a", 2)])
    ann.sync()
    storage.call(lambda engine: compact(engine, engine.head))
    with pytest.raises(UnavailableError, match="refresh"):
        bob.read(doc_key("a"))
    bob.refresh()
    assert bob.read(doc_key("a")) == 2
    assert module.GROUP_MAX == 64
