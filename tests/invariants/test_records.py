"""What is kept beside the records is what the records say; and every field of a record has somebody who looks at it."""

from __future__ import annotations

from dataclasses import fields

from headwater.core import Node
from headwater.scheduler.gates import Gate
from headwater.scheduler.invariants import AT_REST, FIELDS
from tests.invariants.rig import Rig, look


def test_every_field_of_a_node_is_looked_at() -> None:
    """Whoever adds one says in FIELDS which function knows what must hold of it, and writes that there."""
    assert set(FIELDS) == {field.name for field in fields(Node)}
    assert set(FIELDS.values()) <= set(AT_REST)


def test_every_field_of_a_gate_is_known() -> None:
    """They have one writer, and together they say one time; `waits_until` is compared with the heap."""
    known = {"debounce_ms", "throttle_ms", "no_auto_debounce", "auto_debounce_ms", "backoff_ms", "waits_until"}
    assert {field.name for field in fields(Gate)} == known | {"debounce_until", "throttle_until", "backoff_until"}


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
