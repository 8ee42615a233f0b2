"""I4: events are handled in the order in which they were sent, each after everything that its handler reads has run."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core import Transaction, doc_key, freeze
from headwater.errors import InvariantError
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.scheduler.trace import EventDispatched, EventParked
from headwater.testing.invariants.event_invariants import i4_order
from tests.testing.invariants.event_rig import EventRig
from tests.testing.invariants.rig import look

BIG = doc_key("big")


# --- order ----------------------------------------------------------------------------------------------------


def test_events_of_all_streams_are_handled_as_they_were_sent() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        for stream in ("a", "b", "c"):
            here.handler(stream, lambda _, payload: payload)
        for stream in "cabbac":
            here.send(stream)
        assert here.settle() == list("cabbac")


def test_event_that_is_sent_while_others_wait_goes_behind_them() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("first", lambda tx, _: here.send("follow", origin=tx).id)
        here.handler("second", lambda *_: None)
        here.handler("follow", lambda *_: None)
        here.send("first")
        here.send("second")
        assert here.settle() == ["first", "second", "follow"]


def test_head_that_has_to_wait_for_its_time_keeps_its_place_and_others_theirs() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1)
        here.computation("slow", lambda tx: look(tx, "x"), debounce_ms=50.0, eager=True)
        here.handler("reads", lambda tx, _: look(tx, "slow"))
        here.handler("plain", lambda *_: None)
        here.settle()
        here.send("reads")
        assert here.settle() == ["reads"]
        here.write(x=2)
        reads = here.send("reads")
        here.send("plain")
        assert here.settle() == []
        assert (here.scheduler.outstanding().events, here.scheduler.outstanding().wake_at) == (2, rig.time + 50)
        rig.time += 50
        assert here.settle() == ["reads", "plain"]
        assert reads.result == 2


def test_what_has_nothing_to_do_with_events_goes_on_while_they_wait() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        shown: list[int] = []
        here.write(x=1, y=1)
        here.computation("slow", lambda tx: look(tx, "x"), debounce_ms=50.0, eager=True)
        here.effect("show", lambda tx: shown.append(look(tx, "y")))
        here.handler("reads", lambda tx, _: look(tx, "slow"))
        here.settle()
        here.send("reads")
        here.settle()
        here.write(x=2)
        here.send("reads")
        here.settle()
        here.write(y=2)
        assert here.settle() == []
        assert shown == [1, 2]


def test_event_that_was_overtaken_comes_back_before_those_that_still_wait() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        here.write(x=1)
        rig.decide()
        handled: list[str] = []

        def bump(tx: Transaction, payload: Any) -> None:
            handled.append(str(payload))
            tx.set(doc_key("x"), (), look(tx, "x") + 1)

        here.handler("bump", bump)
        there.write(x=10)
        here.send("bump", "one")
        here.settle()
        rig.decide()
        here.send("bump", "two")
        assert here.settle() == []
        rig.time += 1
        assert here.settle() == ["bump", "bump"]
        assert handled == ["one", "one", "two"]
        rig.come_to_rest()
        assert here.read("x") == 12


def test_all_that_were_handled_on_top_of_one_that_was_overtaken_come_back_in_their_order() -> None:
    with EventRig() as rig:
        here, there = rig.side("here"), rig.side("there")
        here.write(seen=[])
        rig.decide()

        def see(tx: Transaction, payload: Any) -> None:
            tx.set(doc_key("seen"), (), freeze([*look(tx, "seen"), payload]))

        here.handler("see", see)
        there.write(seen=[0])
        for number in (1, 2, 3):
            here.send("see", number)
        here.settle()
        assert here.read("seen") == [1, 2, 3]
        rig.come_to_rest()
        assert here.read("seen") == [0, 1, 2, 3]


def test_async_handler_keeps_its_lane_until_it_is_done() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("waits", lambda *_: None, is_async=True)
        here.handler("plain", lambda *_: None)
        here.send("waits")
        here.send("plain")
        assert here.settle() == ["waits"]
        here.go_on()
        assert here.settle() == ["plain"]


def test_event_whose_handling_cannot_be_sent_fails_and_those_behind_it_are_handled() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("bad", lambda tx, _: tx.set(doc_key("x"), (), [1]))
        here.handler("good", lambda *_: None)
        here.send("bad")
        here.send("good")
        assert here.settle() == ["bad", "good"]
        rig.come_to_rest()
        assert here.ends == [("bad", "failed"), ("good", "confirmed")]


# --- consistency ----------------------------------------------------------------------------------------------


def test_handler_sees_what_nobody_looked_at_as_it_is_now() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1)
        here.computation("double", lambda tx: 2 * look(tx, "x"))
        here.computation("more", lambda tx: look(tx, "double") + 1)
        here.handler("reads", lambda tx, _: look(tx, "more"))
        results = []
        for number in (1, 2, 3):
            here.write(x=number)
            event = here.send("reads")
            here.settle()
            results.append(event.result)
        assert results == [3, 5, 7]


def test_handler_that_turns_to_something_else_sees_that_as_it_is_now_too() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1, which="left")
        for name in ("left", "right"):
            here.computation(name, lambda tx: look(tx, "x"))
        here.handler("reads", lambda tx, _: look(tx, look(tx, "which")))
        here.send("reads")
        here.settle()
        here.write(x=2, which="right")
        event = here.send("reads")
        assert here.settle() == ["reads"]
        assert event.result == 2


def test_handler_that_turns_to_what_has_to_wait_is_called_again_as_if_it_had_not_been() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1, which="x", count=0)
        here.computation("slow", lambda tx: look(tx, "x"), debounce_ms=50.0, eager=True)

        def reads(tx: Transaction, _: object) -> Any:
            tx.set(doc_key("count"), (), look(tx, "count") + 1)
            return look(tx, look(tx, "which"))

        here.handler("reads", reads)
        here.settle()
        here.write(x=2, which="slow")
        event = here.send("reads")
        later = here.send("reads")
        assert here.settle() == ["reads"]
        assert (event.state.value, event.attempts, here.read("count")) == ("queued", 0, 0)
        rig.time += 50
        assert here.settle() == ["reads", "reads"]
        assert (event.result, later.result, here.read("count")) == (2, 2, 2)


def test_event_waits_for_a_function_that_is_under_way_above_it() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1)
        here.computation("fetched", lambda tx: look(tx, "x"), is_async=True)
        here.computation("double", lambda tx: 2 * look(tx, "fetched"))
        here.handler("reads", lambda tx, _: look(tx, "double"))
        event = here.send("reads")
        # It is called to find out what it reads.
        assert here.settle() == ["reads"]
        here.go_on()
        assert here.settle() == ["reads"]
        assert event.result == 2
        here.write(x=2)
        event = here.send("reads")
        assert here.settle() == []
        here.go_on()
        assert here.settle() == ["reads"]
        assert event.result == 4


def test_handler_in_whose_middle_others_write_is_called_again_if_what_it_has_seen_is_not_so_any_more() -> None:
    """Nobody looks at `double`, and so nobody would have told that it is another one now."""
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1)
        here.computation("double", lambda tx: 2 * look(tx, "x"))
        seen: list[tuple[int, int]] = []

        def reads(tx: Transaction, _: object) -> int:
            double = look(tx, "double")
            if not seen:
                # Another thread.
                here.write(x=2)
            seen.append((double, look(tx, "x")))
            return int(double)

        here.handler("reads", reads)
        event = here.send("reads")
        rig.come_to_rest()
        assert seen == [(2, 2), (4, 2)]
        assert event.result == 4


def test_handler_in_whose_middle_others_write_is_not_called_again_if_what_it_has_seen_is_still_so() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1)
        here.computation("parity", lambda tx: look(tx, "x") % 2)

        def reads(tx: Transaction, _: object) -> Any:
            parity = look(tx, "parity")
            here.write(x=3)
            return parity

        here.handler("reads", reads)
        event = here.send("reads")
        rig.come_to_rest()
        assert (event.result, event.attempts) == (1, 1)


def test_async_handler_that_has_seen_what_is_made_anew_meanwhile_waits_for_that_and_is_called_again() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1)
        here.computation("slow", lambda tx: look(tx, "x"), debounce_ms=50.0, eager=True)
        here.handler("reads", lambda tx, _: look(tx, "slow"), is_async=True)
        here.settle()
        event = here.send("reads")
        assert here.settle() == ["reads"]
        here.write(x=2)
        here.go_on()
        assert here.settle() == []
        rig.time += 50
        assert here.settle() == ["reads"]
        here.go_on()
        rig.come_to_rest()
        assert event.result == 2


def test_event_does_not_wait_for_what_is_above_it_no_longer() -> None:
    """What it waits for is looked at again when something has run."""
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1, is_slow=1)
        here.computation("slow", lambda tx: look(tx, "x"), debounce_ms=50.0)
        here.computation("turns", lambda tx: look(tx, "slow") if look(tx, "is_slow") else look(tx, "x"), eager=True)
        here.handler("reads", lambda tx, _: look(tx, "turns"), reads=(doc_key("turns"),))
        here.settle()
        here.write(x=2, is_slow=0)
        event = here.send("reads")
        assert here.settle() == ["reads"]
        assert event.result == 2


def test_what_never_settles_holds_up_no_event() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.computation("first", lambda tx: 1 - look(tx, "second"), eager=True)
        here.computation("second", lambda tx: look(tx, "first"), eager=True)
        here.handler("reads", lambda tx, _: look(tx, "second"))
        here.send("reads")
        assert here.settle() == ["reads"]
        here.send("reads")
        assert here.settle() == ["reads"]


def test_what_waits_for_quiet_that_a_ring_never_gives_holds_up_no_event_for_ever() -> None:
    """The ring is run for the event, and rests after that: then there is quiet."""
    with EventRig() as rig:
        here = rig.side("here")
        here.computation("first", lambda tx: 1 - look(tx, "second"))
        here.computation("second", lambda tx: look(tx, "first"))
        here.computation("calm", lambda tx: 10 + look(tx, "first"), debounce_ms=50.0)
        here.handler("reads", lambda tx, _: look(tx, "calm"), reads=(doc_key("calm"),))
        here.send("reads")
        here.settle()
        for _ in range(4):
            rig.time += 50
            here.settle()
        rig.decide()
        assert here.ends == [("reads", "confirmed")]


@pytest.mark.parametrize("slow", [{"debounce_ms": 50.0}, {"throttle_ms": 50.0}, {"is_async": True}])
def test_circle_that_goes_round_slowly_for_ever_holds_up_an_event_for_so_many_turns_and_no_longer(slow: Any) -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.computation("first", lambda tx: 1 - look(tx, "second"))
        second = here.computation("second", lambda tx: look(tx, "first"), **slow)
        here.handler("reads", lambda tx, _: look(tx, "first"), reads=(doc_key("first"),))
        here.handler("after", lambda *_: None)
        event = here.send("reads")
        here.send("after")
        for _ in range(2 * RUNS_MAX):
            here.settle()
            if here.flights:
                here.go_on()
            rig.time += 50
        assert event.is_settled or event.attempts, "it was handled"
        assert RUNS_MAX <= second.runs < 2 * RUNS_MAX + 2
        rig.decide()
        assert here.ends == [("reads", "confirmed"), ("after", "confirmed")]


def test_handler_that_writes_into_a_document_before_it_reads_there_sees_what_others_put_there() -> None:
    """A write takes hold of the document as a read does."""
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1, big={})

        def fill(tx: Transaction) -> None:
            tx.set(BIG, ("filled",), look(tx, "x"))

        here.computation("fill", fill, side_write_envelope=((BIG, ()),))

        def handle(tx: Transaction, _: object) -> Any:
            tx.set(BIG, ("mine",), 5)
            return look(tx, "big")["filled"]

        here.handler("reads", handle)
        here.settle()
        here.write(x=2)
        event = here.send("reads")
        here.settle()
        assert event.result == 2


def test_materializer_that_has_never_run_runs_before_the_handler_that_reads_what_is_made_of_it() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1, big={})
        here.computation("reader", lambda tx: look(tx, "big").get("filled", 0))
        here.handler("reads", lambda tx, _: look(tx, "reader"))
        here.send("reads")
        here.settle()

        def fill(tx: Transaction) -> None:
            tx.set(BIG, ("filled",), look(tx, "x"))

        here.computation("fill", fill, side_write_envelope=((BIG, ()),))
        event = here.send("reads")
        here.settle()
        assert event.result == 1


def test_materializer_that_has_never_run_runs_before_what_a_handler_asks_for_the_first_time() -> None:
    with EventRig() as rig:
        here = rig.side("here")
        here.write(x=1, big={})

        def fill(tx: Transaction) -> None:
            tx.set(BIG, ("filled",), look(tx, "x"))

        here.computation("reader", lambda tx: look(tx, "big").get("filled", 0))
        here.computation("fill", fill, side_write_envelope=((BIG, ()),))
        here.handler("reads", lambda tx, _: look(tx, "reader"))
        event = here.send("reads")
        here.settle()
        assert event.result == 1


# --- the checkers can fail ------------------------------------------------------------------------------------


def sent_and_handled(count: int) -> list[Any]:
    with EventRig() as rig:
        here = rig.side("here")
        here.handler("a", lambda *_: None)
        for _ in range(count):
            here.send("a")
        here.settle()
        return list(here.records)


def test_trace_in_which_two_events_have_changed_places_is_refused() -> None:
    records = sent_and_handled(3)
    first, second, _ = (index for index, record in enumerate(records) if isinstance(record, EventDispatched))
    records[first], records[second] = records[second], records[first]
    with pytest.raises(InvariantError, match="I4: its handler is called before that of"):
        i4_order(records)


def test_trace_in_which_an_event_that_came_back_is_passed_over_is_refused() -> None:
    records = sent_and_handled(2)
    second = max(index for index, record in enumerate(records) if isinstance(record, EventDispatched))
    first = next(record for record in records if isinstance(record, EventDispatched))
    records.insert(second, EventParked(0.0, first.node, first.event, "somebody was faster", 1.0))
    with pytest.raises(InvariantError, match="I4: its handler is called before that of"):
        i4_order(records)


@pytest.mark.pure("replaces a method")
def test_handler_that_looks_at_what_nobody_made_current_is_found() -> None:
    rig = EventRig()
    here = rig.side("here")
    here.write(x=1)
    here.computation("double", lambda tx: 2 * look(tx, "x"))
    here.handler("reads", lambda tx, _: look(tx, "double"))
    here.send("reads")
    # As if there were none: then nobody runs, and it looks at what is not there yet.
    here.scheduler.preflight.blockers = lambda docs: []  # type: ignore[method-assign]  # noqa: ARG005
    with pytest.raises(InvariantError, match=r"I4: its handler reads .*, and <Node double#1: never-ran> above"):
        here.settle()
