"""Forgetting the past: documents stay, older places are refused, and nobody is fooled about what was read then."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.errors import HistoryError, UsageError
from headwater.store import browsing
from headwater.store.branching import fork, merge
from headwater.store.commit import Committed, Conflict
from headwater.store.compaction import compact
from headwater.store.portable import export_log
from headwater.store.verification import verify
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, Seq
from tests.support.halves import examples
from tests.support.limits import small_limits
from tests.support.naive import NOTHING, exact
from tests.support.schedules import DOCS, Schedule
from tests.support.spaces import KINDS, Space, append, drop, edit, increment, pending_read, put, read


@pytest.fixture
def lived_in(space: Space) -> Space:
    """Ten commits: a is patched all along, b is deleted, c was written once, early."""
    ann = space.writer("ann")
    ann.accept(put("a", {"n": 0}), put("b", 1), put("c", "early"))
    for _ in range(7):
        ann.accept(edit("a", increment("n")))
    ann.accept(drop("b"))
    ann.accept(edit("a", increment("n")))
    return space


def test_documents_stay_and_older_places_are_refused(lived_in: Space) -> None:
    before = {seq: lived_in.value("a", at=seq) for seq in range(6, 11)}
    report = compact(lived_in.engine, Seq(6))
    assert (report.commits_dropped, report.first) == (6, 6)
    for _ in range(2):
        assert {seq: lived_in.value("a", at=seq) for seq in range(6, 11)} == before
        assert (lived_in.value("b", at=8), lived_in.value("b"), lived_in.value("c")) == (1, NOTHING, "early")
        with pytest.raises(HistoryError) as caught:
            browsing.read(lived_in.engine, doc_key("a"), at=Seq(5))
        assert caught.value.facts == {"seq": 5, "first": 6, "last": 10}
        assert verify(lived_in.engine).ok
        lived_in.reopen()


def test_all_of_the_past_can_go(lived_in: Space) -> None:
    compact(lived_in.engine, Seq(10))
    for _ in range(2):
        assert lived_in.values() == {doc_key("a"): {"n": 8}, doc_key("c"): "early"}
        assert lived_in.engine.head == 10
        assert verify(lived_in.engine).ok
        lived_in.reopen()
    ann = lived_in.writer("bob")
    assert ann.accept(edit("a", increment("n"))) == 11
    lived_in.reopen()
    assert lived_in.value("a") == {"n": 9}
    assert verify(lived_in.engine).ok


def test_horizon_moves_on_and_never_back(lived_in: Space) -> None:
    assert compact(lived_in.engine, Seq(4)).commits_dropped == 4
    assert compact(lived_in.engine, Seq(4)).commits_dropped == 0
    assert compact(lived_in.engine, Seq(8)).commits_dropped == 4
    for seq in (3, 11):
        with pytest.raises(HistoryError):
            compact(lived_in.engine, Seq(seq))
    assert lived_in.value("a") == {"n": 8}
    assert verify(lived_in.engine).ok


def test_without_a_place_only_free_room_is_given_back(lived_in: Space) -> None:
    report = compact(lived_in.engine, None)
    assert (report.commits_dropped, report.first) == (0, 0)
    assert lived_in.value("a", at=2) == {"n": 1}


def test_place_where_a_branch_begins_is_kept(lived_in: Space) -> None:
    fork(lived_in.engine, lived_in.clock, "draft", at=Seq(3))
    assert compact(lived_in.engine, Seq(10)).first == 3
    assert lived_in.value("a", "draft") == {"n": 2}
    assert verify(lived_in.engine).ok


def test_branch_is_kept_whole_too(lived_in: Space) -> None:
    fork(lived_in.engine, lived_in.clock, "draft")
    bob = lived_in.writer("bob", "draft")
    bob.accept(edit("a", increment("n", by=100)))
    bob.accept(edit("a", increment("n", by=100)))
    compact(lived_in.engine, Seq(10))
    lived_in.reopen()
    assert (lived_in.value("a"), lived_in.value("a", "draft")) == ({"n": 8}, {"n": 208})
    assert verify(lived_in.engine).ok


def test_tombstones_are_kept(lived_in: Space) -> None:
    from headwater.store.commit import Absent, Refused

    compact(lived_in.engine, Seq(10))
    lived_in.reopen()
    bob = lived_in.writer("bob")
    assert isinstance(bob.commit(put("b", 1), given=[Absent(doc_key("b"))]), Refused)


def test_replay_of_a_commit_that_was_dropped_from_the_log_is_still_recognised(lived_in: Space) -> None:
    compact(lived_in.engine, Seq(10))
    lived_in.reopen()
    again = lived_in.writer("ann").build(edit("a", increment("n")), number=2)
    assert lived_in.writer("ann").send(again) == Committed(2)
    assert lived_in.value("a") == {"n": 8}


@pytest.mark.parametrize("reopened", [False, True])
def test_read_from_before_the_horizon_still_conflicts_with_what_was_written_since(
    lived_in: Space, reopened: bool
) -> None:
    compact(lived_in.engine, Seq(10))
    if reopened:
        lived_in.reopen()
    bob = lived_in.writer("bob")
    assert isinstance(bob.commit(put("sum", 1), reads=[read("a", "n", at=3)]), Conflict)
    assert isinstance(bob.commit(put("sum", 1), reads=[read("b", at=3)]), Conflict)
    bob.accept(put("sum", 1), reads=[read("c", at=3), read("a", at=10), read("never", at=0)])


def test_pending_read_from_before_the_horizon_still_conflicts(lived_in: Space) -> None:
    compact(lived_in.engine, Seq(10))
    lived_in.reopen()
    mark = pending_read("a", "n", basis=3, layers=[(10, 10)])
    ann = lived_in.writer("ann")
    assert isinstance(ann.commit(put("sum", 1), reads=[mark], number=11), Conflict)


def test_past_that_is_gone_cannot_be_exported(lived_in: Space) -> None:
    compact(lived_in.engine, Seq(2))
    with pytest.raises(UsageError, match="compacted away"):
        list(export_log(lived_in.engine, "notes"))


def test_merge_after_compaction_loses_no_change(lived_in: Space) -> None:
    fork(lived_in.engine, lived_in.clock, "draft")
    bob, ann = lived_in.writer("bob", "draft"), lived_in.writer("cyd")
    bob.accept(put("a", "draft"))
    merge(lived_in.engine, BranchId("draft"))
    ann.accept(put("c", "main"))
    compact(lived_in.engine, Seq(10))
    bob.accept(put("a", "draft again"))
    merge(lived_in.engine, BranchId("draft"))
    assert (lived_in.value("a"), lived_in.value("c")) == ("draft again", "main")


def test_file_gets_smaller(file_space: Space) -> None:
    ann = file_space.writer("ann")
    for number in range(400):
        ann.accept(put("a", f"{number}" * 1000))
    file_space.engine.fold()
    report = compact(file_space.engine, Seq(400))
    assert report.bytes_after < report.bytes_before / 5
    file_space.backend.close()
    assert file_space.path.stat().st_size == report.bytes_after


@pytest.mark.property
@pytest.mark.parametrize("kind", KINDS)
def test_compacting_anywhere_changes_no_document_that_can_still_be_read(kind: str, tmp_path: Path) -> None:
    for seed in range(examples(40 if kind == "memory" else 5)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        space = Space(kind, folder)
        rng = random.Random(seed)
        with small_limits(FOLD_COMMITS=5, SNAPSHOT_SLACK_BYTES=rng.choice([0, 60, 4096])):
            schedule = Schedule(space, rng, honest=True)
            for _ in range(3):
                for _ in range(12):
                    schedule._step()
                horizon = space.engine.documents.horizon.seq
                compact(space.engine, Seq(rng.randint(horizon, space.engine.head)))
                first = space.engine.documents.horizon.seq
                for branch in (MAIN, *schedule.naive.forks):
                    for seq in range(first, space.engine.head + 1):
                        for doc in DOCS:
                            assert exact(space.value(doc, branch, seq)) == exact(
                                schedule.naive.value(doc_key(doc), branch, seq)
                            )
                report = verify(space.engine)
                assert report.ok, report.findings
                space.reopen()
        space.close()


def test_list_that_only_grows_can_be_compacted_again_and_again(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("l", []))
    for number in range(30):
        ann.accept(edit("l", append(items=[number])))
        compact(space.engine, Seq(space.engine.head))
    assert space.value("l") == list(range(30))
