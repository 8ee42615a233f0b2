"""An invariant stands in four places: in words, at the line that upholds it, as a function, and in a test file."""

import re
from pathlib import Path

from tests.structure.project import ROOT

HELD = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
PACKAGES = ("scheduler", "cells")
PAGE = ROOT / "docs" / "internals" / "invariants.md"
SOURCES = [path for package in PACKAGES for path in (ROOT / "src" / "headwater" / package).rglob("*.py")]
CHECKERS = tuple((ROOT / "src" / "headwater" / "testing" / "invariants").glob("*.py"))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_invariant_has_a_paragraph() -> None:
    page = read(PAGE)
    assert [n for n in HELD if not re.search(rf"^\*\*I{n}, ", page, re.MULTILINE)] == []


def test_every_invariant_is_marked_at_the_line_that_upholds_it() -> None:
    texts = [read(path) for path in SOURCES if path not in CHECKERS]
    assert [n for n in HELD if not any(re.search(rf"\bI{n}\b", text) for text in texts)] == []


def test_every_invariant_has_a_checker() -> None:
    texts = [read(path) for path in CHECKERS]
    assert [n for n in HELD if not any(re.search(rf"^def i{n}_", text, re.MULTILINE) for text in texts)] == []


def test_every_invariant_has_a_test_file() -> None:
    folder = ROOT / "tests" / "testing" / "invariants"
    assert [n for n in HELD if not list(folder.glob(f"test_i{n:02}_*.py"))] == []
