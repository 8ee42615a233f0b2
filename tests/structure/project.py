"""Where things are in this checkout, for the tests that read it instead of running it."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "headwater"


def read_pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def find_python(*folders: str) -> list[Path]:
    """Every python file below these folders of the checkout, in a stable order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def source_of(module: ModuleType) -> Path:
    """The source of a module. A compiled one has it beside its file."""
    file = Path(module.__file__ or "")
    return file.with_name(f"{file.name.partition('.')[0]}.py")


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a module. Forgotten after each module of tests: collections of garbage would visit it."""
    return ast.parse(path.read_text(encoding="utf-8"))


def walk(tree: ast.AST) -> Iterator[ast.AST]:
    """As `ast.walk`, in another order and several times as quick."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for value in vars(node).values():
            if type(value) is list:
                waiting += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                waiting.append(value)
