"""How nodes come and go, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.cells.transaction import Transaction
from headwater.core import NodeKind, NodeSpec, doc_key
from headwater.errors import UsageError, UserCodeError
from headwater.scheduler.graph.node import NODE_TRANSITIONS, Node, NodeSignal, NodeStatus
from headwater.scheduler.scheduler import Scheduler
from tests.scheduler.workshop import Workshop, number, write
from tests.support.naive import NOTHING


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


def nothing(_: Transaction) -> None:
    pass


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"kind": NodeKind.EFFECT, "outputs": (doc_key("a"),)}, "effect bad has outputs"),
        ({"kind": NodeKind.EFFECT, "eager": True}, "effect bad has outputs, an envelope or eager=True"),
        ({"kind": NodeKind.EFFECT, "side_write_envelope": ((doc_key("a"), ()),)}, "effect bad has outputs"),
        ({}, "computation bad has no output"),
        ({"outputs": (doc_key("a"), doc_key("a"))}, "names an output twice"),
    ],
)
def test_node_without_meaning_is_refused_and_leaves_no_trace(shop: Workshop, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        shop.scheduler.register(NodeSpec(name="bad", fn=nothing, **spec))
    stats = shop.scheduler.get_stats()
    assert (stats.computations, stats.effects) == (0, 0)


def test_new_nodes_share_the_number_of_their_announcement_until_a_run_has_begun(shop: Workshop) -> None:
    nodes = [shop.sum(name, "a") for name in ("one", "two", "three")]
    for node in nodes[:2]:
        shop.scheduler.announce(node)
    assert nodes[0].failed_at == nodes[1].failed_at > 0
    shop.scheduler.announce(nodes[0])
    assert nodes[0].failed_at > nodes[1].failed_at, "announced again: what has called it is notified"
    shop.show("effect", "b")
    before = nodes[0].failed_at
    shop.run()
    shop.scheduler.announce(nodes[2])
    assert nodes[2].failed_at > before, "a run that began before it is notified"


def test_final_fingerprint_takes_the_place_of_what_answered(shop: Workshop) -> None:
    class Answer:
        is_final = False
        asked = 0

        def __call__(self) -> bytes:
            self.asked += 1
            return b"%d" % self.asked

    answer = Answer()
    spec = NodeSpec(name="sum", fn=nothing, outputs=(doc_key("sum"),), fingerprint=answer)
    node = shop.scheduler.register(spec)
    assert [node.taken_fingerprint(), node.taken_fingerprint()] == [b"1", b"2"], "not final: asked each time"
    answer.is_final = True
    assert [node.taken_fingerprint(), node.taken_fingerprint(), node.fingerprint] == [b"3"] * 3


def test_title_and_origin_are_those_of_the_declaration(shop: Workshop) -> None:
    plain = shop.scheduler.register(NodeSpec(name="sum", fn=nothing, outputs=(doc_key("sum"),)))
    called = shop.scheduler.register(NodeSpec(name="row('a')", fn=nothing, outputs=(doc_key("row"),), piece="card 1"))
    other = shop.scheduler.register(NodeSpec(name="list", fn=nothing, outputs=(doc_key("list"),), origin=number))
    assert [plain.title, called.title] == ["sum()", "row('a') of card 1"]
    assert [plain.origin, other.origin] == [nothing, number]


def test_status_goes_only_where_the_table_says() -> None:
    assert (NodeStatus.CLEAN, NodeSignal.STARTED) not in NODE_TRANSITIONS, "what is valid is not run"
    assert (NodeStatus.NEVER_RAN, NodeSignal.DISCARDED) not in NODE_TRANSITIONS


# --- what is registered -----------------------------------------------------------------------------------


def test_effect_runs_in_the_next_pass_and_a_computation_does_not(shop: Workshop) -> None:
    shop.show("effect", "a")
    shop.sum("computation", "a")
    assert shop.log == [], "nothing runs on registration"
    assert shop.run() == ["effect"]


def test_registering_an_effect_says_that_there_is_something_to_do(shop: Workshop) -> None:
    shop.sum("sum", "a")
    assert True not in shop.ticks
    shop.show("show", "a")
    assert shop.ticks[-1] is True
    shop.run()
    assert shop.ticks[-1] is False


def test_spec_may_be_registered_in_several_schedulers_with_different_demand() -> None:
    eager, lazy = Workshop(demand="eager"), Workshop()
    spec = NodeSpec(name="sum", fn=lambda tx: number(tx, "a"), outputs=(doc_key("sum"),))
    eager_node, lazy_node = eager.scheduler.register(spec), lazy.scheduler.register(spec)
    assert (eager_node.is_live, lazy_node.is_live) == (True, False)
    assert eager.scheduler.get_graph_snapshot().nodes[0].why_live == "eager"


def test_nodes_of_one_name_are_two_and_what_one_writes_is_news_to_the_other(shop: Workshop) -> None:
    """Who wrote something is told by identity."""
    shop.effect("twin", lambda tx: write(tx, "a", number(tx, "a")))
    shop.effect("twin", lambda tx: write(tx, "a", min(number(tx, "a") + 1, 2)))
    shop.run()
    assert shop.log == []
    ids = [view.id for view in shop.scheduler.get_graph_snapshot().nodes]
    assert ids == ["twin#1", "twin#2"]


def test_parent_is_whoever_runs_when_a_node_is_made_unless_it_is_named(shop: Workshop) -> None:
    made: list[Node] = []
    other = shop.show("other", "b")

    def run(_: Transaction) -> None:
        if not made:
            made.append(shop.show("own", "a"))
            made.append(shop.show("given", "a", parent=other))

    maker = shop.effect("maker", run)
    shop.run()
    assert [node.parent for node in made] == [maker, other]
    assert maker.parent is None


def test_registering_is_linear_and_reads_nothing(shop: Workshop) -> None:
    for index in range(1000):
        shop.sum(f"n{index}", f"n{index - 1}", declared_reads=(doc_key(f"n{index - 1}"),))
    assert shop.replica.document_count == 0
    assert shop.scheduler.graph.ranks.visits <= 2000


# --- what is removed --------------------------------------------------------------------------------------


def test_removed_node_is_forgotten_everywhere(shop: Workshop) -> None:
    sum_ = shop.sum("sum", "a")
    show = shop.show("show", "sum", "b")
    shop.run()
    shop.scheduler.remove(show)
    shop.scheduler.remove(sum_)
    shop.put(a=1, b=1)
    assert shop.run() == []
    graph = shop.scheduler.graph
    assert (len(graph.index), graph.writers, graph._declared, graph.envelopes) == (0, {}, {}, {})
    assert shop.scheduler.get_graph_snapshot().nodes == ()


def test_disposed_scheduler_runs_nothing_and_listens_no_more(shop: Workshop) -> None:
    shop.sum("sum", "a")
    shop.show("show", "sum")
    shop.run()
    shop.put(a=1)
    shop.scheduler.dispose()
    shop.put(a=2)
    assert shop.run() == []
    assert (shop.see("sum"), shop.replica._listeners) == (0, ())


def test_disposing_in_a_run_ends_the_pass_and_keeps_nothing_of_that_run(shop: Workshop) -> None:
    def run(tx: Transaction) -> None:
        write(tx, "out", 1)
        shop.scheduler.dispose()

    shop.effect("last", run)
    shop.show("never", "a")
    assert shop.run() == ["last"]
    assert shop.see("out") is NOTHING


# --- errors -----------------------------------------------------------------------------------------------


def test_error_is_raised_out_of_the_pass_if_nobody_asked_to_be_told(shop: Workshop) -> None:
    scheduler = Scheduler(shop.replica, now=lambda: 0.0)

    def fail(tx: Transaction) -> None:
        raise ValueError(f"no {number(tx, 'a')}")

    scheduler.register(NodeSpec(name="bad", fn=fail, kind=NodeKind.EFFECT))
    with pytest.raises(UserCodeError, match=r"bad\(\) in space '' raised ValueError: no 0"):
        scheduler.settle()
    assert scheduler.settle() is None, "it waits for another a"


def test_error_listeners_are_told_besides(shop: Workshop) -> None:
    heard: list[str] = []
    end = shop.scheduler.on_error(lambda error: heard.append(str(error.facts["node"])))
    shop.effect("bad", lambda tx: 1 // number(tx, "a"))
    shop.run()
    assert (heard, len(shop.errors)) == (["bad"], 1)
    end()
    end()
    shop.put(a=0, b=0)
    shop.effect("worse", lambda tx: 1 // number(tx, "b"))
    shop.run()
    assert (heard, len(shop.errors)) == (["bad"], 3)
