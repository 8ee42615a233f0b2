"""A handling that somebody has overtaken is done again, from the head of its lane, for so long and no longer."""

from __future__ import annotations

import pytest

from headwater.core import Event, RetryImmediately, Transaction
from headwater.errors import StoreFullError
from headwater.scheduler.events.outcomes import ROLLED_BACK
from headwater.scheduler.scheduler_limits import RETRY_MAX_MS, RETRY_MS, RETRY_WINDOW_MS
from tests.scheduler.events.office import CONFIRMED, FAILED, PENDING, QUEUED, Clerk, Office, look, put, states


@pytest.fixture
def bob(office: Office) -> Clerk:
    return office.clerk("bob")


def waits(clerk: Clerk, event: Event) -> float:
    """How long it is until the event is tried again."""
    clerk.run()
    parking = clerk.parked
    assert parking is not None and parking.reason == ROLLED_BACK and parking.until == event.not_before
    return event.not_before - clerk.office.time


def again(clerk: Clerk, bob: Clerk, event: Event) -> None:
    """Its time has come, and bob is faster once more."""
    clerk.office.time = event.not_before
    clerk.run()
    assert event.state is PENDING
    bob.overtake(count=bob.see("count") + 1)


def test_a_conflict_is_done_again_on_what_is_there_then(office: Office, ann: Clerk, bob: Clerk) -> None:
    ann.adder()
    event = ann.send("add", 1)
    ann.run()
    assert ann.see("count") == 1
    bob.overtake(count=10)
    assert (event.state, ann.see("count"), ann.errors) == (QUEUED, 10, [])
    office.advance(RETRY_MS)
    ann.run()
    office.decide()
    assert (event.state, event.result, ann.see("count")) == (CONFIRMED, 11, 11)
    assert event.attempts == 2


def test_a_conflict_that_is_found_before_the_commit_travels_is_done_again(office: Office, ann: Clerk) -> None:
    """As when a handler that waits is overtaken by somebody in its own process."""

    def slow(tx: Transaction, _: object) -> None:
        if look(tx, "count") == 0:
            ann.put(count=5)
        put(tx, "copy", look(tx, "count"))

    ann.handler("slow", slow)
    event = ann.send("slow")
    assert ann.run() == ["slow"]
    assert event.state is QUEUED and len(office.hub.queue) == 1
    office.advance(RETRY_MS)
    ann.run()
    office.decide()
    assert (event.state, ann.see("copy")) == (CONFIRMED, 5)


def test_the_pause_doubles_from_less_than_a_millisecond_to_a_second(office: Office, ann: Clerk, bob: Clerk) -> None:
    bob.put(count=0)
    office.decide()
    ann.adder()
    event = ann.send("add", 1)
    ann.run()
    bob.overtake(count=1)
    pauses = [waits(ann, event)]
    while len(pauses) < 14:
        again(ann, bob, event)
        pauses.append(waits(ann, event))
    assert pauses == pytest.approx([min(0.78125 * 2**number, 1000) for number in range(14)])
    assert (pauses[0], pauses[-1]) == (RETRY_MS, RETRY_MAX_MS)
    office.time = event.not_before
    ann.run()
    office.decide()
    assert event.state is CONFIRMED


@pytest.mark.parametrize(("chance", "share"), [(0.0, 1.0), (0.5, 0.75), (1.0, 0.5)])
def test_chance_takes_up_to_half_of_the_pause_away(
    office: Office, ann: Clerk, bob: Clerk, chance: float, share: float
) -> None:
    ann.chance = chance
    bob.put(count=0)
    office.decide()
    ann.adder()
    event = ann.send("add", 1)
    ann.run()
    bob.overtake(count=1)
    for number in range(4):
        assert waits(ann, event) == pytest.approx(RETRY_MS * 2**number * share)
        again(ann, bob, event)
    assert event.backoff_ms == RETRY_MS * 2**4, "the doubling knows nothing of chance"
    office.advance(1000)
    ann.run()
    office.decide()


def test_after_half_a_minute_there_is_one_failure_that_is_told_once_and_kept(
    office: Office, ann: Clerk, bob: Clerk
) -> None:
    bob.put(count=0)
    office.decide()
    ann.adder()
    event = ann.send("add", 1)
    ann.run()
    bob.overtake(count=1)
    began = office.time
    while event.state is QUEUED:
        assert ann.errors == []
        again(ann, bob, event)
    assert RETRY_WINDOW_MS <= office.time - began < RETRY_WINDOW_MS + RETRY_MAX_MS
    assert event.attempts > 10, "it is not counted how often it was tried"
    [error] = ann.errors
    assert event.id in str(error) and "for 30 s" in str(error)
    assert (event.state, ann.run()) == (FAILED, [])
    office.decide()
    kept = ann.see(f"failed:{event.letters}")
    assert (kept["payload"], kept["stream"], kept["attempts"]) == (1, "add", event.attempts)
    assert ann.see("count") == bob.see("count")
    assert len(ann.errors) == 1


def test_an_event_that_got_through_has_its_whole_time_again_if_it_is_sent_again(
    office: Office, ann: Clerk, bob: Clerk
) -> None:
    ann.adder()
    first = ann.send("add", 1)
    ann.run()
    bob.overtake(count=1)
    office.advance(20_000)
    ann.run()
    office.decide()
    second = ann.send("add", 1)
    ann.run()
    bob.overtake(count=7)
    assert states(first, second) == ["confirmed", "queued"]
    assert waits(ann, second) == RETRY_MS
    office.advance(1)
    ann.run()
    office.decide()


def test_a_store_that_cannot_is_tried_again_like_a_conflict_and_then_named(office: Office, ann: Clerk) -> None:
    ann.adder()
    event = ann.send("add", 1)
    ann.run()
    while event.state is PENDING:
        office.hub.fail(StoreFullError("no room on the disk"))
        office.decide()
        assert ann.see("count") is None
        if event.state is QUEUED:
            office.time = event.not_before
            ann.run()
    assert event.state is FAILED and "no room on the disk" in event.reason
    assert len(ann.errors) == 1 and isinstance(ann.errors[0].__cause__, StoreFullError)


def test_a_store_that_can_again_takes_it(office: Office, ann: Clerk) -> None:
    ann.adder()
    event = ann.send("add", 1)
    ann.run()
    office.hub.fail(StoreFullError("no room on the disk"))
    office.decide()
    office.advance(RETRY_MS)
    ann.run()
    office.decide()
    assert (event.state, ann.see("count"), ann.errors) == (CONFIRMED, 1, [])


def test_a_handler_may_ask_to_be_called_again(office: Office, ann: Clerk) -> None:
    calls: list[int] = []

    def shy(tx: Transaction, _: object) -> str:
        put(tx, "half", True)
        calls.append(1)
        if len(calls) < 3:
            raise RetryImmediately
        return "at last"

    ann.handler("shy", shy)
    ann.handler("note", lambda *_: None)
    event, behind = ann.send("shy"), ann.send("note", 1)
    ann.run()
    assert (len(calls), ann.see("half")) == (1, None)
    office.advance(2)
    ann.run()
    assert states(event, behind) == ["queued", "queued"]
    office.advance(2)
    assert ann.run() == ["shy", "note 1"]
    office.decide()
    assert event.result == "at last"


def test_what_reads_a_handling_that_is_taken_back_is_taken_back_with_it(office: Office, ann: Clerk, bob: Clerk) -> None:
    shown: list[int] = []
    ann.adder()
    ann.sum("double", "count", "count")
    ann.effect("show", lambda tx: shown.append(look(tx, "double")))
    ann.run()
    ann.send("add", 1)
    ann.run()
    bob.overtake(count=10)
    ann.run()
    office.advance(1)
    ann.run()
    office.rest()
    assert shown[-4:] == [0, 2, 20, 22]


def test_a_handling_that_read_nothing_of_what_others_wrote_is_not_taken_back(ann: Clerk, bob: Clerk) -> None:
    ann.handler("blind", lambda tx, more: put(tx, "count", more))
    event = ann.send("blind", 3)
    ann.run()
    bob.overtake(count=10)
    assert (event.state, ann.see("count"), event.attempts) == (CONFIRMED, 3, 1)


def test_two_who_handle_different_events_in_the_same_place_lose_none_of_them(
    office: Office, ann: Clerk, bob: Clerk
) -> None:
    ann.adder()
    bob.adder()
    events = [clerk.send("add", 1) for _ in range(20) for clerk in (ann, bob)]
    for _ in range(100):
        for clerk in (ann, bob):
            clerk.run()
        office.decide()
        office.advance(50)
    assert set(states(*events)) == {"confirmed"}
    assert ann.see("count") == 40
    assert sorted(str(event.result) for event in events) == sorted(map(str, range(1, 41)))
    assert ann.see("events:failed") is None
