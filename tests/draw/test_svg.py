"""The SVG: well-formed whatever names hold, the same every time, and readable without colours."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.draw.picture import ARROWS_MAX, BOXES_MAX
from headwater.draw.svg import svg
from headwater.scheduler.inspect.graph_snapshot import Snapshot
from tests.draw.graphs import HOSTILE, node, shop, snapshot, some_snapshot, sources

if TYPE_CHECKING:
    from random import Random

SPACE = "{http://www.w3.org/2000/svg}"


def parsed(given_: Snapshot) -> ET.Element:
    text = svg(given_)
    text.encode()  # no lone surrogates
    root = ET.fromstring(text)  # noqa: S314  # made here
    assert root.tag == f"{SPACE}svg"
    return root


def boxes(root: ET.Element) -> list[ET.Element]:
    return [group for group in root.iter(f"{SPACE}g") if "hw-box" in group.get("class", "").split()]


def edges(root: ET.Element) -> list[ET.Element]:
    return [group for group in root.iter(f"{SPACE}g") if "hw-edge" in group.get("class", "").split()]


def said(element: ET.Element) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SPACE}text")]


def box_of(root: ET.Element, name: str) -> ET.Element:
    (found,) = [box for box in boxes(root) if name in said(box)]
    return found


def spoilt(name: str) -> Snapshot:
    """The name wherever a text may stand."""
    view = node(name, id=name, error=name, gate=name, outputs=(name,), reads=(name,), file=name, parent=name)
    return snapshot([view], [(name, name), (f"doc:{name}", name)], space=name)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_leaves_it_well_formed(name: str) -> None:
    root = parsed(spoilt(name))
    assert {element.tag.removeprefix(SPACE) for element in root.iter()} <= {
        *("svg", "style", "rect", "g", "path", "text", "title", "circle")
    }


@given(st.text(st.characters(codec=None)))
def test_any_name_leaves_it_well_formed(name: str) -> None:
    assert len(boxes(parsed(spoilt(name)))) == 2


@given(sources)
def test_any_graph_is_drawn_whole(random: Random) -> None:
    given_ = some_snapshot(random, random.randint(0, 30))
    root = parsed(given_)
    assert len(boxes(root)) == len(given_.nodes) + len(given_.sources)
    assert len(edges(root)) == len({(edge.source, edge.target) for edge in given_.edges})


def test_name_is_shown_as_it_is() -> None:
    assert "<b>&\"'" in said(boxes(parsed(snapshot([node("<b>&\"'")])))[0])


def test_marks_are_not_piled_up() -> None:
    (box,) = boxes(parsed(snapshot([node("e" + "\u0301" * 500)])))
    assert max(text.count("\u0301") for text in said(box)) == 3


def test_nameless_node_is_said_to_be_so() -> None:
    assert "(no name)" in said(boxes(parsed(snapshot([node("")])))[0])


def test_kinds_differ_in_shape_and_in_words() -> None:
    root = parsed(snapshot([node("c"), node("e", kind="effect")], [("doc:d", "c")]))
    shapes = {}
    for name, kind in (("c", "COMPUTATION"), ("e", "EFFECT"), ("d", "DOCUMENT")):
        box = box_of(root, name)
        assert kind in said(box)
        shapes[name] = [(part.tag, len(re.findall("[HVL]", part.get("d", "")))) for part in box if _is_card(part)]
    assert len({str(shape) for shape in shapes.values()}) == 3


def _is_card(part: ET.Element) -> bool:
    return part.get("class") == "hw-card"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"runs": 0, "status": "never-ran"}, "never ran"),
        ({"runs": 2, "mean_ms": 1.5}, "clean · 2 runs · 1.5 ms"),
        ({"runs": 1, "status": "invalid", "mean_ms": 2500}, "invalid · 1 run · 2.5 s"),
        ({"error": "ValueError: no"}, "ValueError: no"),
        ({"error": "ValueError: no", "status": "invalid"}, "failed, invalid · 1 run · 0 ms"),
        ({"in_flight": True}, "RUNNING"),
        ({"live": False}, "DORMANT"),
        ({"gate": "debounce 250ms"}, "waits: debounce 250ms"),
    ],
)
def test_state_is_said_in_words(fields: dict[str, object], words: str) -> None:
    (box,) = boxes(parsed(snapshot([node("a", **fields)])))
    assert words in said(box)


def test_states_differ_in_their_signs() -> None:
    views = [node("a"), node("b", status="invalid"), node("c", status="never-ran"), node("d", error="x")]
    root = parsed(snapshot(views))
    signs = [re.sub(r"M[\d. ]+|c[xy]=\S+", "", _signs(box_of(root, view.name))) for view in views]
    assert len(set(signs)) == 4


def _signs(box: ET.Element) -> str:
    return " ".join(f"{part.tag} {part.get('d', '')}" for part in box if part.get("class") == "hw-sign")


def test_dormant_box_is_dashed_and_a_live_one_is_not() -> None:
    root = parsed(snapshot([node("a"), node("b", live=False)]))
    assert "hw-dormant" in box_of(root, "b").get("class", "")
    assert "hw-dormant" not in box_of(root, "a").get("class", "")
    assert ".hw-dormant .hw-card{stroke-dasharray" in svg(snapshot([]))


def test_tip_tells_what_does_not_fit() -> None:
    name = "a_name_that_is_much_too_long_to_stand_in_a_box"
    view = node(name, runs=12, mean_ms=0.4217, reads=("todo.items",), outputs=("todo.board",), file="todo.py", line=7)
    (box,) = boxes(parsed(snapshot([view])))
    tip = box.findtext(f"{SPACE}title") or ""
    for part in (name, "12 runs, 0.422 ms each", "reads todo.items", "writes todo.board", "todo.py:7"):
        assert part in tip


def test_arrow_tip_names_both_ends() -> None:
    (edge,) = edges(parsed(snapshot([node("board")], [("doc:todo.items", "board")])))
    assert edge.findtext(f"{SPACE}title") == "todo.items is read by board"


def test_picture_stands_alone_and_beside_others_in_one_page() -> None:
    text = svg(shop())
    assert not re.search(r"\b(id|href|src|onclick|onload)=|url\(|@import|<script", text)
    assert "prefers-color-scheme:dark" in text
    assert all(name.startswith("hw-") for found in re.findall(r'class="([^"]*)"', text) for name in found.split())


def test_every_colour_of_the_light_has_one_of_the_dark() -> None:
    light, dark = svg(snapshot([])).split("</style>")[0].split("@media")
    selectors = [re.findall(r"^(\.hw-graph[^{]*)\{(?:fill|stroke):#", half, re.MULTILINE) for half in (light, dark)]
    assert selectors[0] == selectors[1] != []


@pytest.mark.parametrize("count", [0, 1])
def test_next_to_nothing_can_be_drawn(count: int) -> None:
    root = parsed(snapshot([node("only")][:count]))
    assert len(boxes(root)) == count
    assert any("Nothing is declared" in text for text in said(root)) == (count == 0)


def test_same_snapshot_gives_the_same_picture_in_every_process() -> None:
    program = (
        "from headwater.draw.svg import svg; from headwater.draw.mermaid import mermaid\n"
        "from headwater.draw.text_tree import text; from tests.draw.graphs import shop\n"
        "print(svg(shop()), mermaid(shop()), text(shop(), 80))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def big(count: int) -> Snapshot:
    """Rows by the thousand, each made of others, and as many functions with names of their own."""
    nodes = [node(f"row({at})" if at % 2 else f"f{at}", id=f"n{at}", rank=at // 50) for at in range(count)]
    edges = [(f"n{at - step}", f"n{at}") for at in range(count) for step in (50, 57, 99) if at >= step]
    return snapshot(nodes, edges + [(f"doc:d{at}", f"n{at}") for at in range(50)])


@pytest.mark.slow
def test_five_thousand_nodes_collapse_and_the_picture_says_so() -> None:
    root = parsed(big(5000))
    assert len(boxes(root)) <= BOXES_MAX
    assert len(edges(root)) <= ARROWS_MAX
    assert "row x 2,500" in [text for box in boxes(root) for text in said(box)]
    assert any("5,050 nodes and documents in" in text for text in said(root))


def calls_of(given_: Snapshot) -> int:
    """The work of a picture, as the number of calls: how busy the machine is does not count."""
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        svg(given_)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.slow
def test_work_of_five_thousand_nodes_is_bounded_and_grows_no_faster_than_they_do() -> None:
    fewer, more = calls_of(big(2500)), calls_of(big(5000))
    assert more < 6_000_000  # less than a second
    assert more < 2 * fewer


def test_handler_is_a_ticket_and_says_what_waits() -> None:
    nodes = [
        node("idle", kind="handler"),
        node("late", kind="handler", waiting=2, gate="total() waits for its time"),
        node("bad", kind="handler", error="ValueError: no", waiting=1),
    ]
    root = parsed(snapshot(nodes))
    idle, late, bad = (box_of(root, name) for name in ("idle", "late", "bad"))
    assert said(late) == ["HANDLER", "late", "2 waiting · 1 run · 0 ms", "waits: total() waits for its time"]
    assert [box.get("class") for box in (idle, late, bad)] == [
        "hw-box hw-clean",
        "hw-box hw-waiting",
        "hw-box hw-failed",
    ]
    outlines = [box.find(f"{SPACE}path") for box in (idle, late, bad)]
    assert all(outline is not None and outline.get("d", "").count("a6 6 0 0 0") == 2 for outline in outlines)
    title = late.find(f"{SPACE}title")
    assert title is not None
    assert title.text == "late\nhandler, 2 waiting\n1 run, 0 ms each\nwaits: total() waits for its time"


def test_legend_tells_of_handlers_where_there_are_any() -> None:
    words = "handler: called for each event"
    assert words in svg(snapshot([node("submit", kind="handler")]))
    assert words not in svg(snapshot([node("total")]))
