"""What a run came to that stands there already, for the same reasons, takes no place in the log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.errors import LocalProtocolError, StoreFullError
from headwater.store.commit import Absent, Commit, Committed, Conflict, Operation, OriginCommitted, Refused
from headwater.store.observations import digest_of, encode_observation
from headwater.store.store_limits import VERDICTS_MAX
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, LocalSeq
from tests.support.spaces import Space, Writer, admit, drop, edit, pending_read, put, read, replace

CODE = b"code"
INPUT = doc_key("input")
RESULT = doc_key("result")
BODY = encode_observation(CODE, [(INPUT, (), 0)])
OTHER = encode_observation(b"other code", [(INPUT, (), 0)])


def run_of(writer: Writer, *operations: Operation, body: bytes = BODY, index: int = 0, **conditions: Any) -> Commit:
    """What a run came to, as a runtime sends it."""
    return msgspec.structs.replace(writer.build(*operations, **conditions), seen=(index, body))


def start(space: Space) -> tuple[Writer, Writer]:
    """An input at 1, and the result of it at 2, by the first of two runtimes."""
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("input", 1))
    assert ann.send(run_of(ann, put("result", 10), reads=[read("input", at=1)])) == Committed(2)
    return ann, bob


def test_equal_result_of_another_runtime_is_accepted_where_the_first_stands_and_takes_no_place(space: Space) -> None:
    _, bob = start(space)
    [outcome] = admit(space.engine, run_of(bob, put("result", 10), reads=[read("input", at=1)]))
    assert outcome.verdict == Committed(2)
    assert [effect.touches for effect in outcome.effects] == [()]
    assert space.engine.head == 2
    assert bob.accept(put("else", 1)) == 3


def test_equal_results_that_are_decided_together_take_one_place(space: Space) -> None:
    writers = [space.writer(f"w{number}") for number in range(8)]
    writers[0].accept(put("input", 1))
    commits = [run_of(each, put("result", 10), reads=[read("input", at=1)]) for each in writers]
    assert [outcome.verdict for outcome in admit(space.engine, *commits)] == [Committed(2)] * 8
    assert space.engine.head == 2


def test_result_that_rests_on_what_has_changed_is_a_conflict_although_it_is_equal(space: Space) -> None:
    ann, bob = start(space)
    ann.accept(put("input", 2))
    verdict = bob.send(run_of(bob, put("result", 10), reads=[read("input", at=1)]))
    assert isinstance(verdict, Conflict)


def test_what_is_no_result_of_a_run_or_has_conditions_or_changes_something_takes_its_place(space: Space) -> None:
    _, bob = start(space)
    assert bob.commit(put("result", 10)) == Committed(3)
    guarded = run_of(bob, put("result", 10), given=[OriginCommitted(LocalSeq(1))])
    assert bob.send(guarded) == Committed(4)
    assert bob.send(run_of(bob, put("result", 10), put("besides", 1))) == Committed(5)
    assert bob.send(run_of(bob, put("result", 10), put("besides", 1))) == Committed(5), "all of that stands there"
    assert bob.send(run_of(bob, put("result", 10), edit("besides", replace(to=2)))) == Committed(6)
    assert isinstance(bob.send(run_of(bob, put("result", 10), given=[Absent(RESULT)])), Refused)


def test_result_that_was_deleted_and_never_was_is_accepted_at_the_head(space: Space) -> None:
    _, bob = start(space)
    assert bob.send(run_of(bob, drop("never"))) == Committed(2)
    assert space.engine.head == 2


# -- sent again ------------------------------------------------------------------------------------------------


def test_elided_commit_that_is_sent_again_gets_the_same_verdict_whatever_happened_since(space: Space) -> None:
    ann, bob = start(space)
    elided = run_of(bob, put("result", 10), reads=[read("input", at=1)])
    assert bob.send(elided) == Committed(2)
    ann.accept(put("input", 7))
    ann.accept(put("result", 70))
    bob.accept(put("else", 1))
    assert bob.send(elided) == Committed(2)
    space.engine.fold()
    assert bob.send(elided) == Committed(2)
    assert space.value("result") == 70


def test_elided_commit_that_is_sent_again_after_a_restart_is_decided_again(space: Space) -> None:
    ann, bob = start(space)
    elided = run_of(bob, put("result", 10), reads=[read("input", at=1)])
    assert bob.send(elided) == Committed(2)
    space.reopen()
    assert bob.send(elided) == Committed(2), "it is the newest of its session"
    bob.accept(put("else", 1))
    space.reopen()
    assert bob.send(elided) == Committed(2), "a later one of its session is in the log"
    assert space.engine.head == 3
    ann.accept(put("input", 7))
    space.reopen()
    assert isinstance(bob.send(elided), Conflict), "what it rests on is no longer so: it is run again"
    assert space.engine.head == 4


def test_number_of_an_elided_commit_names_it_for_ever(space: Space) -> None:
    _, bob = start(space)
    elided = run_of(bob, put("result", 10), reads=[read("input", at=1)])
    assert bob.send(elided) == Committed(2)
    with pytest.raises(LocalProtocolError, match="names one commit for ever"):
        bob.send(msgspec.structs.replace(elided, operations=(put("result", 11),)))


def test_later_commits_of_the_session_can_follow_from_an_elided_one(space: Space) -> None:
    _, bob = start(space)
    elided = run_of(bob, put("result", 10), reads=[read("input", at=1)])
    assert bob.send(elided) == Committed(2)
    assert bob.commit(put("follow-up", 1), given=[OriginCommitted(elided.local_seq)]) == Committed(3)


def test_group_that_does_not_reach_the_disk_leaves_nothing_of_what_it_elided(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, bob = start(space)
    first = bob.build(put("else", 1))
    elided = run_of(bob, put("result", 10), reads=[read("input", at=1)])

    def full(*_: object) -> None:
        raise StoreFullError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(space.engine.backend, "append", full)
        with pytest.raises(StoreFullError):
            admit(space.engine, first, elided)
    assert space.engine.last_of(bob.session) == 0
    assert [each.verdict for each in admit(space.engine, first, elided)] == [Committed(3), Committed(2)]


def test_replayed_elision_that_fails_with_its_group_does_not_forget_later_commits(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, bob = start(space)
    elided = run_of(bob, put("result", 10), reads=[read("input", at=1)])
    later = bob.build(put("else", 1))
    assert [each.verdict for each in admit(space.engine, elided, later)] == [Committed(2), Committed(3)]
    space.reopen()

    def full(*_: object) -> None:
        raise StoreFullError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(space.engine.backend, "append", full)
        with pytest.raises(StoreFullError):
            admit(space.engine, elided, bob.build(put("more", 1), number=9))
    assert bob.send(later) == Committed(3)
    assert space.engine.head == 3


def test_only_the_newest_elisions_of_a_session_are_remembered(space: Space) -> None:
    _, bob = start(space)
    commits = [run_of(bob, put("result", 10), reads=[read("input", at=1)]) for _ in range(VERDICTS_MAX + 1)]
    for commit in commits:
        bob.send(commit)
    assert space.engine.head == 2
    assert bob.send(commits[0]) == Committed(2), "decided again, with the same end"


# -- read through it -------------------------------------------------------------------------------------------


def test_read_through_an_elided_write_has_seen_what_stands_there(space: Space) -> None:
    ann, bob = start(space)
    ann.accept(put("input", 2))
    assert ann.send(run_of(ann, put("result", 20), reads=[read("input", at=3)])) == Committed(4)
    # Bob has not heard of 4: he came to the same, and went on from there.
    elided = run_of(bob, put("result", 20), reads=[read("input", at=3)])
    number = elided.local_seq
    assert bob.send(elided) == Committed(4)
    resting = pending_read("result", basis=2, layers=[(number, number)])
    assert bob.commit(put("sum", 21), reads=[resting]) == Committed(5)
    ann.accept(put("result", 30))
    assert isinstance(bob.commit(put("sum", 22), reads=[resting]), Conflict)


def test_read_through_an_elided_patch_is_not_trusted(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("result", {"a": 1}))
    assert ann.accept(put("result", {"a": 1, "b": 2})) == 2
    elided = run_of(bob, edit("result", replace("a", to=1)))
    assert bob.send(elided) == Committed(2)
    number = elided.local_seq
    resting = pending_read("result", basis=1, layers=[(number, number)])
    assert isinstance(bob.commit(put("sum", 1), reads=[resting]), Conflict), "he has not seen b"


# -- what is kept of runs --------------------------------------------------------------------------------------


def kept(space: Space) -> tuple[int, bytes] | None:
    space.engine.fold()
    row = space.engine.backend.observation(MAIN, RESULT)
    return None if row is None else (row.seq, row.body)


def test_same_run_once_more_writes_nothing_down(space: Space) -> None:
    _, bob = start(space)
    bob.send(run_of(bob, put("result", 10), reads=[read("input", at=1)]))
    assert kept(space) == (2, BODY)
    bob.send(run_of(bob, put("result", 10), body=digest_of(BODY), reads=[read("input", at=1)]))
    assert kept(space) == (2, BODY)


def test_run_that_has_read_what_is_newer_moves_what_is_kept_on(space: Space) -> None:
    ann, bob = start(space)
    ann.accept(put("input", 2))
    assert bob.send(run_of(bob, put("result", 10), reads=[read("input", at=3)])) == Committed(2)
    assert kept(space) == (3, BODY)
    ann.accept(put("input", 3))
    digested = run_of(bob, put("result", 10), body=digest_of(BODY), reads=[read("input", at=4)])
    assert bob.send(digested) == Committed(2)
    assert kept(space) == (4, BODY)


def test_digest_of_what_only_the_log_holds_is_found_there(space: Space) -> None:
    ann, bob = start(space)
    ann.accept(put("input", 2))
    digested = run_of(bob, put("result", 10), body=digest_of(BODY), reads=[read("input", at=3)])
    assert bob.send(digested) == Committed(2)
    assert kept(space) == (3, BODY)


def test_run_of_other_code_with_the_same_result_is_the_newest_that_is_kept(space: Space) -> None:
    _, bob = start(space)
    bob.accept(put("else", 1))
    assert bob.send(run_of(bob, put("result", 10), body=OTHER, reads=[read("input", at=1)])) == Committed(2)
    assert kept(space) == (3, OTHER)


def test_digest_that_says_nothing_leaves_what_is_kept(space: Space) -> None:
    _, bob = start(space)
    unknown = run_of(bob, put("result", 10), body=digest_of(OTHER), reads=[read("input", at=1)])
    assert bob.send(unknown) == Committed(2)
    assert kept(space) == (2, BODY)


def test_run_that_is_kept_in_the_table_alone_is_found_there(space: Space) -> None:
    _, bob = start(space)
    space.engine.fold()
    space.reopen()
    bob.send(run_of(bob, put("result", 10), reads=[read("input", at=1)]))
    assert kept(space) == (2, BODY)
    bob.accept(put("input", 2))
    bob.send(run_of(bob, put("result", 10), body=digest_of(BODY), reads=[read("input", at=3)]))
    assert kept(space) == (3, BODY)


def test_result_that_another_run_wrote_besides_its_own_is_no_run_of_it(space: Space) -> None:
    ann, bob = start(space)
    ann.send(run_of(ann, put("other", 1), put("result", 11)))
    assert bob.send(run_of(bob, put("result", 11), reads=[read("input", at=1)])) == Committed(3)
    assert kept(space) == (3, BODY)


def test_session_that_was_quiet_for_long_is_forgotten_with_what_it_elided(space: Space) -> None:
    ann, bob = start(space)
    elided = run_of(bob, put("result", 10), reads=[read("input", at=1)])
    bob.send(elided)
    for value in (1, 2):
        ann.accept(put("else", value))
        space.engine.fold()
    assert space.engine.last_of(bob.session) == 0
    assert bob.send(elided) == Committed(2), "decided again"
