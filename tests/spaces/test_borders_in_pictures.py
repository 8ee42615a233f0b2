"""Pictures of the graph show what belongs to other spaces inside of a border."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import headwater as hw
from headwater.draw.mermaid import mermaid
from headwater.draw.picture import picture
from headwater.draw.svg import svg
from headwater.scheduler.inspect.graph_snapshot import Edge, Snapshot, SourceView
from tests.draw.graphs import HOSTILE, node, snapshot

SPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def near(tmp_path: Path) -> Iterator[hw.Space]:
    prices, basket = hw.App("prices"), hw.App("basket")
    tea, milk, count = prices.cell("tea", 4), prices.cell("milk", 1), basket.cell("count", 3)

    @prices.computed
    def with_tax() -> int:
        return tea.value * 12

    @basket.sink
    def show() -> None:
        _ = count.value * with_tax() + milk.value

    with prices.open(tmp_path / "prices.db"), basket.open(tmp_path / "basket.db") as space:
        yield space


def bordered(text: str) -> list[str]:
    """The names of the boxes that have a border."""
    root = ET.fromstring(text)  # noqa: S314  # made here
    boxes = [group for group in root.iter(f"{SPACE}g") if "hw-box" in group.get("class", "").split()]
    return [
        next(each.text or "" for each in box.iter(f"{SPACE}text") if "hw-name" in each.get("class", ""))
        for box in boxes
        if any(each.get("class") == "hw-border" for each in box.iter(f"{SPACE}rect"))
    ]


def far_documents(count: int, space: str = "prices") -> Snapshot:
    """A function that reads so many documents of another space, and as many here."""
    sources = [SourceView(f"doc:{name}:{at}", f"{name}:{at}", name) for at in range(count) for name in (space, "")]
    edges = tuple(Edge(source.id, "show", "data") for source in sources)
    return snapshot([node("show", kind="effect")], sources=tuple(sources), edges=edges)


def test_svg_has_a_border_around_results_and_documents_of_other_spaces(near: hw.Space) -> None:
    drawn = near.graph("svg")
    assert sorted(bordered(drawn)) == ["prices:prices.milk", "prices:prices.with_tax"]
    assert "dotted border: of another space" in drawn
    assert "document of the space prices" in drawn


def test_mermaid_has_a_subgraph_for_each_other_space(near: hw.Space) -> None:
    lines = [line.strip() for line in near.graph("mermaid").splitlines()]
    start, end = lines.index('subgraph s0["space prices"]'), lines.index("end")
    assert sorted(line.partition('"')[2].partition("<")[0] for line in lines[start + 1 : end]) == [
        "prices:prices.milk".replace(":", "#58;"),
        "prices:prices.with_tax".replace(":", "#58;"),
    ]
    assert "class s0 far" in lines


def test_a_picture_of_one_space_has_no_border() -> None:
    shown = snapshot([node("total")], [("doc:price", "total")])
    assert "another space" not in svg(shown)
    assert bordered(svg(shown)) == []
    assert "subgraph" not in mermaid(shown)
    assert "far" not in mermaid(shown)


@pytest.mark.parametrize("limit", [10, 3, 1])
def test_a_shared_box_is_on_one_side_of_the_border(limit: int) -> None:
    boxes = picture(far_documents(30), limit).boxes
    assert [(box.space, box.count) for box in boxes if box.kind == "document"] == [("prices", 30), ("", 30)]


@pytest.mark.parametrize("name", HOSTILE)
def test_the_name_of_a_space_is_plain_text(name: str) -> None:
    drawn = svg(far_documents(1, name or "?"))
    drawn.encode()
    assert len(bordered(drawn)) == 1
    chart = mermaid(far_documents(1, name or "?")).splitlines()
    assert sum(line.startswith("  subgraph s") and line.endswith('"]') for line in chart) == 1
    assert chart.count("  end") == 1
