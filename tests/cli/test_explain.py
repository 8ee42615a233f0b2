"""`headwater explain`: the page of an error, readable on a terminal, from a checkout and from an installed package."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater import errors
from headwater.cli import about_actions
from tests.cli.conftest import Run
from tests.cli.processes import COMMAND, on_terminal
from tests.structure.project import PACKAGE, ROOT, read_pyproject

PAGES = sorted((ROOT / "docs" / "errors").glob("HW*.md"))


@pytest.mark.parametrize("code", ["HW202", "hw202", "202", " HW202 "])
def test_explain_prints_the_page_of_an_error(run: Run, code: str) -> None:
    text = run("explain", code).stdout
    assert text.startswith("HW202 SpaceHeldError\n  Another process has this space open")
    assert "\nWhat to do\n  End the process" in text
    assert '\n    with open_space("notes.db") as space:\n        try:\n' in text
    assert text.endswith("`SpaceHeldError`.\n")


def test_error_without_a_page_is_told_from_the_tree(run: Run) -> None:
    text = run("explain", "HW000").stdout
    assert text.startswith("HW000 HeadwaterError: a stable code")
    assert text.endswith("In the tree of errors: HeadwaterError\nExit code of a command that ends with it: 1\n")


def test_explain_without_the_documentation_still_answers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(about_actions, "__file__", str(Path("far/away/from/headwater/cli/about.py").absolute()))
    text = run("explain", "HW202").stdout
    meaning = " ".join((errors.SpaceHeldError.__doc__ or "").split())
    assert text.startswith("HW202 SpaceHeldError: another process has this space open\n")
    assert meaning
    assert meaning in text
    assert "HeadwaterError > StoreError > UnavailableError > SpaceHeldError" in text
    assert text.endswith("Exit code of a command that ends with it: 4\n")


def test_explain_knows_every_error_and_only_those(run: Run) -> None:
    root = errors.HeadwaterError
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, root)]
    listed = json.loads(run("explain", "--json").stdout)
    assert {one["code"] for one in listed} == {kind.code for kind in kinds}
    for one in listed:
        assert json.loads(run("explain", one["code"], "--json").stdout) == one
        assert one["summary"]
        assert one["meaning"]
    assert len(run("explain").stdout.splitlines()) == len(run("explain", "--jsonl").stdout.splitlines()) == len(kinds)


@pytest.mark.parametrize("code", ["HW299", "HW2020", "nonsense", "\x1b[2J", "é"])
def test_explain_of_an_unknown_code_is_not_found(run: Run, code: str) -> None:
    text = run("explain", code, exit=3).stderr
    assert "\x1b" not in text
    assert "did you mean HW2" in text or "`headwater explain` lists them all" in text


# --- how it looks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_is_printed_whole_and_without_marks(run: Run, page: Path) -> None:
    text = run("explain", page.stem).stdout
    assert not any(mark in text for mark in ("```", "](", "<!--", "\0", "\n#", "\n\n\n"))
    written = re.sub(
        r"^(```.*|<!--.*|#+ )|\]\(.*?\)|\[(?=[^\]\n]*\]\()", "", page.read_text("utf-8"), flags=re.MULTILINE
    )
    assert text.split() == written.split()


def test_sentences_fit_the_terminal_and_programs_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for columns, widest in ((60, 60), (80, 80), (300, 100), (10, 40)):
        text, code = on_terminal(*COMMAND, "explain", "HW204", columns=columns)
        assert code == 0
        assert widest - 12 <= max(map(len, text.splitlines())) <= widest


def test_page_is_drawn_part_by_part() -> None:
    page = (
        "# HW999 SomeError\n\nFirst, see\n[HW998](HW998.md).\n\n"
        "```text\nSomeError HW999: a long\n  message\nand more\n```\n\n"
        "## What to do\n\n- one\n  thing\n- call `a b c d` instead\n\n"
        "<!-- no-run: later -->\n```python\nif x:\n\n    y()\n```\n"
    )
    assert about_actions._plain(page, 22).splitlines() == [
        "HW999 SomeError",
        "  First, see HW998.",
        "",
        "    SomeError HW999: a",
        "      long message",
        "    and more",
        "",
        "What to do",
        "  - one thing",
        "  - call `a b c d`",
        "    instead",
        "",
        "    if x:",
        "",
        "        y()",
    ]


# --- where it is installed --------------------------------------------------------------------------------


def test_installed_package_brings_the_pages(tmp_path: Path) -> None:
    """Laid out as the wheel is: the package, and what is put into it from elsewhere."""
    wheel = read_pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]
    site = tmp_path / "lib" / "site"
    shutil.copytree(PACKAGE, site / "headwater", ignore=shutil.ignore_patterns("__pycache__"))
    for source, target in wheel["force-include"].items():
        shutil.copytree(ROOT / source, site / target)
    where = "import headwater; print(headwater.__file__)"
    settings = {**os.environ, "PYTHONPATH": str(site)}
    asked = [[sys.executable, "-P", "-c", where], [*COMMAND, "explain", "HW107"]]
    found, text = [
        subprocess.run(one, capture_output=True, check=True, text=True, env=settings).stdout for one in asked
    ]
    assert found.startswith(str(site))
    assert text.startswith("HW107 FrozenError\n  A list or dict")
