"""An event that was not handled is kept with all that is known of it, told once, and holds up nobody."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core import Transaction, doc_key, freeze
from headwater.errors import LimitError, NotFoundError, StoreFullError
from headwater.scheduler.failures import kept
from headwater.values.limits import DOCUMENT_BYTES_MAX
from tests.events.office import CONFIRMED, FAILED, REFUSED, WALL_MS, Clerk, Office, look, put, states


def failing(clerk: Clerk, stream: str = "bad", **spec: Any) -> None:
    """Raises unless the document `ok` says that all is well again."""

    def bad(tx: Transaction, payload: object) -> object:
        put(tx, "half", True)
        if not look(tx, "ok"):
            raise ValueError(f"cannot do {payload}")
        return payload

    clerk.handler(stream, bad, **spec)


def test_a_handler_that_raises_commits_nothing_and_the_next_event_is_handled(office: Office, ann: Clerk) -> None:
    failing(ann)
    ann.adder()
    bad, good = ann.send("bad", 1), ann.send("add", 1)
    assert ann.run() == ["bad 1", "add 1"]
    office.decide()
    assert states(bad, good) == ["failed", "confirmed"]
    assert ann.see("half") is None
    assert ann.see(f"receipt:{bad.letters}") is None
    [error] = ann.errors
    assert isinstance(error.__cause__, ValueError)
    assert error.facts["event"] == bad.id and error.facts["payload"] == 1


def test_a_failed_event_is_kept_with_payload_cause_and_traceback(office: Office, ann: Clerk) -> None:
    failing(ann)
    event = ann.send("bad", {"deep": [1, 2]})
    ann.run()
    office.decide()
    [record] = kept(ann.replica)
    assert record["event"] == event.id
    assert record["stream"] == "bad"
    assert record["payload"] == freeze({"deep": [1, 2]})
    assert record["error"] == record["reason"] == "ValueError: cannot do {'deep': [1, 2]}"
    assert 'raise ValueError(f"cannot do {payload}")' in str(record["traceback"])
    assert (record["attempts"], record["at"]) == (1, WALL_MS)
    assert event.error is ann.errors[0].__cause__


def test_a_result_that_cannot_be_stored_fails_the_event(office: Office, ann: Clerk) -> None:
    ann.handler("odd", lambda tx, _: put(tx, "half", True) or object())
    event = ann.send("odd")
    ann.run()
    office.decide()
    assert (event.state, ann.see("half"), len(kept(ann.replica))) == (FAILED, None, 1)
    assert "object" in event.reason


def test_a_commit_that_is_too_large_fails_the_event(office: Office, ann: Clerk) -> None:
    ann.handler("big", lambda tx, size: put(tx, "big", "x" * size))
    event, after = ann.send("big", DOCUMENT_BYTES_MAX + 1), ann.send("big", 10)
    ann.run()
    office.decide()
    assert states(event, after) == ["failed", "confirmed"]
    assert ann.see("big") == "x" * 10
    [record] = kept(ann.replica)
    assert "bytes" in str(record["reason"]) and record["attempts"] == 1, "trying again would be of no use"
    office.rest()


def test_a_write_that_is_refused_at_the_door_fails_the_event_at_once(office: Office, ann: Clerk) -> None:
    # Not passed through `freeze`: found when it is sent.
    ann.handler("raw", lambda tx, _: tx.set(doc_key("raw"), (), {"a": object()}))
    ann.adder()
    event, after = ann.send("raw"), ann.send("add", 1)
    assert ann.run() == ["raw", "add 1"]
    office.decide()
    assert states(event, after) == ["failed", "confirmed"]
    assert len(ann.errors) == 1
    office.advance(60_000)
    assert ann.run() == []


def test_a_handler_that_ends_its_transaction_itself_fails_the_event(office: Office, ann: Clerk) -> None:
    ann.handler("own", lambda tx, _: tx.abort())
    event = ann.send("own")
    ann.run()
    office.decide()
    assert (event.state, len(ann.errors), len(kept(ann.replica))) == (FAILED, 1, 1)


def test_an_interrupted_handler_fails_its_event_and_the_others_wait(office: Office, ann: Clerk) -> None:
    def stopped(tx: Transaction, _: object) -> None:
        put(tx, "half", True)
        raise KeyboardInterrupt

    ann.handler("stopped", stopped)
    ann.adder()
    event, after = ann.send("stopped"), ann.send("add", 1)
    with pytest.raises(KeyboardInterrupt):
        ann.run()
    assert states(event, after) == ["failed", "queued"]
    assert ann.run() == ["add 1"]
    office.decide()
    assert (ann.see("half"), after.state) == (None, CONFIRMED)
    assert "KeyboardInterrupt" in str(kept(ann.replica)[0]["reason"])


def test_an_event_whose_handler_was_removed_fails_and_is_kept(office: Office, ann: Clerk) -> None:
    handler = ann.adder()
    event = ann.send("add", 1)
    ann.scheduler.remove_handler(handler)
    ann.run()
    office.decide()
    assert (event.state, kept(ann.replica)[0]["payload"]) == (FAILED, 1)
    with pytest.raises(NotFoundError, match="nobody handles stream add"):
        ann.send("add", 2)


def test_an_event_whose_handler_was_declared_anew_is_handled_by_the_new_one(office: Office, ann: Clerk) -> None:
    ann.scheduler.remove_handler(ann.handler("add", lambda *_: "old", backlog_max=2))
    old = ann.handler("add", lambda *_: "old", backlog_max=2)
    events = [ann.send("add", number) for number in (1, 2)]
    ann.scheduler.remove_handler(old)
    new = ann.handler("add", lambda *_: "new", backlog_max=2)
    ann.run()
    office.decide()
    assert [event.result for event in events] == ["new", "new"]
    assert (old.backlog, new.backlog) == (0, 0), "the new one has as much room as any"


# --- keeping --------------------------------------------------------------------------------------------------


def test_no_more_than_so_many_are_kept_and_the_oldest_go(office: Office) -> None:
    ann = office.clerk("ann", keep_failed=3)
    failing(ann)
    for number in range(5):
        ann.send("bad", number)
        ann.run()
        office.advance(1)
    office.decide()
    assert [record["payload"] for record in kept(ann.replica)] == [2, 3, 4]
    assert len(ann.see("events:failed")) == 3
    heads = office.space.values()
    assert sum("failed:" in doc for doc in heads) == 3


def test_events_that_fail_in_two_places_at_once_are_both_kept(office: Office, ann: Clerk) -> None:
    bob = office.clerk("bob")
    for clerk, number in ((ann, 1), (bob, 2)):
        failing(clerk)
        clerk.send("bad", number)
        clerk.run()
    office.rest()
    for clerk in (ann, bob):
        assert sorted(str(record["payload"]) for record in kept(clerk.replica)) == ["1", "2"]
    assert len(ann.errors) == len(bob.errors) == 1


def test_events_that_fail_in_two_places_where_there_is_no_room_are_kept_as_if_one_after_the_other(
    office: Office,
) -> None:
    ann, bob = (office.clerk(name, keep_failed=3) for name in ("ann", "bob"))
    for clerk in (ann, bob):
        failing(clerk)
    for number in range(3):
        ann.send("bad", number)
        ann.run()
        office.advance(1)
    office.rest()
    for clerk, number in ((ann, 3), (bob, 4)):
        clerk.send("bad", number)
        clerk.run()
        office.advance(1)
    office.rest()
    assert [record["payload"] for record in kept(bob.replica)] == [2, 3, 4]


def test_that_a_failed_event_cannot_be_kept_is_told_with_its_payload(office: Office, ann: Clerk) -> None:
    failing(ann)
    event = ann.send("bad", 7)
    ann.run()
    while office.hub.queue:
        office.hub.fail(StoreFullError("no room on the disk"))
    office.decide()
    assert event.state is FAILED
    assert "could not be kept" in str(ann.errors[-1])
    assert ann.errors[-1].facts["payload"] == 7


# --- once more, or never --------------------------------------------------------------------------------------


def test_a_failed_event_is_delivered_again_as_the_same_event(office: Office, ann: Clerk) -> None:
    failing(ann)
    first = ann.send("bad", 5)
    ann.run()
    office.decide()
    ann.put(ok=True)
    again = ann.scheduler.redeliver(first.id, ann.told)
    assert again is not first and again.id == first.id
    ann.run()
    office.decide()
    assert (again.state, again.result, ann.see("half")) == (CONFIRMED, 5, True)
    assert kept(ann.replica) == [] and ann.see(f"failed:{first.letters}") is None
    with pytest.raises(NotFoundError, match="no failed event"):
        ann.scheduler.redeliver(first.id)


def test_a_failed_event_that_fails_again_is_kept_once_and_as_it_is_now(office: Office, ann: Clerk) -> None:
    failing(ann)
    first = ann.send("bad", 5)
    ann.run()
    office.decide()
    office.advance(5000)
    again = ann.scheduler.redeliver(first.id)
    ann.run()
    office.decide()
    assert again.state is FAILED
    [record] = kept(ann.replica)
    assert (record["event"], record["at"]) == (first.id, WALL_MS + 5000)
    assert len(ann.errors) == 2


def test_a_failed_event_is_delivered_again_in_another_process(office: Office, ann: Clerk) -> None:
    failing(ann)
    first = ann.send("bad", 5)
    ann.run()
    office.decide()
    bob = office.clerk("bob")
    bob.handler("bad", lambda *_: "done")
    again = bob.scheduler.redeliver(first.letters)
    bob.run()
    office.decide()
    assert (again.id, again.result, kept(ann.replica)) == (first.id, "done", [])


def test_a_failed_event_that_two_deliver_again_is_handled_once(office: Office, ann: Clerk) -> None:
    failing(ann)
    first = ann.send("bad", 5)
    ann.run()
    office.decide()
    bob = office.clerk("bob")
    ann.put(ok=True)
    office.decide()
    bob.handler("bad", lambda *_: "by bob")
    events = [clerk.scheduler.redeliver(first.id) for clerk in (bob, ann)]
    bob.run()
    ann.run()
    office.rest()
    assert states(*events) == ["confirmed", "refused"]
    assert events[1].result == "by bob" and kept(bob.replica) == []


def test_an_event_that_waits_to_be_delivered_again_is_not_taken_twice(ann: Clerk) -> None:
    failing(ann)
    first = ann.send("bad", 5)
    ann.run()
    assert ann.scheduler.redeliver(first.id) is ann.scheduler.redeliver(first.id)
    ann.run()


def test_a_failed_event_that_was_handled_elsewhere_since_is_kept_no_longer(office: Office, ann: Clerk) -> None:
    failing(ann)
    first = ann.send("bad", 5, outside=("shop", "order 1"))
    ann.run()
    office.decide()
    ann.put(ok=True)
    ann.send("bad", 5, outside=("shop", "order 1"))
    ann.run()
    office.decide()
    again = ann.scheduler.redeliver(first.id)
    ann.run()
    office.decide()
    assert (again.state, again.result, kept(ann.replica)) == (REFUSED, 5, [])


def test_a_dropped_event_is_gone(office: Office, ann: Clerk) -> None:
    failing(ann)
    events = [ann.send("bad", number) for number in (1, 2)]
    ann.run()
    office.decide()
    ann.scheduler.drop_event(events[0].id)
    office.decide()
    assert [record["payload"] for record in kept(ann.replica)] == [2]
    for ask in (ann.scheduler.drop_event, ann.scheduler.redeliver):
        with pytest.raises(NotFoundError, match="no failed event"):
            ask(events[0].id)
    assert isinstance(events[0].error, ValueError) and not isinstance(events[0].error, LimitError)
