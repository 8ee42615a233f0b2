"""A disk that loses what was not synced, fails to sync, or is full: what was acknowledged is there afterwards."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import pytest

from headwater.cells.pending_commit import Pulled
from headwater.core import doc_key, open_space
from headwater.errors import PoisonedError, StoreFullError, UnavailableError
from headwater.host.storage import GROUP_MAX, Storage
from headwater.runtime.attached_replica import AttachedReplica, Delivered
from headwater.store.backends import sqlite_file
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.commit import Commit, CommitOutcome, Committed, Submission
from headwater.store.verification import verify
from headwater.testing import Disk
from headwater.values.ids import LocalSeq, SessionId
from headwater.values.notifications import Kind, Notification
from tests.support.hosts import on_disk
from tests.support.naive import NOTHING, plain
from tests.support.spaces import edit, put, replace


@contextmanager
def faulty(disk: Disk, *, still: bool = True, group_max: int = GROUP_MAX) -> Iterator[Storage]:
    """SQLite ignores that its last checkpoint fails when it closes; the error of a file in Python comes through."""
    with suppress(apsw.FullError, apsw.IOError), on_disk(disk, still=still, group_max=group_max) as storage:
        try:
            yield storage
        except apsw.Error as error:
            raise AssertionError("an error of the database, not told in our words") from error


def see(replica: AttachedReplica, name: str) -> object:
    return plain(replica.read(doc_key(name)))


def found_on(files: dict[str, bytes], *names: str) -> list[object]:
    """What a process finds that opens the space on these files; the whole of it passes verification."""
    with faulty(Disk(files)) as storage:
        assert storage.call(verify).ok
        replica = storage.attach()
        return [see(replica, name) for name in names]


def after_power_loss(disk: Disk) -> dict[str, bytes]:
    """The files if the plug were pulled now and nothing survived that was not synced."""
    return disk.crash_image(len(disk.operations), random.Random(0), keep=0.0)


# --- sync -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("still", [True, False])
def test_synced_commit_survives_the_plug_being_pulled_right_after(still: bool) -> None:
    disk = Disk()
    with faulty(disk, still=still) as storage:
        replica = storage.attach()
        for number in range(1, 6):
            replica.commit([put("a", number)])
            replica.commit([put("b", number)])
            replica.sync()
            assert found_on(after_power_loss(disk), "a", "b") == [number, number]


def test_commit_that_was_not_synced_may_be_lost() -> None:
    """The test above can fail: until it is asked for, nothing promises that a commit is on disk."""
    disk = Disk()
    with faulty(disk) as storage:
        replica = storage.attach()
        replica.commit([put("a", "synced")])
        replica.sync()
        pending = replica.commit([put("a", "not yet")])
        assert see(replica, "a") == "not yet"
        assert found_on(after_power_loss(disk), "a") == ["synced"]
        replica.sync()
        assert pending.accepted
        assert found_on(after_power_loss(disk), "a") == ["not yet"]


def test_verdict_is_told_only_of_what_is_on_disk() -> None:
    disk = Disk()
    seen: list[object] = []
    with faulty(disk) as storage:
        replica = storage.attach()
        pending = replica.commit([put("a", 1)])
        pending.on_settled(lambda _: seen.extend(found_on(after_power_loss(disk), "a")))
        replica.sync()
    assert seen == [1]


def test_fork_and_merge_are_on_disk_when_they_return() -> None:
    disk = Disk()
    with faulty(disk) as storage:
        storage.fork("draft")
        draft = storage.attach(branch="draft")
        draft.commit([put("a", "from the draft")])
        draft.sync()
        storage.merge("draft")
        assert found_on(after_power_loss(disk), "a") == ["from the draft"]


def test_commit_that_nobody_waits_for_becomes_durable_by_itself() -> None:
    disk = Disk()
    with faulty(disk, still=False) as storage:
        decided = threading.Event()
        storage.attach(wake=decided.set)
        storage.attach().commit([put("a", "left alone")])
        assert decided.wait(120)
        assert found_on(after_power_loss(disk), "a") == ["left alone"]


# --- a sync that fails ----------------------------------------------------------------------------------------


def test_failed_sync_poisons_every_later_commit_and_read_and_loses_nothing_acknowledged() -> None:
    disk = Disk()
    with faulty(disk) as storage:
        here, there = storage.attach(), storage.attach()
        kept = here.commit([put("a", "kept")])
        here.commit([put("unread", 1)])
        here.sync()
        disk.failing_syncs = {disk.sync_count + 1}
        lost = here.commit([put("a", "lost")])
        neighbour = there.commit([put("b", "lost, too")])
        here.sync()
        there.sync()
        assert kept.accepted
        for pending in (lost, neighbour):
            assert isinstance(pending.error, PoisonedError)
            assert pending.verdict is None
        assert (see(here, "a"), see(there, "b")) == ("kept", NOTHING), "what failed is visible no longer"
        # The disk would sync again, but nobody knows what it holds.
        for _ in range(2):
            later = here.commit([put("a", "later")])
            here.sync()
            assert isinstance(later.error, PoisonedError)
            with pytest.raises(PoisonedError):
                here.commit([put("not held here", "later")])
        with pytest.raises(PoisonedError):
            storage.attach().read(doc_key("never read before"))
        with pytest.raises(PoisonedError):
            storage.fork("draft")
        with pytest.raises(PoisonedError):
            storage.call(verify)
        assert found_on(after_power_loss(disk), "a", "b") == ["kept", NOTHING]
    assert found_on(disk.files(), "a", "b") == ["kept", NOTHING], "closing it did no harm either"


@pytest.mark.parametrize("nth", range(1, 13))
def test_whichever_sync_fails_what_was_acknowledged_is_there(nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints happen all the time here, so that theirs fail, too.

    Of the commit whose sync failed it is not known whether the disk has it; of none after it is there a trace.
    """
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_PAGES", 8)
    disk = Disk()
    acknowledged = 0
    with faulty(disk) as storage:
        replica = storage.attach()
        replica.commit([put("a", {"n": 0, "pad": "x" * 3000})])
        replica.sync()
        disk.failing_syncs = range(disk.sync_count + nth, sys.maxsize)
        poisoned = False
        for number in range(1, 16):
            pending = replica.commit([edit("a", replace("n", to=number))])
            replica.sync()
            assert not (poisoned and pending.accepted), "nothing is accepted after a failure"
            poisoned = poisoned or isinstance(pending.error, PoisonedError)
            if pending.accepted:
                acknowledged = number
            assert see(replica, "a") == {"n": acknowledged, "pad": "x" * 3000}
        assert poisoned
    for files in (after_power_loss(disk), disk.files()):
        [found] = found_on(files, "a")
        assert found in [{"n": n, "pad": "x" * 3000} for n in (acknowledged, acknowledged + 1)]


def test_failed_sync_does_not_end_the_thread_or_hang_the_close() -> None:
    disk = Disk()
    with faulty(disk, still=False) as storage:
        replica = storage.attach()
        disk.failing_syncs = range(disk.sync_count + 1, sys.maxsize)
        pending = replica.commit([put("a", 1)])
        replica.sync(timeout=120)
        assert isinstance(pending.error, PoisonedError)
        assert storage._thread.is_alive()
    assert not storage._thread.is_alive()


# --- no room --------------------------------------------------------------------------------------------------


def fill(disk: Disk) -> None:
    """Room for a small commit or two, not for a large one."""
    disk.capacity_bytes = sum(map(len, disk.files().values())) + 80_000


def test_commit_without_room_is_taken_back_and_reads_go_on_and_writes_resume() -> None:
    disk = Disk()
    with faulty(disk) as storage:
        here, there = storage.attach(), storage.attach()
        here.commit([put("a", "small")])
        here.sync()
        told: list[Notification] = []
        here.listen(told.append)
        fill(disk)
        large = here.commit([put("a", "x" * 1_000_000)], source="tx")
        here.sync()
        assert isinstance(large.error, StoreFullError)
        assert [n.kind for n in told] == [Kind.COMMIT, Kind.REVERT]
        assert [(plain(c.after), told[-1].source) for c in told[-1].changes] == [("small", "tx")]
        there.refresh()
        assert see(here, "a") == see(there, "a") == see(storage.attach(), "a") == "small"
        disk.capacity_bytes = None
        again = here.commit([put("a", "x" * 1_000_000)])
        here.sync()
        assert again.accepted
        assert found_on(after_power_loss(disk), "a") == ["x" * 1_000_000]


def test_small_commits_survive_a_neighbour_that_is_too_large_for_the_disk() -> None:
    disk = Disk()
    with faulty(disk) as storage:
        here, there = storage.attach(), storage.attach()
        here.commit([put("a", 0)])
        here.sync()
        fill(disk)
        groups = storage.groups
        before = there.commit([put("b", "small")])
        large = here.commit([put("a", "x" * 1_000_000)])
        resting = here.commit([put("c", "rests on it")], reads=[here.read_mark(doc_key("a"), ())])
        after = here.commit([put("d", "small, too")])
        here.sync()
        there.refresh()
        assert storage.groups == groups + 1, "they were one group"
        assert isinstance(large.error, StoreFullError)
        assert (before.accepted, resting.accepted, after.accepted) == (True, False, True)
        for replica in (here, there):
            values = [see(replica, name) for name in "abcd"]
            assert values == [0, "small", NOTHING, "small, too"]
        assert found_on(after_power_loss(disk), *"abcd") == [0, "small", NOTHING, "small, too"]


def test_commits_of_a_client_wait_for_the_one_without_room_although_an_earlier_one_arrives_twice() -> None:
    class Told:
        def __init__(self) -> None:
            self.verdicts: list[tuple[int, bool]] = []

        def deliver(self, decided: Delivered) -> None:
            for each in decided:
                assert not isinstance(each, Pulled)
                is_decided = isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed)
                self.verdicts.append((each.commit.local_seq, is_decided))

    disk, told, session = Disk(), Told(), SessionId("client")
    with faulty(disk) as storage:
        storage.join(told)

        def send(number: int, value: str) -> None:
            commit = Commit(session, LocalSeq(number), (put("a", value),))
            storage.submit(Submission(commit, is_resent=True), helps=False)
            storage.wait()

        send(1, "first")
        fill(disk)
        send(2, "x" * 1_000_000)
        send(1, "first")
        send(3, "third")
        disk.capacity_bytes = None
        send(2, "x" * 1_000_000)
        send(3, "third")
    assert told.verdicts == [(1, True), (2, False), (1, True), (3, False), (2, True), (3, True)]


def test_power_cut_after_a_commit_that_had_no_room_leaves_a_space_that_opens() -> None:
    """The next commit overwrote the beginning of the one without room: the ends of both read as two lost ones."""
    rng = random.Random(1)
    for extra in range(0, 20_000, 2_000):
        disk = Disk()
        with faulty(disk) as storage:
            replica = storage.attach()
            replica.commit([put("a", 0)])
            replica.sync()
            disk.capacity_bytes = sum(map(len, disk.files().values())) + extra
            large = replica.commit([put("a", "x" * 12_000)])
            replica.sync()
            disk.capacity_bytes = None
            start = len(disk.operations)
            replica.commit([put("a", 1)])
            replica.sync()
            for end in range(start, len(disk.operations) + 1):
                images = (disk.crash_image(end, rng, keep=0.5) for _ in range(4))
                found = [each for image in images for each in found_on(image, "a")]
                assert set(found) <= {0 if large.error else "x" * 12_000, 1}


def test_disk_without_room_that_fails_to_sync_ends_the_session() -> None:
    """What the commit without room had written could not be cut off for good."""
    disk = Disk()
    with faulty(disk) as storage:
        replica = storage.attach()
        replica.commit([put("a", 0)])
        replica.sync()
        fill(disk)
        disk.failing_syncs = range(disk.sync_count + 1, sys.maxsize)
        pending = replica.commit([put("a", "x" * 1_000_000)])
        replica.sync()
        assert isinstance(pending.error, PoisonedError)
    assert found_on(after_power_loss(disk), "a") == [0]


def test_places_in_the_log_have_no_gaps_after_a_full_disk() -> None:
    disk = Disk()
    with faulty(disk) as storage:
        replica = storage.attach()
        replica.commit([put("a", 0)])
        replica.sync()
        fill(disk)
        pendings = [replica.commit([put("a", "x" * size)]) for size in (10, 1_000_000, 20, 1_000_000, 30)]
        replica.sync()
        verdicts = [pending.verdict for pending in pendings]
        seqs = [verdict.seq for verdict in verdicts if isinstance(verdict, Committed)]
        assert seqs == [2, 3, 4]
        assert see(replica, "a") == "x" * 30
        assert storage.call(verify).ok


def test_error_of_a_full_disk_speaks_of_no_commit_where_there_is_none() -> None:
    disk = Disk()
    disk.capacity_bytes = 1000
    with pytest.raises(StoreFullError) as caught, faulty(disk):
        pass
    assert "commit" not in str(caught.value)


def test_space_on_a_full_disk_opens_and_is_read() -> None:
    disk = Disk()
    with faulty(disk) as storage:
        replica = storage.attach()
        replica.commit([put("a", 1)])
        replica.sync()
    again = Disk(disk.files())
    with faulty(again) as storage:
        again.capacity_bytes = 0
        replica = storage.attach()
        assert see(replica, "a") == 1
        pending = replica.commit([put("a", 2)])
        replica.sync()
        assert isinstance(pending.error, StoreFullError)
        assert see(replica, "a") == 1
    assert found_on(again.files(), "a") == [1]


def test_full_disk_when_closing_costs_nothing() -> None:
    """Folding finds no room: the log holds everything, and the next opening replays it."""
    disk = Disk()
    with faulty(disk) as storage:
        replica = storage.attach()
        for number in range(50):
            replica.commit([put(f"doc{number}", number)])
        replica.sync()
        disk.capacity_bytes = 0
    assert found_on(disk.files(), "doc0", "doc49") == [0, 49]


def accepted_by(storage: Storage, count: int) -> list[bool]:
    replica = storage.attach()
    pendings = [replica.commit([put(f"doc{n}", "x" * 2000)]) for n in range(count)]
    replica.sync()
    return [pending.accepted for pending in pendings]


def test_disk_that_fills_up_slowly_keeps_exactly_what_it_accepted() -> None:
    disk = Disk()
    with faulty(disk, group_max=7) as storage:
        assert accepted_by(storage, 1) == [True]
        fill(disk)
        accepted = accepted_by(storage, 60)
        assert any(accepted) and not all(accepted)
    expected = ["x" * 2000 if kept or n == 0 else NOTHING for n, kept in enumerate(accepted)]
    assert found_on(disk.files(), *[f"doc{n}" for n in range(60)]) == expected


def test_file_is_let_go_of_even_if_closing_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "x.db")
    storage = open_space(path)
    close = SqliteBackend.close

    def closes_and_fails(backend: SqliteBackend) -> None:
        close(backend)
        raise UnavailableError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteBackend, "close", closes_and_fails)
        with pytest.raises(UnavailableError):
            storage.close()
    open_space(path).close()
