"""I11: however often and wherever an event is delivered, one handling of it is ever committed. Its receipt says so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.core import DeleteDoc, Transaction, doc_key, freeze
from headwater.errors import HandlerTakenError, InvariantError
from headwater.scheduler.trace import EventEnded, EventSent
from headwater.store.commit import CommitEntry, SetDoc
from headwater.testing.invariants.event_invariants import i11_at_most_once, i11_log
from headwater.values.ids import MAIN, LocalSeq, Millis, SessionId
from tests.testing.invariants.event_rig import EventRig, Side
from tests.testing.invariants.rig import look


def count_on(side: Side) -> list[Any]:
    """A handler that counts; returns what it was called with."""
    called: list[Any] = []

    def count(tx: Transaction, payload: Any) -> int:
        called.append(payload)
        found: int = look(tx, "count") + 1
        tx.set(doc_key("count"), (), found)
        return found

    side.handler("count", count)
    return called


def test_event_that_is_sent_again_is_refused_with_the_result_of_the_first_time() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        called = count_on(here)
        here.send("count", 1, "order 7")
        rig.come_to_rest()
        again = here.send("count", 1, "order 7")
        rig.come_to_rest()
        assert (again.state.value, again.reason, again.result) == ("refused", "it was handled before", 1)
        assert (called, here.read("count")) == ([1], 1)


def test_event_that_is_sent_again_while_it_is_on_its_way_is_that_event() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        count_on(here)
        first = here.send("count", 1, "order 7")
        assert here.send("count", 1, "order 7") is first
        here.settle()
        assert here.send("count", 1, "order 7") is first
        rig.come_to_rest()
        assert here.read("count") == 1


def test_event_that_two_replicas_handle_at_once_is_committed_by_one_and_refused_to_the_other() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        called = [count_on(here), count_on(there)]
        first, second = here.send("count", 1, "order 7"), there.send("count", 1, "order 7")
        here.settle()
        there.settle()
        rig.come_to_rest()
        assert sorted([first.state.value, second.state.value]) == ["confirmed", "refused"]
        assert (first.result, second.result, here.read("count")) == (1, 1, 1)
        assert (first.id, called) == (second.id, [[1], [1]]), "whoever was second does not try again"
        assert rig.receipts() == {first.letters}


def test_handler_that_writes_nothing_leaves_a_receipt() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("idle", lambda *_: None)
        event = here.send("idle")
        rig.come_to_rest()
        assert here.read(f"receipt:{event.letters}") == {"stream": "idle", "result": None}


def test_event_whose_receipt_was_deleted_is_still_refused() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        called = count_on(here)
        event = here.send("count", 1, "order 7")
        rig.come_to_rest()
        here.peer.commit(DeleteDoc(event.receipt))
        rig.decide()
        again = here.send("count", 1, "order 7")
        rig.come_to_rest()
        assert (again.state.value, here.read("count")) == ("refused", 1)
        assert called == [1, 1], "it was called, and nothing of that was kept"


def test_event_that_was_overtaken_is_handled_once_in_the_end() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        called = count_on(here)
        there.write(count=10)
        event = here.send("count", 1)
        rig.come_to_rest()
        assert (event.result, called, event.attempts) == (11, [1, 1], 2)
        assert rig.receipts() == {event.letters}


def test_two_events_from_outside_with_the_same_name_for_two_streams_are_two() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("a", lambda *_: None)
        here.handler("b", lambda *_: None)
        here.send("a", None, "order 7")
        here.send("b", None, "order 7")
        assert here.settle() == ["a", "b"]
        rig.come_to_rest()
        assert len(rig.receipts()) == 2


def test_event_that_the_store_has_kept_although_nobody_was_told_is_not_handled_again() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        count_on(here)
        event = here.send("count", 1, "order 7")
        here.settle()
        rig.hub.interrupt()
        here.peer.refresh()
        rig.come_to_rest()
        assert (event.state.value, here.read("count")) == ("confirmed", 1)


def test_follow_up_that_another_has_taken_up_from_the_outbox_is_handled_by_one_of_the_two() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        for side in (here, there):
            count_on(side)
        tx = Transaction(here.peer.replica, "by hand")
        event = here.send("count", 1, origin=tx)
        tx.commit()
        rig.decide()
        there.scheduler.resume_events()
        there.settle()
        here.settle()
        rig.come_to_rest()
        assert (event.state.value, event.result) == ("refused", 1)
        assert (here.read("count"), here.read("events:outbox")) == (1, {})
        assert rig.receipts() == {event.letters}


def test_follow_up_that_another_has_handled_before_its_turn_came_has_the_result_of_that() -> None:
    """What was sent here is known to be new, but in the outbox others can find it."""
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        for side in (here, there):
            count_on(side)
        tx = Transaction(here.peer.replica, "by hand")
        event = here.send("count", 1, origin=tx)
        tx.commit()
        rig.decide()
        there.scheduler.resume_events()
        there.settle()
        rig.decide()
        here.settle()
        rig.come_to_rest()
        assert (event.state.value, event.result, here.read("count")) == ("refused", 1, 1)


def test_follow_up_that_another_takes_up_while_it_is_handled_leaves_nothing_in_the_outbox() -> None:
    """Although that other never comes to tidy up."""
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        for side in (here, there):
            count_on(side)
        tx = Transaction(here.peer.replica, "by hand")
        here.send("count", 1, origin=tx)
        tx.commit()
        rig.decide()
        here.settle()
        there.scheduler.resume_events()
        rig.decide()
        assert rig.hub.space.value("events:outbox") == {}


def test_events_that_fail_at_the_same_time_in_two_replicas_are_both_kept() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")

        def fails(*_: object) -> None:
            raise ValueError("no")

        letters = []
        for side in (here, there):
            side.handler("fails", fails)
            letters.append(side.send("fails").letters)
            side.settle()
        rig.come_to_rest()
        assert sorted(here.read("events:failed")) == sorted(letters)


def test_failed_event_that_is_delivered_again_by_two_is_handled_once_and_kept_no_longer() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        here.write(ok=0)
        rig.decide()

        def count(tx: Transaction, _: object) -> None:
            if not look(tx, "ok"):
                raise ValueError("not yet")
            tx.set(doc_key("count"), (), look(tx, "count") + 1)

        for side in (here, there):
            side.handler("count", count)
        event = here.send("count")
        rig.come_to_rest()
        assert list(here.read("events:failed")) == [event.letters]
        here.write(ok=1)
        rig.decide()
        for side in (here, there):
            side.scheduler.redeliver(event.id)
            side.settle()
        rig.come_to_rest()
        assert (here.read("count"), here.read("events:failed")) == (1, {})
        assert rig.receipts() == {event.letters}


def test_second_handler_for_a_stream_is_refused() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("a", lambda *_: None)
        with pytest.raises(HandlerTakenError, match="a\\(\\) does already"):
            here.handler("a", lambda *_: None)
        here.send("a")
        assert here.settle() == ["a"]


def test_event_that_waits_while_its_handler_is_replaced_is_handled_by_the_new_one_and_counted_there() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        old = here.handler("a", lambda *_: "old")
        event = here.send("a")
        here.scheduler.remove_handler(old)
        new = here.handler("a", lambda *_: "new")
        here.settle()
        rig.come_to_rest()
        assert (event.result, old.backlog, new.backlog) == ("new", 0, 0)


# --- the checkers can fail ------------------------------------------------------------------------------------


def handled() -> list[Any]:
    with EventRig() as rig:
        here = rig.side("here")
        count_on(here)
        here.send("count", 1, "order 7")
        rig.come_to_rest()
        return list(here.records)


def test_trace_in_which_an_event_is_confirmed_twice_is_refused() -> None:
    records = handled()
    with pytest.raises(InvariantError, match="I11: it is handled a second time"):
        i11_at_most_once([*records, *records])


def test_trace_in_which_an_event_ends_twice_is_refused() -> None:
    records = handled()
    with pytest.raises(InvariantError, match="I11: it has ended before"):
        i11_at_most_once([*records, next(record for record in records if isinstance(record, EventEnded))])


def test_trace_in_which_two_handlers_share_an_event_is_refused() -> None:
    records = handled()
    sent = next(record for record in records if isinstance(record, EventSent))
    with pytest.raises(InvariantError, match="I11: it is for handler:count, too"):
        i11_at_most_once([*records, msgspec.structs.replace(sent, node="handler:other")])


def test_log_in_which_a_receipt_is_written_twice_is_refused() -> None:
    receipt = SetDoc(doc_key("receipt:abc"), freeze({"stream": "a", "result": None}))
    entries = [CommitEntry(MAIN, SessionId("s"), LocalSeq(number), Millis(0), (receipt,)) for number in (1, 2)]
    assert i11_log(entries[:1]) == {MAIN: {"abc"}}
    with pytest.raises(InvariantError, match="I11: space/receipt:abc is written again, by commit 2 of s"):
        i11_log(entries)
