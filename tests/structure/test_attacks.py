"""Every attack on the server that is told of has tests, and every test that is told of is there."""

from __future__ import annotations

import re

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


def test_every_attack_has_an_answer_and_a_test_that_is_there() -> None:
    found, known = rows(), known_tests()
    for number in ATTACKS:
        tried, answer, tests = found[number].split(" | ")
        assert tried.strip(), number
        assert answer.strip(), number
        named = re.findall(r"`(test_\w+)`", tests)
        assert named, number
        assert set(named) <= known, number


def test_tests_that_are_named_anywhere_on_the_page_are_there() -> None:
    assert set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8"))) <= known_tests()
