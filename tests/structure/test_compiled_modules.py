"""What the compiler accepts, and Python then does differently, is not written in modules that are compiled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.structure.project import ROOT
from tools.compiled.modules import COMPILED, IMPORTED, PURE, compiled_modules

PACKAGE = ROOT / "src" / "headwater"
MODULES = compiled_modules(PACKAGE)

EXTENDED = {"Protocol", "Generic", "Enum", "Exception", "BaseException"}
"""Classes of other packages that a compiled one may extend."""


def parsed(name: str) -> ast.Module:
    return ast.parse((PACKAGE / name).read_text(encoding="utf-8"))


def bases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each class with the name of each class that it extends."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                named = base.value if isinstance(base, ast.Subscript) else base
                yield node.name, ast.unparse(named).rpartition(".")[2]


COMPILED_CLASSES = {node.name for name in MODULES for node in ast.walk(parsed(name)) if isinstance(node, ast.ClassDef)}


def test_modules_that_are_left_out_exist_and_are_of_the_packages() -> None:
    found = {path.relative_to(PACKAGE).as_posix() for pattern in COMPILED for path in PACKAGE.glob(pattern)}
    assert not PURE.keys() - found
    assert len(MODULES) > 50


@pytest.mark.parametrize("name", MODULES)
def test_what_they_import_is_part_of_what_the_check_of_compiling_depends_on(name: str) -> None:
    known = {path for pattern in IMPORTED for path in PACKAGE.glob(pattern)}
    for node in ast.walk(parsed(name)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headwater."):
            path = PACKAGE / "/".join((node.module or "").split(".")[1:])
            assert {path.with_suffix(".py"), path / "__init__.py"} & known, node.module


@pytest.mark.parametrize("name", MODULES)
def test_compiled_classes_extend_compiled_ones_and_few_others(name: str) -> None:
    """Structs and named tuples lose their annotations and options; abstract classes answer `isinstance` wrongly."""
    allowed = EXTENDED | COMPILED_CLASSES
    wrong = [f"{kind} extends {base}" for kind, base in bases(parsed(name)) if base not in allowed]
    assert not wrong, "put records into a module of their own, and list it in tools/compiled/modules.py"


@pytest.mark.parametrize("name", MODULES)
def test_no_branch_is_for_run_time_alone(name: str) -> None:
    """The compiler takes TYPE_CHECKING for true, and the other branch for unreachable."""
    for node in ast.walk(parsed(name)):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            assert not node.orelse
            assert ast.unparse(node.test) == "TYPE_CHECKING"


@pytest.mark.parametrize("name", MODULES)
def test_no_compiled_class_asks_for_weak_references(name: str) -> None:
    """The compiler ignores `__slots__`: `weakref` raises a TypeError."""
    assert "__weakref__" not in (PACKAGE / name).read_text(encoding="utf-8")


def test_wheels_are_compiled_by_the_version_that_the_tests_have_run_with() -> None:
    hook = (ROOT / "tools" / "compiled" / "hatch_hook.py").read_text(encoding="utf-8")
    locked = re.search(r"^mypy==(\S+)", Path(ROOT / "requirements" / "dev.txt").read_text("utf-8"), re.MULTILINE)
    assert locked is not None
    assert f'"mypy=={locked[1]}"' in hook
