"""An invariant of workflows stands in four places, as those of the scheduler do: see `test_invariants`."""

import re

import pytest

from tests.structure.project import ROOT

HELD = range(1, 15)
PAGE = ROOT / "docs" / "internals" / "workflow-invariants.md"
WORKFLOW = ROOT / "src" / "headwater" / "workflow"
RUNTIME = ROOT / "src" / "headwater" / "runtime" / "workflows"
CHECKERS = (
    WORKFLOW / "table_checks.py",
    ROOT / "src" / "headwater" / "testing" / "invariants" / "workflow_invariants.py",
)


@pytest.mark.parametrize("number", HELD)
def test_invariant_has_a_paragraph(number: int) -> None:
    assert re.search(rf"^\*\*W{number}, ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("number", HELD)
def test_invariant_is_marked_at_the_line_that_upholds_it(number: int) -> None:
    sources = [path for folder in (WORKFLOW, RUNTIME) for path in folder.rglob("*.py") if path not in CHECKERS]
    assert [path.name for path in sources if re.search(rf"\bW{number}\b", path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("number", HELD)
def test_invariant_has_a_checker_that_names_it(number: int) -> None:
    texts = [path.read_text(encoding="utf-8") for path in CHECKERS]
    assert any(re.search(rf"^def w{number}_", text, re.MULTILINE) for text in texts)
    assert any(f'broken("W{number}"' in text for text in texts)


@pytest.mark.parametrize("number", HELD)
def test_invariant_has_a_test_file_in_which_it_is_seen_to_fail(number: int) -> None:
    [path] = (ROOT / "tests" / "testing" / "workflow_invariants").glob(f"test_w{number:02}_*.py")
    assert re.search(rf'"W{number}: |W{number}: ', path.read_text(encoding="utf-8"))
