"""Text for people does nothing to a terminal, hides nothing, and gives a duration in one way."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater
from headwater.cells.display import brief
from headwater.draw.node_captions import inert as drawn
from headwater.draw.node_captions import took
from headwater.values.text import count_text, inert, inert_lines, listed_text, rough_span, size_text, span
from headwater.workflow.schedule import due_in_words

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

INVISIBLE = "\u200b\u00ad\u2060\U000e0041\u3164\u200d\ufeff\u202e\x1b\x85\u2028\ufe01"


@pytest.mark.parametrize("character", INVISIBLE)
def test_what_is_not_seen_or_acts_is_escaped(character: str) -> None:
    shown = inert(f"a{character}b")
    assert shown.isascii()
    assert shown.startswith("a\\u")


@pytest.mark.parametrize("text", ["", "plain", "Grüße", "日本\u3000語", "10\u00a0000", "❤\ufe0f", "e\u0301", "\\u200b"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert inert(text) == text
    assert drawn(text) == text


@given(st.characters())
def test_nothing_of_these_categories_is_left(character: str) -> None:
    left = inert(character)
    assert unicodedata.category(left[0]) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@given(st.text(st.characters(codec="utf-8")))
def test_json_with_escapes_is_the_same_value(text: str) -> None:
    """`--json` prints through the same function."""
    assert json.loads(inert_lines(json.dumps({"a": text}, ensure_ascii=False, indent=1))) == {"a": text}


def test_lines_stay_lines() -> None:
    assert inert_lines("a\tb\r\nc\u200bd") == "a\\tb\nc\\u200bd"
    assert inert("a\nb") == "a\\nb"


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_999, "59.9 s"),
        (MINUTE, "1 min"),
        (3 * MINUTE + 20 * SECOND, "3 min 20 s"),
        (90 * MINUTE, "1 h 30 min"),
        (2 * HOUR + 5 * MINUTE, "2 h 5 min"),
        (DAY, "1 d"),
        (9 * DAY + 3 * HOUR, "9 d 3 h"),
        (1000 * DAY, "1,000 d"),
    ],
)
def test_a_duration_has_two_units_at_most(ms: int, words: str) -> None:
    assert span(ms) == words


def test_ninety_minutes_are_said_in_one_way() -> None:
    assert {span(90 * MINUTE), rough_span(90 * MINUTE), took(90 * MINUTE), due_in_words(90 * MINUTE, 0)[3:]} == {
        "1 h 30 min"
    }


@given(st.integers(0, 10**12))
def test_a_rounded_duration_is_near_the_exact_one_and_says_no_zero_part(ms: int) -> None:
    words = rough_span(ms).replace(",", "").split()
    sizes = {"s": SECOND, "min": MINUTE, "h": HOUR, "d": DAY}
    total = sum(int(count) * sizes[unit] for count, unit in zip(words[::2], words[1::2], strict=True))
    assert abs(total - ms) <= (SECOND if ms < MINUTE else MINUTE if ms < DAY else HOUR) / 2
    assert "0" not in words or words == ["0", "s"]


def test_no_other_module_escapes_characters_or_splits_durations() -> None:
    """One function for each. A module that needs another form takes it from here."""
    package = Path(headwater.__file__).parent
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "text.py" or path.parent.name != "values":
            assert "x9f" not in text, f"{path} has a list of control characters of its own"
            assert "else ascii(" not in text, f"{path} escapes characters by itself"
            assert '" min"' not in text and "} min" not in text, f"{path} writes durations by itself"


def test_a_value_in_a_repr_is_inert() -> None:
    assert "\u200b" not in brief("a\u200bb")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1024, "1.0 KiB"), (3 * 1024**2, "3.0 MiB"), (5 * 1024**4, "5.0 TiB")],
)
def test_a_size_has_one_unit(count: int, text: str) -> None:
    assert size_text(count) == text


def test_a_count_has_the_noun_in_its_number() -> None:
    assert [count_text(each, "try", "tries") for each in (0, 1, 2000)] == ["0 tries", "1 try", "2,000 tries"]
    assert count_text(2, "document") == "2 documents"


def test_a_long_list_names_the_first_and_counts_the_others() -> None:
    assert listed_text(["a", "b"], 2) == "a, b"
    assert listed_text(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed_text([], 2) == ""
