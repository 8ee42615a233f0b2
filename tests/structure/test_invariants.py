"""An invariant stands in four places: in words, at the line that upholds it, as a function, and in a test file."""

import re

import pytest

from tests.structure.project import ROOT

HELD = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
PACKAGES = ("scheduler", "cells")
PAGE = ROOT / "docs" / "internals" / "invariants.md"
CHECKERS = tuple((ROOT / "src" / "headwater" / "testing" / "invariants").glob("*.py"))


@pytest.mark.parametrize("number", HELD)
def test_invariant_has_a_paragraph(number: int) -> None:
    assert re.search(rf"^\*\*I{number}, ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("number", HELD)
def test_invariant_is_marked_at_the_line_that_upholds_it(number: int) -> None:
    sources = [path for package in PACKAGES for path in (ROOT / "src" / "headwater" / package).rglob("*.py")]
    marked = [
        path.name
        for path in sources
        if path not in CHECKERS and re.search(rf"\bI{number}\b", path.read_text(encoding="utf-8"))
    ]
    assert marked


@pytest.mark.parametrize("number", HELD)
def test_invariant_has_a_checker(number: int) -> None:
    found = [re.findall(rf"^def i{number}_", path.read_text(encoding="utf-8"), re.MULTILINE) for path in CHECKERS]
    assert any(found)


@pytest.mark.parametrize("number", HELD)
def test_invariant_has_a_test_file(number: int) -> None:
    assert list((ROOT / "tests" / "testing" / "invariants").glob(f"test_i{number:02}_*.py"))
