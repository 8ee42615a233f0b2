"""What nodes are called by people, and how answers are made smaller."""

from __future__ import annotations

import pytest

from headwater.inspect.names import function_of, is_called, labels
from headwater.scheduler.inspect.graph_snapshot import Edge, NodeView, Snapshot, SourceView
from headwater.scheduler.inspect.smaller_snapshots import fewer, shorter


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("total", "total"),
        ("total()", "total"),
        ("shop.total", "total"),
        ("shop.total()", "total"),
        ("total#3", "total"),
        ("row", "row(3)"),
        ("shop.row", "row(3)"),
        ("row(3)", "row(3)"),
        ("shop.row(3)", "row(3)"),
        ("row(…)", "row(3)"),
        ("row(...)", "row(3)"),
        ("r…", "row(3)"),
        ("row('a')", "row(a)"),
        ('row("a", 2)', "row(a, 2)"),
        ("row(a,2)", "row(a, 2)"),
        ("row(abc…xyz)", "row(abcdefxyz)"),
        ("odd.name", "odd.name"),
    ],
)
def test_node_is_meant_by(text: str, name: str) -> None:
    assert is_called(f"{name}#3", name, text, "shop")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tota", "total"),
        ("other.total", "total"),
        ("Total", "total"),
        ("row(4)", "row(3)"),
        ("row(", "row(3)"),
        ("total(…)", "total"),
        ("row(abc…cba)", "row(abcba)"),
        ("", "total"),
        ("shop.", "total"),
    ],
)
def test_node_is_not_meant_by(text: str, name: str) -> None:
    assert not is_called(f"{name}#3", name, text, "shop")


@pytest.mark.parametrize(
    ("name", "function"), [("total", "total"), ("row(3)", "row"), ("row(f(x))", "row"), ("a(b", "a(b")]
)
def test_function_of_a_node(name: str, function: str) -> None:
    assert function_of(name) == function


def graph(instances: int) -> Snapshot:
    nodes = [
        NodeView(id=f"row({n})#{n}", name=f"row({n})", kind="computation", status="clean", live=True)
        for n in range(instances)
    ]
    nodes.append(NodeView(id="show#99", name="show", kind="effect", status="clean", live=True, reads=("a", "b", "c")))
    sources = [SourceView(f"doc:{n}", str(n)) for n in range(instances)]
    edges = [Edge(f"doc:{n}", f"row({n})#{n}", "data") for n in range(instances)]
    edges += [Edge(f"row({n})#{n}", "show#99", "data") for n in range(instances)]
    return Snapshot(space="s", at_ms=1, seq=2, nodes=tuple(nodes), sources=tuple(sources), edges=tuple(edges))


def test_fewer_nodes_are_functions_first_and_what_lies_between_them() -> None:
    small = fewer(graph(5), 2)
    assert [node.name for node in small.nodes] == ["row(0)", "show"]
    assert [source.address for source in small.sources] == ["0"]
    assert small.edges == (Edge("doc:0", "row(0)#0", "data"), Edge("row(0)#0", "show#99", "data"))
    assert fewer(graph(5), 6) == graph(5)
    assert fewer(graph(5), 0).nodes == ()


def test_shorter_lists_of_what_was_read_keep_all_nodes() -> None:
    short = shorter(graph(5), 2)
    assert len(short.nodes) == 6
    assert short.nodes[-1].reads == ("a", "b")
    assert sum(edge.target == "show#99" for edge in short.edges) == 2


def test_openings_of_one_app_are_numbered_from_the_second_on() -> None:
    assert labels([]) == []
    assert labels(["shop", "till", "shop", "shop"]) == ["shop", "till", "shop#2", "shop#3"]
