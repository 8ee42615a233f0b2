"""An invariant of workflows stands in four places, as those of the scheduler do: see `test_invariants`."""

import re
from pathlib import Path

from tests.structure.project import ROOT

HELD = range(1, 15)
PAGE = ROOT / "docs" / "internals" / "workflow-invariants.md"
WORKFLOW = ROOT / "src" / "headwater" / "workflow"
RUNTIME = ROOT / "src" / "headwater" / "runtime" / "workflows"
CHECKERS = (
    WORKFLOW / "table_checks.py",
    ROOT / "src" / "headwater" / "testing" / "invariants" / "workflow_invariants.py",
)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_invariant_has_a_paragraph() -> None:
    page = read(PAGE)
    assert [n for n in HELD if not re.search(rf"^\*\*W{n}, ", page, re.MULTILINE)] == []


def test_every_invariant_is_marked_at_the_line_that_upholds_it() -> None:
    texts = [read(path) for folder in (WORKFLOW, RUNTIME) for path in folder.rglob("*.py") if path not in CHECKERS]
    assert [n for n in HELD if not any(re.search(rf"\bW{n}\b", text) for text in texts)] == []


def test_every_invariant_has_a_checker_that_names_it() -> None:
    texts = [read(path) for path in CHECKERS]
    assert [n for n in HELD if not any(re.search(rf"^def w{n}_", text, re.MULTILINE) for text in texts)] == []
    assert [n for n in HELD if not any(f'broken("W{n}"' in text for text in texts)] == []


def test_every_invariant_has_a_test_file_in_which_it_is_seen_to_fail() -> None:
    for n in HELD:
        [path] = (ROOT / "tests" / "testing" / "workflow_invariants").glob(f"test_w{n:02}_*.py")
        assert re.search(rf'"W{n}: |W{n}: ', read(path)), path
