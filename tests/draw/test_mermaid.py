"""The flowchart: lines of a known form, whatever names hold, and within what Mermaid takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.draw.mermaid import EDGES_MAX, TEXT_MAX, mermaid
from headwater.scheduler.inspect.graph_snapshot import Edge, Snapshot
from tests.draw.graphs import HOSTILE, node, shop, snapshot, some_snapshot, sources

if TYPE_CHECKING:
    from random import Random

LABEL = r'"((?:[^"#<>`{}|\\\n;%]|#\d+;|<br/>)*)"'
BOX = re.compile(rf"  (n\d+)(?:\[\({LABEL}\)\]|\({LABEL}\)|>{LABEL}\]|\{{\{{{LABEL}\}}\}})")
NOTE = re.compile(rf"  note\[{LABEL}\]:::note")
ARROW = re.compile(r'  (n\d+) (?:-->|-\. "may write" \.->|-\. "made" \.->) (n\d+)')
CLASS = re.compile(r"  class (n\d+(?:,n\d+)*) (\w+)")
CLASS_DEF = re.compile(r"  classDef (\w+) [\w#:,-]+( \d+)?")


def read(text: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The labels by id, and the arrows; every line must be of a known form."""
    first, *lines = text.splitlines()
    assert first == "flowchart LR"
    labels: dict[str, str] = {}
    arrows: list[tuple[str, str]] = []
    classes: set[str] = set()
    for line in lines:
        if found := BOX.fullmatch(line):
            assert found[1] not in labels
            labels[found[1]] = found[2] or found[3] or found[4] or found[5]
        elif found := ARROW.fullmatch(line):
            arrows.append((found[1], found[2]))
        elif found := CLASS_DEF.fullmatch(line):
            classes.add(found[1])
        elif found := CLASS.fullmatch(line):
            assert set(found[1].split(",")) <= labels.keys()
            assert found[2] in classes
        else:
            assert NOTE.fullmatch(line), line
    assert {end for arrow in arrows for end in arrow} <= labels.keys()
    return labels, arrows


def name_of(label: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label.split("<br/>", maxsplit=1)[0])


@given(sources)
def test_every_line_is_of_a_known_form(random: Random) -> None:
    given_ = some_snapshot(random, random.randint(0, 30))
    labels, arrows = read(mermaid(given_))
    assert len(labels) == len(given_.nodes) + len(given_.sources)
    assert len(arrows) == len({(edge.source, edge.target) for edge in given_.edges})


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_stays_in_its_label(name: str) -> None:
    labels, arrows = read(mermaid(snapshot([node(name, error=name, gate=name)], [(name, name)])))
    assert list(labels) == ["n0"]
    assert arrows == [("n0", "n0")]


@given(st.text(st.characters(codec=None), max_size=30))
def test_any_name_stays_in_its_label(name: str) -> None:
    labels, _ = read(mermaid(snapshot([node(name, id="a")])))
    if name.strip() and name.isprintable() and name.isascii():
        assert name_of(labels["n0"]) == name


@pytest.mark.parametrize("name", ["board", "row(3)", "todo.board", "price_of('tea')", "a, b", "größe", "名前"])
def test_plain_name_stays_readable(name: str) -> None:
    assert f'"{name}<br/>computation' in mermaid(snapshot([node(name)]))


@pytest.mark.parametrize("name", ["1. list", "- item", "_x_", "__init__", "fa:fa-car", "`x`", "%%{init}%%"])
def test_nothing_is_left_that_has_a_meaning_of_its_own(name: str) -> None:
    labels, _ = read(mermaid(snapshot([node(name)])))
    assert name not in labels["n0"]
    assert name_of(labels["n0"]) == name


def test_kinds_of_edges_differ() -> None:
    edges = (Edge("a", "b", "data"), Edge("b", "c", "envelope"), Edge("c", "d", "parent"))
    text = mermaid(snapshot([node(name) for name in "abcd"], edges=edges))
    assert "n0 --> n1" in text
    assert 'n1 -. "may write" .-> n2' in text
    assert 'n2 -. "made" .-> n3' in text


def test_states_are_said_in_words() -> None:
    text = mermaid(snapshot([node("a", live=False, status="invalid", in_flight=True, error="ValueError: no")]))
    assert "computation, dormant, running<br/>failed, invalid · 1 run · 0 ms<br/>ValueError: no" in text


def test_large_graph_stays_within_what_mermaid_takes_and_says_so() -> None:
    nodes = [node("<" * 20 + f"{at}", id=f"n{at}", rank=at // 5, error='"' * 50) for at in range(3000)]
    edges = [(f"n{at - step}", f"n{at}") for at in range(3000) for step in (5, 8) if at >= step]
    text = mermaid(snapshot(nodes, edges))
    _, arrows = read(text)
    assert len(text) <= TEXT_MAX
    assert len(arrows) <= EDGES_MAX
    assert "3,000 nodes and documents in" in text


def test_nothing_gives_an_empty_chart() -> None:
    assert read(mermaid(Snapshot(space="s", at_ms=0, seq=0))) == ({}, [])


def test_sample_has_all_its_nodes() -> None:
    labels, _ = read(mermaid(shop()))
    assert {"shop.catalog", "totals", "price_of('cake')"} <= {name_of(label) for label in labels.values()}


def test_handler_has_a_shape_of_its_own() -> None:
    text = mermaid(snapshot([node("submit", kind="handler", waiting=2)]))
    assert '{{"submit<br/>handler<br/>2 waiting · 1 run · 0 ms"}}' in text
    read(text)
