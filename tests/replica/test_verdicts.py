"""What a verdict does to what is visible: promoted in silence, or taken back together with what won."""

from __future__ import annotations

import pytest

from headwater.cells.pending import Pending
from headwater.cells.replica import Replica
from headwater.errors import InvariantError, StoreFullError
from headwater.store.commit import Absent, Committed, Conflict, OriginCommitted, PendingRead, Read, Refused
from headwater.store.document import Found
from headwater.values.address import Depth, doc_key
from headwater.values.change import Kind, Notification
from headwater.values.ids import DocKey, Seq
from headwater.values.tree import freeze
from tests.replica.desk import Desk, Ear, see
from tests.support.naive import NOTHING
from tests.support.spaces import add, append, drop, edit, increment, move, put, remove, replace, splice

A, B = doc_key("a"), doc_key("b")


def mark(replica: Replica, name: str, *path: str | int) -> Read | PendingRead:
    return replica.read_mark(doc_key(name), path)


def two_replicas(**start: object) -> tuple[Desk, Replica, Replica]:
    desk = Desk()
    here, there = desk.replica("here"), desk.replica("there")
    if start:
        here.commit([put(name, value) for name, value in start.items()])
        desk.settle()
    return desk, here, there


# --- accepted -------------------------------------------------------------------------------------------------


def test_accepted_commit_is_promoted_without_a_word() -> None:
    desk, here, there = two_replicas()
    ear, other = Ear(here), Ear(there)
    first = here.commit([put("a", {"n": 1})])
    second = here.commit([edit("a", increment("n"))], reads=[mark(here, "a", "n")])
    assert len(ear.heard()) == 2
    desk.settle()
    assert ear.told == []
    assert (first.verdict, second.verdict) == (Committed(Seq(1)), Committed(Seq(2)))
    assert mark(here, "a") == Read(A, (), Seq(2)), "the layers became part of what is confirmed"
    assert other.heard() == [("integrate", (), NOTHING, {"n": 2})], "what one step brings is told as one change"


def test_foreign_commit_below_an_own_layer_shows_through_it() -> None:
    desk, here, there = two_replicas(a={"x": 0, "y": 0, "l": [1]})
    ear = Ear(here, a={"x": 0, "y": 0, "l": [1]})
    there.commit([edit("a", replace("x", to=1), append("l", items=[2]))])
    desk.decide()
    mine = here.commit([edit("a", replace("y", to=1), append("l", items=[3]))])
    ear.heard()
    desk.settle()
    assert mine.accepted
    assert sorted(ear.heard(), key=repr) == [("integrate", ("l",), [1, 3], [1, 2, 3]), ("integrate", ("x",), 0, 1)]
    assert see(here, "a") == see(there, "a") == {"x": 1, "y": 1, "l": [1, 2, 3]}


def test_foreign_commit_hidden_by_an_own_layer_is_told_to_nobody() -> None:
    desk, here, there = two_replicas(a=0)
    ear = Ear(here, a=0)
    there.commit([put("a", "theirs")])
    desk.decide()
    here.commit([put("a", "mine")])
    ear.heard()
    desk.settle()
    assert ear.told == []
    assert see(here, "a") == see(there, "a") == "mine"


def test_document_that_nobody_read_here_is_told_of_as_well() -> None:
    desk, here, there = two_replicas()
    ear = Ear(here)
    there.commit([put("unread", {"n": 1})])
    there.commit([edit("unread", increment("n"))])
    desk.settle()
    assert ear.heard() == [("integrate", (), NOTHING, {"n": 2})]


def test_commits_decided_but_not_taken_in_are_not_read() -> None:
    """A replica reads as of its place in the log, also documents it loads late."""
    desk, here, there = two_replicas(a=1, b=1)
    there.commit([put("a", 2), put("b", 2)])
    desk.decide()
    assert (see(here, "a"), see(here, "b")) == (1, 1)
    desk.tell()
    assert (see(here, "a"), see(here, "b")) == (2, 2)


# --- rejected -------------------------------------------------------------------------------------------------


def test_revert_and_what_won_arrive_as_one_notification() -> None:
    desk, here, there = two_replicas(a={"n": 0})
    ear = Ear(here, a={"n": 0})
    there.commit([edit("a", replace("n", to="theirs"))])
    desk.decide()
    mine = here.commit([edit("a", replace("n", to="mine"))], reads=[mark(here, "a", "n")], source="tx")
    ear.heard()
    desk.settle()
    assert isinstance(mine.verdict, Conflict)
    assert mine.verdict.doc == A
    assert [(n.kind, n.source) for n in ear.told] == [(Kind.REVERT, "tx")]
    assert ear.heard() == [("revert", ("n",), "mine", "theirs")]


def test_revert_to_the_same_value_is_told_to_nobody() -> None:
    """What won is what was lost: seen from here nothing happened."""
    desk, here, there = two_replicas(a={"n": 0})
    there.commit([edit("a", replace("n", to=1))])
    desk.decide()
    mine = here.commit([edit("a", replace("n", to=1))], reads=[mark(here, "a", "n")])
    ear = Ear(here, a={"n": 1})
    desk.settle()
    assert isinstance(mine.verdict, Conflict)
    assert ear.told == []


def test_refused_commit_is_taken_back() -> None:
    desk, here, _ = two_replicas(a=1)
    ear = Ear(here, a=1)
    mine = here.commit([put("a", 2)], preconditions=[Absent(A)])
    assert see(here, "a") == 2
    desk.settle()
    assert isinstance(mine.verdict, Refused)
    assert ear.heard() == [("commit", (), 1, 2), ("revert", (), 2, 1)]


def test_commit_over_several_documents_is_taken_back_from_all() -> None:
    desk, here, there = two_replicas(a=1, b=1)
    ear = Ear(here, a=1, b=1)
    there.commit([put("b", "theirs")])
    desk.decide()
    here.commit([put("a", 2), put("b", 2), put("new", 2)], reads=[mark(here, "b")])
    ear.heard()
    desk.settle()
    assert [(n.kind, len(n.changes)) for n in ear.told] == [(Kind.REVERT, 3)]
    assert ear.model == {A: 1, B: "theirs", doc_key("new"): NOTHING}


def test_commit_the_store_could_not_decide_is_taken_back_with_its_error() -> None:
    desk, here, _ = two_replicas(a=1)
    ear = Ear(here, a=1)
    mine = here.commit([put("a", 2)])
    error = StoreFullError("no room")
    desk.fail(error)
    desk.tell()
    assert (mine.error, mine.verdict, mine.settled, mine.accepted) == (error, None, True, False)
    assert ear.heard() == [("commit", (), 1, 2), ("revert", (), 2, 1)]


def test_commit_that_read_a_rejected_layer_goes_with_it() -> None:
    desk, here, there = two_replicas(a=0, b=0)
    ear = Ear(here, a=0, b=0)
    there.commit([put("a", "theirs")])
    desk.decide()
    first = here.commit([put("a", "mine")], reads=[mark(here, "a")])
    resting = here.commit([put("b", "from mine")], reads=[mark(here, "a")])
    further = here.commit([put("c", "from b")], reads=[mark(here, "b")])
    following = here.commit([put("d", "follows")], preconditions=[OriginCommitted(first.commit.local_seq)])
    independent = here.commit([put("e", "independent")])
    ear.heard()
    desk.settle()
    assert [type(p.verdict) for p in (first, resting, further)] == [Conflict] * 3
    assert isinstance(following.verdict, Refused)
    assert independent.accepted
    assert ear.kinds() == [Kind.REVERT]
    views = [{name: see(replica, name) for name in "abcde"} for replica in (here, there)]
    assert views[0] == views[1] == {"a": "theirs", "b": 0, "c": NOTHING, "d": NOTHING, "e": "independent"}


def test_dependents_go_at_once_even_if_their_own_verdict_comes_later() -> None:
    desk, here, there = two_replicas(a=0, b=0)
    ear = Ear(here, a=0, b=0)
    there.commit([put("a", "theirs")])
    first = here.commit([put("a", "mine")], reads=[mark(here, "a")])
    desk.decide()
    resting = here.commit([put("b", "from mine")], reads=[mark(here, "a")])
    surviving = here.commit([edit("a", replace(to="blind"))])
    ear.heard()
    desk.tell()
    assert isinstance(first.verdict, Conflict)
    assert not resting.settled
    assert (see(here, "a"), see(here, "b")) == ("blind", 0)
    assert ear.heard() == [("revert", (), "from mine", 0)]
    desk.settle()
    assert isinstance(resting.verdict, Conflict)
    assert surviving.accepted
    assert ear.told == [], "it was taken back already"


def test_commit_made_on_a_dead_layer_is_a_conflict_that_never_travels() -> None:
    desk, here, there = two_replicas(a=0)
    there.commit([put("a", "theirs")])
    desk.decide()
    here.commit([put("a", "mine")], reads=[mark(here, "a")])
    stale = mark(here, "a")
    desk.settle()
    ear, sent = Ear(here, a="theirs"), desk.submitted
    late = here.commit([put("b", "too late")], reads=[stale])
    assert isinstance(late.verdict, Conflict)
    assert (ear.told, desk.submitted, see(here, "b")) == ([], sent, NOTHING)
    again = here.commit([put("b", "in time")], reads=[mark(here, "a")])
    desk.settle()
    assert again.accepted


def test_surviving_patch_that_no_longer_fits_is_skipped_until_its_verdict() -> None:
    desk, here, there = two_replicas(a={"l": [1, 2]})
    ear = Ear(here, a={"l": [1, 2]})
    there.commit([put("a", {"l": "no list"})])
    desk.decide()
    misfit = here.commit([edit("a", append("l", items=[3])), put("b", 1)])
    other = here.commit([edit("a", add("k", value=1))])
    ear.heard()
    desk.tell()
    assert see(here, "a") == {"l": "no list", "k": 1}
    assert sorted(ear.heard()) == [("integrate", ("l",), [1, 2, 3], "no list")]
    desk.settle()
    assert isinstance(misfit.verdict, Conflict)
    assert other.accepted
    assert see(here, "a") == see(there, "a") == {"l": "no list", "k": 1}
    assert see(here, "b") is see(there, "b") is NOTHING


def test_surviving_patch_that_would_now_break_a_limit_is_skipped_like_one_that_does_not_fit() -> None:
    deep: object = 0
    for _ in range(500):
        deep = {"d": deep}
    desk, here, there = two_replicas(a={"x": 0, "y": 0})
    there.commit([edit("a", replace("x", to=deep))])
    desk.decide()
    to = ("z",) * 20
    mine = here.commit([edit("a", move(("x",), to))])
    desk.tell()
    value = here.read(A)
    assert isinstance(value, dict)
    assert sorted(value) == ["x", "y"]
    desk.settle()
    assert isinstance(mine.verdict, Refused | Conflict)
    assert here.read(A) == there.read(A)


def test_read_through_a_layer_names_it_and_joins_neighbours() -> None:
    desk, here, _ = two_replicas(a={"n": 0})
    basis = here.seq
    pendings = [here.commit([edit("a", increment("n"))]) for _ in range(3)]
    numbers = [pending.commit.local_seq for pending in pendings]
    assert mark(here, "a", "n") == PendingRead(A, ("n",), basis, ((numbers[0], numbers[-1]),))
    here.commit([put("b", 1)])
    last = here.commit([edit("a", increment("n"))]).commit.local_seq
    expected = PendingRead(A, (), basis, ((numbers[0], numbers[-1]), (last, last)), Depth.SHALLOW)
    assert here.read_mark(A, (), Depth.SHALLOW) == expected
    desk.settle()
    assert isinstance(mark(here, "a"), Read)


# --- heard of late --------------------------------------------------------------------------------------------


def test_accepted_commit_without_effects_is_promoted_by_reading_it_again() -> None:
    """The engine started anew between writing and telling: it knows the verdict, not what the commit did."""
    desk, here, there = two_replicas(a={"n": 0, "l": []})
    assert see(there, "a") == {"n": 0, "l": []}
    ear, other = Ear(here, a={"n": 0, "l": []}), Ear(there, a={"n": 0, "l": []})
    pendings = [here.commit([edit("a", increment("n"), append("l", items=[n])), put("b", n)]) for n in range(3)]
    ear.heard()
    group = list(desk.waiting)
    desk.decide()
    desk.restart()
    desk.waiting = group
    assert all(not outcome.effects for outcome in desk.decide())
    desk.tell()
    assert [pending.accepted for pending in pendings] == [True] * 3
    assert ear.told == [], "all of it was visible here"
    assert isinstance(mark(here, "a"), Read)
    for replica in (here, there):
        assert see(replica, "a") == {"n": 3, "l": [0, 1, 2]}
        assert see(replica, "b") == 2
    assert other.model == {A: {"n": 3, "l": [0, 1, 2]}, B: 2}
    assert other.kinds() == [Kind.INTEGRATE]


def test_hearing_of_an_accepted_commit_twice_changes_nothing() -> None:
    desk, here, there = two_replicas(a={"n": 0})
    pending = here.commit([edit("a", increment("n"))])
    group = list(desk.waiting)
    desk.settle()
    ear, other = Ear(here, a={"n": 1}), Ear(there, a={"n": 1})
    there.commit([edit("a", increment("n"))])
    desk.settle()
    ear.heard()
    other.heard()
    desk.waiting = group
    desk.settle()
    assert pending.accepted
    assert ear.told == other.told == []
    assert see(here, "a") == see(there, "a") == {"n": 2}


# --- pulled ---------------------------------------------------------------------------------------------------


def test_document_that_had_to_be_fetched_is_told_as_a_pull() -> None:
    desk = Desk()
    desk.remote = {A}
    here = desk.replica("here")
    ear = Ear(here)
    assert see(here, "a") is NOTHING
    here.pull(A, Found(freeze({"n": 1}), Seq(5)))
    assert ear.heard() == [("pull", (), NOTHING, {"n": 1})]
    here.pull(A, Found(freeze({"n": 1}), Seq(6)))
    here.pull(A, Found(freeze({"n": 0}), Seq(4)))
    assert ear.told == [], "an equal one and an older one tell nothing"
    assert see(here, "a") == {"n": 1}


def test_pull_goes_below_own_layers() -> None:
    desk = Desk()
    desk.remote = {A}
    here = desk.replica("here")
    ear = Ear(here)
    here.commit([edit("a", add("mine", value=1))])
    here.pull(A, Found(freeze({"theirs": 2}), Seq(5)))
    assert ear.heard() == [("commit", (), NOTHING, {"mine": 1}), ("pull", ("theirs",), NOTHING, 2)]


# --- settling -------------------------------------------------------------------------------------------------


def test_raising_listener_does_not_keep_commits_from_being_settled() -> None:
    desk, here, there = two_replicas(a=0)

    def broken(_: Notification) -> None:
        raise ZeroDivisionError

    there.commit([put("a", "theirs"), put("b", 1)])
    desk.decide()
    lost = here.commit([put("a", "mine")], reads=[mark(here, "a")])
    kept = here.commit([put("c", 1)])
    end = here.listen(broken)
    with pytest.raises(ZeroDivisionError):
        desk.settle()
    assert isinstance(lost.verdict, Conflict)
    assert kept.accepted
    assert here.pending_count == 0
    end()
    assert (see(here, "a"), see(here, "b"), see(here, "c")) == ("theirs", 1, 1)


def test_listener_that_breaks_over_a_revert_still_hears_what_else_arrived() -> None:
    desk, here, there = two_replicas(a=0)
    there.commit([put("a", "theirs"), put("b", 1)])
    desk.decide()
    here.commit([put("a", "mine")], reads=[mark(here, "a")])
    kinds: list[Kind] = []

    def breaks(notification: Notification) -> None:
        kinds.append(notification.kind)
        if notification.kind is Kind.REVERT:
            raise ZeroDivisionError

    here.listen(breaks)
    with pytest.raises(ZeroDivisionError):
        desk.settle()
    assert kinds == [Kind.REVERT, Kind.INTEGRATE]


def test_raising_callback_keeps_no_other_from_being_called() -> None:
    desk, here, _ = two_replicas()
    called: list[str] = []

    def broken(_: Pending) -> None:
        called.append("broken")
        raise ZeroDivisionError

    first, second = here.commit([put("a", 1)]), here.commit([put("b", 1)])
    first.on_settled(broken)
    first.on_settled(lambda _: called.append("first"))
    second.on_settled(lambda _: called.append("second"))
    with pytest.raises(ZeroDivisionError):
        desk.settle()
    assert called == ["broken", "first", "second"]
    assert first.accepted
    assert second.accepted


def test_callback_runs_after_the_documents_have_moved() -> None:
    desk, here, there = two_replicas(a=0)
    there.commit([put("a", "theirs")])
    desk.decide()
    seen: list[object] = []
    mine = here.commit([put("a", "mine")], reads=[mark(here, "a")])
    mine.on_settled(lambda _: seen.append(see(here, "a")))
    desk.settle()
    assert seen == ["theirs"]
    mine.on_settled(lambda pending: seen.append(type(pending.verdict)))
    assert seen == ["theirs", Conflict], "of what is settled already it is called at once"


def test_callback_may_commit_again() -> None:
    desk, here, there = two_replicas(a={"n": 0})
    there.commit([edit("a", increment("n", by=10))])
    desk.decide()

    def add_one(pending: Pending | None = None) -> None:
        if pending is None or isinstance(pending.verdict, Conflict):
            [n] = [see(here, "a")["n"]]
            here.commit([edit("a", replace("n", to=n + 1))], reads=[mark(here, "a", "n")]).on_settled(add_one)

    add_one()
    desk.settle()
    desk.settle()
    assert see(here, "a") == see(there, "a") == {"n": 11}


def test_commit_cannot_be_settled_twice() -> None:
    pending = Desk().replica("here").commit([put("a", 1)])
    pending.settle(Committed(Seq(1)), None)
    with pytest.raises(InvariantError):
        pending.settle(Committed(Seq(1)), None)


@pytest.mark.parametrize(
    "operation",
    [
        put("a", {"l": [9], "n": 9}),
        drop("a"),
        edit("a", splice("l", at=0, delete=1, items=[7, 8])),
        edit("a", remove("l", 0)),
        edit("a", increment("n", by=0.5)),
        edit("a", move(("l", 0), ("m",))),
    ],
)
def test_every_kind_of_operation_is_taken_back_exactly(operation: object) -> None:
    start = {"l": [1, 2, 3], "n": 1}
    desk, here, _ = two_replicas(a=start)
    ear = Ear(here, a={"l": [1, 2, 3], "n": 1})
    doc: DocKey = A
    before = here.read(doc)
    here.commit([operation], preconditions=[Absent(A)])  # type: ignore[list-item]
    assert here.read(doc) != before
    desk.settle()
    assert see(here, "a") == ear.model[A] == start
    assert ear.kinds() == [Kind.COMMIT, Kind.REVERT]
