"""A local commit is visible, and told, before `commit` returns; nothing is told of nothing."""

from __future__ import annotations

import pytest

from headwater.cells.replica import Replica
from headwater.errors import AddressError, ClosedError, LimitError
from headwater.store.commit import (
    Absent,
    CommitOutcome,
    Committed,
    Conflict,
    Effect,
    PendingRead,
    Read,
    Refused,
    Submission,
)
from headwater.store.document import StoredDocument
from headwater.values.address import Depth, doc_key
from headwater.values.ids import DocKey, Seq, SessionId
from headwater.values.notifications import Kind, Notification
from headwater.values.tree import ABSENT, freeze
from tests.support.hub import Hub
from tests.support.naive import NOTHING, plain
from tests.support.spaces import add, append, drop, edit, increment, put, remove, replace


def test_write_is_visible_and_told_before_commit_returns(hub: Hub) -> None:
    ann = hub.attach("ann")
    seen: list[object] = []
    ann.replica.listen(lambda _told: seen.append(ann.read("a")["x"]))
    pending = ann.commit(edit("a", replace("x", to=1)), source="tx")
    assert seen == [1], "whoever is told can read it already"
    assert ann.told == [Notification(Kind.COMMIT, ann.told[0].changes, "tx")]
    assert ann.changes() == [("commit", "a", ("x",), 0, 1)]
    assert (pending.settled, ann.replica.pending_count) == (False, 1)
    assert hub.engine.head == 1, "nobody has decided anything yet"


def test_one_commit_is_told_as_one_notification(hub: Hub) -> None:
    ann = hub.attach("ann")
    ann.commit(edit("a", replace("x", to=1), add("new", value=2)), put("b", 3), put("c", 4))
    assert len(ann.told) == 1
    assert ann.changes() == [
        ("commit", "a", ("x",), 0, 1),
        ("commit", "a", ("new",), NOTHING, 2),
        ("commit", "b", (), {"n": 0}, 3),
        ("commit", "c", (), NOTHING, 4),
    ]


def test_changes_name_the_shallowest_place_that_changed(hub: Hub) -> None:
    ann = hub.attach("ann")
    ann.commit(edit("a", add("m", "k", "deep", value=1)))
    assert ann.changes() == [("commit", "a", ("m",), NOTHING, {"k": {"deep": 1}})]
    ann.commit(edit("a", append("l", items=[3])))
    assert ann.changes() == [("commit", "a", ("l", 2), NOTHING, 3)]
    ann.commit(edit("a", remove("l", 0)))
    assert ann.changes() == [("commit", "a", ("l",), [1, 2, 3], [2, 3])]
    ann.commit(drop("a"))
    [(_, _, path, _, after)] = ann.changes()
    assert (path, after) == ((), NOTHING)


def test_operations_that_come_to_nothing_are_not_told(hub: Hub) -> None:
    ann = hub.attach("ann")
    ann.commit(edit("a", replace("x", to=1), replace("x", to=0), increment("y")))
    assert ann.changes() == [("commit", "a", ("y",), 0, 1)]
    ann.commit(edit("b", increment("n", by=1), increment("n", by=-1)))
    assert ann.changes() == []


def test_write_of_what_is_there_is_settled_at_once_and_not_sent(hub: Hub) -> None:
    ann = hub.attach("ann")
    for operation in (put("a", plain(ann.replica.read(doc_key("a")))), edit("a", replace("x", to=0)), drop("never")):
        pending = ann.commit(operation)
        assert pending.verdict == Committed(hub.engine.head)
    assert (ann.changes(), len(hub.queue), ann.replica.pending_count) == ([], 0, 0)
    assert len(ann.settled) == 3


def test_empty_commit_is_settled_at_once(hub: Hub) -> None:
    assert hub.attach("ann").commit().accepted
    assert not hub.queue


def test_write_of_what_is_there_is_sent_if_it_carries_preconditions(hub: Hub) -> None:
    ann = hub.attach("ann")
    pending = ann.commit(given=[Absent(doc_key("a"))])
    same = ann.commit(edit("a", replace("x", to=0)), given=[Absent(doc_key("a"))])
    assert (pending.settled, same.settled, ann.changes()) == (False, False, [])
    hub.settle()
    assert isinstance(pending.verdict, Refused)
    assert isinstance(same.verdict, Refused)
    assert ann.changes() == []


def test_write_of_what_only_a_pending_layer_says_is_sent(hub: Hub) -> None:
    """The layer may be taken back; then this write must not be lost with it."""
    ann, bob = hub.attach("ann"), hub.attach("bob")
    bob.commit(edit("a", replace("y", to=9)))
    hub.decide()
    doomed = ann.commit(edit("a", replace("x", to=1)), reads=[ann.mark("a", "y")])
    again = ann.commit(edit("a", replace("x", to=1)))
    assert not again.settled
    assert len(ann.changes()) == 1
    hub.settle()
    assert isinstance(doomed.verdict, Conflict)
    assert again.accepted
    assert ann.read("a")["x"] == 1


def test_commit_that_does_not_fit_raises_and_changes_nothing(hub: Hub) -> None:
    ann = hub.attach("ann")
    with pytest.raises(AddressError):
        ann.commit(edit("a", replace("x", to=1)), edit("b", add("n", "k", value=1)))
    with pytest.raises(LimitError):
        ann.commit(edit("a", add(*["k"] * 600, value={})))
    assert (ann.read("a")["x"], ann.changes(), len(hub.queue)) == (0, [], 0)
    ann.commit(edit("a", replace("x", to=5)))
    hub.settle()
    assert [p.accepted for p in ann.settled] == [True]


def test_commit_that_cannot_be_sent_changes_nothing(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = hub.attach("ann")

    def closed(_submission: Submission) -> None:
        raise ClosedError("closed")

    with monkeypatch.context() as patched:
        patched.setattr(ann, "submit", closed)
        with pytest.raises(ClosedError):
            ann.commit(edit("a", replace("x", to=1)))
    assert (ann.read("a")["x"], ann.changes(), ann.replica.pending_count) == (0, [], 0)
    pending = ann.commit(edit("a", replace("x", to=2)))
    hub.settle()
    assert pending.accepted


def test_what_is_read_cannot_corrupt_the_document(hub: Hub) -> None:
    value = hub.attach("ann").replica.read(doc_key("a"))
    with pytest.raises(TypeError):
        value["x"] = 5  # type: ignore[index]


def test_listener_that_left_hears_no_more(hub: Hub) -> None:
    ann = hub.attach("ann")
    told: list[Notification] = []
    leave = ann.replica.listen(told.append)
    ann.commit(put("b", 1))
    leave()
    leave()
    ann.commit(put("b", 2))
    assert (len(told), len(ann.told)) == (1, 2)


def test_replica_without_listeners_keeps_up_all_the_same(hub: Hub) -> None:
    quiet, bob = hub.attach("quiet"), hub.attach("bob")
    quiet.replica._listeners = ()
    bob.commit(edit("a", replace("x", to=1)), put("c", 1))
    hub.settle()
    assert (quiet.read("a")["x"], quiet.read("c")) == (1, 1)


# --- marks ---


def test_mark_of_a_confirmed_document_names_its_newest_write(hub: Hub) -> None:
    ann = hub.attach("ann")
    assert ann.mark("a", "x") == Read(doc_key("a"), ("x",), Seq(1), Depth.DEEP)
    assert ann.mark("never", depth=Depth.SHALLOW) == Read(doc_key("never"), (), Seq(0), Depth.SHALLOW)


def test_mark_through_layers_names_every_one_of_them_and_the_basis(hub: Hub) -> None:
    ann = hub.attach("ann")
    for number in range(3):
        ann.commit(edit("a", replace("x", to=number + 1)))
    ann.commit(put("b", 1))
    ann.commit(edit("a", replace("y", to=1)))
    layers = ann.mark("a", "x")
    assert isinstance(layers, PendingRead)
    assert (layers.basis, layers.layers) == (1, ((1, 3), (5, 5)))
    assert getattr(ann.mark("b"), "layers", None) == ((4, 4),)


def test_mark_after_confirmation_names_only_what_is_still_pending(hub: Hub) -> None:
    ann = hub.attach("ann")
    ann.commit(edit("a", replace("x", to=1)))
    ann.commit(edit("a", replace("x", to=2)))
    hub.decide(1)
    ann.refresh()
    mark = ann.mark("a", "x")
    assert isinstance(mark, PendingRead)
    assert (mark.basis, mark.layers) == (2, ((2, 2),))
    hub.settle()
    assert ann.mark("a", "x") == Read(doc_key("a"), ("x",), Seq(3), Depth.DEEP)


# --- documents that have to be fetched ---


class Far:
    """An upstream that has nothing at hand."""

    def __init__(self) -> None:
        self.sent: list[Submission] = []

    def load(self, _doc: DocKey, _through: Seq) -> StoredDocument | None:
        return None

    def submit(self, submission: Submission) -> None:
        self.sent.append(submission)


def test_document_that_is_fetched_reads_as_absent_until_it_is_here() -> None:
    replica = Replica(Far(), SessionId("ann"), seq=Seq(7))
    told: list[Notification] = []
    replica.listen(told.append)
    assert replica.read(doc_key("a")) is ABSENT
    replica.pull(doc_key("a"), StoredDocument(freeze({"x": 1}), Seq(5)))
    assert replica.read(doc_key("a")) == {"x": 1}
    assert [(n.kind, len(n.changes)) for n in told] == [(Kind.PULL, 1)]
    replica.pull(doc_key("a"), StoredDocument(freeze({"x": 1}), Seq(5)))
    assert len(told) == 1, "nothing changed the second time"
    replica.pull(doc_key("a"), StoredDocument(freeze({"x": 0}), Seq(4)))
    assert replica.read(doc_key("a")) == {"x": 1}, "an older answer came late"


def test_local_write_stays_on_top_of_what_is_fetched() -> None:
    replica = Replica(Far(), SessionId("ann"), seq=Seq(7))
    replica.commit([edit("a", add("mine", value=1))])
    replica.pull(doc_key("a"), StoredDocument(freeze({"theirs": 2}), Seq(5)))
    assert replica.read(doc_key("a")) == {"mine": 1, "theirs": 2}


def test_fetched_document_that_holds_our_commit_already_does_not_show_it_twice() -> None:
    far = Far()
    replica = Replica(far, SessionId("ann"), seq=Seq(7))
    replica.commit([edit("a", increment("n"))])
    [submission] = far.sent
    replica.pull(doc_key("a"), StoredDocument(freeze({"n": 6}), Seq(8)))
    effect = Effect(doc_key("a"), freeze({"n": 5}), freeze({"n": 6}), ())
    replica.integrate([CommitOutcome(submission.commit, Committed(Seq(8)), (effect,))])
    assert replica.read(doc_key("a")) == {"n": 6}
    assert isinstance(replica.read_mark(doc_key("a"), ()), Read)
