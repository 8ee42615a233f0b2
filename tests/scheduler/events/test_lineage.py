"""What was launched in a transaction comes to be with it or not at all, whoever finds out first that it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.core import Event, OriginCommitted, RetryImmediately, Transaction, doc_key
from tests.scheduler.events.office import CONFIRMED, PENDING, QUEUED, REFUSED, Clerk, Office, look, put, states, void


@pytest.fixture
def bob(office: Office) -> Clerk:
    return office.clerk("bob")


class Sender:
    """Handles `start`: reads and writes the count, and sends to `next`, which only notes what it was sent."""

    def __init__(self, clerk: Clerk) -> None:
        self.clerk = clerk
        self.sent: list[Event] = []
        clerk.handler("start", self.start)
        clerk.handler("next", lambda tx, sent: put(tx, f"note {sent}", True))

    def start(self, tx: Transaction, _: object) -> None:
        count = look(tx, "count")
        put(tx, "count", count + 1)
        self.sent.append(self.clerk.send("next", count, origin=tx))


def raising(error: BaseException) -> None:
    raise error


# --- while it is not decided ----------------------------------------------------------------------------------


def test_a_follow_up_is_handled_while_what_sent_it_is_not_decided(office: Office, ann: Clerk) -> None:
    sender = Sender(ann)
    first = ann.send("start")
    assert ann.run() == ["start", "next 0"]
    assert states(first, *sender.sent) == ["pending", "pending"]
    office.decide()
    assert states(first, *sender.sent) == ["confirmed", "confirmed"]


def test_the_store_is_told_what_a_follow_up_follows_from(ann: Clerk) -> None:
    Sender(ann)
    ann.send("start")
    ann.run()
    *_, origin, follow_up = (submission.commit for submission in ann.peer.submitted)
    assert OriginCommitted(origin.local_seq) in follow_up.preconditions
    assert not any(isinstance(each, OriginCommitted) for each in origin.preconditions)


def test_a_follow_up_of_what_is_confirmed_does_not_ask_for_that(office: Office, ann: Clerk) -> None:
    ann.handler("next", lambda *_: None)
    tx = Transaction(ann.replica, "work")
    event = ann.send("next", 1, origin=tx)
    tx.commit()
    office.decide()
    ann.run()
    assert not any(isinstance(each, OriginCommitted) for each in ann.peer.submitted[-1].commit.preconditions)
    office.decide()
    assert event.state is CONFIRMED


# --- if it is rejected ----------------------------------------------------------------------------------------


def test_a_follow_up_that_was_handled_is_refused_with_what_sent_it_and_never_tried_again(
    office: Office, ann: Clerk, bob: Clerk
) -> None:
    sender = Sender(ann)
    first = ann.send("start")
    ann.run()
    assert ann.see("note 0")
    bob.overtake(count=10)
    [follow_up] = sender.sent
    assert states(first, follow_up) == ["queued", "refused"]
    assert "rolled back" in follow_up.reason
    assert ann.see("note 0") is None
    office.advance(60_000)
    assert "next 0" not in ann.run()


def test_a_retried_parent_sends_anew_and_only_that_is_handled(office: Office, ann: Clerk, bob: Clerk) -> None:
    sender = Sender(ann)
    first = ann.send("start")
    ann.run()
    for number in (10, 20):
        bob.overtake(count=number)
        office.advance(2)
        ann.run()
    office.decide()
    assert first.state is CONFIRMED
    assert states(*sender.sent) == ["refused", "refused", "confirmed"]
    assert len({event.id for event in sender.sent}) == 3
    assert (ann.see("note 0"), ann.see("note 10"), ann.see("note 20")) == (None, None, True)
    assert ann.see("events:outbox") == {}


def test_a_follow_up_that_was_not_handled_yet_is_taken_out_of_its_lane(office: Office, ann: Clerk, bob: Clerk) -> None:
    sender = Sender(ann)
    ann.put(gate=0)
    slow = ann.sum("slow", "gate", debounce_ms=500)
    ann.scheduler.pull(slow)
    ann.put(gate=1)
    ann.handler("wait", lambda tx, _: look(tx, "slow"), reads=(doc_key("slow"),))
    office.decide()
    ann.send("start")
    held = ann.send("wait")
    ann.run()
    [follow_up] = sender.sent
    assert states(held, follow_up) == ["queued", "queued"], "it waits behind the other"
    bob.overtake(count=10)
    assert follow_up.state is REFUSED and follow_up.attempts == 0
    assert ann.scheduler.outstanding().events == 2
    office.advance(500)
    ann.run()
    office.decide()
    assert "next 0" not in ann.log and ann.see("note 10") is True


def test_a_parked_head_that_is_cancelled_lets_the_next_one_go(ann: Clerk, bob: Clerk) -> None:
    ann.handler("note", lambda *_: None)
    tx = Transaction(bob.replica, "far work")
    assert tx.read(doc_key("count")) is not None
    put(tx, "far", True)
    head, behind = ann.send("note", 1, origin=tx), ann.send("note", 2)
    tx.commit()
    assert ann.run() == []
    ann.ticks.clear()
    ann.overtake(count=1)
    assert head.state is REFUSED and True in ann.ticks
    assert ann.run() == ["note 2"]
    assert behind.state is PENDING


def test_refusals_go_down_a_whole_chain(office: Office, ann: Clerk, bob: Clerk) -> None:
    events: list[Event] = []

    def hop(tx: Transaction, left: int) -> None:
        if not events:
            look(tx, "count")
        put(tx, f"hop {left}", True)
        if left:
            events.append(ann.send("hop", left - 1, origin=tx))

    ann.handler("hop", hop)
    first = ann.send("hop", 4)
    ann.run()
    assert states(*events) == ["pending"] * 4
    bob.overtake(count=1)
    assert first.state is QUEUED
    assert states(*events) == ["refused"] * 4
    assert [ann.see(f"hop {left}") for left in range(5)] == [None] * 5
    office.advance(1000)
    ann.run()
    office.decide()
    assert states(first, *events[4:]) == ["confirmed"] * 5


def test_a_follow_up_that_is_under_way_is_stopped(office: Office, ann: Clerk, bob: Clerk) -> None:
    stopped: list[bool] = []
    ann.handler("slow", lambda tx, _: put(tx, "half", True), is_async=True)
    tx = Transaction(ann.replica, "work")
    look(tx, "count")
    put(tx, "mine", True)
    event = ann.send("slow", origin=tx)
    tx.commit()
    ann.run()
    [call] = ann.under_way
    call.stop = lambda: stopped.append(True)
    bob.overtake(count=1)
    assert (event.state, stopped) == (REFUSED, [True])
    ann.finish(call)
    ann.run()
    office.decide()
    assert ann.see("half") is None


@pytest.mark.parametrize(
    "end",
    [
        lambda tx: tx.abort(),
        lambda _: raising(ValueError("no")),
        lambda _: raising(RetryImmediately()),
    ],
)
def test_what_a_call_that_does_not_count_has_sent_is_cancelled(
    office: Office, ann: Clerk, end: Callable[[Transaction], object]
) -> None:
    sent: list[Event] = []

    def start(tx: Transaction, _: object) -> None:
        sent.append(ann.send("next", len(sent), origin=tx))
        if len(sent) == 1:
            end(tx)

    ann.handler("start", start)
    ann.handler("next", lambda *_: None)
    ann.send("start")
    ann.run()
    assert sent[0].state is REFUSED and "next 0" not in ann.log
    office.advance(1)
    ann.run()
    office.decide()
    ann.errors.clear()


def test_a_follow_up_that_is_overtaken_itself_is_tried_again(office: Office, ann: Clerk, bob: Clerk) -> None:
    ann.handler("start", lambda tx, _: void(ann.send("add", 1, origin=tx)))
    ann.adder()
    first = ann.send("start")
    ann.run()
    bob.overtake(count=10)
    [follow_up] = [event for event in ann.sent if event is not first]
    assert states(first, follow_up) == ["confirmed", "queued"]
    office.advance(1)
    ann.run()
    office.decide()
    assert (follow_up.state, ann.see("count")) == (CONFIRMED, 11)


def test_a_follow_up_that_waits_to_be_tried_again_is_cancelled_with_what_sent_it(
    office: Office, ann: Clerk, bob: Clerk
) -> None:
    ann.handler("shy", lambda *_: raising(RetryImmediately()))
    tx = Transaction(ann.replica, "work")
    look(tx, "count")
    put(tx, "mine", True)
    event = ann.send("shy", origin=tx)
    tx.commit()
    ann.run()
    assert event.state is QUEUED and event.attempts == 1
    bob.overtake(count=1)
    assert event.state is REFUSED
    office.advance(1000)
    assert ann.run() == []


@pytest.mark.parametrize("overtaken", [False, True])
def test_a_store_that_starts_anew_in_the_middle_changes_nothing(
    office: Office, ann: Clerk, bob: Clerk, overtaken: bool
) -> None:
    sender = Sender(ann)
    first = ann.send("start")
    ann.run()
    if overtaken:
        bob.put(count=10)
        office.hub.queue.rotate(1)
    # Decided, and forgotten why; then asked again.
    office.hub.interrupt()
    office.decide()
    office.advance(1)
    ann.run()
    office.hub.interrupt()
    office.decide()
    assert states(first, *sender.sent) == ["confirmed", *["refused"] * overtaken, "confirmed"]
    assert ann.see("count") == (11 if overtaken else 1)
