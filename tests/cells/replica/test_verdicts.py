"""What a verdict does to what is visible: promoted in silence, or taken back together with what won."""

from __future__ import annotations

import pytest

from headwater.cells.pending_commit import PendingCommit
from headwater.cells.replica import Replica
from headwater.errors import InvariantError
from headwater.store.commit import Absent, Committed, Conflict, PendingRead, Read
from headwater.store.document import StoredDocument
from headwater.values.address import Depth, doc_key
from headwater.values.ids import DocKey, Seq
from headwater.values.notifications import Kind, Notification
from headwater.values.tree import freeze
from tests.cells.replica.desk import Desk, Ear, see
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


def test_commits_decided_but_not_taken_in_are_not_read() -> None:
    """A replica reads as of its place in the log, also documents it loads late."""
    desk, here, there = two_replicas(a=1, b=1)
    there.commit([put("a", 2), put("b", 2)])
    desk.decide()
    assert (see(here, "a"), see(here, "b")) == (1, 1)
    desk.tell()
    assert (see(here, "a"), see(here, "b")) == (2, 2)


# --- rejected -------------------------------------------------------------------------------------------------


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


# --- pulled ---------------------------------------------------------------------------------------------------


def test_document_that_had_to_be_fetched_is_told_as_a_pull() -> None:
    desk = Desk()
    desk.remote = {A}
    here = desk.replica("here")
    ear = Ear(here)
    assert see(here, "a") is NOTHING
    here.pull(A, StoredDocument(freeze({"n": 1}), Seq(5)))
    assert ear.heard() == [("pull", (), NOTHING, {"n": 1})]
    here.pull(A, StoredDocument(freeze({"n": 1}), Seq(6)))
    here.pull(A, StoredDocument(freeze({"n": 0}), Seq(4)))
    assert ear.told == [], "an equal one and an older one tell nothing"
    assert see(here, "a") == {"n": 1}


def test_pull_goes_below_own_layers() -> None:
    desk = Desk()
    desk.remote = {A}
    here = desk.replica("here")
    ear = Ear(here)
    here.commit([edit("a", add("mine", value=1))])
    here.pull(A, StoredDocument(freeze({"theirs": 2}), Seq(5)))
    assert ear.heard() == [("commit", (), NOTHING, {"mine": 1}), ("pull", ("theirs",), NOTHING, 2)]


# --- settling -------------------------------------------------------------------------------------------------


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

    def broken(_: PendingCommit) -> None:
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
