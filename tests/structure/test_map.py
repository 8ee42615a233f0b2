"""Every module of the package has one row in ARCHITECTURE.md, below the heading of its package."""

import ast
import re
from pathlib import Path

from tests.structure.project import PACKAGE, ROOT

MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("\n## Modules\n")[2].partition("\n## ")[0]


def test_every_module_has_one_row_on_the_map() -> None:
    rows: list[str] = []
    for section in re.split(r"^### ", MAP, flags=re.MULTILINE)[1:]:
        package = section.partition("`")[2].partition("`")[0]
        rows += [f"{package}{name}" for name in re.findall(r"^\| `(\w+\.py)` \|", section, re.MULTILINE)]
    modules = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/**/*.py") if path.name != "__init__.py"]
    assert sorted(rows) == sorted(modules)


def sentence_of(path: Path) -> str:
    """The first sentence of a module's docstring."""
    paragraph = " ".join(
        (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split()
    )
    found = re.match(r"(.+?\.)(?= [A-Z`]|$)", paragraph)
    return (found[1] if found else paragraph).rstrip(".").replace("|", "\\|")


def test_a_row_is_the_first_sentence_of_the_docstring() -> None:
    for section in re.split(r"^### ", MAP, flags=re.MULTILINE)[1:]:
        package = section.partition("`")[2].partition("`")[0]
        for name, owns in re.findall(r"^\| `(\w+\.py)` \| (.*) \|$", section, re.MULTILINE):
            assert owns == sentence_of(PACKAGE / package / name), f"ARCHITECTURE.md, {package}{name}"


def test_every_package_has_a_row() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("\n## Packages\n")[2].partition("\n## ")[0]
    packages = [f"`{path.parent.name}/`" for path in PACKAGE.glob("*/__init__.py")]
    assert [name for name in packages if f"| {name} |" not in table] == []


def test_paths_on_the_page_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", text))
    assert [path for path in sorted(paths) if not (PACKAGE / path).is_file()] == []


def test_the_reading_order_has_at_most_25_files_and_the_list_of_reports_at_least_20() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    order = text.partition("\n## Reading order\n")[2].partition("\n## ")[0]
    assert 15 <= len(re.findall(r"`[a-z_/]+\.py`", order)) <= 26  # with app.py
    reports = text.partition("\n## Where do I look when ...\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| ", reports, re.MULTILINE)) >= 20 + 1  # with the heading


def test_the_glossary_is_in_order_and_names_modules_that_exist() -> None:
    rows = re.findall(
        r"^\| \*\*(.+?)\*\* \| .+ \| `(.+?)` \|$",
        (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    terms = [term for term, _ in rows]
    assert len(terms) > 40
    assert terms == sorted(set(terms))
    assert [module for _, module in rows if not (PACKAGE / module).is_file()] == []
