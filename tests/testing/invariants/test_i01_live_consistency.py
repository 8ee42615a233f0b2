"""I1: at rest, whoever is looked at has run on what is there now."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core import NodeKind, NodeSpec, Scheduler, SetDoc, Transaction, doc_key
from tests.support.hub import FULL, Hub
from tests.support.spaces import Space
from tests.testing.invariants.rig import Rig, look


def test_caller_of_a_node_in_a_ring_gets_what_the_ring_settles_at() -> None:
    with Rig() as rig:
        rig.write(top=3)
        low = rig.computation("low", lambda tx: min(look(tx, "high") + 1, look(tx, "top")))
        high = rig.computation("high", lambda tx: look(tx, "low"))
        rig.scheduler.pull(low)
        assert (rig.read("low"), rig.read("high")) == (3, 3)
        assert low.is_clean and high.is_clean


def test_caller_gets_what_a_writer_makes_that_came_after_he_had_read() -> None:
    with Rig() as rig:
        copy = rig.computation("copy", lambda tx: look(tx, "late"))
        rig.scheduler.pull(copy)
        rig.computation("late", lambda _: 7)
        rig.scheduler.pull(copy)
        assert rig.read("copy") == 7


@pytest.fixture
def hub() -> Hub:
    return Hub(Space("memory", Path()))


def test_result_that_an_earlier_commit_has_written_is_made_again_when_that_one_is_lost(hub: Hub) -> None:
    """The second run came to the same result, and wrote only beside it; its commit does not stand for the first's."""
    here = hub.attach("here")
    here.commit(SetDoc(doc_key("x"), 1), SetDoc(doc_key("y"), 1))
    hub.settle()
    scheduler = Scheduler(here.replica, now=lambda: 0.0)

    def parity(tx: Transaction) -> int:
        tx.set(doc_key("beside"), (), look(tx, "x"))
        return look(tx, "x") % 2  # type: ignore[no-any-return]

    outputs = (doc_key("parity"), doc_key("beside"))
    scheduler.register(NodeSpec(name="parity", fn=parity, outputs=outputs, eager=True))
    scheduler.idle()
    here.commit(SetDoc(doc_key("x"), 3))
    scheduler.idle()
    hub.fail(FULL, 1)
    here.refresh()
    scheduler.idle()
    hub.settle()
    scheduler.idle()
    assert (here.read("parity"), here.read("beside")) == (1, 3)


def test_what_was_taken_back_with_a_nodes_own_commit_is_news_to_it(hub: Hub) -> None:
    """Its first commit takes along what another made of it, and that is what its last run has read."""
    here = hub.attach("here")
    here.commit(SetDoc(doc_key("step"), 0))
    hub.settle()
    scheduler = Scheduler(here.replica, now=lambda: 0.0)
    seen: list[int] = []

    def show(tx: Transaction) -> None:
        match look(tx, "step"):
            case 0:
                tx.set(doc_key("first"), (), 1)
            case 1:
                tx.set(doc_key("second"), (), 1)
            case _:
                seen.append(look(tx, "copy"))

    copy = NodeSpec(name="copy", fn=lambda tx: look(tx, "first"), outputs=(doc_key("copy"),), eager=True)
    scheduler.register(copy)
    scheduler.register(NodeSpec(name="show", fn=show, kind=NodeKind.EFFECT))
    scheduler.idle()
    for step in (1, 2):
        here.commit(SetDoc(doc_key("step"), step))
        scheduler.idle()
    hub.decide(1)
    hub.fail(FULL, 1)
    here.refresh()
    scheduler.idle()
    assert seen == [1, 0]


def test_caller_gets_what_was_found_to_be_needed_in_a_run_for_another() -> None:
    """`middle` was run for `top`, which then did without it, and so did not wait for what `middle` had found."""
    with Rig() as rig:
        rig.write(flag=1)

        def top(tx: Transaction) -> object:
            return look(tx, "flag") or look(tx, "middle")

        node = rig.computation("top", top, declared_reads=(doc_key("middle"),))
        middle = rig.computation("middle", lambda tx: look(tx, "late"))
        rig.computation("late", lambda _: 7)
        rig.scheduler.pull(node)
        rig.scheduler.pull(middle)
        assert rig.read("middle") == 7
