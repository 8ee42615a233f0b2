"""What waits when a space is closed is left for the next who opens it, in the order in which it was sent."""

from __future__ import annotations

import pytest

from headwater.core import Transaction
from headwater.scheduler.events.failed_events import stored
from tests.scheduler.events.office import CONFIRMED, FAILED, PENDING, QUEUED, Clerk, Office, look, put
from tests.scheduler.events.waiting import held, noter, send, standing


@pytest.fixture
def bob(office: Office) -> Clerk:
    bob = office.clerk("bob")
    noter(bob)
    return bob


@pytest.mark.parametrize("accepted", [True, False])
def test_what_was_sent_just_after_a_transaction_is_left_for_the_next_if_that_comes_to_be(
    office: Office, ann: Clerk, bob: Clerk, accepted: bool
) -> None:
    held(ann)
    office.decide()
    tx = Transaction(ann.replica, "work")
    look(tx, "count")
    put(tx, "mine", True)
    tx.commit()
    ann.send("wait", 1, origin=tx)
    ann.run()
    assert ann.leave() == 1
    if not accepted:
        bob.put(count=1)
        office.hub.queue.rotate(1)
    office.decide()
    office.reopen()
    assert standing(office.clerk("eve")) == ([1] if accepted else [])


def test_what_waits_when_the_space_is_closed_is_taken_up_in_the_order_sent(office: Office, ann: Clerk) -> None:
    noter(ann)
    held(ann)
    ann.send("wait", 1)
    office.advance(10)
    send(ann, 2)
    office.advance(10)
    ann.send("note", 3)
    ann.run()
    office.advance(10)
    assert ann.leave() == 3
    office.decide()
    office.reopen()
    eve = office.clerk("eve")
    noter(eve)
    noter(eve, "wait")
    assert eve.scheduler.resume_events() == 3
    assert eve.run() == ["wait 1", "note 2", "note 3"]


def test_a_clock_that_is_put_back_does_not_change_the_order(office: Office, ann: Clerk) -> None:
    noter(ann)
    send(ann, 1)
    office.wall -= 3_600_000
    send(ann, 2)
    office.decide()
    office.reopen()
    eve = office.clerk("eve")
    noter(eve)
    eve.scheduler.resume_events()
    send(eve, 3)
    office.decide()
    assert standing(eve) == [1, 2, 3]
    assert eve.run() == ["note 1", "note 2", "note 3"]


def test_two_who_close_at_once_both_leave_what_waits(office: Office, ann: Clerk) -> None:
    fay = office.clerk("fay")
    for number, clerk in enumerate((ann, fay)):
        held(clerk)
        clerk.send("wait", number)
        clerk.run()
    office.decide()
    for clerk in (ann, fay):
        assert clerk.leave() == 1
    office.decide()
    office.decide()
    office.reopen()
    assert sorted(standing(office.clerk("eve"))) == [0, 1]


def test_what_is_under_way_when_the_space_is_closed_is_handled_by_the_next(office: Office, ann: Clerk) -> None:
    ann.handler("slow", lambda tx, _: put(tx, "half", True), is_async=True)
    ann.send("slow", 1)
    ann.run()
    assert ann.leave() == 1
    office.decide()
    assert ann.see("half") is None and standing(ann) == [1]


def test_what_waits_for_another_space_fails_when_it_is_closed(office: Office, ann: Clerk, bob: Clerk) -> None:
    noter(ann)
    tx = Transaction(bob.replica, "far work")
    put(tx, "far", True)
    event = ann.send("note", 1, origin=tx)
    tx.commit()
    ann.run()
    ann.leave()
    office.decide()
    assert event.state is FAILED and standing(ann) == []
    assert "in another space, was confirmed" in event.reason


def test_what_another_space_has_sent_and_confirmed_is_left_for_the_next(office: Office, ann: Clerk, bob: Clerk) -> None:
    held(ann)
    tx = Transaction(bob.replica, "far work")
    put(tx, "far", True)
    event = ann.send("wait", 1, origin=tx)
    tx.commit()
    office.decide()
    ann.run()
    assert event.state is QUEUED
    ann.leave()
    office.decide()
    assert standing(ann) == [1] and stored(ann.replica) == []


def test_what_was_to_be_delivered_again_stays_among_the_failed_when_it_is_closed(office: Office, ann: Clerk) -> None:
    noter(ann)
    held(ann)
    ann.handler("bad", lambda *_: 1 / 0)
    failed = ann.send("bad", 1)
    ann.run()
    ann.send("wait", 2)
    ann.scheduler.redeliver(failed.id)
    ann.run()
    assert ann.leave() == 2
    office.decide()
    assert standing(ann) == [2] and [record["payload"] for record in stored(ann.replica)] == [1]
    assert PENDING not in {event.state for event in ann.sent}
    ann.errors.clear()


def test_what_is_taken_back_after_the_space_was_closed_is_left_for_the_next(
    office: Office, ann: Clerk, bob: Clerk
) -> None:
    ann.adder()
    ann.send("add", 1)
    ann.run()
    assert ann.leave() == 0, "it is handled, and not decided"
    bob.overtake(count=10)
    office.decide()
    assert standing(ann) == [1]
    office.reopen()
    eve = office.clerk("eve")
    eve.adder()
    assert eve.scheduler.resume_events() == 1
    eve.run()
    assert eve.see("count") == 11


def test_what_is_confirmed_after_the_space_was_closed_is_not_left_for_anybody(office: Office, ann: Clerk) -> None:
    ann.adder()
    event = ann.send("add", 1)
    ann.run()
    ann.leave()
    office.decide()
    assert standing(ann) == [] and event.state is CONFIRMED
