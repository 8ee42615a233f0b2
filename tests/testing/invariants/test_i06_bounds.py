"""I6: what does not settle is stopped, rests ever longer, and holds up nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.core import Node, RetryImmediately, Transaction, doc_key
from headwater.errors import UserCodeError
from headwater.scheduler.scheduler_limits import BACKOFF_MAX_MS, BACKOFF_MS, RUNS_MAX
from headwater.scheduler.trace import NodeRestless
from tests.support.limits import small_limits
from tests.testing.invariants.rig import Rig, look


def restless(rig: Rig) -> tuple[Node, Node]:
    """Two that never agree."""
    first = rig.computation("first", lambda tx: 1 - look(tx, "second"), eager=True)
    return first, rig.computation("second", lambda tx: look(tx, "first"), eager=True)


def test_ring_that_does_not_settle_is_stopped_and_told() -> None:
    with Rig() as rig:
        restless(rig)
        ran = rig.settle()
        assert (ran.count("first"), ran.count("second")) in [(RUNS_MAX, RUNS_MAX), (RUNS_MAX, RUNS_MAX - 1)]
        assert len(rig.errors) == 1


def test_node_that_does_not_settle_rests_longer_each_time() -> None:
    with Rig() as rig:
        restless(rig)
        rig.settle()
        pauses = []
        for _ in range(6):
            wake_at = rig.scheduler.outstanding().wake_at
            assert wake_at is not None
            pauses.append(wake_at - rig.now())
            assert rig.advance(int(pauses[-1]) - 1) == []
            assert rig.advance(1) != []
        assert pauses == [BACKOFF_MS, 2 * BACKOFF_MS, 4 * BACKOFF_MS, *[BACKOFF_MAX_MS] * 3]
        assert len(rig.errors) == 1, "once for each time that it begins"


def test_call_between_two_passes_does_not_shorten_the_rest() -> None:
    with Rig() as rig:
        total = rig.computation("total", lambda tx: look(tx, "x") + look(tx, "y"), eager=True)
        rig.effect("next", lambda tx: tx.set(doc_key("x"), (), look(tx, "total") + 1))
        rig.settle()
        pauses = []
        for number in range(3):
            wake_at = rig.scheduler.outstanding().wake_at
            assert wake_at is not None
            pauses.append(wake_at - rig.now())
            rig.clock.advance(int(pauses[-1]))
            rig.scheduler.pull(total)
            assert total.is_clean
            rig.write(y=number + 1)
            rig.settle()
        assert pauses == [BACKOFF_MS, 2 * BACKOFF_MS, 4 * BACKOFF_MS]


def test_node_that_a_call_made_current_is_well_again_after_the_next_pass() -> None:
    with Rig() as rig:
        rig.write(calm=0)
        total = rig.computation("total", lambda tx: look(tx, "x") + look(tx, "y"), eager=True)

        def follow(tx: Transaction) -> None:
            if not look(tx, "calm"):
                tx.set(doc_key("x"), (), look(tx, "total") + 1)

        rig.effect("next", follow)
        rig.settle()
        rig.write(calm=1)
        rig.settle()
        rig.clock.advance(BACKOFF_MS)
        rig.scheduler.pull(total)
        assert total.is_clean
        rig.settle()
        rig.write(calm=0, y=1)
        rig.settle()
        assert rig.scheduler.outstanding().wake_at == rig.now() + BACKOFF_MS, "from the beginning"
        assert "total" in rig.advance(BACKOFF_MS)


def test_others_run_as_if_it_were_not_there() -> None:
    with Rig() as rig:
        rig.write(x=1)
        restless(rig)
        rig.computation("double", lambda tx: 2 * look(tx, "x"))
        rig.effect("show", lambda tx: look(tx, "double"))
        rig.settle()
        rig.write(x=2)
        assert rig.settle() == ["double", "show"]
        assert rig.scheduler.outstanding().is_idle


def test_ring_that_settles_after_all_is_well_again() -> None:
    with Rig() as rig:
        rig.write(calm=0)
        rig.computation("first", lambda tx: 0 if look(tx, "calm") else 1 - look(tx, "second"), eager=True)
        rig.computation("second", lambda tx: look(tx, "first"), eager=True)
        rig.settle()
        rig.write(calm=1)
        rig.advance(BACKOFF_MAX_MS)
        assert rig.read("first") == 0
        rig.write(calm=0)
        rig.settle()
        wake_at = rig.scheduler.outstanding().wake_at
        assert wake_at == rig.now() + BACKOFF_MS, "from the beginning"


def test_callers_within_a_pass_do_not_make_it_run_more_often() -> None:
    with Rig() as rig:
        first, _ = restless(rig)

        def show(tx: Transaction) -> None:
            rig.scheduler.pull(first)
            look(tx, "first")

        for number in range(3):
            rig.effect(f"show{number}", show)
        ran = rig.settle()
        assert ran.count("first") <= RUNS_MAX
        assert [ran.count(f"show{number}") for number in range(3)] == [1, 1, 1]


def test_node_that_asks_to_be_run_again_is_stopped_too() -> None:
    with Rig() as rig:

        def again(_: Transaction) -> None:
            raise RetryImmediately

        rig.effect("again", again)
        assert rig.settle() == ["again"] * RUNS_MAX
        assert any(isinstance(record, NodeRestless) for record in rig.records)


def test_caller_of_one_that_only_asks_to_be_run_again_is_told() -> None:
    with Rig() as rig:
        seen: list[str] = []

        def again(_: Transaction) -> None:
            raise RetryImmediately

        node = rig.computation("again", again, eager=True)

        def show(_: Transaction) -> None:
            try:
                rig.scheduler.pull(node)
            except UserCodeError as error:
                seen.append(error.facts["node"])

        rig.effect("show", show)
        assert rig.settle().count("again") == RUNS_MAX
        assert seen == ["again"]


def chain(rig: Rig, end: Node) -> Node:
    """Two that call each other, and the second of them that one; more than fit the stack."""

    def calling(node: Node) -> Callable[[Transaction], object]:
        def call(tx: Transaction) -> object:
            rig.scheduler.pull(node)
            return look(tx, node.name)

        return call

    for name in ("second call", "first call"):
        end = rig.computation(name, calling(end))
    return end


def test_caller_of_a_chain_that_is_too_long_gets_what_its_gated_end_had() -> None:
    with small_limits(NESTED_MAX=2), Rig() as rig:
        rig.write(x=1)
        end = rig.computation("end", lambda tx: look(tx, "x"), throttle_ms=100)
        rig.scheduler.pull(end)
        rig.write(x=2)
        first = chain(rig, end)
        rig.scheduler.pull(first)
        assert rig.read("first call") == 1


def test_caller_of_a_chain_that_is_too_long_is_told_that_its_end_does_not_settle() -> None:
    with small_limits(NESTED_MAX=2), Rig() as rig:
        end = rig.computation("end", lambda tx: 1 - look(tx, "other"))
        rig.computation("other", lambda tx: look(tx, "end"))
        first = chain(rig, end)
        with pytest.raises(UserCodeError, match="does not settle"):
            rig.scheduler.pull(first)


def test_interrupt_loses_nobody_who_had_hit_the_bound() -> None:
    with Rig() as rig:
        restless(rig)

        def interrupt(tx: Transaction) -> None:
            if not look(tx, "seen"):
                tx.set(doc_key("seen"), (), 1)
                raise KeyboardInterrupt

        node = rig.effect("interrupt", interrupt)
        with pytest.raises(KeyboardInterrupt):
            rig.scheduler.idle()
        rig.scheduler.remove(node)
        assert "first" in rig.settle()
