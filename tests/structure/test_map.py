"""Every module of the package has one row in ARCHITECTURE.md, below the heading of its package."""

import re

from tests.structure.project import PACKAGE, ROOT

MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("\n## Modules\n")[2].partition("\n## ")[0]


def test_every_module_has_one_row_on_the_map() -> None:
    rows: list[str] = []
    for section in re.split(r"^### ", MAP, flags=re.MULTILINE)[1:]:
        package = section.partition("`")[2].partition("`")[0]
        rows += [f"{package}{name}" for name in re.findall(r"^\| `(\w+\.py)` \|", section, re.MULTILINE)]
    modules = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/**/*.py") if path.name != "__init__.py"]
    assert sorted(rows) == sorted(modules)


def test_every_package_has_a_row() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("\n## Packages\n")[2].partition("\n## ")[0]
    packages = [f"`{path.parent.name}/`" for path in PACKAGE.glob("*/__init__.py")]
    assert [name for name in packages if f"| {name} |" not in table] == []
