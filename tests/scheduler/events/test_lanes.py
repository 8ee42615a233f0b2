"""Lanes: first come, first served; and one lane does not wait for another."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import patch

from headwater.core import Event, Transaction, doc_key
from headwater.scheduler.events import streams
from headwater.scheduler.events.lanes import Lane
from headwater.scheduler.scheduler_limits import EVENTS_MAX, RETRY_MS
from tests.scheduler.events.office import CONFIRMED, PENDING, QUEUED, Clerk, Office, look, put, states
from tests.support.compiled import needs_sources


def test_events_of_all_streams_are_handled_in_the_order_in_which_they_were_sent(ann: Clerk) -> None:
    for stream in "abc":
        ann.handler(stream, lambda tx, more: put(tx, "last", more))
    for number in range(9):
        ann.send("cab"[number % 3], number)
    assert ann.run() == ["c 0", "a 1", "b 2", "c 3", "a 4", "b 5", "c 6", "a 7", "b 8"]
    assert ann.see("last") == 8


def test_sending_runs_nothing(ann: Clerk) -> None:
    ann.adder()
    event = ann.send("add", 1)
    assert (event.state, ann.log, ann.ticks[-1]) == (QUEUED, [], True)
    ann.run()
    assert event.state is PENDING


def test_the_next_event_does_not_wait_for_the_verdict_on_the_one_before(ann: Clerk) -> None:
    ann.adder()
    events = [ann.send("add", 1) for _ in range(3)]
    ann.run()
    assert states(*events) == ["pending"] * 3
    assert ann.see("count") == 3
    ann.office.decide()
    assert states(*events) == ["confirmed"] * 3
    assert [event.result for event in events] == [1, 2, 3]


def test_more_events_than_fit_into_one_pass_keep_their_order(ann: Clerk) -> None:
    seen: list[int] = []
    ann.handler("note", lambda _, number: seen.append(number))
    for number in range(EVENTS_MAX + 20):
        ann.send("note", number)
    ann.scheduler.settle()
    assert seen == list(range(EVENTS_MAX))
    assert ann.ticks[-1], "there is more to do"
    ann.run()
    assert seen == list(range(EVENTS_MAX + 20))


def test_events_from_several_threads_are_handled_in_the_order_in_which_they_were_taken(ann: Clerk) -> None:
    seen: list[list[int]] = []
    ann.handler("note", lambda _, sent: seen.append(sent))
    turn, taken = threading.Lock(), list[list[int]]()

    def send(thread: int) -> None:
        for number in range(50):
            # One at a time: that is what a space's own lock is for.
            with turn:
                taken.append([thread, number])
                ann.send("note", [thread, number])

    threads = [threading.Thread(target=send, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ann.run()
    assert seen == taken
    for sender in range(4):
        assert [number for of, number in seen if of == sender] == list(range(50))


def test_events_that_are_sent_while_another_is_handled_come_after_those_that_wait(ann: Clerk) -> None:
    def more(tx: Transaction, depth: int) -> None:
        if depth:
            ann.send("more", depth - 1, origin=tx)

    ann.handler("more", more)
    ann.handler("note", lambda *_: None)
    ann.send("more", 2)
    ann.send("note", 1)
    assert ann.run() == ["more 2", "note 1", "more 1", "more 0"]


# --- coming back ----------------------------------------------------------------------------------------------


def test_an_event_that_was_taken_back_is_handled_before_those_that_were_sent_later(office: Office, ann: Clerk) -> None:
    bob = office.clerk("bob")
    ann.adder()
    ann.handler("note", lambda *_: None)
    first = ann.send("add", 1)
    ann.run()
    bob.overtake(count=10)
    assert first.state is QUEUED
    later = ann.send("note", 1)
    assert ann.run() == [], "it comes before the other, and waits a moment"
    office.advance(1000)
    assert ann.run() == ["add 1", "note 1"]
    office.decide()
    assert states(first, later) == ["confirmed", "confirmed"]
    assert ann.see("count") == 11


def test_several_that_were_taken_back_at_once_come_back_in_their_order(office: Office, ann: Clerk) -> None:
    bob = office.clerk("bob")
    ann.adder()
    ann.handler("note", lambda *_: None)
    events = [ann.send("add", number) for number in (1, 2, 3)]
    ann.run()
    waiting = ann.send("note", 1)
    bob.overtake(count=10)
    [lane] = ann.scheduler.lanes
    ann.scheduler.lanes.take_in()
    assert list(lane.events) == [*events, waiting]
    office.advance(1000)
    assert ann.run() == ["add 1", "add 2", "add 3", "note 1"]
    office.decide()
    assert states(*events, waiting) == ["confirmed"] * 4
    assert ann.see("count") == 16


def test_one_that_comes_back_from_the_middle_finds_its_old_place(office: Office, ann: Clerk) -> None:
    bob = office.clerk("bob")
    ann.put(gated=0)
    ann.adder()
    slow = ann.sum("slow", "gated", debounce_ms=500)
    ann.handler("wait", lambda tx, _: look(tx, "slow"), reads=(doc_key("slow"),))
    ann.scheduler.pull(slow)
    ann.put(gated=1)
    office.decide()
    first = ann.send("add", 1)
    ann.run()
    second, third = ann.send("wait"), ann.send("wait")
    ann.run()
    assert ann.parked is not None
    bob.overtake(count=10)
    [lane] = ann.scheduler.lanes
    assert list(lane.events) == [first, second, third]
    office.advance(RETRY_MS)
    assert ann.run() == ["add 1"], "what the head waited for was not what this one waits for"
    office.advance(1000)
    assert ann.run() == ["slow", "wait", "wait"]
    office.decide()


def test_an_event_is_at_no_time_in_its_lane_twice(ann: Clerk) -> None:
    ann.handler("note", lambda *_: None)
    lane = Lane("all")
    events = [ann.send("note", number) for number in range(5)]
    for event in (events[3], events[1], events[4], events[0], events[2]):
        lane.put(event)
    assert list(lane.events) == events
    lane.take_out(events[2])
    lane.take_out(events[2])
    lane.take_out(events[0])
    assert list(lane.events) == [events[1], events[3], events[4]]
    ann.run()


# --- more than one lane ---------------------------------------------------------------------------------------


def send(clerk: Clerk, lane: str, stream: str, payload: object = None) -> Event:
    """No sender can name a lane yet; nothing but the sender would have to change."""
    needs_sources("a constant is compiled in")
    with patch.object(streams, "ONLY_LANE", lane):
        return clerk.send(stream, payload)


def test_a_parked_head_of_one_lane_does_not_hold_up_the_other(office: Office, ann: Clerk) -> None:
    ann.put(price=1)
    slow = ann.sum("slow", "price", debounce_ms=500)
    ann.handler("wait", lambda tx, _: look(tx, "slow"), reads=(doc_key("slow"),))
    ann.handler("note", lambda *_: None)
    ann.scheduler.pull(slow)
    ann.put(price=2)
    held = send(ann, "left", "wait", 1)
    behind = send(ann, "left", "note", 2)
    free = [send(ann, "right", "note", number) for number in (3, 4)]
    assert ann.run() == ["note 3", "note 4"]
    assert states(held, behind, *free) == ["queued", "queued", "pending", "pending"]
    assert ann.scheduler.outstanding().events == 2
    assert ann.scheduler.settle() == office.time + 500
    office.advance(500)
    assert ann.run() == ["slow", "wait 1", "note 2"]
    office.decide()
    assert held.result == 2


def test_an_event_under_way_in_one_lane_does_not_hold_up_the_other(office: Office, ann: Clerk) -> None:
    ann.handler("slow", lambda *_: None, is_async=True)
    ann.handler("note", lambda *_: None)
    slow, behind = send(ann, "left", "slow"), send(ann, "left", "note", 1)
    free = send(ann, "right", "note", 2)
    assert ann.run() == ["note 2"]
    assert states(slow, behind, free) == ["running", "queued", "pending"]
    [call] = ann.under_way
    ann.finish(call)
    assert ann.run() == ["note 1"]
    office.decide()
    assert states(slow, behind, free) == ["confirmed"] * 3


def test_an_event_that_is_taken_back_returns_to_its_own_lane(office: Office, ann: Clerk) -> None:
    bob = office.clerk("bob")
    ann.adder()
    ann.handler("note", lambda *_: None)
    first = send(ann, "left", "add", 1)
    ann.run()
    bob.overtake(count=10)
    send(ann, "left", "note", 1)
    send(ann, "right", "note", 2)
    assert ann.run() == ["note 2"]
    office.advance(1000)
    assert ann.run() == ["add 1", "note 1"]
    office.decide()
    assert first.state is CONFIRMED


def test_lanes_take_turns_however_many_events_wait_in_one_of_them(ann: Clerk) -> None:
    seen: list[Any] = []
    ann.handler("note", lambda _, sent: seen.append(sent))
    for number in range(EVENTS_MAX + 50):
        send(ann, "left", "note", number)
    send(ann, "right", "note", "quick")
    ann.scheduler.settle()
    assert seen[:2] == [0, "quick"]
    ann.run()


def test_waiting_counts_events_of_all_lanes_and_those_that_were_just_sent(ann: Clerk) -> None:
    ann.handler("slow", lambda *_: None, is_async=True)
    send(ann, "left", "slow")
    send(ann, "left", "slow")
    send(ann, "right", "slow")
    ann.run()
    send(ann, "right", "slow")
    assert ann.scheduler.events.waiting == 4
    while ann.under_way:
        ann.finish(ann.under_way[0])
        ann.run()
    assert ann.scheduler.events.waiting == 0
