"""Where boxes stand: nothing lies on anything else, and what is read stands to the left of who reads it."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from headwater.draw.cycles import circular
from headwater.draw.layering import assign, components
from headwater.draw.layout import BENDS_MAX, GAP, Layout, Rect, lay_out
from headwater.draw.ordering import arrange, crossings
from tests.draw.graphs import some_edges, sources

if TYPE_CHECKING:
    from random import Random

SIZE = (100, 40)


def some_sizes(random: Random) -> dict[str, tuple[int, int]]:
    return {f"b{at}": (random.randint(1, 300), random.randint(20, 120)) for at in range(random.randint(0, 40))}


def some_layout(random: Random) -> tuple[dict[str, tuple[int, int]], list[tuple[str, str]], Layout]:
    sizes = some_sizes(random)
    edges = [(f"b{source}", f"b{target}") for source, target in some_edges(random, len(sizes))]
    return sizes, edges, lay_out(sizes, edges)


def overlap(a: Rect, b: Rect) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


@given(sources)
def test_no_two_boxes_overlap(random: Random) -> None:
    _, _, layout = some_layout(random)
    for a, b in combinations(layout.boxes.values(), 2):
        assert not overlap(a, b)


@given(sources)
def test_two_boxes_of_a_column_leave_room_for_a_loop(random: Random) -> None:
    _, _, layout = some_layout(random)
    for a, b in combinations(layout.boxes.values(), 2):
        if a.x == b.x:
            assert a.y + a.height + GAP - 2 <= b.y or b.y + b.height + GAP - 2 <= a.y


@given(sources)
def test_boxes_are_as_high_as_asked_and_wide_enough(random: Random) -> None:
    sizes, _, layout = some_layout(random)
    assert list(layout.boxes) == list(sizes)
    for name, (width, height) in sizes.items():
        assert layout.boxes[name].height == height
        assert layout.boxes[name].width >= width


@given(sources)
def test_everything_lies_within_the_picture(random: Random) -> None:
    _, _, layout = some_layout(random)
    corners = [(box.x, box.y) for box in layout.boxes.values()]
    corners += [(box.x + box.width, box.y + box.height) for box in layout.boxes.values()]
    corners += [point for route in layout.routes for point in route.points]
    for x, y in corners:
        assert 0 <= x <= layout.width and 0 <= y <= layout.height


@given(sources)
def test_edges_lead_to_the_right_unless_they_close_a_circle(random: Random) -> None:
    _, edges, layout = some_layout(random)
    circles = circular(edges)
    for edge, route in zip(edges, layout.routes, strict=True):
        source, target = edge
        if source == target:
            assert route.course == "loop"
        elif route.course == "along":
            assert layout.columns[source] < layout.columns[target]
        else:
            assert layout.columns[source] > layout.columns[target]
            assert edge in circles


@given(sources)
def test_routes_begin_and_end_at_their_boxes(random: Random) -> None:
    _, edges, layout = some_layout(random)
    for (source, target), route in zip(edges, layout.routes, strict=True):
        if route.course == "loop":
            assert not route.points
            continue
        for name, (x, y), is_right in (
            (source, route.points[0], route.course == "along"),
            (target, route.points[-1], route.course != "along"),
        ):
            box = layout.boxes[name]
            assert x == (box.x + box.width if is_right else box.x)
            assert box.y <= y <= box.y + box.height


@given(sources)
def test_routes_pass_between_boxes(random: Random) -> None:
    _, _, layout = some_layout(random)
    for route in layout.routes:
        assert len(route.points) % 2 == 0
        for (a, level), (b, same) in list(pairwise(route.points))[1::2]:
            assert level == same
            for box in layout.boxes.values():
                inside = box.y <= level <= box.y + box.height
                assert not (inside and min(a, b) < box.x + box.width and box.x < max(a, b))


@given(sources)
def test_the_same_graph_is_laid_out_the_same_way(random: Random) -> None:
    sizes, edges, layout = some_layout(random)
    assert lay_out(dict(sizes), list(edges)) == layout


@given(sources)
def test_columns_are_longest_paths_or_further_right(random: Random) -> None:
    count = random.randint(1, 30)
    edges = [(min(a, b), max(a, b)) for a, b in some_edges(random, count) if a != b]
    columns, turned = assign(count, edges)
    assert not any(turned)
    longest = [0] * count
    for source, target in sorted(edges):
        longest[target] = max(longest[target], longest[source] + 1)
    assert all(column >= least for column, least in zip(columns, longest, strict=True))
    assert max(columns) == max(longest)


@given(sources)
def test_parts_hang_together_and_nothing_else_does(random: Random) -> None:
    count = random.randint(0, 30)
    edges = some_edges(random, count)
    parts = components(count, edges)
    home = {point: number for number, part in enumerate(parts) for point in part}
    assert sorted(home) == list(range(count))
    assert all(home[source] == home[target] for source, target in edges)
    for part in parts:  # as many edges as it takes: none of them could be two
        reached, rest = {part[0]}, set(part[1:])
        while found := {b for a, b in edges if a in reached} | {a for a, b in edges if b in reached}:
            if found <= reached:
                break
            reached |= found
        assert rest <= reached


def test_nothing_takes_no_room() -> None:
    assert lay_out({}, []) == Layout({}, (), {}, 0, 0)


def test_one_box_stands_in_the_corner() -> None:
    layout = lay_out({"a": (50, 30)}, [("a", "a")])
    assert layout.boxes == {"a": Rect(0, 0, 50, 30)}
    assert (layout.width, layout.height) == (50, 30)
    assert [route.course for route in layout.routes] == ["loop"]


@pytest.mark.parametrize("edges", ["ab bc ca", "bc ca ab", "ca ab bc", "cb ba ac"])
def test_of_a_circle_the_last_edge_is_turned(edges: str) -> None:
    layout = lay_out(dict.fromkeys("abc", SIZE), [(edge[0], edge[1]) for edge in edges.split()])
    assert [route.course for route in layout.routes] == ["along", "along", "against"]


def test_edges_there_and_back_do_not_lie_on_each_other() -> None:
    there, back = lay_out(dict.fromkeys("ab", SIZE), [("a", "b"), ("b", "a")]).routes
    assert there.points != tuple(reversed(back.points))


def test_what_is_only_read_late_stands_next_to_its_reader() -> None:
    layout = lay_out(dict.fromkeys("abcdz", SIZE), [("a", "b"), ("b", "c"), ("c", "d"), ("z", "d")])
    assert layout.columns == {"a": 0, "b": 1, "c": 2, "d": 3, "z": 2}


def test_chain_is_a_straight_line() -> None:
    names = [f"n{at}" for at in range(20)]
    layout = lay_out(dict.fromkeys(names, SIZE), list(pairwise(names)))
    assert {box.y for box in layout.boxes.values()} == {0}


def test_crossings_that_need_not_be_are_undone() -> None:
    right: list[list[int]] = [[5], [4], [3], [], [], []]
    left: list[list[int]] = [[], [], [], [2], [1], [0]]
    columns = [[0, 1, 2], [3, 4, 5]]
    assert crossings(columns, right) == 3
    assert crossings(arrange(columns, left, right), right) == 0


@given(sources)
def test_arranging_never_makes_more_crossings(random: Random) -> None:
    breadth = random.randint(1, 8)
    columns = [list(range(start, start + breadth)) for start in range(0, 4 * breadth, breadth)]
    left: list[list[int]] = [[] for _ in range(4 * breadth)]
    right: list[list[int]] = [[] for _ in range(4 * breadth)]
    for here, there in pairwise(columns):
        for _ in range(random.randint(0, 2 * breadth)):
            source, target = random.choice(here), random.choice(there)
            if target not in right[source]:
                right[source].append(target)
                left[target].append(source)
    arranged = arrange(columns, left, right)
    assert [sorted(column) for column in arranged] == columns
    assert crossings(arranged, right) <= crossings(columns, right)


def test_reader_of_a_whole_chain_does_not_want_a_bend_for_each_pair() -> None:
    names = [f"n{at}" for at in range(400)]
    edges = list(pairwise(names)) + [(name, "n399") for name in names[:-2]]
    layout = lay_out(dict.fromkeys(names, SIZE), edges)
    bends = {point for route in layout.routes for point in route.points[1:-1]}
    assert 0 < len(bends) <= 2 * BENDS_MAX


@given(sources)
def test_an_edge_is_circular_if_a_way_leads_back(random: Random) -> None:
    edges = [(f"{a}", f"{b}") for a, b in some_edges(random, random.randint(0, 12))]
    reach = {end: {end} for edge in edges for end in edge}
    for _ in reach:
        for source, target in edges:
            for found in reach.values():
                if source in found:
                    found.add(target)
    assert circular(edges) == {(source, target) for source, target in edges if source in reach[target]}
