"""What a transaction sends stands in the store with it until it is handled: neither lost nor handled twice."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from headwater.core import Transaction, doc_key
from headwater.scheduler.events.failed_events import stored
from headwater.scheduler.events.outbox import OUTBOX
from headwater.scheduler.events.outcomes import HANDLED
from tests.scheduler.events.office import CONFIRMED, FAILED, QUEUED, REFUSED, WALL_MS, Clerk, Office, states
from tests.scheduler.events.waiting import held, noter, send, standing


@pytest.fixture
def bob(office: Office) -> Clerk:
    bob = office.clerk("bob")
    noter(bob)
    return bob


# --- with the transaction -------------------------------------------------------------------------------------


def test_an_event_stands_in_the_outbox_from_the_commit_that_sends_it_until_it_is_handled(
    office: Office, ann: Clerk
) -> None:
    noter(ann)
    [event] = send(ann, 1)
    assert ann.see("events:outbox") == {event.letters: {"stream": "note", "payload": 1, "order": [WALL_MS, 1]}}
    ann.run()
    assert ann.see("events:outbox") == {}
    office.decide()
    assert (event.state, ann.see("events:outbox")) == (CONFIRMED, {})


def test_a_gesture_does_not_stand_there(ann: Clerk) -> None:
    noter(ann)
    ann.send("note", 1)
    ann.run()
    assert ann.see("events:outbox") is None


def test_what_an_aborted_transaction_has_sent_was_never_there(ann: Clerk) -> None:
    noter(ann)
    tx = Transaction(ann.replica, "work")
    ann.send("note", 1, origin=tx)
    tx.abort()
    assert not ann.see("events:outbox") and ann.run() == []


def test_two_who_send_for_the_first_time_at_once_lose_nothing(office: Office, ann: Clerk, bob: Clerk) -> None:
    def start(clerk: Clerk, tx: Transaction, _: object) -> None:
        clerk.send("later", clerk.log[-1], origin=tx)

    for clerk in (ann, bob):
        clerk.handler("start", partial(start, clerk))
        clerk.handler("later", lambda *_: None)
    starts = [clerk.send("start", number) for number, clerk in enumerate((ann, bob))]
    for clerk in (ann, bob):
        clerk.run()
    office.rest()
    office.advance(1000)
    office.rest()
    ends = [event for clerk in (ann, bob) for event in clerk.sent if event.handler.spec.stream == "later"]
    assert states(*starts) == ["confirmed", "confirmed"]
    assert sorted(states(*ends)) == ["confirmed", "confirmed"]
    assert ann.see("events:outbox") == {}


def test_a_follow_up_that_fails_is_taken_out_and_kept_in_one_step(office: Office, ann: Clerk) -> None:
    ann.handler("note", lambda *_: 1 / 0)
    [event] = send(ann, 1)
    office.decide()
    ann.run()
    [keeping] = office.hub.queue
    assert {operation.doc for operation in keeping.commit.operations} >= {OUTBOX, doc_key("events:failed")}
    office.decide()
    assert (event.state, ann.see("events:outbox"), len(stored(ann.replica))) == (FAILED, {}, 1)
    ann.errors.clear()


# --- when the process has ended -------------------------------------------------------------------------------


def test_what_was_sent_and_not_handled_is_handled_by_whoever_is_there_next_in_the_order_sent(
    office: Office, ann: Clerk
) -> None:
    noter(ann)
    first = send(ann, "a", "b")
    office.advance(10)
    second = send(ann, "c")
    # Without a pass: as if the process had ended between the commit and the next step.
    office.decide()
    office.reopen()
    eve = office.clerk("eve")
    noter(eve)
    assert eve.scheduler.resume_events() == 3
    assert eve.run() == ["note a", "note b", "note c"]
    office.decide()
    assert eve.see("events:outbox") == {}
    for event in (*first, *second):
        assert eve.see(f"receipt:{event.letters}")["stream"] == "note"


def test_what_was_handled_is_not_taken_up(office: Office, ann: Clerk) -> None:
    noter(ann)
    send(ann, 1)
    ann.run()
    office.decide()
    office.reopen()
    eve = office.clerk("eve")
    noter(eve)
    assert eve.scheduler.resume_events() == 0


def test_a_handling_that_was_lost_with_the_process_is_done_again(office: Office, ann: Clerk) -> None:
    noter(ann)
    [event] = send(ann, 1)
    office.decide()
    ann.run()
    office.reopen()
    eve = office.clerk("eve")
    noter(eve)
    assert eve.scheduler.resume_events() == 1
    eve.run()
    office.decide()
    assert eve.see(f"receipt:{event.letters}")["result"] == "1 by eve"


def test_what_nobody_here_handles_stays_there_for_whoever_does(office: Office, ann: Clerk) -> None:
    noter(ann)
    send(ann, 1)
    office.decide()
    office.reopen()
    eve = office.clerk("eve")
    assert (eve.scheduler.resume_events(), standing(eve)) == (0, [1])
    noter(eve)
    assert eve.scheduler.resume_events() == 1
    eve.run()
    assert standing(eve) == []


def test_taking_up_twice_takes_nothing_twice(office: Office, ann: Clerk) -> None:
    noter(ann)
    send(ann, 1)
    assert ann.scheduler.resume_events() == 0, "it is on its way"
    office.decide()
    office.reopen()
    eve = office.clerk("eve")
    noter(eve)
    assert [eve.scheduler.resume_events() for _ in range(2)] == [1, 0]
    assert eve.run() == ["note 1"]


def test_whatever_else_stands_there_is_not_taken_for_an_event(ann: Clerk) -> None:
    noter(ann)
    send(ann, 1)
    junk: dict[str, Any] = {"a": 1, "b": {"stream": "note"}, "c": None, "d": {"payload": 1, "order": "late"}}
    ann.put(**{"events:outbox": {**ann.see("events:outbox"), **junk}})
    assert standing(ann) == [1]
    ann.put(**{"events:outbox": [1, 2]})
    assert standing(ann) == [] and ann.scheduler.resume_events() == 0
    assert ann.run() == ["note 1"]
    send(ann, 2)
    assert ann.run() == ["note 2"], "it is made anew"


# --- of two ---------------------------------------------------------------------------------------------------


def test_of_two_who_take_up_the_same_one_handles_it(office: Office, ann: Clerk) -> None:
    noter(ann)
    [event] = send(ann, 1)
    office.decide()
    office.reopen()
    clerks = [office.clerk("eve"), office.clerk("fay")]
    for clerk in clerks:
        noter(clerk)
        clerk.scheduler.resume_events()
    for clerk in clerks:
        assert clerk.run() == ["note 1"]
    office.rest()
    assert [clerk.see(f"receipt:{event.letters}")["result"] for clerk in clerks] == ["1 by eve"] * 2
    assert [clerk.scheduler.outcomes.counts[state] for clerk, state in zip(clerks, (CONFIRMED, REFUSED), strict=True)]
    assert [clerk.see("events:outbox") for clerk in clerks] == [{}, {}]


@pytest.mark.parametrize("heard", [False, True])
def test_what_another_has_handled_meanwhile_has_his_result(office: Office, ann: Clerk, bob: Clerk, heard: bool) -> None:
    noter(ann)
    [event] = send(ann, 1)
    office.decide()
    bob.scheduler.resume_events()
    bob.run()
    if heard:
        office.decide()
    ann.run()
    office.decide()
    assert (event.state, event.reason, event.result) == (REFUSED, HANDLED, "1 by bob")
    assert ann.see("events:outbox") == {}


def test_what_another_handles_while_it_waits_here_has_his_result(office: Office, ann: Clerk, bob: Clerk) -> None:
    held(ann)
    noter(bob, "wait")
    [event] = send(ann, 1, stream="wait")
    office.decide()
    ann.run()
    assert event.state is QUEUED
    bob.scheduler.resume_events()
    bob.run()
    office.decide()
    office.advance(500)
    ann.run()
    office.decide()
    assert (event.state, event.result) == (REFUSED, "1 by bob")


def test_what_one_has_handled_is_not_left_among_the_failed_of_another(office: Office, ann: Clerk) -> None:
    noter(ann)
    send(ann, 1)
    office.decide()
    office.reopen()
    eve, fay = office.clerk("eve"), office.clerk("fay")
    noter(eve)
    fay.handler("note", lambda *_: 1 / 0)
    for clerk in (fay, eve):
        clerk.scheduler.resume_events()
    fay.run()
    office.decide()
    assert len(stored(fay.replica)) == 1
    assert eve.scheduler.idle() is None
    office.decide()
    assert eve.log == ["note 1"] and stored(eve.replica) == []
