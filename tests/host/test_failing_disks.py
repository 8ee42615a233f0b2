"""Disks that fail to sync, or are full: nothing acknowledged is lost, nothing is claimed that was not kept."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from headwater.cells.pending_commit import PendingCommit
from headwater.errors import HeadwaterError, PoisonedError, StoreError, StoreFullError
from headwater.store.commit import Operation, Tables, Verdict
from headwater.store.verification import verify
from headwater.testing import Disk
from headwater.values.address import doc_key
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe
from tests.support.hosts import on_disk, reopened
from tests.support.limits import small_limits
from tests.support.naive import plain
from tests.support.spaces import edit, increment, put

COUNT = doc_key("count")


def run_until_it_fails(disk: Disk, commits: int) -> list[PendingCommit]:
    """Commit one by one until the disk fails; after that every commit must be told so."""
    with on_disk(disk) as storage:
        ann = storage.attach()
        sent = [ann.commit([put("count", {"n": 1}), put("twin", {"n": 1})])]
        ann.sync()
        for _ in range(commits - 1):
            if not sent[-1].accepted:
                break
            sent.append(ann.commit([edit("count", increment("n")), edit("twin", increment("n"))]))
            ann.sync()
        if sent[-1].error is not None:
            before = plain(ann.read(COUNT))
            later = ann.commit([edit("count", increment("n"))])
            ann.sync()
            assert isinstance(later.error, PoisonedError)
            assert plain(ann.read(COUNT)) == before
            with pytest.raises(PoisonedError):
                ann.commit([put("not held", 1)])
            sent.append(later)
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_failed_sync_ends_this_opening_and_loses_nothing_acknowledged(forever: bool) -> None:
    """At every sync of the run, with checkpoints and folds among them; afterwards also with the power cut."""
    failures = 0
    with small_limits(FOLD_COMMITS=5, CHECKPOINT_PAGES=10):
        for nth in range(5, 60):
            disk = Disk(seed=nth)
            disk.failing_syncs = range(nth, sys.maxsize) if forever else {nth}
            try:
                sent = run_until_it_fails(disk, 20)
            except PoisonedError:
                continue  # while it was opened
            failures += any(pending.error is not None for pending in sent)
            acknowledged = sum(pending.accepted for pending in sent)
            disk.failing_syncs = ()
            rng = random.Random(nth)
            for image in (disk.files(), *(disk.crash_image(len(disk.operations), rng, keep) for keep in (0.0, 0.5))):
                with on_disk(Disk(image)) as again:
                    value, twin = (plain(again.attach().read(doc_key(name))) for name in ("count", "twin"))
                    assert value == twin, "half a commit"
                    assert acknowledged <= (value["n"] if isinstance(value, dict) else 0) <= acknowledged + 1
                    assert again.call(lambda engine: verify(engine).ok)
    assert failures > 20, "the failing sync was met too seldom"


def test_error_of_a_failed_sync_says_what_happened_and_what_to_do() -> None:
    disk = Disk()
    with on_disk(disk) as storage:
        ann = storage.attach()
        ann.commit([put("count", {"n": 1})])
        ann.sync()
        disk.failing_syncs = range(disk.sync_count + 1, sys.maxsize)
        sent = [ann.commit([edit("count", increment("n"))]) for _ in range(3)]
        ann.sync()
        assert all(isinstance(pending.error, PoisonedError) for pending in sent)
        assert plain(ann.read(COUNT)) == {"n": 1}, "taken back here"
        assert "open the space again" in str(sent[0].error)
        with pytest.raises(StoreError):
            ann.read(doc_key("not held"))
        disk.failing_syncs = ()
        later = ann.commit([edit("count", increment("n"))])
        ann.sync()
        assert isinstance(later.error, PoisonedError), "a disk that works again does not make it sound"


def test_disk_that_fills_up_at_any_point_keeps_every_acknowledged_commit() -> None:
    fulls = 0
    with small_limits(FOLD_COMMITS=5, CHECKPOINT_PAGES=10):
        for extra in range(0, 120_000, 4_000):
            disk = Disk()
            with on_disk(disk) as storage:
                ann = storage.attach()
                ann.commit([put("count", {"n": 0}), put("twin", {"n": 0})])
                ann.sync()
                disk.capacity_bytes = sum(map(len, disk.files().values())) + extra
                for _ in range(20):
                    pending = ann.commit([edit("count", increment("n")), edit("twin", increment("n"))])
                    ann.sync()
                    fulls += not pending.accepted
                    assert pending.accepted or isinstance(pending.error, StoreFullError)
                expected = plain(ann.read(COUNT))
            with on_disk(reopened(disk)) as again:
                bob = again.attach()
                assert plain(bob.read(COUNT)) == plain(bob.read(doc_key("twin"))) == expected
                assert again.call(lambda engine: verify(engine).ok)
    assert fulls > 20


def killed(disk: Disk) -> Disk:
    """The disk after the death of the process alone."""
    disk.on_io = lambda _kind, _name: None
    return disk.next_life(random.Random(0), 1.0)


def test_commit_that_an_opening_finds_in_the_log_is_on_disk() -> None:
    """A process died between writing it and the sync. It is shown, and confirmed if it is sent again."""
    disk, lives = Disk(), list[Disk]()
    with on_disk(disk) as storage:
        ann = storage.attach()
        ann.commit([put("count", {"n": 1})])
        ann.sync()
        disk.on_io = lambda kind, _: lives.append(killed(disk)) if kind == "sync" else None
        ann.commit([edit("count", increment("n"))])
        ann.sync()
    [disk] = lives
    for _ in range(2):
        with on_disk(disk) as storage:
            assert plain(storage.attach().read(COUNT)) == {"n": 2}
            disk = disk.next_life(random.Random(0), 0.0)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_after_a_failed_sync_the_next_opening_leaves_no_hole_in_the_log(count: int) -> None:
    """The system has forgotten pages that are still in its memory: the log reads well until the power fails."""
    disk = Disk()
    with on_disk(disk) as storage:
        ann = storage.attach()
        ann.commit([put("count", {"n": 1})])
        ann.sync()
        disk.failing["sync"] = count
        ann.commit([edit("count", increment("n"))])
        ann.sync()
    for _ in range(12):
        with suppress(StoreError), on_disk(disk) as storage:
            ann = storage.attach()
            sent = [ann.commit([edit("count", increment("n")), put(f"large{at}", "x" * 9000)]) for at in range(3)]
            ann.sync()
            if all(each.accepted for each in sent):
                expected = plain(ann.read(COUNT))
                after = disk.next_life(random.Random(0), 0.0)
                break
    else:
        raise AssertionError("no opening had its commits accepted")
    with on_disk(after) as storage:
        assert plain(storage.attach().read(COUNT)) == expected
        assert storage.call(lambda engine: verify(engine).ok)


class Broken:
    """A table transaction with a mistake."""

    def __init__(self) -> None:
        self.told: list[HeadwaterError | None] = []

    def apply(self, tables: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        raise RuntimeError(f"not with {tables} and {look}")

    def decided(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        assert verdict is None
        self.told.append(error)


@pytest.mark.parametrize("still", [True, False])
def test_mistake_of_a_table_transaction_after_a_failed_sync_is_told_and_does_not_end_the_thread(still: bool) -> None:
    """The engine could not be started again, and the thread ended: what came later was never decided."""
    disk = Disk()
    with on_disk(disk, still=still) as storage:
        ann = storage.attach()
        disk.failing["sync"] = 1
        ann.commit([put("count", {"n": 1})])
        ann.sync()
        broken = [Broken(), Broken()]
        for each in broken:
            storage.submit_tables(each)
            storage.nudge()
            if still:
                storage.wait()
        storage.wait()
        assert [type(error) for each in broken for error in each.told] == [PoisonedError, PoisonedError]
