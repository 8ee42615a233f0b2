"""`help()` and `inspect.signature` show the same in both forms of the core: the text of the sources."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from enum import Enum

import pytest

from headwater import core
from tests.structure.project import PACKAGE
from tools.compiled.docstrings import c_literal
from tools.compiled.modules import compiled_modules

MODULES = compiled_modules(PACKAGE)

_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, _Definition]]:
    """Each class, function and method with its dotted name; of a property, the getter."""
    for node in body:
        if not isinstance(node, _Definition):
            continue
        decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
        if not decorators & {"overload", "setter"}:
            yield f"{prefix}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from definitions(node.body, f"{prefix}{node.name}.")


def found_at(module: object, name: str) -> object:
    """What a dotted name of a module means, without calling properties."""
    *path, last = name.split(".")
    owner = module
    for part in path:
        owner = getattr(owner, part)
    found = inspect.getattr_static(owner, last)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_are_those_of_the_source(name: str) -> None:
    module = importlib.import_module("headwater." + name.removesuffix(".py").replace("/", "."))
    tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
    wrong = []
    for path, node in definitions(tree.body):
        expected = ast.get_docstring(node)
        if expected is not None and not path.rpartition(".")[2].startswith("__"):
            found = getattr(found_at(module, path), "__doc__", None)
            if found is None or inspect.cleandoc(found) != expected:
                wrong.append(f"{path}: {found!r}")
    assert wrong == []


def test_parameters_of_public_functions_and_methods_are_those_of_the_source() -> None:
    seen = 0
    for name in MODULES:
        module = importlib.import_module("headwater." + name.removesuffix(".py").replace("/", "."))
        public = {each for each, value in vars(module).items() if value in _public()}
        tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
        for path, node in definitions(tree.body):
            is_shown = path.partition(".")[0] in public and not path.rpartition(".")[2].startswith("_")
            if is_shown and not isinstance(node, ast.ClassDef) and not node.decorator_list:
                seen += 1
                given = [each.name for each in inspect.signature(found_at(module, path)).parameters.values()]  # type: ignore[arg-type]
                arguments = node.args
                each_kind = (arguments.posonlyargs, arguments.args, [arguments.vararg], arguments.kwonlyargs)
                written = [each.arg for kind in each_kind for each in kind if each is not None]
                assert given == written + ([arguments.kwarg.arg] if arguments.kwarg else []), path
    assert seen > 60


@pytest.mark.parametrize("name", MODULES)
def test_parameters_of_classes_are_those_of_the_source(name: str) -> None:
    """Not those of a class that they extend."""
    module = importlib.import_module("headwater." + name.removesuffix(".py").replace("/", "."))
    for path, node in definitions(ast.parse((PACKAGE / name).read_text(encoding="utf-8")).body):
        making = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        if isinstance(node, ast.ClassDef) and making and "." not in path:
            arguments = making[-1].args
            written = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)][1:]
            assert list(inspect.signature(vars(module)[path]).parameters) == written


def _public() -> list[object]:
    found = [getattr(core, name) for name in core.__all__]
    return [each for each in found if inspect.isclass(each) or inspect.isroutine(each) or isinstance(each, Enum)]


@pytest.mark.parametrize(
    "text", ["plain", 'a "quote" and a \\', "two\nlines\tand a tab", "what??(", "ünïcödé", "1\x001"]
)
def test_c_literals_mean_the_text(text: str) -> None:
    """Python reads these literals as C does: octal escapes of three digits, and the usual ones."""
    read = ast.literal_eval("b" + c_literal(text).replace("\\?", "?"))
    assert read.decode() == text
