"""The tree: every arrow once, every node in full once, and no line too wide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from headwater.draw.node_captions import columns
from headwater.draw.text_tree import ABOVE, APART, CIRCLE, text
from headwater.scheduler.inspect.graph_snapshot import Edge, Snapshot
from tests.draw.graphs import HOSTILE, node, shop, snapshot, some_snapshot, sources

if TYPE_CHECKING:
    from random import Random


def tree(given_: Snapshot, width: int = 100) -> list[str]:
    """The lines below the title, without what is said of each node."""
    lines = text(given_, width).split("\n\n", 1)[1].splitlines()
    return [line.split(" clean ·", 1)[0].rstrip() for line in lines]


def test_effect_stands_above_what_it_reads() -> None:
    nodes = [node("doubled"), node("show", kind="effect")]
    edges = [("doc:count", "doubled"), ("doubled", "show"), ("doc:count", "show")]
    assert tree(snapshot(nodes, edges)) == [
        "show  sink ·",
        "├─ doubled",
        "│  └─ count  document",
        "└─ count  document",
    ]


def test_what_is_shared_is_shown_in_full_once() -> None:
    nodes = [node("a"), node("b"), node("x", kind="effect"), node("y", kind="effect")]
    lines = tree(snapshot(nodes, [("a", "b"), ("b", "x"), ("b", "y")]))
    assert lines[1:3] == ["└─ b", "   └─ a"]
    assert lines[4:] == [f"└─ b  {ABOVE}"]


def test_what_has_nothing_below_it_is_never_marked() -> None:
    nodes = [node("a"), node("x", kind="effect"), node("y", kind="effect")]
    assert ABOVE not in text(snapshot(nodes, [("a", "x"), ("a", "y")]))


def test_circle_is_marked_where_it_closes() -> None:
    nodes = [node("a"), node("b"), node("x", kind="effect")]
    lines = tree(snapshot(nodes, [("a", "b"), ("b", "a"), ("a", "x")]))
    assert lines[1:] == ["└─ a", "   └─ b", f"      └─ a  {CIRCLE}"]


def test_node_that_reads_itself_is_marked() -> None:
    assert tree(snapshot([node("a")], [("a", "a")])) == ["Read by no sink:", "a", f"└─ a  {CIRCLE}"]


def test_effect_below_another_is_named_and_shown_on_its_own() -> None:
    nodes = [node("x", kind="effect"), node("y", kind="effect")]
    lines = tree(snapshot(nodes, [("y", "x"), ("doc:d", "y")]))
    assert lines[1] == f"└─ y  {APART}"
    assert lines[2].startswith("y  sink")
    assert lines[3] == "└─ d  document"


def test_what_no_effect_reads_comes_last_and_once() -> None:
    nodes = [node("a"), node("b"), node("x", kind="effect")]
    lines = tree(snapshot(nodes, [("a", "b"), ("doc:d", "x")]))
    assert lines[-4:] == ["", "Read by no sink:", "b", "└─ a"]


def test_circles_that_nobody_reads_are_shown_too() -> None:
    lines = tree(snapshot([node("a"), node("b")], [("a", "b"), ("b", "a")]))
    assert lines == ["Read by no sink:", "a", "└─ b", f"   └─ a  {CIRCLE}"]


def test_writer_by_envelope_is_told_apart_and_makers_are_left_out() -> None:
    nodes = [node(name) for name in "abc"]
    edges = (Edge("a", "b", "envelope"), Edge("c", "b", "parent"))
    assert tree(snapshot(nodes, edges=edges)) == ["Read by no sink:", "b", "└─ may be written by a", "c"]


def test_states_are_said_in_words() -> None:
    shown = text(shop(), 120)
    assert "print_invoice  sink · failed · 12 runs · 0.42 ms · OSError: no printer is connected" in shown
    assert "rates  running · clean · 3 runs · 840 ms" in shown
    assert "year_to_date  dormant · never ran" in shown


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_stays_in_its_line(name: str) -> None:
    shown = text(snapshot([node(name, id="a", error=name)], space=name), 60)
    assert shown.count("\n") == len(shown.splitlines())
    assert all(line.isprintable() for line in shown.split("\n"))


@given(sources)
def test_no_line_is_too_wide_and_every_box_is_there(random: Random) -> None:
    given_ = some_snapshot(random, random.randint(0, 30))
    width = random.randint(1, 120)
    assert all(columns(line) <= width for line in text(given_, width).splitlines())
    whole = text(given_, 1000)
    assert all(view.name in whole for view in given_.nodes)
    reads = {(edge.source, edge.target) for edge in given_.edges}
    assert len(whole.splitlines()) <= len(given_.nodes) + len(given_.sources) + len(reads) + 10


def test_deep_chain_is_shown_with_its_depth_and_without_recursion() -> None:
    nodes = [node(f"f{at}", rank=at) for at in range(700)]
    lines = tree(snapshot(nodes, [(f"f{at}", f"f{at + 1}") for at in range(699)]), 80)
    assert len(lines) == 701
    assert lines[-1] == "…699 f0"


def test_five_thousand_nodes_collapse_and_the_tree_says_so() -> None:
    nodes = [node(f"row({at})", rank=1) for at in range(5000)] + [node("all", rank=2)]
    shown = text(snapshot(nodes, [(f"row({at})", "all") for at in range(5000)]), 60)
    assert "5,001 nodes and documents in 2 boxes" in shown
    assert "└─ row x 5,000  all clean" in shown


def test_nothing_is_said_to_be_nothing() -> None:
    assert "Nothing is declared here" in text(snapshot([]), 80)


def test_handlers_stand_below_the_effects_with_what_they_read() -> None:
    nodes = [
        node("total"),
        node("idle", kind="handler", runs=3),
        node("fresh", kind="handler", runs=0, status="never-ran"),
        node("busy", kind="handler", waiting=2, gate="total() waits for its time", error="ValueError: no"),
        node("show", kind="effect"),
        node("alone"),
    ]
    lines = text(snapshot(nodes, [("total", "show"), ("total", "idle")]), 120).splitlines()
    assert lines[1].startswith("6 nodes (1 failed, 1 never ran, 2 events waiting)")
    assert lines[3:] == [
        "show  sink · clean · 1 run · 0 ms",
        "└─ total  clean · 1 run · 0 ms",
        "",
        "idle  handler · idle · 3 runs · 0 ms",
        "└─ total  clean · 1 run · 0 ms",
        "fresh  handler · never ran",
        "busy  handler · failed, 2 waiting · 1 run · 0 ms · ValueError: no · waits: total() waits for its time",
        "",
        "Read by no sink and no handler:",
        "alone  clean · 1 run · 0 ms",
    ]
