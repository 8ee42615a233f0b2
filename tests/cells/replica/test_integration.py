"""Verdicts and others' commits arriving at a replica: promoted quietly, reverted in one step, never half."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.cells.pending_commit import PendingCommit
from headwater.cells.visible_step import VisibleStep
from headwater.errors import InvariantError, StoreFullError
from headwater.store.branching import fork
from headwater.store.commit import Absent, Conflict, OriginCommitted, Refused
from headwater.values.address import Depth, doc_key
from headwater.values.ids import LocalSeq
from headwater.values.notifications import Kind
from headwater.values.patch import Touch
from tests.support.hub import FULL, Hub, Mirror
from tests.support.naive import NOTHING
from tests.support.spaces import add, append, drop, edit, increment, move, put, remove, replace


def test_confirmed_commit_is_settled_without_a_word(hub: Hub) -> None:
    ann = hub.attach("ann")
    pending = [ann.commit(edit("a", replace("x", to=n))) for n in (1, 2, 3)]
    ann.changes()
    hub.decide(2)
    ann.refresh()
    assert [p.settled for p in pending] == [True, True, False]
    hub.settle()
    assert all(p.accepted for p in pending)
    assert (ann.changes(), ann.read("a")["x"], ann.replica.pending_count) == ([], 3, 0)


def test_callbacks_run_once_after_the_documents_have_moved(hub: Hub) -> None:
    ann = hub.attach("ann")
    seen: list[tuple[bool, int]] = []
    pending = ann.commit(edit("a", replace("x", to=1)))
    pending.on_settled(lambda p: seen.append((p.accepted, ann.replica.pending_count)))
    assert seen == []
    hub.settle()
    pending.on_settled(lambda p: seen.append((p.accepted, -1)))
    assert seen == [(True, 0), (True, -1)]
    assert pending.callbacks == (), "they are let go"
    with pytest.raises(InvariantError):
        pending.settle(None, FULL)


def test_callback_may_commit_again(hub: Hub) -> None:
    ann = hub.attach("ann")

    def again(_first: PendingCommit) -> None:
        ann.commit(edit("a", replace("x", to=2)))

    ann.commit(edit("a", replace("x", to=1))).on_settled(again)
    hub.settle()
    hub.settle()
    assert (ann.read("a")["x"], len(ann.settled)) == (2, 2)


def test_callback_that_raises_keeps_no_other_commit_from_being_settled(hub: Hub) -> None:
    ann = hub.attach("ann")
    first, second = ann.commit(put("b", 1)), ann.commit(put("b", 2))

    def boom(_pending: object) -> None:
        raise ZeroDivisionError

    first.on_settled(boom)
    hub.decide()
    with pytest.raises(ZeroDivisionError):
        ann.refresh()
    assert first.accepted and second.accepted


def test_listener_that_raises_keeps_no_commit_from_being_settled(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    bob.commit(put("b", 0))
    mine = ann.commit(put("c", 1))

    def boom(_notification: object) -> None:
        raise ZeroDivisionError

    ann.replica.listen(boom)
    hub.decide()
    with pytest.raises(ZeroDivisionError):
        ann.refresh()
    assert mine.accepted
    assert ann.read("b") == 0


def test_others_commits_arrive_as_one_step(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    bob.commit(edit("a", replace("x", to=1)))
    bob.commit(edit("a", replace("x", to=2), increment("y")), put("c", 1))
    hub.settle()
    assert [n.kind for n in ann.told] == [Kind.INTEGRATE]
    assert sorted(ann.changes()) == [
        ("integrate", "a", ("x",), 0, 2),
        ("integrate", "a", ("y",), 0, 1),
        ("integrate", "c", (), NOTHING, 1),
    ]


def test_others_commits_that_cancel_out_are_not_told(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    bob.commit(edit("a", replace("x", to=1)))
    bob.commit(edit("a", replace("x", to=0)))
    hub.settle()
    assert ann.changes() == []


def test_change_is_told_of_documents_that_were_never_read_here(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    mirror = Mirror(ann, ["a", "b"])
    bob.commit(edit("a", replace("x", to=1)), drop("b"))
    hub.settle()
    assert ann.replica._documents == {}, "being told of a document is no reason to hold it"
    assert mirror.documents[doc_key("a")]["x"] == 1
    assert ann.read("a")["x"] == 1


def test_foreign_write_under_a_layer_is_not_told_until_it_shows(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    ann.commit(edit("a", replace("x", to="mine")))
    ann.changes()
    bob.commit(edit("a", replace("x", to="theirs"), replace("y", to="theirs")))
    hub.queue.rotate(1)  # theirs is first
    hub.decide(1)
    ann.refresh()
    assert ann.changes() == [("integrate", "a", ("y",), 0, "theirs")]
    assert ann.read("a") == {"x": "mine", "y": "theirs", "l": [1, 2]}
    hub.settle()
    assert ann.changes() == []
    assert bob.read("a") == ann.read("a")


def test_mergeable_layer_is_rendered_on_what_arrives(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    ann.commit(edit("b", increment("n", by=10)))
    ann.changes()
    bob.commit(edit("b", increment("n", by=1)))
    hub.queue.rotate(1)
    hub.decide(1)
    ann.refresh()
    assert ann.changes() == [("integrate", "b", ("n",), 10, 11)]
    hub.settle()
    assert (ann.read("b"), bob.read("b"), ann.changes()) == ({"n": 11}, {"n": 11}, [])


# --- reverts ---


def lose(hub: Hub) -> None:
    """Bob writes a.x first; who read it at the start loses."""
    bob = next(peer for peer in hub.peers if peer.replica._session == "bob")
    bob.commit(edit("a", replace("x", to="theirs")))
    hub.queue.rotate(1)
    hub.decide(1)


def test_revert_and_the_winning_data_are_one_transition(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    pending = ann.commit(edit("a", replace("x", to="mine"), replace("y", to="mine")), reads=[ann.mark("a", "x")])
    ann.changes()
    lose(hub)
    hub.settle()
    assert isinstance(pending.verdict, Conflict)
    assert len(ann.told) == 1
    assert ann.changes() == [("revert", "a", ("x",), "mine", "theirs"), ("revert", "a", ("y",), "mine", 0)]
    assert ann.read("a") == bob.read("a")


def test_revert_names_the_transaction_it_takes_back(hub: Hub) -> None:
    ann, _bob = hub.attach("ann"), hub.attach("bob")
    ann.commit(edit("a", replace("x", to="mine")), reads=[ann.mark("a", "x")], source="tx 1")
    lose(hub)
    hub.settle()
    assert [(n.kind, n.source) for n in ann.told] == [(Kind.COMMIT, "tx 1"), (Kind.REVERT, "tx 1")]


def test_revert_to_what_is_there_anyway_is_not_told(hub: Hub) -> None:
    ann, _bob = hub.attach("ann"), hub.attach("bob")
    ann.commit(edit("a", replace("x", to="theirs")), reads=[ann.mark("a", "x")])
    ann.changes()
    lose(hub)
    hub.settle()
    assert ann.changes() == []


def test_refused_commit_is_taken_back(hub: Hub) -> None:
    ann = hub.attach("ann")
    pending = ann.commit(put("a", "mine"), put("c", 1), given=[Absent(doc_key("a"))])
    ann.changes()
    hub.settle()
    assert isinstance(pending.verdict, Refused)
    assert [change[:3] for change in ann.changes()] == [("revert", "a", ()), ("revert", "c", ())]
    assert (ann.read("a")["x"], ann.read("c")) == (0, NOTHING)


def test_rejection_takes_everything_built_on_it_along_at_once(hub: Hub) -> None:
    ann, _bob = hub.attach("ann"), hub.attach("bob")
    first = ann.commit(edit("a", replace("x", to=1)), reads=[ann.mark("a", "x")])
    second = ann.commit(put("b", 2), reads=[ann.mark("a", "x")])
    third = ann.commit(put("c", 3), reads=[ann.mark("b")])
    fourth = ann.commit(put("d", 4), given=[OriginCommitted(LocalSeq(3))])
    free = ann.commit(put("e", 5))
    lose(hub)
    hub.decide(1)  # only the first is decided
    ann.refresh()
    assert [p.settled for p in (first, second, third, fourth, free)] == [True, False, False, False, False]
    visible = [ann.read(name) for name in ("b", "c", "d", "e")]
    assert visible == [{"n": 0}, NOTHING, NOTHING, 5], "what rests on a rejected commit is gone already"
    hub.settle()
    assert [type(p.verdict) for p in (second, third, fourth)] == [Conflict, Conflict, Refused]
    assert free.accepted
    assert hub.engine.head == 3


def test_independent_later_commit_survives_on_the_same_document(hub: Hub) -> None:
    ann, _bob = hub.attach("ann"), hub.attach("bob")
    doomed = ann.commit(edit("a", replace("x", to="mine")), reads=[ann.mark("a", "x")])
    free = ann.commit(edit("a", replace("y", to="kept")))
    lose(hub)
    hub.settle()
    assert isinstance(doomed.verdict, Conflict) and free.accepted
    assert ann.read("a") == {"x": "theirs", "y": "kept", "l": [1, 2]}


def test_surviving_patch_that_no_longer_applies_is_not_shown(hub: Hub) -> None:
    ann, _bob = hub.attach("ann"), hub.attach("bob")
    doomed = ann.commit(edit("a", add("m", value={"k": 0})), reads=[ann.mark("a", "x")])
    inside = ann.commit(edit("a", replace("m", "k", to=1)), put("c", 1))
    later = ann.commit(edit("a", replace("y", to=2)))
    lose(hub)
    hub.decide(1)
    ann.refresh()
    assert ann.read("a") == {"x": "theirs", "y": 2, "l": [1, 2]}
    hub.settle()
    assert isinstance(doomed.verdict, Conflict) and isinstance(inside.verdict, Conflict) and later.accepted
    assert (ann.read("a"), ann.read("c")) == ({"x": "theirs", "y": 2, "l": [1, 2]}, NOTHING)


def test_patch_that_applies_again_after_all_is_shown_again(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    mine = ann.commit(edit("b", increment("n")))
    bob.commit(drop("b"))
    bob.commit(put("b", {"n": 5}))
    hub.queue.rotate(2)
    hub.decide(1)
    ann.refresh()
    hub.decide(1)
    ann.refresh()
    assert ann.read("b") == {"n": 6}
    hub.settle()
    assert mine.accepted
    assert bob.read("b") == ann.read("b") == {"n": 6}


def test_layer_that_would_nest_too_deep_on_what_arrives_is_not_shown(hub: Hub) -> None:
    def nested(depth: int) -> object:
        value: object = 0
        for _ in range(depth):
            value = [value]
        return value

    ann, bob = hub.attach("ann"), hub.attach("bob")
    deep: tuple[str, ...] = tuple(f"k{n}" for n in range(300))
    bob.commit(edit("a", add(*deep, value={})))
    hub.settle()
    mine = ann.commit(edit("a", move(("x",), (*deep, "x"))))
    bob.commit(edit("a", replace("x", to=nested(300))))
    hub.queue.rotate(1)
    hub.decide(1)
    ann.refresh()
    assert ann.read("a")["x"] == nested(300)
    hub.settle()
    assert isinstance(mine.verdict, Refused)


def test_commit_made_on_a_dead_layer_is_a_conflict_at_once(hub: Hub) -> None:
    ann, _bob = hub.attach("ann"), hub.attach("bob")
    ann.commit(edit("a", replace("x", to=1)), reads=[ann.mark("a", "x")])
    mark = ann.mark("a", "x")  # read while the layer was alive
    lose(hub)
    hub.settle()
    ann.changes()
    late = ann.commit(put("sum", 1), reads=[mark])
    assert isinstance(late.verdict, Conflict)
    assert (ann.changes(), len(hub.queue), ann.read("sum")) == ([], 0, NOTHING)
    assert ann.settled[-1] is late


def test_thousands_of_commits_built_on_a_rejected_one_fall_in_reasonable_time(hub: Hub) -> None:
    ann, _bob = hub.attach("ann"), hub.attach("bob")
    ann.commit(edit("a", replace("x", to=1)), reads=[ann.mark("a", "x")])
    for number in range(1500):
        ann.commit(edit("b", replace("n", to=number + 1)), reads=[ann.mark("a", "x")])
    lose(hub)
    hub.settle()
    assert ann.read("b") == {"n": 0}
    assert all(isinstance(p.verdict, Conflict) for p in ann.settled)


# --- failures ---


def test_failure_takes_the_commit_back_with_its_error(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    pending = ann.commit(edit("a", replace("x", to=1)))
    built_on_it = ann.commit(put("c", 1), reads=[ann.mark("a", "x")])
    free = ann.commit(put("e", 5))
    ann.changes()
    hub.fail(FULL, 1)
    ann.refresh()
    bob.refresh()
    assert (pending.error, pending.verdict, pending.accepted) == (FULL, None, False)
    assert ann.changes() == [("revert", "a", ("x",), 1, 0), ("revert", "c", (), 1, NOTHING)]
    assert bob.changes() == []
    hub.settle()
    assert isinstance(built_on_it.verdict, Conflict) and free.accepted
    assert isinstance(FULL, StoreFullError)


def test_failure_of_one_session_does_not_touch_the_commits_of_another(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    mine, theirs = ann.commit(put("c", 1)), bob.commit(put("d", 1))
    assert mine.commit.local_seq == theirs.commit.local_seq == 1
    hub.fail(FULL, 1)
    bob.refresh()
    assert not theirs.settled
    assert bob.read("d") == 1
    hub.settle()
    assert (mine.error, theirs.accepted) == (FULL, True)


# --- replayed outcomes ---


def test_outcome_without_effects_promotes_the_layer_by_reading_the_document(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    mine = ann.commit(edit("b", increment("n")), edit("a", replace("x", to=1)))
    ann.changes()
    hub.interrupt()
    for peer in (ann, bob):
        peer.refresh()
    assert mine.accepted
    assert (ann.read("b"), ann.changes()) == ({"n": 1}, [])
    ann.commit(edit("b", increment("n")))
    hub.settle()
    assert (ann.read("b"), hub.space.value("b")) == ({"n": 2}, {"n": 2})
    assert ann.mark("b").path == ()


def test_outcome_without_effects_reaches_the_other_replicas_too(hub: Hub) -> None:
    ann, bob, new = hub.attach("ann"), hub.attach("bob"), hub.attach("new")
    assert bob.read("b") == {"n": 0}  # held; the third holds nothing
    mirror = Mirror(new, ["a", "b", "c"])
    ann.commit(edit("b", increment("n")), put("c", 1))
    hub.interrupt()
    hub.settle()
    for peer in (bob, new):
        assert (peer.read("b"), peer.read("c")) == ({"n": 1}, 1)
    assert sorted(bob.changes(), key=str) == [("integrate", "b", ("n",), 0, 1), ("integrate", "c", (), NOTHING, 1)]
    assert (mirror.documents[doc_key("b")], mirror.documents[doc_key("c")]) == ({"n": 1}, 1)


def test_outcomes_heard_twice_are_taken_in_once(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    ann.commit(edit("b", increment("n")))
    ann.commit(edit("b", increment("n")), put("c", 1))
    hub.decide()
    ann.inbox += ann.inbox
    bob.inbox += bob.inbox
    hub.settle()
    assert (ann.read("b"), bob.read("b")) == ({"n": 2}, {"n": 2})
    ann.changes()
    bob.changes()
    again = list(hub.engine.admit([]))
    assert again == []


def test_outcomes_that_come_again_later_change_nothing_and_tell_nothing(hub: Hub) -> None:
    ann, bob, new = hub.attach("ann"), hub.attach("bob"), hub.attach("new")
    bob.read("b")
    ann.commit(edit("b", replace("n", to=1)))
    hub.decide()
    old = list(bob.inbox)
    ann.commit(edit("b", replace("n", to=2)))
    hub.settle()
    for peer in (ann, bob, new):
        peer.changes()
        peer.replica.integrate(old)
        assert peer.changes() == []
        assert peer.read("b") == {"n": 2}


# --- branches ---


def test_replicas_of_different_branches_do_not_see_each_other(hub: Hub) -> None:
    fork(hub.engine, hub.space.clock, "draft")
    ann, bob = hub.attach("ann"), hub.attach("bob", "draft")
    ann.commit(edit("a", replace("x", to="main")))
    bob.commit(edit("a", replace("y", to="draft")), put("c", 1))
    hub.settle()
    assert (ann.read("a"), ann.read("c")) == ({"x": "main", "y": 0, "l": [1, 2]}, NOTHING)
    assert (bob.read("a"), bob.read("c")) == ({"x": 0, "y": "draft", "l": [1, 2]}, 1)
    assert {kind for kind, *_ in ann.changes() + bob.changes()} == {"commit"}


def test_merge_is_told_to_replicas_of_the_target(hub: Hub) -> None:
    fork(hub.engine, hub.space.clock, "draft")
    ann, bob = hub.attach("ann"), hub.attach("bob", "draft")
    bob.commit(edit("a", replace("x", to="draft")), put("c", 1), drop("b"))
    hub.settle()
    bob.changes()
    mirror = Mirror(ann, ["a", "b", "c"])
    ann.commit(edit("a", append("l", items=[3])))  # not decided yet
    hub.merge("draft")
    ann.refresh()
    assert ann.read("a") == {"x": "draft", "y": 0, "l": [1, 2, 3]}
    hub.settle()
    assert ann.read("a") == {"x": "draft", "y": 0, "l": [1, 2, 3]}
    assert mirror.documents == {doc_key(name): ann.read(name) for name in ("a", "b", "c")}
    assert bob.changes() == []


def test_shallow_reader_is_not_told_more_than_what_changed(hub: Hub) -> None:
    ann, bob = hub.attach("ann"), hub.attach("bob")
    bob.commit(edit("a", remove("l", 0)))
    hub.settle()
    assert ann.changes() == [("integrate", "a", ("l",), [1, 2], [2])]
    assert ann.mark("a", depth=Depth.SHALLOW).depth is Depth.SHALLOW


class _CountedTouches(tuple[Touch, ...]):
    """Touches that count how often one of them is copied."""

    __slots__ = ()
    copied = 0

    def __iter__(self) -> Iterator[Touch]:
        _CountedTouches.copied += len(self)
        return super().__iter__()

    def __add__(self, other: tuple[Any, ...]) -> Any:  # as the base class has it
        _CountedTouches.copied += len(self) + len(other)
        return _CountedTouches(super().__add__(other))


def test_a_step_copies_the_touches_of_each_of_its_commits_at_most_twice() -> None:
    step: VisibleStep[object] = VisibleStep()
    _CountedTouches.copied = 0
    commits = 1000
    for number in range(commits):
        step.record(doc_key("log"), number, number + 1, _CountedTouches((Touch((f"k{number}",), True),)))
    assert _CountedTouches.copied <= 2 * commits
