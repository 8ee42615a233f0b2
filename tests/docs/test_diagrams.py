"""The stored diagrams are what the programs draw, claim what the product does, and can be read."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from headwater.cells.transaction_states import Status
from headwater.scheduler.events.event import EventState
from headwater.workflow.rows import RunPhase
from tools.docs.diagrams.catalog import DIAGRAMS, FOLDER, draw_all
from tools.docs.diagrams.concepts import CHOICES
from tools.docs.diagrams.drawing import Drawing, LayoutError, Transition, text_width
from tools.docs.diagrams.programs import WRITES_MS, runs_on_a_time_line
from tools.docs.diagrams.reactive_loop import BOXES
from tools.docs.diagrams.states import claim_of, event_rows, transaction_rows
from tools.docs.diagrams.themes import THEMES

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
FILES = [f"{name}-{theme}.svg" for name in DIAGRAMS for theme in THEMES]
CONTRAST_MIN = 4.5
"""WCAG 2.1, level AA, for text of this size."""


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return dict(draw_all())


def stored(name: str) -> ET.Element:
    return ET.parse(FOLDER / name).getroot()  # noqa: S314  # a file of this project


def test_stored_files_are_what_the_programs_draw(drawn: dict[str, str]) -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(drawn) == sorted(FILES)
    changed = [name for name, text in drawn.items() if (FOLDER / name).read_text(encoding="utf-8") != text]
    assert changed == [], "run python -m tools.docs.diagrams"


@pytest.mark.parametrize(
    ("name", "states", "rows"),
    [
        ("pending", Status, [claim_of(*row) for row in transaction_rows()]),
        ("event-way", EventState, [claim_of(*row) for row in event_rows()]),
    ],
)
def test_states_and_arrows_are_those_of_the_product(name: str, states: type[Enum], rows: list[Transition]) -> None:
    page = stored(f"{name}-light.svg")
    arrows = [
        Transition(path.attrib["data-from"], path.attrib["data-signal"], path.attrib["data-to"])
        for path in page.iter(f"{SVG}path")
        if "data-from" in path.attrib
    ]
    assert sorted(map(str, arrows)) == sorted(map(str, rows))
    assert {state.value for state in states} <= set(words_of(page))


def test_phases_of_a_run_are_drawn_in_their_order() -> None:
    phases = [phase.value for phase in RunPhase]
    assert [words for words in words_of(stored("run-phases-light.svg")) if words in phases] == phases


def test_time_line_shows_each_write_and_each_run() -> None:
    moments = [int(words) for words in words_of(stored("debounce-light.svg")) if words.isdigit()]
    runs = runs_on_a_time_line()
    assert moments == [*WRITES_MS, *runs["debounced"], *runs["throttled"]]
    assert all(later - earlier >= 500 for earlier, later in zip(runs["throttled"], runs["throttled"][1:], strict=False))


def test_boxes_to_choose_from_are_those_of_the_page() -> None:
    table = (ROOT / "docs" / "start" / "choose.md").read_text(encoding="utf-8")
    shown = [name for _, _, choices in CHOICES for name, _ in choices]
    assert sorted(shown) == sorted(re.findall(r"^\|[^|]*\| \*\*([^*]+)\*\*", table, re.MULTILINE))


def test_a_diagram_is_shown_on_a_page_in_both_themes() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    hidden = [name for name in FILES if not any(f"diagrams/{name}" in text for text in texts)]
    assert hidden == []


def test_boxes_of_the_loops_name_modules_that_exist() -> None:
    modules = [module for _, _, _, module, _ in BOXES]
    assert [name for name in modules if not (ROOT / "src" / "headwater" / name).is_file()] == []
    assert "docs/diagrams/loops-light.svg" in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_a_diagram_has_a_title_a_description_and_readable_text(name: str) -> None:
    page = stored(name)
    assert page.attrib["role"] == "img" and page.attrib["aria-labelledby"] == "t d"
    for tag in ("title", "desc"):
        assert page.findtext(f"{SVG}{tag}", "").strip()
    low = {
        (text.text, text.attrib["fill"], ground)
        for text, ground in texts_on_grounds(page)
        if contrast(text.attrib["fill"], ground) < CONTRAST_MIN
    }
    assert low == set()


# --- the checks themselves can fail ----------------------------------------------------------------------


def drawing() -> Drawing:
    return Drawing("A test", "Of the checks.", 200, 100)


def test_text_that_is_wider_than_its_box_is_an_error() -> None:
    with pytest.raises(LayoutError, match="'a long title' does not fit into its box"):
        drawing().box((20, 20), (60, 40), "a long title")


def test_text_that_leaves_the_drawing_is_an_error() -> None:
    d = drawing()
    d.text((150, 50), "to the right of the edge", anchor="start")
    with pytest.raises(LayoutError, match="leaves the drawing"):
        d.svg("light")


def test_text_on_text_is_an_error() -> None:
    d = drawing()
    d.text((100, 50), "one")
    d.text((104, 54), "two")
    with pytest.raises(LayoutError, match="'one' and 'two' overlap"):
        d.svg("light")


def test_text_on_the_edge_of_a_box_is_an_error() -> None:
    d = drawing()
    d.box((20, 20), (80, 40), "box")
    d.text((100, 58), "edge")
    with pytest.raises(LayoutError, match="'edge' lies on the edge of 'box'"):
        d.svg("light")


@pytest.mark.parametrize("points", [((10, 48), (190, 48)), ((90, 10), (110, 90)), ((100, 10), (100, 90))])
def test_a_line_through_text_is_an_error(points: tuple[tuple[float, float], tuple[float, float]]) -> None:
    d = drawing()
    d.text((100, 52), "words")
    d.arrow(*points)
    with pytest.raises(LayoutError, match="runs through 'words'"):
        d.svg("light")


def test_a_line_through_a_box_is_an_error() -> None:
    d = drawing()
    d.box((60, 20), (80, 60), "box")
    d.line((20, 70), (180, 72))
    with pytest.raises(LayoutError, match="runs through 'box'"):
        d.svg("light")


def test_bold_and_wide_letters_take_more_room() -> None:
    assert text_width("will", 12) < text_width("wall", 12) < text_width("wall", 12, bold=True)
    assert text_width("ill", 12, code=True) == text_width("wow", 12, code=True)


def test_braces_in_text_are_kept() -> None:
    d = drawing()
    d.text((100, 50), "{a: 1} < 2")
    assert "{a: 1} &lt; 2" in d.svg("dark")


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


# --- reading a file --------------------------------------------------------------------------------------


def words_of(page: ET.Element) -> list[str]:
    return [text.text or "" for text in page.iter(f"{SVG}text")]


def texts_on_grounds(page: ET.Element) -> list[tuple[ET.Element, str]]:
    """Each text with the color of the last filled rectangle below it."""
    rectangles: list[ET.Element] = []
    found = []
    for element in page.iter():
        if element.tag == f"{SVG}rect" and element.attrib["fill"] != "none":
            rectangles.append(element)
        elif element.tag == f"{SVG}text":
            ground = next(rect.attrib["fill"] for rect in reversed(rectangles) if is_inside(element, rect))
            found.append((element, ground))
    assert found
    return found


def is_inside(text: ET.Element, rect: ET.Element) -> bool:
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    left, top = float(rect.get("x", "0")), float(rect.get("y", "0"))
    return left <= x <= left + float(rect.attrib["width"]) and top <= y <= top + float(rect.attrib["height"])


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    parts = [int(part, 16) / 255 for part in re.findall("[0-9a-f]{2}", color)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
