"""Transactions of every kind and fate: what was sent or started in them holds up nobody, and does not outlive them."""

from __future__ import annotations

from functools import partial

import pytest

from headwater.core import Status, Transaction
from headwater.errors import StoreFullError, WriteError
from headwater.scheduler.events.handler_reads import READ_ONLY
from headwater.scheduler.scheduler_limits import RETRY_MS
from tests.scheduler.events.office import CONFIRMED, PENDING, REFUSED, Clerk, Office, look, put, states


@pytest.fixture
def bob(office: Office) -> Clerk:
    return office.clerk("bob")


# --- transactions that are no handlers ------------------------------------------------------------------------


def test_an_event_sent_in_what_is_confirmed_already_is_a_gesture(office: Office, ann: Clerk) -> None:
    ann.handler("note", lambda *_: None)
    tx = Transaction(ann.replica, "work")
    put(tx, "a", 1)
    tx.commit()
    office.decide()
    event = ann.send("note", 1, origin=tx)
    assert (event.origin, event.is_stored) == (None, False)
    ann.run()
    office.decide()
    assert event.state is CONFIRMED


def test_an_event_sent_in_what_is_sent_and_not_decided_shares_its_fate(ann: Clerk, bob: Clerk) -> None:
    ann.handler("note", lambda *_: None)
    tx = Transaction(ann.replica, "work")
    look(tx, "count")
    put(tx, "a", 1)
    tx.commit()
    event = ann.send("note", 1, origin=tx)
    ann.run()
    assert event.state is PENDING
    bob.overtake(count=1)
    assert event.state is REFUSED


@pytest.mark.parametrize("how", ["aborted", "rejected"])
def test_an_event_sent_in_what_has_failed_already_is_refused_at_once(ann: Clerk, bob: Clerk, how: str) -> None:
    handler = ann.handler("note", lambda *_: None)
    tx = Transaction(ann.replica, "work")
    look(tx, "count")
    put(tx, "a", 1)
    if how == "aborted":
        tx.abort()
    else:
        tx.commit()
        bob.overtake(count=1)
    event = ann.send("note", 1, origin=tx)
    assert event.state is REFUSED
    assert ann.run() == [] and handler.backlog == 0
    other = ann.send("note", 2)
    assert ann.run() == ["note 2"], "nothing is wedged"
    assert other.state is PENDING


def test_a_transaction_that_may_only_read_cannot_send(ann: Clerk) -> None:
    handler = ann.handler("note", lambda *_: None)
    tx = Transaction(ann.replica, "looking", read_only=READ_ONLY)
    with pytest.raises(WriteError, match="only reads, and may not send to note"):
        ann.scheduler.queue_event("note", 1, origin=tx)
    tx.abort()
    assert ann.run() == [] and handler.backlog == 0 and len(ann.scheduler.origins) == 0


def test_what_another_replica_sends_in_a_transaction_that_writes_nothing_is_handled(ann: Clerk, bob: Clerk) -> None:
    ann.handler("note", lambda *_: None)
    tx = Transaction(bob.replica, "only looking")
    look(tx, "count")
    event = ann.send("note", 1, origin=tx)
    tx.commit()
    assert ann.run() == ["note 1"]
    assert event.state is PENDING and len(ann.scheduler.origins) == 0


def test_what_another_replica_sends_in_what_is_confirmed_is_handled_at_once(
    office: Office, ann: Clerk, bob: Clerk
) -> None:
    ann.handler("note", lambda *_: None)
    tx = Transaction(bob.replica, "far work")
    put(tx, "far", True)
    tx.commit()
    office.decide()
    ann.send("note", 1, origin=tx)
    assert ann.run() == ["note 1"]


def test_a_store_that_fails_on_the_origin_cancels_what_follows(office: Office, ann: Clerk) -> None:
    ann.handler("note", lambda *_: None)
    tx = Transaction(ann.replica, "work")
    event = ann.send("note", 1, origin=tx)
    tx.commit()
    office.hub.fail(StoreFullError("no room"))
    office.decide()
    assert event.state is REFUSED
    assert ann.run() == [] and not ann.see("events:outbox")


# --- parts of transactions ------------------------------------------------------------------------------------


def test_what_was_sent_in_a_part_that_is_rolled_back_is_cancelled_and_the_rest_is_not(
    office: Office, ann: Clerk
) -> None:
    ann.handler("note", lambda *_: None)
    tx = Transaction(ann.replica, "work")
    before = ann.send("note", 1, origin=tx)
    point = tx.savepoint()
    inside = [ann.send("note", number, origin=tx) for number in (2, 3)]
    tx.roll_back(point)
    after = ann.send("note", 4, origin=tx)
    assert states(before, *inside, after) == ["queued", "refused", "refused", "queued"]
    tx.commit()
    assert set(ann.see("events:outbox")) == {before.letters, after.letters}
    assert ann.run() == ["note 1", "note 4"]
    office.decide()
    assert states(before, after) == ["confirmed", "confirmed"]
    assert len({event.id for event in (before, *inside, after)}) == 4


def test_a_transaction_of_which_all_that_sent_was_rolled_back_leaves_nothing(ann: Clerk) -> None:
    ann.handler("note", lambda *_: None)
    tx = Transaction(ann.replica, "work")
    point = tx.savepoint()
    event = ann.send("note", 1, origin=tx)
    tx.roll_back(point)
    tx.commit()
    assert (event.state, ann.run(), not ann.see("events:outbox")) == (REFUSED, [], True)
    assert len(ann.scheduler.origins) == 0


# --- whatever else was started --------------------------------------------------------------------------------


class Starter:
    """Handles `start`: starts something, and notes what is stopped."""

    def __init__(self, clerk: Clerk) -> None:
        self.started = 0
        self.stopped: list[int] = []
        self.clerk = clerk
        clerk.handler("start", self.start)

    def start(self, tx: Transaction, fails: object) -> None:
        self.started += 1
        number = self.started
        put(tx, "count", look(tx, "count") + 1)
        self.clerk.scheduler.launched(tx, lambda: self.stopped.append(number))
        if fails:
            raise ValueError("no")


def test_what_a_failed_attempt_has_started_is_stopped_once_and_what_one_that_counts_has_is_not(
    office: Office, ann: Clerk, bob: Clerk
) -> None:
    starter = Starter(ann)
    event = ann.send("start")
    ann.run()
    assert starter.stopped == []
    bob.overtake(count=10)
    assert starter.stopped == [1]
    office.advance(RETRY_MS)
    ann.run()
    office.decide()
    office.rest()
    assert (event.state, starter.started, starter.stopped) == (CONFIRMED, 2, [1])
    assert len(ann.scheduler.origins) == 0


def test_what_a_handler_that_raises_has_started_is_stopped_once(office: Office, ann: Clerk) -> None:
    starter = Starter(ann)
    ann.send("start", True)
    ann.run()
    office.rest()
    assert starter.stopped == [1]
    ann.errors.clear()


def test_what_was_started_in_a_part_that_is_rolled_back_is_stopped_once(ann: Clerk) -> None:
    stopped: list[str] = []
    tx = Transaction(ann.replica, "work")
    ann.scheduler.launched(tx, lambda: stopped.append("before"))
    point = tx.savepoint()
    ann.scheduler.launched(tx, lambda: stopped.append("inside"))
    tx.roll_back(point)
    assert stopped == ["inside"]
    tx.abort()
    assert stopped == ["inside", "before"]


def test_one_stop_that_raises_keeps_none_of_the_others_from_being_called(ann: Clerk) -> None:
    stopped: list[int] = []

    def stop(number: int) -> None:
        stopped.append(number)
        if number == 1:
            raise ValueError("cannot be stopped")

    tx = Transaction(ann.replica, "work")
    for number in range(3):
        ann.scheduler.launched(tx, partial(stop, number))
    with pytest.raises(ValueError, match="cannot be stopped"):
        tx.abort()
    assert stopped == [2, 1, 0], "the last first"


def test_what_is_started_in_what_has_ended_is_stopped_at_once_or_never(office: Office, ann: Clerk) -> None:
    stopped: list[str] = []
    done, gone = Transaction(ann.replica, "done"), Transaction(ann.replica, "gone")
    put(done, "a", 1)
    done.commit()
    gone.abort()
    office.decide()
    ann.scheduler.launched(done, lambda: stopped.append("done"))
    ann.scheduler.launched(gone, lambda: stopped.append("gone"))
    assert stopped == ["gone"] and len(ann.scheduler.origins) == 0


@pytest.mark.pure("replaces a method")
def test_a_transaction_that_is_found_pending_can_be_named(ann: Clerk) -> None:
    """By whoever handles what it has sent, in another thread: else nothing would tie that to it."""
    found: list[bool] = []

    class Watched(Transaction):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "status":
                found.append(self.status is not Status.PENDING or self.local_seq is not None)

    tx = Watched(ann.replica, "work")
    put(tx, "a", 1)
    tx.commit()
    assert found == [True, True], "open, then pending"
