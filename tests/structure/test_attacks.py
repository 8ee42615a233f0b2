"""Every attack on the server that is told of has tests, and every test that is told of is there."""

from __future__ import annotations

import re

import pytest

from tests.structure.project import ROOT

PAGE = ROOT / "docs" / "internals" / "attacks.md"
ATTACKS = range(1, 48)


def rows() -> dict[int, str]:
    text = PAGE.read_text(encoding="utf-8")
    return {int(number): rest for number, rest in re.findall(r"^\| (\d+) \|(.*)\|$", text, re.MULTILINE)}


def known_tests() -> set[str]:
    files = (ROOT / "tests" / "system" / "attacks").glob("test_*.py")
    return {
        name
        for path in files
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


def test_attacks_are_all_told_of_once() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == list(ATTACKS)


@pytest.mark.parametrize("number", ATTACKS)
def test_attack_has_an_answer_and_a_test_that_is_there(number: int) -> None:
    tried, answer, tests = rows()[number].split(" | ")
    assert tried.strip()
    assert answer.strip()
    named = re.findall(r"`(test_\w+)`", tests)
    assert named
    assert set(named) <= known_tests()


def test_tests_that_are_named_anywhere_on_the_page_are_there() -> None:
    assert set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8"))) <= known_tests()
