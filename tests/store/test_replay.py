"""A commit sent again gets the answer it got before, whatever happened in between."""

from __future__ import annotations

import pytest

from headwater.errors import LocalProtocolError
from headwater.store.commit import Absent, Committed, Conflict, OriginCommitted, Refused
from headwater.values.address import doc_key
from headwater.values.ids import LocalSeq
from tests.support.limits import small_limits
from tests.support.spaces import Space, admit, edit, increment, pending_read, put, read, replace


def test_accepted_commit_sent_again_gets_its_place_and_changes_nothing(space: Space) -> None:
    ann = space.writer("ann")
    commit = ann.build(put("count", 1))
    assert ann.send(commit) == Committed(1)
    assert ann.send(commit) == Committed(1)
    assert space.engine.head == 1


def test_accepted_commit_sent_twice_in_one_group_lands_once(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("count", 0))
    commit = ann.build(edit("count", increment()))
    first, again = admit(space.engine, commit, commit)
    assert first.verdict == again.verdict == Committed(2)
    assert space.value("count") == 1


def test_replay_is_answered_before_preconditions_are_looked_at(space: Space) -> None:
    ann = space.writer("ann")
    commit = ann.build(put("receipt", {}), given=[Absent(doc_key("receipt"))])
    assert ann.send(commit) == Committed(1)
    assert ann.send(commit) == Committed(1), "it exists now, by this very commit"


def test_replay_is_answered_before_reads_are_looked_at(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    commit = ann.build(put("sum", 1), reads=[read("count", at=0)])
    assert ann.send(commit) == Committed(1)
    bob.accept(put("count", 9))
    assert ann.send(commit) == Committed(1)


def test_accepted_commit_sent_again_after_reopening_does_not_land_twice(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("count", 0))
    commit = ann.build(edit("count", increment()))
    assert ann.send(commit) == Committed(2)
    space.reopen()
    assert ann.send(commit) == Committed(2)
    assert space.value("count") == 1


def test_accepted_commit_sent_again_after_a_fold_does_not_land_twice(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("count", 0))
    commit = ann.build(edit("count", increment()))
    assert ann.send(commit) == Committed(2)
    space.engine.fold()
    assert ann.send(commit) == Committed(2)
    space.reopen()
    assert ann.send(commit) == Committed(2)
    assert space.value("count") == 1


def test_commit_that_was_written_together_with_a_fold_is_remembered(space: Space) -> None:
    ann = space.writer("ann")
    with small_limits(FOLD_COMMITS=1):
        ann.accept(put("count", 0))
        commit = ann.build(edit("count", increment()))
        assert ann.send(commit) == Committed(2)  # the first is folded on this occasion
        assert ann.send(commit) == Committed(2)
    assert space.value("count") == 1


def test_gap_of_a_session_that_another_one_fills_stays_a_gap_after_a_fold(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    first = ann.build(put("count", 1))
    assert ann.send(first) == Committed(1)
    assert isinstance(ann.commit(put("sum", 1), given=[Absent(doc_key("count"))]), Conflict | Refused)
    bob.accept(put("other", 1))
    last = ann.build(put("count", 3))
    assert ann.send(last) == Committed(3)
    space.engine.fold()
    assert space.engine.backend.replayed(first.session, LocalSeq(2)) is None
    space.reopen()
    assert [ann.send(each) for each in (first, last)] == [Committed(1), Committed(3)]


def test_gap_of_a_session_that_writes_alone_stays_a_gap_after_a_fold(space: Space) -> None:
    ann = space.writer("ann")
    first = ann.build(put("count", 1))
    assert ann.send(first) == Committed(1)
    assert isinstance(ann.commit(put("sum", 1), given=[Absent(doc_key("count"))]), Conflict | Refused)
    last = ann.build(put("count", 3))
    assert ann.send(last) == Committed(2)
    space.engine.fold()
    space.reopen()
    assert [ann.send(each) for each in (first, last)] == [Committed(1), Committed(2)]


def test_layer_that_was_written_together_with_a_fold_counts_as_accepted(space: Space) -> None:
    ann = space.writer("ann")
    with small_limits(FOLD_COMMITS=1):
        ann.accept(put("count", 0))
        ann.accept(edit("count", replace(to=1)))
        ann.accept(put("sum", 1), reads=[pending_read("count", basis=1, layers=[(2, 2)])])
        ann.accept(put("sum", 2), given=[OriginCommitted(LocalSeq(3))])


@pytest.mark.parametrize("how", ["at once", "folded", "reopened"])
def test_other_operations_under_a_used_number_are_a_protocol_error(space: Space, how: str) -> None:
    ann = space.writer("ann")
    ann.accept(put("count", 1))
    if how == "folded":
        space.engine.fold()
    if how == "reopened":
        space.reopen()
    with pytest.raises(LocalProtocolError, match="names one commit for ever"):
        ann.commit(put("count", 2), number=1)
    assert space.value("count") == 1
    assert space.engine.head == 1


@pytest.mark.parametrize("other", [1.0, True, "1", b"1", None])
def test_operations_that_are_equal_only_to_python_are_other_operations(space: Space, other: object) -> None:
    ann = space.writer("ann")
    ann.accept(put("count", 1))
    with pytest.raises(LocalProtocolError):
        ann.commit(put("count", other), number=1)


def test_same_operations_on_another_branch_under_a_used_number_are_a_protocol_error(space: Space) -> None:
    from headwater.store.branching import fork

    ann = space.writer("ann")
    ann.accept(put("count", 1))
    fork(space.engine, space.clock, "draft")
    elsewhere = space.writer("ann", "draft")
    with pytest.raises(LocalProtocolError):
        elsewhere.commit(put("count", 1), number=1)


def test_a_protocol_error_undoes_the_whole_group(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("count", 1))
    fresh = ann.build(put("count", 5))
    with pytest.raises(LocalProtocolError):
        admit(space.engine, fresh, ann.build(put("count", 3), number=1))
    assert space.value("count") == 1
    assert ann.send(fresh) == Committed(2)


def test_rejected_commit_sent_again_is_rejected_for_the_same_reason(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(put("count", 1))
    stale = ann.build(put("sum", 1), reads=[read("count", at=0)])
    refused = ann.build(put("count", 1), given=[Absent(doc_key("count"))])
    for commit, kind in ((stale, Conflict), (refused, Refused)):
        verdict = ann.send(commit)
        assert isinstance(verdict, kind)
        assert ann.send(commit) == verdict
        space.engine.fold()
        assert ann.send(commit) == verdict


def test_rejected_commit_with_a_later_accepted_one_stays_rejected_after_reopening(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    bob.accept(put("count", 1))
    stale = ann.build(put("sum", 1), reads=[read("count", at=0)])
    assert isinstance(ann.send(stale), Conflict)
    ann.accept(put("sum", 2))
    space.reopen()
    assert not isinstance(ann.send(stale), Committed)
    assert space.value("sum") == 2


def test_number_that_was_skipped_counts_as_rejected(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    ann.accept(put("c", 3), number=3)
    assert isinstance(ann.commit(put("b", 2), number=2), Conflict)
    assert isinstance(ann.commit(put("d", 4), number=4, given=[OriginCommitted(LocalSeq(2))]), Refused)


def test_commits_of_a_session_keep_their_order_in_the_log(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    mixed = [ann.build(put("a", 1)), bob.build(put("b", 1)), ann.build(put("a", 2)), bob.build(put("b", 2))]
    seqs = {(o.commit.session, o.commit.local_seq): o.verdict for o in admit(space.engine, *mixed)}
    assert seqs == {
        ("ann", 1): Committed(1),
        ("bob", 1): Committed(2),
        ("ann", 2): Committed(3),
        ("bob", 2): Committed(4),
    }


def test_each_of_many_interleaved_commits_is_found_again_after_folds_and_reopening(space: Space) -> None:
    writers = [space.writer(name) for name in ("ann", "bob", "cyd")]
    sent = []
    with small_limits(FOLD_COMMITS=5):
        for turn in range(40):
            writer = writers[turn * turn % 3]
            commit = writer.build(put(f"d{turn % 4}", turn))
            sent.append((writer, commit, writer.send(commit)))
    for reopen in (False, True):
        if reopen:
            space.reopen()
        for writer, commit, verdict in sent:
            assert writer.send(commit) == verdict
    assert space.engine.head == 40
