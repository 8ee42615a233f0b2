"""Each page answers one question within its budget, in short sentences, and is in the navigation."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.blocks import find_blocks
from tests.docs.pages import (
    DOCS,
    QUESTION,
    ROOT,
    all_pages,
    is_moved,
    lines_outside_code,
    name_of,
    navigation,
    new_pages,
    paragraphs,
    prose_lines,
    read,
    sentences,
    words,
)

AVERAGE_MAX = 16
SENTENCE_MAX = 32
UNRUN_MAX = 9
SLACK = 1.2
"""A page may exceed its budget by a fifth."""

BRITISH = re.compile(
    r"\b(?:(?:behavi|col|fav|hon|neighb|lab)our\w*|(?:organ|recogn|real|serial|normal|summar|synchron|minim|maxim)is\w+"
    r"|optimis(?:e|ed|es|ing|ation)|centre|licence|catalogue|(?:cancel|label|travel|model)l(?:ed|ing)|analysed?"
    r"|whilst|grey)\b",
    re.IGNORECASE,
)
CONTRACTION = re.compile(r"\b(?:\w+n't|(?:it|that|there|what|who|let)'s|(?:you|we|they)'(?:re|ll|ve))\b", re.IGNORECASE)

BUDGETS = {
    "index.md": 250,
    "start/install.md": 200,
    "start/first-program.md": 500,
    "start/choose.md": 600,
    "start/fit.md": 600,
    "tutorials/*.md": 1400,
    "how-to/*.md": 200,
    "guide/model.md": 700,
    "guide/cells.md": 500,
    "guide/documents.md": 600,
    "guide/collections.md": 700,
    "guide/queries.md": 800,
    "guide/totals.md": 400,
    "guide/expiry.md": 500,
    "guide/rules.md": 700,
    "guide/migrations.md": 1000,
    "guide/types.md": 400,
    "guide/transactions.md": 700,
    "guide/computed.md": 900,
    "guide/materializers.md": 450,
    "guide/lists.md": 700,
    "guide/handlers.md": 1000,
    "guide/resources.md": 900,
    "guide/time.md": 400,
    "guide/async.md": 500,
    "guide/restart.md": 600,
    "guide/patterns.md": 900,
    "guide/workflows.md": 900,
    "guide/unknown-outcomes.md": 900,
    "guide/workflow-input.md": 900,
    "guide/workflow-lanes.md": 1000,
    "guide/sharing.md": 800,
    "guide/offline.md": 800,
    "guide/opening.md": 600,
    "guide/postgresql.md": 600,
    "guide/several-spaces.md": 900,
    "guide/sending-to-spaces.md": 900,
    "guide/errors.md": 500,
    "guide/testing.md": 700,
    "guide/inspect.md": 800,
    "guide/studio.md": 800,
    "operate/*.md": 500,
    "reference/file-format.md": 600,
    "reference/*.md": 600,
    "internals/contributing.md": 900,
}
"""Words of prose, without code and tables. The first pattern that matches counts."""


def budget_of(page: Path) -> int | None:
    name = page.relative_to(DOCS)
    return next((budget for pattern, budget in BUDGETS.items() if name.match(pattern)), None)


def written() -> list[Path]:
    """The pages that follow the style guide: those of the new structure, and the one that explains it."""
    return [page for page in (*new_pages(), DOCS / "internals" / "contributing.md") if page.exists()]


def prose_words(text: str) -> int:
    return sum(map(words, paragraphs(text)))


def has_question(text: str) -> bool:
    return QUESTION.fullmatch(text.partition("\n")[0]) is not None


def too_long(text: str) -> list[str]:
    return [sentence for sentence in sentences(text) if words(sentence) > SENTENCE_MAX]


def average(text: str) -> float:
    counts = [words(sentence) for sentence in sentences(text)]
    return sum(counts) / len(counts) if counts else 0.0


def failing(check: Callable[[Path], object]) -> dict[str, object]:
    found = {name_of(page): check(page) for page in written()}
    return {name: what for name, what in found.items() if what}


def test_a_page_begins_with_its_question() -> None:
    assert failing(lambda page: not has_question(read(page))) == {}, "<!-- question: ... --> is the first line"


def test_no_two_pages_answer_the_same_question() -> None:
    asked = [found[1].lower() for page in written() if (found := QUESTION.match(read(page)))]
    assert sorted({question for question in asked if asked.count(question) > 1}) == []


def test_a_page_has_one_title() -> None:
    assert failing(lambda page: titles(read(page)) != 1) == {}


def titles(text: str) -> int:
    return sum(line.startswith("# ") for _, line in lines_outside_code(text))


def test_no_sentence_is_longer_than_32_words() -> None:
    assert failing(lambda page: too_long(read(page))) == {}


def test_sentences_have_16_words_on_average_at_most() -> None:
    def above(page: Path) -> float:
        found = average(read(page))
        return round(found, 1) if found > AVERAGE_MAX else 0

    assert failing(above) == {}


def test_a_page_keeps_to_its_budget() -> None:
    def over(page: Path) -> str:
        budget, count = budget_of(page), prose_words(read(page))
        return f"{count} words, budget {budget}" if budget is not None and count > SLACK * budget else ""

    assert failing(over) == {}


def test_every_page_of_a_tab_has_a_budget() -> None:
    generated = DOCS / "reference" / "python"
    assert [name_of(page) for page in new_pages() if budget_of(page) is None and generated not in page.parents] == []


def test_spelling_is_american_without_contractions() -> None:
    found = [
        f"{name_of(page)}:{number}: {word}"
        for page in (*written(), ROOT / "README.md")
        for number, line in prose_lines(read(page))
        for word in find_spellings(line)
    ]
    assert not found, "\n".join(found)


def find_spellings(line: str) -> list[str]:
    return [found[0] for pattern in (BRITISH, CONTRACTION) for found in pattern.finditer(line)]


def test_british_spellings_and_contractions_are_found() -> None:
    assert find_spellings("Its behaviour isn't recognised, and it's cancelled.") == [
        "behaviour",
        "recognised",
        "cancelled",
        "isn't",
        "it's",
    ]
    assert find_spellings("The program's own advice: optimistic, precise analyses of its promise.") == []


def test_few_blocks_are_not_run() -> None:
    """Each says why. Every other program, command and transcript is run by test_blocks.py."""
    unrun = [
        f"{name_of(page)}:{block.line}"
        for page in (ROOT / "README.md", *all_pages())
        for block in find_blocks(read(page))
        if block.language in ("python", "console") and not block.is_run
    ]
    assert len(unrun) <= UNRUN_MAX, unrun


# --- the navigation ------------------------------------------------------------------------------------------


def test_every_entry_of_the_navigation_is_a_page() -> None:
    assert [name for name in navigation() if not (DOCS / name).is_file()] == []


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [page.relative_to(DOCS).as_posix() for page in all_pages() if not is_moved(page)]
    listed = navigation()
    assert sorted({name for name in listed if listed.count(name) > 1}) == []
    below = ("errors/HW", "decisions/0")  # found from the tables of their indexes
    assert [name for name in pages if name not in listed and not name.startswith(below)] == []


def test_the_navigation_has_the_seven_tabs() -> None:
    entries = read(ROOT / "mkdocs.yml").partition("\nnav:\n")[2]
    assert re.findall(r"^  - ([^:\n]+):$", entries, re.MULTILINE) == [
        "Start",
        "Tutorials",
        "How-to",
        "Guide",
        "Operate",
        "Reference",
        "Internals",
    ]


# --- the counters themselves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("One two three. Four five.", [3, 2]),
        ("See `a b c` and [the link text](x.md).", [6]),
        ("A list:\n\n- one two\n- three\n\nEnd.", [2, 2, 1, 1]),
        ("| a | b |\n|---|---|\n| c | d |\n", []),
        ("# Title here\n\nText.", [1]),
        ("```python\nx = 1\n```\nText one\ngoes on.", [4]),
        ("Wait, e.g. for v1.2 of it. Then go.", [6, 2]),
        ("<!-- question: How do I? -->\n# T\n\nOne.", [1]),
        ("::: headwater.App\n    options:\n      members: [open]\n\nText.", [1]),
    ],
)
def test_sentences_are_counted(text: str, counts: list[int]) -> None:
    assert [words(sentence) for sentence in sentences(text)] == counts


def test_a_sentence_of_33_words_is_found() -> None:
    assert too_long("word " * 32 + "end.")
    assert not too_long("word " * 31 + "end.")


def test_a_question_is_the_first_line() -> None:
    assert has_question("<!-- question: How do I wait? -->\n\n# Time\n")
    assert not has_question("# Time\n\n<!-- question: How do I wait? -->\n")
    assert not has_question("<!-- question: -->\n")
