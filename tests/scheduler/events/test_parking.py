"""The head of a lane that has to wait keeps its place; whatever has nothing to do with it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core import Event, Node, RetryImmediately, Transaction, doc_key
from headwater.scheduler.scheduler_limits import HANDLER_READS_MAX, RUNS_MAX
from tests.scheduler.events.office import PENDING, QUEUED, Clerk, Office, look, put, states


@pytest.fixture
def shop(ann: Clerk) -> Clerk:
    """`slow` is made of the price; `ask` reads it."""
    ann.put(price=1)
    ann.handler("ask", lambda tx, _: look(tx, "slow"))
    ann.handler("note", lambda *_: None)
    return ann


def slowed(clerk: Clerk, **gate: Any) -> Node:
    """It has run once, and has to run again, but not yet."""
    slow = clerk.sum("slow", "price", **gate)
    clerk.scheduler.pull(slow)
    clerk.put(price=2)
    clerk.log.clear()
    return slow


# --- time -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", [{"debounce_ms": 300}, {"throttle_ms": 300}])
def test_a_head_waits_for_what_it_reads_and_is_woken_at_the_very_time(shop: Clerk, gate: dict[str, float]) -> None:
    slowed(shop, **gate)
    event, behind = shop.send("ask"), shop.send("note", 1)
    shop.run()
    assert states(event, behind) == ["queued", "queued"]
    assert shop.scheduler.settle() == shop.office.time + 300
    assert shop.scheduler.outstanding().is_due is False
    shop.office.advance(299)
    shop.run()
    assert states(event, behind) == ["queued", "queued"]
    shop.office.advance(1)
    assert shop.run() == ["slow", "ask", "note 1"]
    assert event.result == 2


def test_a_debounced_head_waits_on_if_its_quiet_is_disturbed(shop: Clerk) -> None:
    slowed(shop, debounce_ms=300)
    event = shop.send("ask")
    shop.run()
    shop.office.advance(200)
    shop.put(price=3)
    shop.run()
    shop.office.advance(200)
    assert shop.run() == []
    shop.office.advance(100)
    assert shop.run() == ["slow", "ask"]
    assert event.result == 3


def test_a_head_waits_for_a_gate_further_up(shop: Clerk) -> None:
    slowed(shop, debounce_ms=300)
    shop.sum("shown", "slow")
    shop.handler("tell", lambda tx, _: look(tx, "shown"), reads=(doc_key("shown"),))
    event = shop.send("tell")
    shop.run()
    assert event.state is QUEUED
    shop.office.advance(300)
    assert shop.run()[-1] == "tell"
    assert event.result == 2


def test_what_is_above_whoever_has_to_wait_is_run_meanwhile_and_what_is_below_is_not(ann: Clerk) -> None:
    ann.put(price=1)
    ann.sum("first", "price")
    slow = ann.sum("slow", "first", debounce_ms=300)
    last = ann.sum("last", "slow", "price")
    ann.handler("ask", lambda tx, _: look(tx, "last"), reads=(doc_key("last"),))
    ann.scheduler.pull(last)
    ann.log.clear()
    ann.put(price=2)
    event = ann.send("ask")
    # Only when `first` has run, `slow` is found to have to run again, and to have to wait.
    assert ann.run() == ["first"]
    assert not slow.is_clean
    ann.office.advance(300)
    assert ann.run() == ["slow", "last", "ask"]
    assert event.result == 4


def test_a_gate_that_is_taken_away_lets_the_head_go(shop: Clerk) -> None:
    slow = slowed(shop, debounce_ms=300)
    shop.send("ask")
    shop.run()
    shop.ticks.clear()
    shop.scheduler.clear_debounce(slow)
    assert True in shop.ticks, "whoever sleeps until the old time is told"
    assert shop.run() == ["slow", "ask"]


def test_a_computation_that_never_ran_is_not_waited_for(shop: Clerk) -> None:
    shop.sum("slow", "price", debounce_ms=300)
    event = shop.send("ask")
    shop.run()
    assert event.result == 1


def test_a_handler_that_finds_out_in_the_middle_that_it_has_to_wait_keeps_nothing(shop: Clerk) -> None:
    def late(tx: Transaction, _: object) -> object:
        put(tx, "half", True)
        return look(tx, "slow")

    shop.handler("late", late)
    slowed(shop, debounce_ms=300)
    event, behind = shop.send("late"), shop.send("note", 1)
    assert shop.run() == ["late"]
    assert states(event, behind) == ["queued", "queued"]
    assert shop.see("half") is None
    assert event.attempts == 0 and event.handler.runs == 0, "as if it had not been called"
    assert shop.parked is not None and shop.parked.until == shop.office.time + 300
    assert shop.run() == [], "it is known now what it needs"
    shop.office.advance(300)
    assert shop.run() == ["slow", "late", "note 1"]
    assert (event.result, event.attempts, shop.see("half")) == (2, 1, True)


def test_a_handler_cannot_keep_to_itself_that_it_has_to_wait(shop: Clerk) -> None:
    def stubborn(tx: Transaction, _: object) -> object:
        try:
            return look(tx, "slow")
        except RetryImmediately:
            put(tx, "half", True)
            return "never mind"

    shop.handler("stubborn", stubborn)
    slowed(shop, debounce_ms=300)
    event = shop.send("stubborn")
    shop.run()
    assert event.state is QUEUED and shop.see("half") is None
    shop.office.advance(300)
    shop.run()
    assert event.result == 2


def test_what_an_abandoned_call_has_sent_is_not_handled(shop: Clerk) -> None:
    sent: list[Event] = []

    def late(tx: Transaction, _: object) -> object:
        sent.append(shop.send("note", len(sent), origin=tx))
        return look(tx, "slow")

    shop.handler("late", late)
    slowed(shop, debounce_ms=300)
    shop.send("late")
    shop.run()
    assert states(*sent) == ["refused"]
    shop.office.advance(300)
    assert shop.run() == ["slow", "late", "note 1"]
    assert states(*sent) == ["refused", "pending"]
    assert sent[0].id != sent[1].id


def test_a_handler_that_reads_very_much_waits_quietly_for_the_last_of_it(ann: Clerk) -> None:
    """What it reads is remembered only so far: what it waits for must be among that, or it is called for ever."""
    many = HANDLER_READS_MAX + 10
    ann.put(price=1)
    for number in range(many):
        node = ann.sum(f"n{number}", "price")
        ann.scheduler.pull(node)
    slow = ann.sum("slow", "price")
    ann.scheduler.pull(slow)
    ann.handler("ask", lambda tx, _: [look(tx, f"n{number}") for number in range(many)] and look(tx, "slow"))
    ann.scheduler.set_debounce(slow, 300)
    ann.put(price=2)
    event = ann.send("ask")
    ann.log.clear()
    ann.scheduler.settle()
    assert ann.log.count("ask") == 1
    assert ann.scheduler.outstanding().is_due is False
    ann.office.advance(300)
    ann.run()
    assert event.result == 2


# --- what is under way ----------------------------------------------------------------------------------------


def test_a_head_waits_for_an_async_computation_that_is_under_way(shop: Clerk) -> None:
    shop.sum("slow", "price", is_async=True)
    shop.effect("show", lambda tx: look(tx, "slow"))
    shop.run()
    event, behind = shop.send("ask"), shop.send("note", 1)
    shop.run()
    assert states(event, behind) == ["queued", "queued"]
    assert shop.parked is not None and shop.parked.until is None
    assert "slow() is under way" in shop.reasons
    [call] = shop.under_way
    shop.finish(call)
    assert shop.run() == ["ask", "show", "note 1"]
    assert event.result == 1


def test_an_async_computation_that_nobody_started_is_started_for_the_event(shop: Clerk) -> None:
    shop.sum("slow", "price", is_async=True)
    event = shop.send("ask")
    shop.run()
    assert event.state is QUEUED and len(shop.under_way) == 1
    shop.finish(shop.under_way[0])
    shop.run()
    assert event.result == 1


def test_a_head_waits_until_an_async_computation_that_was_overtaken_has_run_again(shop: Clerk) -> None:
    shop.sum("slow", "price", is_async=True, on_invalid="finish")
    event = shop.send("ask")
    shop.run()
    shop.put(price=5)
    shop.run()
    shop.finish(shop.under_way[0])
    shop.run()
    if event.state is QUEUED:
        shop.finish(shop.under_way[0])
        shop.run()
    assert event.result == 5


def test_the_next_event_waits_for_an_async_handler(shop: Clerk) -> None:
    shop.handler("fetch", lambda tx, _: put(tx, "price", 9), is_async=True)
    first, second = shop.send("fetch"), shop.send("note", 1)
    shop.run()
    assert states(first, second) == ["running", "queued"]
    shop.finish(shop.under_way[0])
    assert shop.run() == ["note 1"]


# --- what sent it ---------------------------------------------------------------------------------------------


def test_an_event_waits_until_the_transaction_that_sends_it_has_ended(shop: Clerk) -> None:
    tx = Transaction(shop.replica, "work")
    event, behind = shop.send("note", 1, origin=tx), shop.send("note", 2)
    assert shop.run() == []
    assert shop.parked is not None and shop.parked.reason == "work sent it, and has not ended"
    assert behind.state is QUEUED
    tx.commit()
    assert shop.run() == ["note 1", "note 2"]
    assert event.state is PENDING


def test_an_event_that_another_replica_sends_waits_until_that_is_confirmed(office: Office, shop: Clerk) -> None:
    bob = office.clerk("bob")
    tx = Transaction(bob.replica, "far work")
    tx.set(doc_key("far"), (), True)
    event, behind = shop.send("note", 1, origin=tx), shop.send("note", 2)
    assert shop.run() == []
    tx.commit()
    assert shop.run() == [], "visible there, but nobody here can make it depend on that"
    assert shop.parked is not None and shop.parked.reason == "far work sent it in another space, and is not confirmed"
    shop.ticks.clear()
    office.decide()
    assert True in shop.ticks
    assert shop.run() == ["note 1", "note 2"]
    assert shop.see("events:outbox") is None
    assert states(event, behind) == ["pending", "pending"]


# --- what is being fetched ------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_a_head_waits_for_documents_that_are_being_fetched(shop: Clerk, known: bool) -> None:
    shop.handler("get", lambda tx, _: look(tx, "far"), reads=(doc_key("far"),) if known else ())
    done = [shop.scheduler.loading([doc_key("far")]) for _ in range(2)]
    event, behind = shop.send("get"), shop.send("note", 1)
    shop.run()
    assert states(event, behind) == ["queued", "queued"]
    assert shop.parked is not None and shop.parked.reason.endswith("is being fetched")
    done[0]()
    shop.run()
    assert event.state is QUEUED, "another waits for it still"
    shop.ticks.clear()
    shop.put(far=7)
    done[1]()
    assert True in shop.ticks
    shop.run()
    assert (event.result, behind.state) == (7, PENDING)


# --- everybody else -------------------------------------------------------------------------------------------


def test_reactive_work_that_has_nothing_to_do_with_a_parked_head_goes_on(shop: Clerk) -> None:
    shown: list[int] = []
    slowed(shop, debounce_ms=300)
    shop.effect("show", lambda tx: shown.append(look(tx, "other")))
    shop.send("ask")
    shop.run()
    for number in range(3):
        shop.put(other=number)
        assert shop.run() == ["show"]
    assert shown == [0, 0, 1, 2]
    shop.office.advance(300)
    shop.run()


def test_a_computation_that_never_settles_does_not_hold_up_events(ann: Clerk) -> None:
    ann.put(tick=0)
    ann.computation("left", lambda tx: look(tx, "right") + 1)
    ann.computation("right", lambda tx: look(tx, "left") + 1)
    ann.handler("ask", lambda tx, _: look(tx, "left"), reads=(doc_key("left"),))
    ann.handler("note", lambda *_: None)
    events = [ann.send("ask"), ann.send("note", 1), ann.send("ask")]
    ran = ann.run()
    assert states(*events) == ["pending"] * 3
    assert ran.count("left") <= 3 * RUNS_MAX and ran.count("right") <= 3 * RUNS_MAX
    ann.errors.clear()


def test_a_live_computation_that_never_settles_does_not_hold_up_events_while_it_rests(ann: Clerk) -> None:
    ann.computation("left", lambda tx: look(tx, "right") + 1)
    ann.computation("right", lambda tx: look(tx, "left") + 1)
    ann.effect("show", lambda tx: look(tx, "left"))
    ann.handler("ask", lambda tx, _: look(tx, "left"), reads=(doc_key("left"),))
    ann.run()
    assert len(ann.errors) == 1
    event = ann.send("ask")
    assert ann.run() == ["ask"]
    assert event.state is PENDING
    ann.errors.clear()


def test_an_async_handler_that_finds_out_later_that_it_has_to_wait_keeps_nothing(shop: Clerk) -> None:
    def late(tx: Transaction, _: object) -> object:
        put(tx, "half", True)
        return look(tx, "slow")

    shop.handler("late", late, is_async=True)
    slow = slowed(shop)
    event, behind = shop.send("late"), shop.send("note", 1)
    shop.run()
    shop.scheduler.set_debounce(slow, 300)
    [call] = shop.under_way
    shop.finish(call)
    shop.run()
    assert states(event, behind) == ["queued", "queued"]
    assert shop.see("half") is None and shop.parked is not None
    shop.office.advance(300)
    shop.run()
    shop.finish(shop.under_way[0])
    assert shop.run() == ["note 1"]
    assert (event.result, shop.see("half")) == (2, True)
