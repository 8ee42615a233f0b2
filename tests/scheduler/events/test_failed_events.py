"""Failed events are kept, so many of them; they can be delivered again as the same events, or dropped."""

from __future__ import annotations

import pytest

from headwater.errors import NotFoundError, StoreFullError
from headwater.scheduler.events.failed_events import stored
from tests.scheduler.events.office import CONFIRMED, FAILED, REFUSED, WALL_MS, Clerk, Office, failing, states

# --- keeping --------------------------------------------------------------------------------------------------


def test_no_more_than_so_many_are_kept_and_the_oldest_go(office: Office) -> None:
    ann = office.clerk("ann", keep_failed=3)
    failing(ann)
    for number in range(5):
        ann.send("bad", number)
        ann.run()
        office.advance(1)
    office.decide()
    assert [record["payload"] for record in stored(ann.replica)] == [2, 3, 4]
    assert len(ann.see("events:failed")) == 3
    heads = office.space.values()
    assert sum("failed:" in doc for doc in heads) == 3


def test_of_events_that_fail_at_the_same_time_the_first_goes_first(office: Office) -> None:
    ann = office.clerk("ann", keep_failed=3)
    failing(ann)
    for number in range(5):
        ann.send("bad", number)
    ann.run()
    office.wall -= 5000
    ann.send("bad", "with a clock that was put back")
    ann.run()
    assert [record["payload"] for record in stored(ann.replica)] == [3, 4, "with a clock that was put back"]


def test_events_that_fail_in_two_places_at_once_are_both_kept(office: Office, ann: Clerk) -> None:
    bob = office.clerk("bob")
    for clerk, number in ((ann, 1), (bob, 2)):
        failing(clerk)
        clerk.send("bad", number)
        clerk.run()
    office.rest()
    for clerk in (ann, bob):
        assert sorted(str(record["payload"]) for record in stored(clerk.replica)) == ["1", "2"]
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
    assert [record["payload"] for record in stored(bob.replica)] == [2, 3, 4]


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
    assert stored(ann.replica) == [] and ann.see(f"failed:{first.letters}") is None
    with pytest.raises(NotFoundError, match="there is no"):
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
    [record] = stored(ann.replica)
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
    assert (again.id, again.result, stored(ann.replica)) == (first.id, "done", [])


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
    assert events[1].result == "by bob" and stored(bob.replica) == []


def test_an_event_that_waits_to_be_delivered_again_is_not_taken_twice(ann: Clerk) -> None:
    failing(ann)
    first = ann.send("bad", 5)
    ann.run()
    assert ann.scheduler.redeliver(first.id) is ann.scheduler.redeliver(first.id)
    ann.run()


def test_a_failed_event_that_was_handled_elsewhere_is_kept_no_longer_once_that_is_found(
    office: Office, ann: Clerk
) -> None:
    bob = office.clerk("bob")
    failing(ann)
    bob.handler("bad", lambda *_: "by bob")
    first = ann.send("bad", 5, outside=("shop", "order 1"))
    ann.run()
    bob.send("bad", 5, outside=("shop", "order 1"))
    # He has not heard yet that she has failed.
    bob.run()
    office.decide()
    assert len(stored(ann.replica)) == 1
    again = ann.scheduler.redeliver(first.id)
    ann.run()
    office.decide()
    assert (again.state, again.result, stored(ann.replica)) == (REFUSED, "by bob", [])


def test_a_dropped_event_is_gone(office: Office, ann: Clerk) -> None:
    failing(ann)
    events = [ann.send("bad", number) for number in (1, 2)]
    ann.run()
    office.decide()
    ann.scheduler.drop_event(events[0].id)
    office.decide()
    assert [record["payload"] for record in stored(ann.replica)] == [2]
    for ask in (ann.scheduler.drop_event, ann.scheduler.redeliver):
        with pytest.raises(NotFoundError, match="there is no"):
            ask(events[0].id)


def test_an_event_that_two_drop_at_once_is_dropped(office: Office, ann: Clerk) -> None:
    failing(ann)
    event = ann.send("bad", 1)
    ann.run()
    office.decide()
    bob = office.clerk("bob")
    for clerk in (ann, bob):
        clerk.scheduler.drop_event(event.id)
    refused: list[object] = []
    bob.replica.on_rejected = lambda *told: refused.append(told)
    office.rest()
    assert stored(ann.replica) == stored(bob.replica) == []


def test_an_event_that_is_delivered_again_and_dropped_meanwhile_is_handled(office: Office, ann: Clerk) -> None:
    failing(ann)
    event = ann.send("bad", 1)
    ann.run()
    office.decide()
    ann.put(ok=True)
    again = ann.scheduler.redeliver(event.id)
    bob = office.clerk("bob")
    bob.scheduler.drop_event(event.id)
    ann.run()
    office.rest()
    office.advance(1)
    office.rest()
    assert (again.state, stored(ann.replica)) == (CONFIRMED, [])


def test_a_failed_event_that_its_sender_sends_again_is_kept_no_longer_once_it_is_handled(
    office: Office, ann: Clerk
) -> None:
    failing(ann)
    for ok in (False, True):
        ann.put(ok=ok)
        ann.send("bad", 1, outside=("shop", "1"))
        ann.run()
        office.decide()
        assert len(stored(ann.replica)) == (not ok)


def test_where_none_are_kept_that_is_not_promised(office: Office) -> None:
    ann = office.clerk(keep_failed=0)
    failing(ann)
    ann.send("bad", 1)
    ann.run()
    office.decide()
    assert (stored(ann.replica), ann.see("events:failed")) == ([], None)
    [error] = ann.errors
    assert "It is kept" not in str(error) and error.facts["payload"] == 1
