"""Mutants as data: a function, a piece of its code, the code in its place, and the rule that it breaks.

A mutant names code by its meaning, not by its line. The piece is compared as a syntax tree, so formatting, comments and
moved lines do not matter. The piece has to occur exactly once in the function; otherwise the mutant has rotted, which
is an error: a mutant that silently changes nothing would count as a blind spot of the worlds.

A mutant is applied by replacing `__code__` of the function, so every reference to it sees the change, under whatever
name it was imported.
"""

from __future__ import annotations
import __future__

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, Protocol

import msgspec

PROGRAM: Final = "program"
SHARED: Final = "shared"
WORKFLOW: Final = "workflow"
STORAGE: Final = "storage"
SPACES: Final = "spaces"

_FUTURE: Final = __future__.annotations.compiler_flag


class RottenError(Exception):
    """The piece does not occur exactly once, or its function is gone: the mutant has to be ported."""


class Mutant(msgspec.Struct, frozen=True):
    """One mistake with a story: a check left out, a wake-up forgotten, two steps in the wrong order."""

    name: str
    area: str
    where: str
    """`module:Qualified.name`, below headwater. The code of a nested function belongs to the outermost one."""
    old: str
    """The piece as source: one expression, or statements of one block."""
    new: str
    """The replacement. Statements may replace an expression that is a statement of its own."""
    breaks: str
    """The rule that it breaks."""
    kinds: tuple[str, ...]
    """Kinds of worlds that can show it, the most likely first."""
    equivalent: str = ""
    """Why no world can find it; empty if one can."""


class _Maker(Protocol):
    def __call__(  # the columns of a table
        self, name: str, where: str, old: str, new: str, breaks: str, *kinds: str, equivalent: str = ""
    ) -> Mutant: ...


def maker(area: str, *usual: str) -> _Maker:
    """A function that makes mutants of one area. Without kinds, a mutant has the usual ones of its area."""

    def make(  # the columns of a table
        name: str, where: str, old: str, new: str, breaks: str, *kinds: str, equivalent: str = ""
    ) -> Mutant:
        return Mutant(name, area, where, old, new, breaks, kinds or usual, equivalent)

    return make


def mutated(mutant: Mutant, *more: Mutant) -> tuple[FunctionType, CodeType]:
    """The function, and the code that it has with the mutant, and with others of this function. Raises RottenError."""
    function = _function(mutant)
    chain = _definition(mutant, function)
    definition: Any = chain[-1]
    for each in (mutant, *more):
        swap = _Swap(each)
        definition = swap.visit(definition)
        if swap.found != 1:
            message = f"{each.area}.{each.name}: the piece occurs {swap.found} times in {each.where}: {each.old!r}"
            raise RottenError(message)
    code = _compiled(function, definition, [each.name for each in chain[:-1] if isinstance(each, ast.ClassDef)])
    if code.co_freevars != function.__code__.co_freevars:
        message = f"{mutant.area}.{mutant.name}: {mutant.where} would close over {code.co_freevars}"
        raise RottenError(message)
    return function, code


def apply(mutant: Mutant, *more: Mutant) -> None:
    """Change the function for good: in a forked child, which ends after its worlds."""
    function, code = mutated(mutant, *more)
    function.__code__ = code


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Change the function, and restore it at the end."""
    function, code = mutated(mutant)
    before = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = before


# -- finding the function ----------------------------------------------------------------------------------


def _function(mutant: Mutant) -> FunctionType:
    module, _, path = mutant.where.partition(":")
    try:
        found: Any = import_module(f"headwater.{module}")
        for name in path.split("."):
            found = _unwrapped(inspect.getattr_static(found, name))
    except (ImportError, AttributeError) as error:
        raise RottenError(f"{mutant.area}.{mutant.name}: there is no {mutant.where}: {error}") from error
    if not isinstance(found, FunctionType):
        raise RottenError(f"{mutant.area}.{mutant.name}: {mutant.where} is a {type(found).__name__}, not a function")
    return found


def _unwrapped(found: Any) -> Any:  # a descriptor of any kind
    """The function below a static method, a property, a cached property or a decorator with `wraps`."""
    for name in ("__func__", "fget", "func", "__wrapped__"):
        inner = inspect.getattr_static(found, name, None) if not isinstance(found, type) else None
        if inner is not None:
            found = getattr(found, name)
    return found


@cache
def _source(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def _definition(mutant: Mutant, function: FunctionType) -> list[ast.AST]:
    """The definition by its first line, with the definitions around it. Parsed anew, because it is changed."""
    code = function.__code__
    if not Path(code.co_filename).is_file():
        raise RottenError(f"{mutant.area}.{mutant.name}: {mutant.where} has no definition in a file")
    for chain in _definitions([], ast.parse(_source(code.co_filename))):
        node: Any = chain[-1]
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        if node.name == code.co_name and first == code.co_firstlineno:
            return chain
    message = f"{mutant.area}.{mutant.name}: {mutant.where} has no definition in {code.co_filename}"
    raise RottenError(message)


def _definitions(around: list[ast.AST], tree: ast.AST) -> Iterator[list[ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not isinstance(node, ast.ClassDef):
                yield [*around, node]
            yield from _definitions([*around, node], node)
        else:
            yield from _definitions(around, node)


# -- the other code ----------------------------------------------------------------------------------------


class _Swap(ast.NodeTransformer):
    """Replaces the piece wherever it occurs, and counts."""

    def __init__(self, mutant: Mutant) -> None:
        old, new = _expression(mutant.old), _expression(mutant.new)
        self.found = 0
        self._is_expression = old is not None and new is not None
        self._old: list[ast.AST] = [old] if self._is_expression and old else list(ast.parse(mutant.old).body)
        self._new: list[ast.AST] = [new] if self._is_expression and new else list(ast.parse(mutant.new).body)
        self._sought = [ast.dump(each) for each in self._old]

    def visit(self, node: ast.AST) -> Any:  # as the base class has it
        if self._is_expression and isinstance(node, type(self._old[0])) and ast.dump(node) == self._sought[0]:
            self.found += 1
            return _at(self._new[0], node)
        if not self._is_expression:
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    setattr(node, name, self._swapped(block))
        return super().generic_visit(node)

    def _swapped(self, block: list[ast.AST]) -> list[ast.AST]:
        size, at, result = len(self._old), 0, list[ast.AST]()
        while at < len(block):
            if [ast.dump(each) for each in block[at : at + size]] == self._sought:
                self.found += 1
                result += [_at(each, block[at]) for each in self._new]
                at += size
            else:
                result.append(block[at])
                at += 1
        return result


def _expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _at(new: ast.AST, old: Any) -> ast.AST:  # a node with a place
    """The new code at the line of the old one: a traceback names the place of the mistake."""
    for each in ast.walk(new):
        if hasattr(each, "lineno"):
            ast.copy_location(each, old)
    return new


def _compiled(function: FunctionType, definition: Any, classes: list[str]) -> CodeType:
    """The code of a definition, which closes over the same variables as the function.

    Classes around it give private names and the cell of `super()`; a function around it gives the other variables. A
    variable that the mutant no longer uses is named in code that never runs: a function keeps its closure.
    """
    definition.decorator_list = []
    free = function.__code__.co_freevars
    if free:
        definition.body.append(ast.parse("if 0:\n" + "".join(f" {name}\n" for name in free)).body[0])
    around: Any = definition
    for name in reversed(classes):
        shell: Any = ast.parse(f"class {name}:\n pass").body[0]
        shell.body = [around]
        around = shell
    given = [name for name in free if not (name == "__class__" and classes)]
    outer: Any = ast.parse("def around():\n pass")
    outer.body[0].body = [*ast.parse("".join(f"{name} = None\n" for name in given)).body, around]
    old = function.__code__
    flags = old.co_flags & _FUTURE
    code: CodeType = compile(ast.fix_missing_locations(outer), old.co_filename, "exec", flags, dont_inherit=True)
    for name in ["around", *classes, definition.name]:
        code = next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)
    # As the function has them: here the definition is nested.
    flags = (code.co_flags & ~inspect.CO_NESTED) | (old.co_flags & inspect.CO_NESTED)
    return code.replace(co_qualname=old.co_qualname, co_flags=flags)
