"""The start pages: the table "Which one do I need?" names every verb, and the figures are those of the tables."""

import re

import headwater as hw
from tests.docs.blocks import find_blocks
from tests.docs.pages import DOCS, ROOT, prose_lines, read, words

CHOOSE = DOCS / "start" / "choose.md"
NUMBERS = DOCS / "internals" / "numbers.md"

NOT_CHOSEN = {
    "build": "called by Headwater, when it starts a piece",
    "declared": "what was declared, for tools",
    "has_resources": "for tools and for Headwater itself",
    "has_workflows": "for tools and for Headwater itself",
    "is_building": "for Headwater itself",
    "needs_event_loop": "for tools and for Headwater itself",
    "made_opening": "a step of app.open, for Headwater itself",
    "note_types_in": "a step of app.open, for Headwater itself",
    "declare_in": "a step of app.open, for Headwater itself",
    "has_collections": "for Headwater itself",
    "opened": "app.open, for callers inside the package",
    "opening": "for hw.together, which opens several apps at once",
    "register_in": "a step of app.open, for Headwater itself",
    "restore_in": "a step of app.open, for Headwater itself",
    "open_with": "app.open, with its options in one record",
    "aopen_with": "app.aopen, with its options in one record",
    "owner": "for Headwater itself",
    "prefix": "for Headwater itself",
    "sole_space": "for Headwater itself",
    "verb": "the word for messages: app or p",
}
"""Public names of `App` and `Builder` that are no building block, and why."""


def verbs(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_every_verb_is_in_the_table_or_is_excepted_with_a_reason() -> None:
    rows = "\n".join(line for line in read(CHOOSE).splitlines() if line.startswith("|"))
    named = set(re.findall(r"\b(?:app|p)\.(\w+)", rows))
    public = verbs(hw.App) | verbs(hw.Builder)
    assert sorted(public - named - NOT_CHOSEN.keys()) == []
    assert sorted(NOT_CHOSEN.keys() - public) == [], "these are gone"
    assert sorted(named - public) == [], "the table names verbs that do not exist"
    assert sorted(named & NOT_CHOSEN.keys()) == []


def test_every_verb_of_an_app_but_workflow_and_collection_is_one_of_a_builder_too() -> None:
    blocks = verbs(hw.App) - NOT_CHOSEN.keys() - {"collection", "workflow", "open", "aopen", "run"}
    assert sorted(blocks - verbs(hw.Builder)) == []


def figures(text: str) -> set[str]:
    """Numbers as they are written, of at least two digits or with a fraction; ranges count as one."""
    return set(re.findall(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+|\d{2,})(?:-(?:\d[\d,.]*\d))?(?![\w])", text))


ROUNDED = {"1.2": "1.18 ms", "0.28": "0.26-0.30", "0.7": "681 B", "3.7": "2,641 B", "2.5": "0.39 times"}
"""Figures that a page rounds, or derives, with the text of the table that they are from. 2.5 is 1 / 0.39."""


def measured(text: str) -> list[str]:
    """Figures of the numbers section of a page that are in no table of measurements."""
    known = read(NUMBERS)
    for shown, origin in ROUNDED.items():
        if origin in known:
            known += f" {shown} "
    return sorted(figures(text) - figures(known))


def test_figures_of_the_front_page_are_those_that_were_measured() -> None:
    _, _, rest = read(ROOT / "README.md").partition("\n## Numbers\n")
    bullets = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("- ")]
    assert len(bullets) == 5
    assert measured("\n".join(bullets)) == []


def test_figures_about_fit_are_those_that_were_measured() -> None:
    _, _, rest = read(DOCS / "start" / "fit.md").partition("| Question | Figure |\n")
    table = [line for line in rest.splitlines() if line.startswith("|")]
    assert len(table) > 10
    assert measured("\n".join(line for line in table if "comfortable" not in line)) == []


def test_program_of_the_front_page_has_about_15_lines() -> None:
    [program] = [block for block in find_blocks(read(ROOT / "README.md")) if block.language == "python"]
    assert len([line for line in program.source.splitlines() if line.strip()]) <= 20


def test_front_page_has_at_most_900_words() -> None:
    assert sum(words(line) for _, line in prose_lines(read(ROOT / "README.md"))) <= 900


def test_commands_of_the_front_page_are_those_of_the_checkout() -> None:
    shown = set(re.findall(r"^\$ \./hw (\w+)", read(ROOT / "README.md"), re.MULTILINE))
    listed = set(re.findall(r"^\./hw (\w+)", read(ROOT / "hw"), re.MULTILINE))
    assert {"demo", "test", "python", "run"} <= shown <= listed


def test_front_page_leads_to_every_tutorial_and_start_page() -> None:
    front = read(ROOT / "README.md") + read(DOCS / "index.md").replace("](", "](docs/")
    pages = [path for tab in ("start", "tutorials") for path in (DOCS / tab).glob("*.md")]
    assert [path.name for path in pages if f"](docs/{path.relative_to(DOCS).as_posix()})" not in front] == []
