"""Every event is handled once at most, wherever and however often it is delivered: its receipt is the witness."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwater.core import DeleteDoc, Event, Transaction, compact, doc_key
from headwater.errors import EventReusedError
from headwater.scheduler.events.outcomes import HANDLED
from headwater.store.branching import fork
from headwater.values.codec import digest
from headwater.values.ids import DocKey
from headwater.values.patch import Increment
from tests.scheduler.events.office import CONFIRMED, PENDING, REFUSED, Clerk, Office, put, states
from tests.support.spaces import EITHER

ORDER = ("shop", "order 1")


@pytest.fixture(params=EITHER)
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path, request.param)
    yield office
    office.close()


def deliver(clerk: Clerk, payload: object = 1, outside: tuple[str, str] = ORDER) -> Event:
    """From outside, where it is not known whether it came before."""
    event = clerk.send("add", payload, outside=outside)
    clerk.run()
    return event


def receipts(office: Office, branch: str = "main") -> dict[DocKey, Any]:
    return {doc: value for doc, value in office.space.values(branch).items() if doc.startswith("space/receipt:")}


def by(name: str, tx: Transaction, _: object) -> str:
    put(tx, f"by {name}", True)
    return f"handled by {name}"


# --- what a receipt is ----------------------------------------------------------------------------------------


def test_a_handler_that_writes_nothing_leaves_a_receipt(office: Office) -> None:
    ann = office.clerk()
    ann.handler("add", lambda *_: None)
    event = deliver(ann)
    assert event.state is PENDING
    office.decide()
    assert receipts(office) == {event.receipt: {"stream": "add", "result": None, "payload": digest(1).hex()}}
    assert event.state is CONFIRMED


def test_a_receipt_holds_what_the_handler_returned(office: Office) -> None:
    ann = office.clerk()
    ann.handler("add", lambda _, more: {"more": [more, None, 1.5]})
    event = deliver(ann)
    office.decide()
    result = {"more": [1, None, 1.5]}
    assert receipts(office) == {event.receipt: {"stream": "add", "result": result, "payload": digest(1).hex()}}
    assert event.receipt == doc_key(f"receipt:{event.id.removeprefix('event:')}")


def test_there_is_one_receipt_for_each_event_and_none_for_what_failed(office: Office) -> None:
    ann = office.clerk()
    ann.adder()
    ann.handler("bad", lambda *_: 1 / 0)
    for _ in range(10):
        ann.send("add", 1)
        ann.send("bad")
    ann.run()
    office.decide()
    assert sorted(value["result"] for value in receipts(office).values()) == list(range(1, 11))
    ann.errors.clear()


def test_a_receipt_is_not_held_in_memory(office: Office) -> None:
    ann = office.clerk()
    ann.adder()
    ann.send("add", 1)
    ann.run()
    office.decide()
    held = ann.replica.document_count
    for _ in range(50):
        ann.send("add", 1)
    ann.run()
    office.decide()
    assert ann.replica.document_count <= held + 1


# --- delivered again ------------------------------------------------------------------------------------------


def test_an_event_that_comes_again_while_it_waits_is_that_event(office: Office) -> None:
    ann = office.clerk()
    ann.adder()
    first = ann.send("add", 1, outside=ORDER)
    assert ann.send("add", 1, outside=ORDER) is first
    ann.sent[first] = -1  # Two callbacks, for two who asked.
    ann.run()
    assert ann.send("add", 1, outside=ORDER) is first
    ann.sent[first] -= 1
    office.decide()
    assert (first.state, ann.see("count")) == (CONFIRMED, 1)


def test_an_event_that_comes_again_with_another_payload_is_a_mistake(office: Office) -> None:
    ann = office.clerk()
    ann.adder()
    ann.send("add", 1, outside=ORDER)
    with pytest.raises(EventReusedError, match="is on its way with another payload"):
        ann.send("add", 2, outside=ORDER)
    ann.run()


def test_an_event_that_comes_again_is_refused_and_has_the_result_of_then(office: Office) -> None:
    ann = office.clerk()
    ann.adder()
    deliver(ann)
    office.decide()
    ann.send("add", 10)
    ann.run()
    office.decide()
    again = deliver(ann)
    assert (again.state, again.reason, again.result, again.attempts) == (REFUSED, HANDLED, 1, 0)
    assert ann.see("count") == 11
    assert ann.errors == []


def test_names_from_outside_are_apart_by_who_sends_and_by_stream(office: Office) -> None:
    ann = office.clerk()
    ann.adder()
    ann.adder("plus")
    events = [
        ann.send("add", 1, outside=("shop", "1")),
        ann.send("add", 1, outside=("bank", "1")),
        ann.send("plus", 1, outside=("shop", "1")),
        ann.send("add", 1, outside=("shop1", "")),
        ann.send("add", 1),
    ]
    assert len({event.id for event in events}) == 5
    ann.run()
    office.decide()
    assert ann.see("count") == 5


@pytest.mark.parametrize("first", ["ann", "bob"])
def test_of_two_who_handle_it_at_once_one_commits_and_the_other_gets_his_result(office: Office, first: str) -> None:
    clerks = {name: office.clerk(name) for name in ("ann", "bob")}
    for name, clerk in clerks.items():
        clerk.handler("add", partial(by, name))
    events = {name: deliver(clerks[name]) for name in sorted(clerks, key=lambda name: name != first)}
    assert len({event.id for event in events.values()}) == 1
    assert states(*events.values()) == ["pending", "pending"]
    office.decide()
    [other] = clerks.keys() - {first}
    assert (events[first].state, events[other].state) == (CONFIRMED, REFUSED)
    assert events[other].result == f"handled by {first}"
    for clerk in clerks.values():
        assert (clerk.see(f"by {first}"), clerk.see(f"by {other}")) == (True, None)
        assert clerk.run() == []


def test_who_lost_does_not_try_again(office: Office) -> None:
    ann, bob = office.clerk("ann"), office.clerk("bob")
    for clerk in (ann, bob):
        clerk.adder()
        deliver(clerk)
    # Both have read and written the count: that it was handled goes before that somebody was faster.
    office.decide()
    office.advance(60_000)
    assert (ann.run(), bob.run(), bob.see("count")) == ([], [], 1)


def test_everything_delivered_twice_by_two_is_handled_once(office: Office) -> None:
    clerks = [office.clerk(name) for name in ("ann", "bob")]
    for clerk in clerks:
        clerk.handler("add", lambda tx, more: tx.patch(doc_key("count"), Increment((), more)))
    office.clerks[0].put(count=0)
    office.decide()
    for number in range(50):
        for clerk in clerks if number % 2 else clerks[::-1]:
            for _ in range(2):
                clerk.scheduler.queue_event("add", 1, outside=("shop", f"order {number}"))
            clerk.run()
        if number % 7 == 0:
            office.rest()
    office.rest()
    assert len(receipts(office)) == 50
    assert [clerk.see("count") for clerk in clerks] == [50, 50]


# --- for ever -------------------------------------------------------------------------------------------------


def test_an_event_is_refused_in_another_process(office: Office) -> None:
    ann = office.clerk("ann")
    ann.adder()
    deliver(ann)
    office.decide()
    office.reopen()
    bob = office.clerk("bob")
    bob.adder()
    again = deliver(bob)
    assert (again.state, again.result, again.attempts) == (REFUSED, 1, 0)


def test_an_event_whose_handling_was_lost_with_the_process_is_handled_then(office: Office) -> None:
    ann = office.clerk("ann")
    ann.adder()
    deliver(ann)
    office.reopen()
    bob = office.clerk("bob")
    bob.adder()
    again = deliver(bob)
    office.decide()
    assert (again.state, bob.see("count")) == (CONFIRMED, 1)


def forget(office: Office, clerk: Clerk, event: Event) -> None:
    """Delete the receipt, as somebody might who tidies up."""
    clerk.replica.commit([DeleteDoc(event.receipt)])
    office.decide()
    assert receipts(office) == {}


def test_an_event_whose_receipt_was_deleted_is_refused_without_a_result(office: Office) -> None:
    ann = office.clerk()
    ann.adder()
    first = deliver(ann)
    office.decide()
    forget(office, ann, first)
    again = deliver(ann)
    office.decide()
    assert (again.state, again.reason) == (REFUSED, HANDLED)
    assert again.result is None, "what this call returned has not come to be"
    assert ann.see("count") == 1
    assert ann.run() == []


@pytest.mark.parametrize("deleted", [False, True])
def test_an_event_is_refused_after_the_past_was_dropped(office: Office, deleted: bool) -> None:
    ann = office.clerk("ann")
    ann.adder()
    first = deliver(ann)
    office.decide()
    if deleted:
        forget(office, ann, first)
    ann.put(more=1)
    office.decide()
    assert compact(office.space.engine, office.space.engine.head).commits_dropped
    office.reopen()
    bob = office.clerk("bob")
    bob.adder()
    again = deliver(bob)
    office.decide()
    assert (again.state, again.result) == (REFUSED, None if deleted else 1)
    assert bob.see("count") == 1


# --- on branches ----------------------------------------------------------------------------------------------


def test_a_branch_knows_what_was_handled_before_it_was_made(office: Office) -> None:
    ann = office.clerk("ann")
    ann.adder()
    deliver(ann)
    office.decide()
    fork(office.space.engine, office.space.clock, "trial")
    bob = office.clerk("bob", "trial")
    bob.adder()
    again = deliver(bob)
    office.decide()
    assert (again.state, again.result, bob.see("count")) == (REFUSED, 1, 1)


def test_a_branch_that_was_made_before_handles_it_for_itself(office: Office) -> None:
    fork(office.space.engine, office.space.clock, "trial")
    ann, bob = office.clerk("ann"), office.clerk("bob", "trial")
    for clerk in (ann, bob):
        clerk.adder()
    events = [deliver(clerk) for clerk in (ann, bob)]
    office.decide()
    assert states(*events) == ["confirmed", "confirmed"]
    assert len(receipts(office)) == len(receipts(office, "trial")) == 1


def test_what_a_branch_has_handled_is_handled_where_it_is_merged_into(office: Office) -> None:
    fork(office.space.engine, office.space.clock, "trial")
    ann, bob = office.clerk("ann"), office.clerk("bob", "trial")
    for clerk in (ann, bob):
        clerk.adder()
    deliver(bob)
    office.decide()
    office.hub.merge("trial")
    office.decide()
    again = deliver(ann)
    assert (again.state, again.result, ann.see("count")) == (REFUSED, 1, 1)


def test_a_deleted_receipt_counts_on_a_branch_too(office: Office) -> None:
    ann = office.clerk("ann")
    ann.adder()
    first = deliver(ann)
    office.decide()
    forget(office, ann, first)
    fork(office.space.engine, office.space.clock, "trial")
    bob = office.clerk("bob", "trial")
    bob.adder()
    again = deliver(bob)
    office.decide()
    assert (again.state, bob.see("count")) == (REFUSED, 1)


def test_a_receipt_goes_before_every_other_reason(office: Office) -> None:
    """Whoever comes second is told that it was handled, not that what sent it failed or that somebody was faster."""
    ann, bob = office.clerk("ann"), office.clerk("bob")
    for clerk in (ann, bob):
        clerk.adder()
    origin = Transaction(bob.replica, "work")
    origin.set(doc_key("note"), (), 1)
    origin.commit()
    first = deliver(ann)
    second = bob.send("add", 1, outside=ORDER, origin=origin)
    bob.run()
    office.decide()
    assert states(first, second) == ["confirmed", "refused"]
    assert (second.reason, second.result) == (HANDLED, 1)
