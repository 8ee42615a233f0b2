"""I10: what an attempt has launched survives only if that attempt comes to be; a failed one's is never done again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.core import Transaction, doc_key
from headwater.errors import InvariantError
from headwater.scheduler.trace import EventDispatched, EventEnded, EventSent, OriginDecided
from headwater.testing.invariants.event_invariants import i10_lineage_gated
from tests.support.hub import FULL
from tests.testing.invariants.event_rig import EventRig, Side
from tests.testing.invariants.rig import look


def parent_of(side: Side, *, reads: bool = True) -> list[Any]:
    """A handler that overwrites x and sends a follow-up, which notes what it was sent. Returns all that was sent."""
    sent: list[Any] = []

    def parent(tx: Transaction, _: object) -> None:
        seen = look(tx, "x") if reads else 0
        tx.set(doc_key("x"), (), seen + 1)
        sent.append(side.send("follow", seen, origin=tx))

    def follow(tx: Transaction, payload: Any) -> None:
        tx.set(doc_key(f"note{payload}"), (), payload)

    side.handler("parent", parent)
    side.handler("follow", follow)
    return sent


def test_follow_up_is_handled_before_the_store_has_decided_on_its_parent() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1)
        rig.decide()
        parent_of(here)
        here.send("parent")
        assert here.settle() == ["parent", "follow"]
        assert here.ends == []
        rig.come_to_rest()
        assert here.ends == [("parent", "confirmed"), ("follow", "confirmed")]


def test_follow_up_of_an_attempt_that_was_overtaken_is_refused_and_the_next_attempt_sends_a_fresh_one() -> None:
    """It does not read what its parent wrote: only the precondition can stop it."""
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        here.write(x=1)
        rig.decide()
        sent = parent_of(here)
        there.write(x=10)
        here.send("parent")
        assert here.settle() == ["parent", "follow"]
        rig.come_to_rest()
        first, second = sent
        assert (first.state.value, second.state.value) == ("refused", "confirmed")
        assert first.id != second.id
        assert (here.read("note1"), here.read("note10"), here.read("x")) == (None, 10, 11)
        assert len(rig.receipts()) == 2


def test_follow_up_that_waits_when_its_parent_is_overtaken_is_never_handled() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        here.write(x=1, y=1)
        here.computation("slow", lambda tx: look(tx, "y"), debounce_ms=50.0, eager=True)
        rig.decide()
        sent = parent_of(here)
        here.handler("reads", lambda tx, _: look(tx, "slow"))
        here.settle()
        here.send("reads")
        here.settle()
        rig.decide()
        there.write(x=10)
        here.send("parent")
        here.write(y=2)
        here.send("reads")
        assert here.settle() == ["parent"]
        rig.decide()
        assert sent[0].state.value == "refused"
        rig.come_to_rest()
        assert [event.state.value for event in sent] == ["refused", "confirmed"]


def test_follow_ups_of_a_handler_that_raises_are_not_sent() -> None:
    with EventRig() as rig:
        here = rig.side("here")

        def parent(tx: Transaction, _: object) -> None:
            here.send("follow", origin=tx)
            raise ValueError("no")

        here.handler("parent", parent)
        here.handler("follow", lambda *_: None)
        here.send("parent")
        assert here.settle() == ["parent"]
        rig.come_to_rest()
        assert sorted(here.ends) == [("follow", "refused"), ("parent", "failed")]
        assert not rig.receipts()


def test_follow_up_that_failed_is_not_kept_if_its_parent_was_overtaken() -> None:
    """What it was sent never came to be: there is nothing to deliver again."""
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        here.write(x=1)
        rig.decide()

        def parent(tx: Transaction, _: object) -> None:
            tx.set(doc_key("x"), (), look(tx, "x") + 1)
            here.send("follow", look(tx, "x"), origin=tx)

        def follow(_: Transaction, payload: Any) -> None:
            if payload == 2:
                raise ValueError(payload)

        here.handler("parent", parent)
        here.handler("follow", follow)
        there.write(x=10)
        here.send("parent")
        rig.come_to_rest()
        assert sorted(here.ends) == [("follow", "confirmed"), ("follow", "failed"), ("parent", "confirmed")]
        assert here.read("events:failed", {}) == {}
        assert here.read("events:outbox") == {}


def test_grandchildren_of_an_attempt_that_was_overtaken_are_refused_too() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        here.write(x=1)
        rig.decide()

        def first(tx: Transaction, _: object) -> None:
            tx.set(doc_key("x"), (), look(tx, "x") + 1)
            here.send("second", origin=tx)

        here.handler("first", first)
        here.handler("second", lambda tx, _: here.send("third", origin=tx).id)
        here.handler("third", lambda *_: None)
        there.write(x=10)
        here.send("first")
        assert here.settle() == ["first", "second", "third"]
        rig.come_to_rest()
        ends = sorted(here.ends)
        assert ends == [
            ("first", "confirmed"),
            *[("second", "confirmed"), ("second", "refused")],
            *[("third", "confirmed"), ("third", "refused")],
        ]


def test_event_sent_in_a_transaction_is_handled_when_that_has_ended_and_not_before() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("follow", lambda *_: None)
        tx = Transaction(here.peer.replica, "by hand")
        here.send("follow", origin=tx)
        assert here.settle() == []
        tx.commit()
        assert here.settle() == ["follow"]
        rig.come_to_rest()
        assert here.ends == [("follow", "confirmed")]


def test_event_sent_in_a_transaction_that_is_given_up_is_refused() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("follow", lambda *_: None)
        tx = Transaction(here.peer.replica, "by hand")
        here.send("follow", origin=tx)
        tx.abort()
        here.send("follow")
        assert here.settle() == ["follow"]
        rig.come_to_rest()
        assert here.ends == [("follow", "refused"), ("follow", "confirmed")]


def test_event_sent_in_a_part_that_is_rolled_back_is_refused_and_the_rest_is_sent() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("follow", lambda _, payload: payload)
        tx = Transaction(here.peer.replica, "by hand")
        here.send("follow", "kept", origin=tx)
        point = tx.savepoint()
        here.send("follow", "undone", origin=tx)
        tx.roll_back(point)
        tx.commit()
        rig.come_to_rest()
        assert here.ends == [("follow", "refused"), ("follow", "confirmed")]
        assert here.read("events:outbox") == {}


def test_event_sent_in_what_has_come_to_be_already_has_no_origin() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("follow", lambda *_: None)
        tx = Transaction(here.peer.replica, "by hand")
        tx.set(doc_key("x"), (), 1)
        tx.commit()
        rig.decide()
        assert here.send("follow", origin=tx).origin is None
        assert here.settle() == ["follow"]


def test_event_sent_in_what_has_failed_already_is_refused_at_once() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("follow", lambda *_: None)
        tx = Transaction(here.peer.replica, "by hand")
        tx.abort()
        event = here.send("follow", origin=tx)
        assert event.state.value == "refused"
        assert here.settle() == []


def test_event_sent_in_another_space_waits_until_that_is_confirmed() -> None:
    with EventRig() as rig, EventRig() as elsewhere:
        here, far = rig.side("here"), elsewhere.side("far")
        here.handler("follow", lambda *_: None)
        tx = Transaction(far.peer.replica, "far away")
        tx.set(doc_key("x"), (), 1)
        here.send("follow", origin=tx)
        assert here.settle() == []
        tx.commit()
        assert here.settle() == []
        elsewhere.decide()
        assert here.settle() == ["follow"]


def test_event_sent_in_another_space_is_never_handled_if_that_is_taken_back() -> None:
    with EventRig() as rig, EventRig() as elsewhere:
        here, far, faster = rig.side("here"), elsewhere.side("far"), elsewhere.side("faster")
        here.handler("follow", lambda *_: None)
        tx = Transaction(far.peer.replica, "far away")
        tx.set(doc_key("x"), (), look(tx, "x") + 1)
        event = here.send("follow", origin=tx)
        faster.write(x=5)
        tx.commit()
        elsewhere.decide()
        assert event.state.value == "refused"
        assert here.settle() == []
        assert not rig.receipts()


def test_what_a_failed_attempt_has_started_is_stopped_once_and_what_another_has_started_is_not() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        here.write(x=1)
        rig.decide()
        started: list[str] = []
        stopped: list[str] = []

        def parent(tx: Transaction, _: object) -> None:
            tx.set(doc_key("x"), (), look(tx, "x") + 1)
            name = f"piece {len(started)}"
            started.append(name)
            here.scheduler.launched(tx, lambda: stopped.append(name))

        here.handler("parent", parent)
        there.write(x=10)
        here.send("parent")
        rig.come_to_rest()
        assert (started, stopped) == (["piece 0", "piece 1"], ["piece 0"])


def test_follow_up_survives_a_store_that_fails_for_a_moment() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1)
        rig.decide()
        sent = parent_of(here)
        here.send("parent")
        here.settle()
        rig.hub.fail(FULL)
        here.peer.refresh()
        rig.come_to_rest()
        assert [event.state.value for event in sent] == ["refused", "confirmed"]
        assert len(rig.receipts()) == 2


# --- the checkers can fail ------------------------------------------------------------------------------------


def followed() -> list[Any]:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1)
        rig.decide()
        parent_of(here)
        here.send("parent")
        rig.come_to_rest()
        return list(here.records)


def test_trace_in_which_the_follow_up_of_a_failed_attempt_is_confirmed_is_refused() -> None:
    records = [
        msgspec.structs.replace(record, came_to_be=False) if isinstance(record, OriginDecided) else record
        for record in followed()
    ]
    with pytest.raises(InvariantError, match="I10: it is confirmed, and what sent it is not"):
        i10_lineage_gated(records)


def test_trace_in_which_the_follow_up_of_a_failed_attempt_is_handled_again_is_refused() -> None:
    records = followed()
    follow = next(record for record in records if isinstance(record, EventSent) and record.origin)
    again = next(record for record in records if isinstance(record, EventDispatched) and record.event == follow.event)
    at = next(index for index, record in enumerate(records) if isinstance(record, OriginDecided))
    records[at:] = [msgspec.structs.replace(records[at], came_to_be=False), again]
    with pytest.raises(InvariantError, match="I10: its handler is called, and its sender was rolled back"):
        i10_lineage_gated(records)


def test_trace_in_which_a_follow_up_is_confirmed_before_its_parent_is_refused() -> None:
    records = followed()
    decided = next(index for index, record in enumerate(records) if isinstance(record, OriginDecided))
    ended = max(index for index, record in enumerate(records) if isinstance(record, EventEnded))
    records[decided], records[ended] = records[ended], records[decided]
    with pytest.raises(InvariantError, match="I10: it is confirmed, and what sent it is not"):
        i10_lineage_gated(records)
