"""What is kept beside the records is what the records say; and every field of a record has somebody who looks at it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from headwater.core import Event, EventState, Handler, Node, RetryImmediately, Transaction, doc_key
from headwater.errors import InvariantError
from headwater.scheduler.events.lanes import Lane
from headwater.scheduler.graph.gate import Gate
from headwater.scheduler.graph.node import NOTHING_RARE, NodeStatus, RareFields
from headwater.testing.invariants.event_invariants import EVENT_FIELDS, HANDLER_FIELDS, LANE_FIELDS
from headwater.testing.invariants.scheduler_invariants import AT_REST, FIELDS
from tests.testing.invariants.event_rig import EventRig
from tests.testing.invariants.rig import Rig, look


def test_every_field_of_a_node_is_looked_at() -> None:
    """Whoever adds one says in FIELDS which function knows what must hold of it, and writes that there."""
    assert set(FIELDS) == {field.name for record in (Node, RareFields) for field in fields(record)}
    assert set(FIELDS.values()) <= set(AT_REST)


def test_every_field_of_an_event_a_handler_and_a_lane_is_looked_at() -> None:
    """The same for the records of events."""
    told = {Event: EVENT_FIELDS, Handler: HANDLER_FIELDS}
    for kind, known in told.items():
        assert set(known) == {field.name for field in fields(kind)}
        assert set(known.values()) <= set(AT_REST)
    assert set(LANE_FIELDS) == {field.name for field in fields(Lane)}
    assert set(LANE_FIELDS.values()) <= set(AT_REST)


def test_event_that_says_of_itself_what_is_not_so_is_found() -> None:
    for field, value in [
        *[("ordinal", 0), ("payload", {}), ("was_failed", True), ("attempts", -1), ("backoff_ms", 5.0)],
        *[("reason", "none"), ("state", EventState.PENDING), ("lane", "another"), ("is_stored", True), ("result", 1)],
    ]:
        rig = EventRig()
        here = rig.side("here")
        here.write(x=1)
        here.computation("slow", lambda tx: look(tx, "x"), debounce_ms=50.0, eager=True)
        here.handler("reads", lambda tx, _: look(tx, "slow"))
        here.settle()
        here.write(x=2)
        event = here.send("reads")
        here.settle()
        setattr(event, field, value)
        with pytest.raises(InvariantError, match=f"'{field}'|in one place only|its own"):
            here.check()


def test_write_to_the_rare_fields_that_nodes_share_is_found() -> None:
    rig = Rig()
    rig.write(x=1)
    rig.computation("a", lambda tx: look(tx, "x"), eager=True)
    rig.settle()
    rig.check()
    NOTHING_RARE.store_failures = 1
    try:
        with pytest.raises(InvariantError, match="those of none"):
            rig.check()
    finally:
        NOTHING_RARE.store_failures = 0


def test_every_field_of_a_gate_is_known() -> None:
    """They have one writer, and together they say one time; `waits_until` is compared with the heap."""
    known = {
        "debounce_ms",
        "throttle_ms",
        "no_auto_debounce",
        "auto_debounce_ms",
        "backoff_ms",
        "waits_until",
        "hurried_count",
        "refused_count",
        "ring_ms",
        "ring_until",
    }
    assert {field.name for field in fields(Gate)} == known | {
        "debounce_until",
        "throttle_until",
        "backoff_until",
        "store_until",
        "far_quiet_ms",
    }


def test_node_that_was_removed_while_it_was_invalid_is_forgotten_everywhere() -> None:
    with Rig() as rig:
        rig.write(x=1)
        double = rig.computation("double", lambda tx: 2 * look(tx, "x"))
        show = rig.effect("show", lambda tx: look(tx, "double"))
        rig.settle()
        rig.scheduler.remove(show)
        rig.write(x=2)
        assert rig.settle() == []
        rig.scheduler.remove(double)
        rig.settle()
        assert not rig.scheduler.invalidation.invalid


@pytest.mark.parametrize("envelope", [(), ((doc_key("big"), ()),)])
def test_node_that_never_comes_to_an_end_is_not_current_to_those_who_have_read_what_it_will_write(
    envelope: Any,
) -> None:
    with Rig() as rig:
        rig.write(big={})
        rig.effect("show", lambda tx: (look(tx, "late"), look(tx, "big")))
        rig.settle()

        def late(_: Transaction) -> None:
            raise RetryImmediately

        node = rig.computation("late", late, side_write_envelope=envelope)
        rig.settle()
        assert node.status is NodeStatus.NEVER_RAN
        assert node in rig.scheduler.invalidation.invalid
