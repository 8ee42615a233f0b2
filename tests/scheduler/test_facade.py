"""The scheduler as others hold it: everything can be asked, and the answers are right."""

from __future__ import annotations

import ast
import inspect

import msgspec
import pytest

from headwater.cells.transaction import Transaction
from headwater.core import NodeKind, NodeSpec, Snapshot, doc_key
from headwater.scheduler import scheduler as facade
from headwater.scheduler.graph.node import Node
from headwater.scheduler.inspect.graph_snapshot import Edge, SourceView
from headwater.scheduler.scheduler import Scheduler
from tests.scheduler.workshop import START_MS, Workshop, number, write


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


# --- its shape --------------------------------------------------------------------------------------------


@pytest.mark.pure("reads the source")
def test_facade_only_builds_and_forwards() -> None:
    """It decides nothing."""
    source = inspect.getsource(facade)
    found = [type(part).__name__ for part in ast.walk(ast.parse(source)) if isinstance(part, ast.If | ast.IfExp)]
    assert found == []


@pytest.mark.parametrize(
    "name",
    [
        *("register", "remove", "dispose", "idle", "settle", "steps", "pull", "pull_once", "outstanding"),
        *("set_debounce", "clear_debounce", "get_debounce", "set_throttle", "clear_throttle", "get_throttle"),
        *("set_no_auto_debounce", "get_graph_snapshot", "get_stats", "get_action_stats", "get_filter_stats"),
        *("set_trace_enabled", "get_trace", "on_trace", "run_diagnosis", "why", "on_error"),
        *("set_idempotency_check", "get_idempotency_violations", "set_breakpoint", "clear_breakpoint"),
        *("is_effect", "is_computation", "is_invalid", "get_dependents"),
    ],
)
def test_facade_has_it_and_says_what_it_does(name: str) -> None:
    assert inspect.getdoc(getattr(Scheduler, name))


# --- counts -----------------------------------------------------------------------------------------------


def test_kinds_are_told_apart(shop: Workshop) -> None:
    effect, computation = shop.show("show", "a"), shop.sum("sum", "a")
    scheduler = shop.scheduler
    assert (scheduler.is_effect(effect), scheduler.is_computation(effect)) == (True, False)
    assert (scheduler.is_effect(computation), scheduler.is_computation(computation)) == (False, True)


def test_invalid_until_it_has_run_and_again_after_a_change(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    assert shop.scheduler.is_invalid(node)
    shop.scheduler.pull(node)
    assert not shop.scheduler.is_invalid(node)
    shop.put(a=1)
    shop.run()
    assert shop.scheduler.is_invalid(node)


def test_dependents_are_those_that_read_what_it_writes(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    one, two = shop.show("one", "sum"), shop.show("two", "sum", "a")
    shop.show("beside", "a")
    shop.run()
    assert shop.scheduler.get_dependents(node) == [one, two]
    assert shop.scheduler.get_dependents(one) == []
    shop.scheduler.remove(one)
    assert shop.scheduler.get_dependents(node) == [two]


def test_stats_count_everything(shop: Workshop) -> None:
    shop.sum("dormant", "a")
    shop.sum("sum", "a", debounce_ms=100.0)
    shop.show("show", "sum", "b")
    shop.run()
    shop.put(a=1)
    shop.run()
    stats = shop.scheduler.get_stats()
    assert (stats.computations, stats.effects, stats.live) == (2, 1, 2)
    assert (stats.invalid, stats.never_ran, stats.in_flight, stats.gated) == (1, 1, 0, 1)
    assert (stats.reads, stats.runs) == (3, 3), "show ran twice: it did not know what it reads"
    assert stats.passes >= 2


def test_action_stats_count_and_measure(shop: Workshop) -> None:
    times = [3.0, 5.0]

    def take(tx: Transaction) -> None:
        number(tx, "a")
        shop.time += times.pop(0)
        if not times:
            raise ValueError("no more")

    node = shop.effect("show", take)
    shop.run()
    shop.put(a=1)
    shop.run()
    stats = shop.scheduler.get_action_stats(node)
    assert (stats.name, stats.run_count, stats.invalidated, stats.reads) == ("show", 2, 1, 1)
    assert (stats.total_ms, stats.average_ms, stats.last_ms, stats.last_at_ms) == (8, 4, 5, START_MS + 8)
    assert stats.error == "ValueError: no more"


def test_action_stats_of_one_that_never_ran(shop: Workshop) -> None:
    stats = shop.scheduler.get_action_stats(shop.sum("sum", "a"))
    assert (stats.run_count, stats.average_ms, stats.error) == (0, 0, "")


def test_filter_stats_say_how_many_runs_were_spared(shop: Workshop) -> None:
    shop.scheduler.pull(shop.sum("dormant", "a"))
    shop.show("show", "a")
    shop.run()
    for value in range(1, 5):
        shop.put(a=value)
        shop.scheduler.invalidation.drain()
    shop.run()
    stats = shop.scheduler.get_filter_stats()
    assert (stats.invalidated, stats.executed, stats.filtered) == (8, 1, 7)


# --- snapshots --------------------------------------------------------------------------------------------


def piece(shop: Workshop) -> None:
    shop.computation(
        "fill", lambda tx: tx.set(doc_key("big"), ("x",), number(tx, "a")), side_write_envelope=((doc_key("big"), ()),)
    )
    shop.sum("sum", "a", "b", piece="shop")
    shop.put(big={"x": 0})
    made: list[Node] = []

    def show(tx: Transaction) -> None:
        number(tx, "sum")
        tx.read(doc_key("big"), ("x",))
        if not made:
            made.append(shop.show("child", "c", throttle_ms=100.0))

    shop.effect("show", show)


def test_snapshot_names_nodes_sources_and_edges(shop: Workshop) -> None:
    piece(shop)
    shop.run()
    snapshot = shop.scheduler.get_graph_snapshot()
    assert (snapshot.space, snapshot.at_ms) == ("shop", START_MS)
    fill, sum_, show, child = snapshot.nodes
    assert [node.id for node in snapshot.nodes] == ["fill#1", "sum#2", "show#3", "child#4"]
    assert (sum_.kind, sum_.status, sum_.live, sum_.why_live) == ("computation", "clean", True, "read by live nodes")
    assert (sum_.outputs, sum_.reads, fill.envelopes) == (("sum",), ("a", "b"), ("big",))
    assert (show.kind, show.why_live, show.runs >= 2, sum_.rank < show.rank) == ("effect", "effect", True, True)
    assert (child.parent, child.gate) == ("show#3", "throttle 100ms")
    assert set(snapshot.edges) >= {
        Edge("doc:a", "sum#2", "data"),
        Edge("doc:b", "sum#2", "data"),
        Edge("sum#2", "show#3", "data"),
        Edge("fill#1", "show#3", "envelope"),
        Edge("show#3", "child#4", "parent"),
    }
    assert SourceView("doc:a", "a") in snapshot.sources
    assert "sum" not in [source.address for source in snapshot.sources], "that one is written by a node"


def test_snapshot_says_where_a_function_stands(shop: Workshop) -> None:
    def show(tx: Transaction) -> None:
        number(tx, "a")

    shop.scheduler.register(NodeSpec(name="show", fn=show, kind=NodeKind.EFFECT, origin=show))
    (view,) = shop.scheduler.get_graph_snapshot().nodes
    assert (view.file, view.line) == (__file__, show.__code__.co_firstlineno)


def test_snapshot_is_read_back_from_json_as_it_was(shop: Workshop) -> None:
    piece(shop)
    shop.effect("bad", lambda tx: 1 // number(tx, "a"))
    shop.run()
    snapshot = shop.scheduler.get_graph_snapshot()
    data = snapshot.to_json()
    assert Snapshot.from_json(data) == snapshot
    assert Snapshot.from_json(data).to_json() == data
    with pytest.raises(msgspec.ValidationError):
        Snapshot.from_json(data.replace(b'"clean"', b'"tidy"'))


def test_every_edge_of_a_snapshot_leads_from_and_to_something_in_it(shop: Workshop) -> None:
    piece(shop)
    shop.run()
    snapshot = shop.scheduler.get_graph_snapshot()
    known = {node.id for node in snapshot.nodes} | {source.id for source in snapshot.sources}
    assert all(edge.source in known and edge.target in known for edge in snapshot.edges)


def test_removed_parent_is_not_in_a_snapshot(shop: Workshop) -> None:
    piece(shop)
    shop.run()
    parent = next(node for node in shop.scheduler.registry.nodes if node.name == "show")
    shop.scheduler.remove(parent)
    (child,) = [node for node in shop.scheduler.get_graph_snapshot().nodes if node.name == "child"]
    assert child.parent is None


# --- breakpoints ------------------------------------------------------------------------------------------


def test_breakpoint_stops_the_pass_before_the_node_and_the_next_pass_goes_on(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    shop.show("show", "sum")
    shop.run()
    shop.scheduler.set_breakpoint(node)
    shop.put(a=1)
    shop.scheduler.settle()
    assert shop.taken() == []
    assert "there is a breakpoint at it" in shop.scheduler.why(node)
    assert shop.scheduler.outstanding().is_due
    shop.scheduler.settle()
    assert shop.taken() == ["sum", "show"]
    shop.put(a=2)
    shop.scheduler.settle()
    assert shop.taken() == [], "it stands until it is cleared"
    shop.scheduler.clear_breakpoint(node)
    shop.scheduler.settle()
    assert shop.taken() == ["sum", "show"]


def test_what_comes_before_a_breakpoint_runs(shop: Workshop) -> None:
    shop.sum("sum", "a")
    show = shop.show("show", "sum")
    shop.run()
    shop.scheduler.set_breakpoint(show)
    shop.put(a=1)
    shop.scheduler.settle()
    assert shop.taken() == ["sum"]
    shop.scheduler.settle()
    assert shop.taken() == ["show"]


def test_breakpoint_of_a_node_that_is_removed_is_no_hindrance(shop: Workshop) -> None:
    node = shop.show("show", "a")
    shop.show("other", "a")
    shop.scheduler.set_breakpoint(node)
    shop.scheduler.settle()
    shop.scheduler.remove(node)
    assert shop.run() == ["other"]


def test_caller_is_not_stopped_by_a_breakpoint(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    shop.scheduler.set_breakpoint(node)
    shop.put(a=3)
    shop.scheduler.pull(node)
    assert shop.see("sum") == 3


# --- in words ---------------------------------------------------------------------------------------------


def words(shop: Workshop, node: Node) -> list[str]:
    return shop.scheduler.why(node).splitlines()


def test_why_of_a_computation_that_never_ran(shop: Workshop) -> None:
    assert words(shop, shop.sum("sum", "a")) == [
        "sum() is a computation, never-ran, dormant: no live node reads it",
        "It has not run yet",
        "It does not run: it is not observed",
        "It would be woken by a reader, or a call",
    ]


def test_why_of_an_effect_that_never_ran(shop: Workshop) -> None:
    assert words(shop, shop.show("show", "a"))[2] == "It runs in the next pass"


def test_why_of_a_clean_effect(shop: Workshop) -> None:
    shop.sum("sum", "a")
    node = shop.show("show", "sum", "b")
    shop.run()
    shop.put(b=1)
    shop.run()
    assert words(shop, node) == [
        "show() is an effect, clean, live: effect",
        "It ran 3 times, the last time because b changed, for 0.0 ms",
        "It does not run now: nothing it read has changed since",
        "It would be woken by a change of b, or another result of sum()",
    ]


def test_why_of_one_that_was_called(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    shop.scheduler.pull(node)
    assert words(shop, node)[1] == "It ran once, the last time because it had not run before, for 0.0 ms"
    shop.put(a=1)
    shop.run()
    assert words(shop, node)[2] == "It does not run although it is invalid (a changed): it is not observed"


def test_why_of_one_that_failed(shop: Workshop) -> None:
    node = shop.effect("bad", lambda tx: 1 // number(tx, "a"))
    shop.run()
    assert words(shop, node)[1].endswith("; it raised ZeroDivisionError: integer division or modulo by zero")


def test_why_of_one_that_waits_for_its_time(shop: Workshop) -> None:
    node = shop.show("show", "a", debounce_ms=100.0, throttle_ms=2000.0)
    shop.run()
    shop.put(a=1)
    shop.run()
    expected = "It does not run yet (a changed): debounce 100ms, throttle 2s, eligible in 2s"
    assert words(shop, node)[2] == expected


def test_why_of_one_that_is_slow(shop: Workshop) -> None:
    def slow(tx: Transaction) -> None:
        number(tx, "a")
        shop.time += 60

    node = shop.effect("draw", slow)
    for value in range(4):
        shop.put(a=value)
        shop.run()
    assert words(shop, node)[2].endswith("debounce 100ms, because it is slow, eligible in 100ms")


def test_why_of_one_that_does_not_settle(shop: Workshop) -> None:
    ping = shop.effect("ping", lambda tx: write(tx, "ping", number(tx, "pong") + 1))
    shop.effect("pong", lambda tx: write(tx, "pong", number(tx, "ping")))
    shop.run()
    expected = "It does not run yet (pong changed): rests 250ms, because it does not settle, eligible in 250ms"
    assert words(shop, ping)[2] == expected


def test_why_of_one_that_comes_after_others(shop: Workshop) -> None:
    shop.sum("sum", "a")
    node = shop.show("show", "sum", "a")
    shop.run()
    shop.put(a=1)
    shop.scheduler.invalidation.drain()
    assert words(shop, node)[2] == "It waits for sum(), which comes first"


def test_why_of_one_that_runs_and_of_one_that_is_gone(shop: Workshop) -> None:
    said: list[str] = []
    nodes: list[Node] = []
    nodes.append(shop.effect("show", lambda _: said.extend(words(shop, nodes[0]))))
    shop.run()
    assert said[2] == "It is running"
    assert words(shop, nodes[0])[3] == "Nothing wakes it: it read nothing"
    shop.scheduler.remove(nodes[0])
    assert words(shop, nodes[0])[2] == "It does not run: it was removed"


def test_why_of_a_materializer_and_an_eager_one(shop: Workshop) -> None:
    fill = shop.computation("fill", lambda tx: number(tx, "a"), side_write_envelope=((doc_key("big"), ()),))
    eager = shop.sum("eager", "a", eager=True)
    shop.run()
    assert words(shop, fill)[0] == "fill() is a materializer, clean, live: materializer"
    assert words(shop, eager)[0] == "eager() is a computation, clean, live: eager"


def test_why_shortens_long_lists(shop: Workshop) -> None:
    node = shop.show("show", *(f"doc{index}" for index in range(30)))
    shop.run()
    assert words(shop, node)[3].endswith("doc7 and 22 more")
