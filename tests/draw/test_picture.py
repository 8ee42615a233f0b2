"""What is drawn of a large graph: few boxes, and nothing that matters is lost in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from headwater.draw.picture import ARROWS_MAX, BOXES_MAX, Picture, picture
from headwater.errors import InvariantError
from headwater.scheduler.inspect.graph_snapshot import Edge, SourceView
from tests.draw.graphs import node, shop, snapshot, some_snapshot, sources

if TYPE_CHECKING:
    from random import Random


def names(shown: Picture) -> list[str]:
    return [box.name for box in shown.boxes]


def test_small_graph_is_drawn_whole() -> None:
    shown = picture(shop())
    assert not shown.note
    assert [box.id for box in shown.boxes] == [source.id for source in shop().sources] + [
        view.id for view in shop().nodes
    ]
    assert {(arrow.source, arrow.target) for arrow in shown.arrows} == {(e.source, e.target) for e in shop().edges}


def test_those_of_one_function_share_a_box_if_there_are_too_many() -> None:
    nodes = [node(f"row({at})") for at in range(412)] + [node(f"other{at}") for at in range(500)]
    shown = picture(snapshot(nodes))
    assert names(shown)[0] == "row x 412"
    assert len(shown.boxes) == 501
    assert "912 nodes and documents in 501 boxes" in shown.note


def test_most_numerous_function_is_collapsed_first_and_others_only_if_needed() -> None:
    nodes = [node(f"few({at})") for at in range(5)] + [node(f"many({at})") for at in range(20)]
    assert names(picture(snapshot(nodes), boxes=6)) == [f"few({at})" for at in range(5)] + ["many x 20"]
    assert names(picture(snapshot(nodes), boxes=2)) == ["few x 5", "many x 20"]


def test_function_and_effect_of_one_name_do_not_share_a_box() -> None:
    nodes = [node(f"row({at})", kind="effect" if at % 2 else "computation") for at in range(10)]
    shown = picture(snapshot(nodes), boxes=2)
    assert [(box.name, box.kind) for box in shown.boxes] == [("row x 5", "computation"), ("row x 5", "effect")]


def test_documents_of_one_class_share_a_box() -> None:
    documents = tuple(SourceView(f"doc:person:{at}", f"person:{at}") for at in range(30))
    shown = picture(snapshot([node("all")], sources=documents), boxes=10)
    assert names(shown) == ["person x 30", "all"]
    assert shown.boxes[0].status == "document"


def test_names_with_nothing_in_common_share_a_box_by_rank() -> None:
    nodes = [node(f"f{at}", rank=at % 3) for at in range(30)]
    shown = picture(snapshot(nodes), boxes=3)
    assert names(shown) == ["computations x 10"] * 3
    assert [box.notes for box in shown.boxes] == [("rank 0",), ("rank 1",), ("rank 2",)]


def test_long_chain_shares_boxes_by_neighbouring_ranks() -> None:
    nodes = [node(f"f{at}", rank=at) for at in range(64)]
    edges = [(f"f{at}", f"f{at + 1}") for at in range(63)]
    shown = picture(snapshot(nodes, edges), boxes=16)
    assert names(shown) == ["computations x 4"] * 16
    assert shown.boxes[1].notes == ("ranks 4 to 7",)
    assert len(shown.arrows) == 15


def test_box_of_a_function_keeps_its_name_while_others_share_one_by_rank() -> None:
    nodes = [node(f"row({at})", rank=at % 7) for at in range(30)] + [node(f"f{at}", rank=at % 7) for at in range(30)]
    assert names(picture(snapshot(nodes), boxes=3)) == ["row x 30", "computations x 18", "computations x 12"]


def test_what_failed_or_is_invalid_shows_in_a_shared_box() -> None:
    nodes = [node(f"row({at})") for at in range(10)]
    nodes += [node("row(x)", error="ValueError: x"), node("row(y)", status="invalid"), node("row(z)", in_flight=True)]
    (box,) = picture(snapshot(nodes), boxes=1).boxes
    assert box.failed and box.running and not box.dormant
    assert box.status == "invalid"
    assert box.facts == "1 failed, 1 invalid, 1 running"


def test_shared_box_is_dormant_only_if_all_in_it_are() -> None:
    nodes = [node(f"row({at})", live=False) for at in range(3)]
    assert picture(snapshot(nodes), boxes=1).boxes[0].dormant
    assert not picture(snapshot([*nodes, node("row(3)")]), boxes=1).boxes[0].dormant


def test_arrow_between_shared_boxes_counts_its_edges_and_inner_ones_are_gone() -> None:
    nodes = [node(f"a({at})", rank=0) for at in range(4)] + [node(f"b({at})", rank=1) for at in range(4)]
    edges = [(f"a({at})", f"b({at})") for at in range(4)] + [("a(0)", "a(1)")]
    (arrow,) = picture(snapshot(nodes, edges), boxes=2).arrows
    assert (arrow.source, arrow.target, arrow.count) == ("a(0)", "b(0)", 4)


def test_arrow_is_drawn_as_its_strongest_edge_and_data_comes_first() -> None:
    nodes = [node(name) for name in "abc"]
    edges = (Edge("a", "b", "parent"), Edge("b", "c", "parent"), Edge("b", "c", "envelope"), Edge("b", "c", "data"))
    arrows = picture(snapshot(nodes, edges=edges)).arrows
    assert [(arrow.source, arrow.kind, arrow.count) for arrow in arrows] == [("b", "data", 3), ("a", "parent", 1)]


def test_only_data_that_runs_in_a_circle_is_called_so() -> None:
    nodes = [node(name) for name in "abc"]
    edges = (Edge("a", "b", "data"), Edge("b", "a", "data"), Edge("b", "c", "data"), Edge("c", "b", "parent"))
    arrows = picture(snapshot(nodes, edges=edges)).arrows
    assert {(arrow.source, arrow.target) for arrow in arrows if arrow.circle} == {("a", "b"), ("b", "a")}


def test_boxes_that_are_shared_do_not_make_circles() -> None:
    nodes = [node(f"row({at})", rank=2 * at) for at in range(5)] + [node("between", rank=1)]
    arrows = picture(snapshot(nodes, [("row(0)", "between"), ("between", "row(1)")]), boxes=2).arrows
    assert len(arrows) == 2
    assert not any(arrow.circle for arrow in arrows)


def test_too_many_arrows_collapse_boxes_as_well() -> None:
    nodes = [node(f"f{at}", rank=at) for at in range(120)]
    edges = [(f"f{a}", f"f{b}") for b in range(120) for a in range(b)]
    assert len(edges) > ARROWS_MAX
    shown = picture(snapshot(nodes, edges))
    assert len(shown.arrows) <= ARROWS_MAX
    assert "120 nodes and documents in" in shown.note


def test_edges_to_nowhere_are_left_out_and_told() -> None:
    shown = picture(snapshot([node("a")], edges=(Edge("a", "gone", "data"), Edge("gone", "a", "data"))))
    assert not shown.arrows
    assert shown.note == "2 edges to or from what is not in the snapshot: left out."


def test_two_nodes_with_one_id_are_refused() -> None:
    with pytest.raises(InvariantError, match="same id"):
        picture(snapshot([node("a", id="1"), node("b", id="1")]))


@given(sources)
def test_limits_hold_for_any_graph_and_nobody_is_lost(random: Random) -> None:
    given_ = some_snapshot(random, random.randint(0, 60))
    boxes, arrows = random.randint(4, 60), random.randint(16, 60)
    shown = picture(given_, boxes, arrows)
    assert len(shown.boxes) <= boxes
    assert len(shown.arrows) <= arrows
    assert sum(box.count for box in shown.boxes) == len(given_.nodes) + len(given_.sources)
    assert any(box.failed for box in shown.boxes) == any(view.error for view in given_.nodes)
    ids = {box.id for box in shown.boxes}
    assert all({arrow.source, arrow.target} <= ids for arrow in shown.arrows)


def test_graph_at_the_limit_is_drawn_whole() -> None:
    nodes = [node(f"row({at})") for at in range(BOXES_MAX)]
    assert not picture(snapshot(nodes)).note
    assert picture(snapshot([*nodes, node("one more")])).note
