"""A write is visible where it was made, and told there, before `commit` returns."""

from __future__ import annotations

import pytest

from headwater.errors import AddressError, ClosedError, HeadwaterError
from headwater.store.commit import Absent, Committed, Conflict, Refused, Submission
from headwater.values.address import doc_key
from headwater.values.change import Kind, Notification
from headwater.values.tree import freeze
from tests.replica.desk import Desk, Ear, see
from tests.support.naive import NOTHING, plain
from tests.support.spaces import add, append, drop, edit, increment, put, remove, replace


def test_local_commit_is_visible_and_told_before_commit_returns() -> None:
    desk = Desk()
    here = desk.replica("here")
    seen: list[object] = []
    here.listen(lambda _: seen.append(see(here, "note")))
    ear = Ear(here)
    pending = here.commit([put("note", {"text": "hi"})], source="the transaction")
    assert see(here, "note") == {"text": "hi"}
    assert seen == [{"text": "hi"}], "a listener reads the new state already"
    assert [(n.kind, n.source) for n in ear.told] == [(Kind.COMMIT, "the transaction")]
    assert ear.heard() == [("commit", (), NOTHING, {"text": "hi"})]
    assert not pending.settled


def test_commit_over_several_documents_is_one_notification() -> None:
    here = Desk().replica("here")
    ear = Ear(here)
    here.commit([put("a", {"n": 1}), put("b", 2), edit("a", increment("n", by=4)), drop("c")])
    assert [(len(n.changes), n.kind) for n in ear.told] == [(2, Kind.COMMIT)]
    assert ear.model == {doc_key("a"): {"n": 5}, doc_key("b"): 2}


def test_change_names_the_shallowest_place_that_changed() -> None:
    here = Desk().replica("here")
    here.commit([put("a", {"m": {"x": 1}, "l": [1, 2]})])
    ear = Ear(here, a={"m": {"x": 1}, "l": [1, 2]})
    here.commit([edit("a", replace("m", "x", to=2), add("new", "deep", value=3), append("l", items=[3]))])
    assert sorted(ear.heard(), key=repr) == [
        ("commit", ("l", 2), NOTHING, 3),
        ("commit", ("m", "x"), 1, 2),
        ("commit", ("new",), NOTHING, {"deep": 3}),
    ]


def test_write_of_an_equal_value_is_told_to_nobody_and_sent_nowhere() -> None:
    desk = Desk()
    here = desk.replica("here")
    here.commit([put("a", {"n": 1})])
    desk.settle()
    ear, sent = Ear(here), desk.submitted
    for noop in (put("a", {"n": 1}), edit("a", replace("n", to=1)), edit("a", increment("n", by=0)), drop("never")):
        pending = here.commit([noop])
        assert pending.verdict == Committed(here.seq)
    assert here.commit([]).accepted
    assert (ear.told, desk.submitted, here.pending_count) == ([], sent, 0)


def test_write_of_an_equal_number_of_another_type_is_a_change() -> None:
    desk = Desk()
    here = desk.replica("here")
    here.commit([put("a", {"n": 1})])
    desk.settle()
    ear = Ear(here, a={"n": 1})
    here.commit([edit("a", replace("n", to=1.0))])
    [(_, path, before, after)] = ear.heard()
    assert (path, type(before), type(after)) == (("n",), int, float)


def test_operations_that_cancel_out_are_told_to_nobody() -> None:
    desk = Desk()
    here, there = desk.replica("here"), desk.replica("there")
    here.commit([put("a", {"n": 1})])
    desk.settle()
    ear, other = Ear(here), Ear(there)
    pending = here.commit([edit("a", increment("n")), edit("a", increment("n", by=-1)), put("b", 1), drop("b")])
    assert ear.told == []
    desk.settle()
    assert pending.accepted
    assert ear.told == other.told == []


def test_commits_of_others_that_cancel_out_in_one_step_are_told_to_nobody() -> None:
    desk = Desk()
    here, there = desk.replica("here"), desk.replica("there")
    ear = Ear(here)
    assert see(here, "a") is NOTHING
    there.commit([put("a", 1)])
    there.commit([drop("a")])
    desk.settle()
    assert ear.told == []


def test_noop_with_a_precondition_is_asked_of_the_store() -> None:
    desk = Desk()
    here, there = desk.replica("here"), desk.replica("there")
    there.commit([put("taken", 1)])
    desk.decide()
    pending = here.commit([], preconditions=[Absent(doc_key("taken"))])
    assert not pending.settled
    desk.settle()
    assert isinstance(pending.verdict, Refused)


def test_noop_over_an_undecided_commit_is_asked_of_the_store() -> None:
    """It equals what may yet be taken back: only the store knows."""
    desk = Desk()
    here, there = desk.replica("here"), desk.replica("there")
    there.commit([put("a", "theirs")])
    desk.decide()
    first = here.commit([put("a", "mine")], reads=[here.read_mark(doc_key("a"), ())])
    again = here.commit([put("a", "mine")])
    assert not again.settled
    desk.settle()
    assert isinstance(first.verdict, Conflict)
    assert again.accepted
    assert see(here, "a") == see(there, "a") == "mine"


def test_commit_that_does_not_fit_changes_nothing() -> None:
    desk = Desk()
    here = desk.replica("here")
    ear = Ear(here)
    with pytest.raises(AddressError):
        here.commit([put("a", 1), edit("a", remove("x", "y"))])
    assert see(here, "a") is NOTHING
    assert (ear.told, desk.submitted, here.pending_count) == ([], 0, 0)


class ClosedDesk(Desk):
    error: BaseException | None = None
    takes = False

    def submit(self, submission: Submission) -> None:
        if self.error is None or self.takes:
            super().submit(submission)
        if self.error is not None:
            raise self.error


def test_commit_the_store_cannot_take_changes_nothing() -> None:
    desk = ClosedDesk()
    here = desk.replica("here")
    ear = Ear(here)
    desk.error = ClosedError("closed")
    with pytest.raises(HeadwaterError):
        here.commit([put("a", 1)])
    assert see(here, "a") is NOTHING
    assert (ear.told, here.pending_count) == ([], 0)


def test_interruption_while_a_commit_is_taken_neither_loses_it_nor_breaks_the_next() -> None:
    """Ctrl-C lands in `commit` while the caller helps to write a group: its own commit is in the queue by then."""
    desk = ClosedDesk()
    here = desk.replica("here")
    ear = Ear(here)
    desk.error, desk.takes = KeyboardInterrupt(), True
    with pytest.raises(KeyboardInterrupt):
        here.commit([put("a", "interrupted")])
    desk.error = None
    second = here.commit([put("b", "next")])
    desk.settle()
    assert second.accepted
    assert (see(here, "a"), see(here, "b")) == ("interrupted", "next")
    assert ear.model == {doc_key("a"): "interrupted", doc_key("b"): "next"}
    assert here.pending_count == 0


def test_listener_that_ended_hears_nothing_more() -> None:
    here = Desk().replica("here")
    ear, other = Ear(here), Ear(here)
    ear.end()
    here.commit([put("a", 1)])
    assert (len(ear.told), len(other.told)) == (0, 1)


def test_raising_listener_keeps_no_other_from_hearing() -> None:
    desk = Desk()
    here, there = desk.replica("here"), desk.replica("there")

    def broken(_: Notification) -> None:
        raise ZeroDivisionError

    here.listen(broken)
    ear = Ear(here)
    with pytest.raises(ZeroDivisionError):
        here.commit([put("a", 1)])
    there.commit([put("b", 2)])
    with pytest.raises(ZeroDivisionError):
        desk.settle()
    assert ear.model == {doc_key("a"): 1, doc_key("b"): 2}


def test_read_values_cannot_be_changed_in_place() -> None:
    here = Desk().replica("here")
    here.commit([put("a", {"l": [1]})])
    value = here.read(doc_key("a"))
    with pytest.raises(TypeError):
        value["l"] = 2  # type: ignore[index]
    assert plain(freeze({"l": [1]})) == see(here, "a")
