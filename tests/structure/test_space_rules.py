"""The rules of several spaces: each has tests under its number, and one row in docs/internals/spaces.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.structure.project import ROOT

RULES = 34
FILES = sorted((ROOT / "tests" / "spaces").glob("test_rule_*.py"))


def rule_of(path: Path) -> tuple[str, str]:
    """The numbers and the text at the top of a file."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    found = re.fullmatch(r"Rules? (\d+(?: to \d+)?): (.+)", " ".join(text.split("\n\n", 1)[0].split()))
    assert found, f"{path.name} begins with 'Rule N: what holds.'"
    return found[1], found[2]


def test_every_rule_has_tests_under_its_number() -> None:
    numbers: set[int] = set()
    for path in FILES:
        first, _, last = rule_of(path)[0].partition(" to ")
        assert path.name.startswith(f"test_rule_{int(first):02}_{f'to_{last}_' if last else ''}"), path.name
        numbers.update(range(int(first), int(last or first) + 1))
    assert numbers == set(range(1, RULES + 1))


def test_every_file_has_tests() -> None:
    assert [path.name for path in FILES if not re.search(r"^def test_", path.read_text("utf-8"), re.MULTILINE)] == []


def test_the_table_of_rules_is_that_of_the_tests() -> None:
    page = (ROOT / "docs" / "internals" / "spaces.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d.*?) \| (.+) \| `(.+\.py)` \|$", page.partition("\n## The rules\n")[2], re.MULTILINE)
    assert rows == [(*rule_of(path), path.name.removeprefix("test_rule_")) for path in FILES]
