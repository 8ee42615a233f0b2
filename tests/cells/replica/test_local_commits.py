"""A write is visible where it was made, and told there, before `commit` returns."""

from __future__ import annotations

import pytest

from headwater.store.commit import Submission
from headwater.values.address import doc_key
from headwater.values.notifications import Notification
from tests.cells.replica.desk import Desk, Ear, see
from tests.support.naive import NOTHING
from tests.support.spaces import drop, edit, put, replace


def test_write_of_an_equal_number_of_another_type_is_a_change() -> None:
    desk = Desk()
    here = desk.replica("here")
    here.commit([put("a", {"n": 1})])
    desk.settle()
    ear = Ear(here, a={"n": 1})
    here.commit([edit("a", replace("n", to=1.0))])
    [(_, path, before, after)] = ear.heard()
    assert (path, type(before), type(after)) == (("n",), int, float)


def test_commits_of_others_that_cancel_out_in_one_step_are_told_to_nobody() -> None:
    desk = Desk()
    here, there = desk.replica("here"), desk.replica("there")
    ear = Ear(here)
    assert see(here, "a") is NOTHING
    there.commit([put("a", 1)])
    there.commit([drop("a")])
    desk.settle()
    assert ear.told == []


class ClosedDesk(Desk):
    error: BaseException | None = None
    takes = False

    def submit(self, submission: Submission) -> None:
        if self.error is None or self.takes:
            super().submit(submission)
        if self.error is not None:
            raise self.error


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
