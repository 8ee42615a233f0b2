"""The docstrings of public names, from which the reference is made: complete, equal to the signatures, and true.

Public is what the pages of `docs/reference/python` show: `::: headwater.App`, with the members that are named below it.
"""

import ast
import builtins
import contextlib
import functools
import importlib
import inspect
import io
import re
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_overloads

import msgspec
import pytest

import headwater as hw
from headwater import core, errors, testing
from headwater.errors import HeadwaterError
from headwater.values.error_codes import class_of
from tests.structure.project import ROOT, source_of

PAGES = sorted((ROOT / "docs" / "reference" / "python").glob("*.md"))

NOT_CALLED = {
    hw.AnyDoc,
    hw.AsyncSpace,
    hw.Broken,
    hw.Builder,
    hw.Cell,
    hw.Choice,
    hw.Collection,
    hw.Computed,
    hw.Connection,
    hw.Connector,
    hw.Console,
    hw.Consumer,
    hw.Each,
    hw.Event,
    hw.FlatEach,
    hw.Handler,
    hw.Ingress,
    hw.Invocation,
    hw.Page,
    hw.Pattern,
    hw.Piece,
    hw.Query,
    hw.Resource,
    hw.Resumption,
    hw.Run,
    hw.Select,
    hw.Sink,
    hw.Space,
    hw.Stats,
    hw.Stream,
    hw.Ticket,
    hw.Topic,
    hw.Transaction,
    hw.Workflow,
    hw.http.Verb,
    testing.CrashImage,
    testing.Probe,
    testing.ProbeError,
}
"""Classes that a program gets from Headwater and does not call: the reference does not document how they are made."""

FUNCTIONS = types.FunctionType | types.BuiltinFunctionType | types.MethodDescriptorType
"""Those of sources, and those of compiled modules."""

COMPILED_PROPERTY = types.GetSetDescriptorType
"""Fields of compiled classes are such, too; they have no docstring there."""

EXAMPLES_MIN = 60

SECTION = re.compile(r"^(Args|Returns|Raises|Example):$", re.MULTILINE)
ENTRY = re.compile(r"^    (\*{0,2}\w+): \S", re.MULTILINE)


class Public(msgspec.Struct, frozen=True):
    """One name of the reference."""

    path: str
    found: Any
    """The function, class or property; None for an attribute and an alias."""
    text: str
    """Its docstring."""


def entries() -> Iterator[tuple[str, list[str]]]:
    """Every `::: path` of the pages, with the members that the page names."""
    for page in PAGES:
        for part in re.split(r"(?m)^::: ", page.read_text(encoding="utf-8"))[1:]:
            path, _, rest = part.partition("\n")
            yield path.strip(), re.findall(r"(?m)^ +- (\w+)$", rest)


def resolve(path: str) -> object:
    found: object = hw
    parts = path.split(".")
    for number, name in enumerate(parts[1:], 2):
        found = getattr(found, name, None) or importlib.import_module(".".join(parts[:number]))
    return found


def plain(found: object) -> Any:
    """The function of a property or a class method."""
    if isinstance(found, property):
        return found.fget
    if isinstance(found, functools.cached_property):
        return found.func
    return getattr(found, "__func__", found)


@functools.cache
def texts_of_attributes(module: str) -> dict[str, str]:
    """`Class.name` or `name` -> the string below the assignment."""
    found: dict[str, str] = {}

    def look(body: list[ast.stmt], prefix: str) -> None:
        for at, node in enumerate(body):
            if isinstance(node, ast.ClassDef):
                look(node.body, f"{node.name}.")
            elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
                look(node.body, prefix)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
                after = body[at + 1] if at + 1 < len(body) else None
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    found[f"{prefix}{name}"] = inspect.cleandoc(str(after.value.value))

    look(ast.parse(source_of(importlib.import_module(module)).read_text(encoding="utf-8")).body, "")
    return found


def member(cls: type, name: str) -> tuple[object, str]:
    """A member of a class as it was written down, and its docstring; None and no text if it has none."""
    for base in cls.__mro__:
        if name in vars(base) or name in getattr(base, "__annotations__", {}):
            found = vars(base).get(name)
            function = plain(found)
            if isinstance(function, FUNCTIONS) or (isinstance(function, COMPILED_PROPERTY) and function.__doc__):
                return found, inspect.cleandoc(function.__doc__ or "")
        if base.__module__.startswith("headwater"):
            texts = texts_of_attributes(base.__module__)
            if f"{base.__name__}.{name}" in texts:
                return None, texts[f"{base.__name__}.{name}"]
    return None, ""


@functools.cache
def public() -> dict[str, Public]:
    found: dict[str, Public] = {}
    for path, members in entries():
        thing = resolve(path)
        if isinstance(thing, type | FUNCTIONS):
            found[path] = Public(path, thing, inspect.cleandoc(thing.__doc__ or ""))
        else:
            name = path.rpartition(".")[2]
            text = texts_of_attributes(hw._HOMES[name]).get(name, "")
            found[path] = Public(path, None, text)
        for name in members:
            assert isinstance(thing, type)
            what, text = member(thing, name)
            found[f"{path}.{name}"] = Public(f"{path}.{name}", what, text)
    return found


def section(text: str, name: str) -> str:
    """The text of a section, or nothing."""
    parts = SECTION.split(text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return sections.get(name, "")


def parameters(each: Public) -> list[str]:
    """The names of the parameters, as the section `Args` has to have them."""
    function = plain(each.found)
    if isinstance(function, type) and inspect.isfunction(vars(function).get("__init__")):
        function = vars(function)["__init__"]
    given = inspect.signature(function).parameters.values()
    # Those that take nothing are there for a better message.
    shown = [one for one in given if one.name not in {"self", "cls"} and one.annotation not in {"None", "Never"}]
    shown = [one for one in shown if not one.name.startswith("_")]
    overloads = get_overloads(function) if inspect.isfunction(function) else []
    names = [one.name for one in shown if one.kind is not one.VAR_KEYWORD or not overloads]
    for overload in overloads:
        # Of a decorator with `**options`, the overloads say which these are.
        if any(one.kind is one.VAR_KEYWORD for one in shown):
            options = inspect.signature(overload).parameters.values()
            names += [one.name for one in options if one.kind is one.KEYWORD_ONLY and one.name not in names]
    return names


def examples_of(text: str) -> list[str]:
    code = re.findall(r"(?s)```python\n(.*?)```", section(text, "Example"))
    return [textwrap.dedent(each) for each in code]


def is_called(each: Public) -> bool:
    if isinstance(each.found, type):
        return each.found not in NOT_CALLED
    return each.found is not None and not isinstance(
        each.found, property | functools.cached_property | COMPILED_PROPERTY
    )


def test_every_public_name_is_in_the_reference() -> None:
    shown = {path.removeprefix("headwater.") for path, _ in entries()}
    modules = {name for name in hw.__all__ if isinstance(getattr(hw, name), types.ModuleType)}
    errors_shown = {name.rpartition(".")[2] for name in shown if name.startswith("errors.")}
    assert set(hw.__all__) - modules - {"__version__"} - shown - errors_shown == set()
    assert {f"testing.{name}" for name in testing.__all__} - shown == set()


def test_a_public_name_says_what_it_does_in_its_first_line() -> None:
    wrong = []
    for name, each in public().items():
        first, _, rest = each.text.partition("\n")
        if not first.endswith(".") or (rest and not rest.startswith("\n")):
            wrong.append(f"{name}: {first!r}")
    assert wrong == []


def test_sections_name_every_parameter_in_the_order_of_the_signature() -> None:
    wrong = {}
    for name, each in public().items():
        written = [entry.lstrip("*") for entry in ENTRY.findall(section(each.text, "Args"))]
        # An error takes what its base does, unless it says so.
        inherits = isinstance(each.found, type) and "__init__" not in vars(each.found)
        is_error = isinstance(each.found, type) and issubclass(each.found, HeadwaterError)
        expected = [] if not is_called(each) or (is_error and inherits) else parameters(each)
        if written != expected:
            wrong[name] = f"Args {written}, signature {expected}"
    assert wrong == {}


def test_errors_are_named_with_their_codes() -> None:
    wrong = []
    for name, each in public().items():
        for kind, said in re.findall(r"(?m)^    (\w+): (.*)$", section(each.text, "Raises")):
            error = getattr(errors, kind, None) or getattr(testing, kind, None) or getattr(builtins, kind, None)
            code = f"{error.code}. " if isinstance(error, type) and issubclass(error, HeadwaterError) else ""
            if error is None or not said.startswith(code):
                wrong.append(f"{name}: {kind}: {said}")
        wrong += [f"{name}: {code}" for code in re.findall(r"HW\d{3}", each.text) if class_of(code) is None]
    assert wrong == []


def test_what_programs_call_most_has_an_example_that_prints_what_its_comments_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    count = 0
    for name, each in public().items():
        for code in examples_of(each.text):
            count += 1
            assert code.startswith(("import ", "from ")), f"{name}: an example imports what it needs"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, name, "exec"), {"__name__": "example"})  # noqa: S102
            expected = re.findall(r"(?m)^\s*print\(.*\)  # (.+)$", code)
            if expected and out.getvalue().splitlines() != expected:
                wrong.append(f"{name} prints {out.getvalue()!r}")
    assert wrong == []
    assert count >= EXAMPLES_MIN


def test_every_class_and_function_of_the_engine_says_what_it_is() -> None:
    named = {name: getattr(core, name) for name in core.__all__}
    documented = {name: found for name, found in named.items() if isinstance(found, type | FUNCTIONS)}
    assert len(documented) > 50
    assert [name for name, found in documented.items() if not (found.__doc__ or "").strip().endswith((".", "`"))] == []
