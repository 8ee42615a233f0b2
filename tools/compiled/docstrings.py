"""Puts the docstrings of the sources into the C code of mypyc, which drops them: `help()` shows the same in both forms.

mypyc writes signatures into the tables of methods, functions and types. The docstring follows the signature there, as
Python expects it of any extension module.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_LITERAL: Final = r'(NULL|"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*)'
_FILLER: Final = re.compile(r"CPyStatics\[\d+\]; /\* 'mypyc filler docstring' \*/")
_ENUMS: Final = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}
"""Python makes classes that extend these, and the fields of dataclasses. mypyc gives it a filler as their docstring."""


def add_docstrings(source: Path, code: Path) -> None:
    """Complete the C code of one module."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    text = code.read_text(encoding="utf-8")
    text = _in_table(text, r"static PyMethodDef \w+module_methods\[\]", _functions(tree.body), is_class=False)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            name = rf"\w*[a-zA-Z0-9]___{re.escape(node.name)}"
            functions = _functions(node.body)
            text = _in_table(text, rf"static PyMethodDef {name}_methods\[\]", functions, is_class=True)
            text = _in_properties(text, rf"static PyGetSetDef {name}_getseters\[\]", functions)
            text = _in_type(text, rf"static PyTypeObject CPyType_{name}_template_", node)
    code.write_text(_in_fillers(text, tree, code.name), encoding="utf-8")


def _docstring(node: ast.ClassDef | _Function) -> str | None:
    found = ast.get_docstring(node, clean=False)
    # From 3.13 on, Python itself takes the indentation away.
    return found if found is None or sys.version_info < (3, 13) else inspect.cleandoc(found)


def _functions(body: list[ast.stmt]) -> dict[str, _Function]:
    """Each function of a body; of a property, the getter, which comes first; of overloads, the last."""
    found: dict[str, _Function] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            earlier = found.get(node.name)
            if earlier is None or "overload" in map(ast.unparse, earlier.decorator_list):
                found[node.name] = node
    return found


def _signature(node: _Function, *, is_method: bool) -> str:
    """A signature as Python reads it from the docstring of a function that is not its own: with literals alone.

    A default that is none is shown as `...`.
    """
    given = copy.deepcopy(node.args)
    for each in ast.walk(given):
        if isinstance(each, ast.arg):
            each.annotation = None
    given.defaults = [_literal(each) for each in given.defaults]
    given.kw_defaults = [each and _literal(each) for each in given.kw_defaults]
    if is_method and "staticmethod" not in map(ast.unparse, node.decorator_list):
        first = (given.posonlyargs or given.args)[0]
        first.arg = f"${first.arg}"
    return f"{node.name}({ast.unparse(given)})\n--\n\n"


def _class_signature(name: str, making: _Function) -> str:
    """As of `__init__`, without `self`."""
    given = copy.deepcopy(making)
    given.name = name
    del (given.args.posonlyargs or given.args.args)[0]
    return _signature(given, is_method=False)


def _literal(default: ast.expr) -> ast.expr:
    try:
        ast.literal_eval(default)
    except ValueError:
        return ast.Constant(...)
    return default


def _in_block(text: str, header: str, change: Callable[[str], str]) -> str:
    """Change one table of the C code: from its header to the line that closes it."""
    return re.sub(header + r" = \{.*?\n\};", lambda found: change(found[0]), text, count=1, flags=re.DOTALL)


def _in_table(text: str, header: str, functions: dict[str, _Function], *, is_class: bool) -> str:
    def complete(found: re.Match[str]) -> str:
        node = functions.get(found[2])
        if node is None:
            return found[0]
        signature = found[3] if found[3] != "NULL" else c_literal(_signature(node, is_method=is_class))
        return f"{found[1]}PyDoc_STR({signature} {c_literal(_docstring(node) or '')})"

    entry = rf'(\{{"(\w+)",[^{{}}]*?)PyDoc_STR\({_LITERAL}\)'
    return _in_block(text, header, lambda block: re.sub(entry, complete, block))


def _in_properties(text: str, header: str, functions: dict[str, _Function]) -> str:
    def complete(found: re.Match[str]) -> str:
        docstring = _docstring(functions[found[2]]) if found[2] in functions else None
        return found[0] if docstring is None else f"{found[1]}{c_literal(docstring)}, NULL}}"

    return _in_block(text, header, lambda block: re.sub(r'(\{"(\w+)",[^{}]*?)NULL, NULL\}', complete, block))


def _in_type(text: str, header: str, node: ast.ClassDef) -> str:
    """The docstring, and the signature where mypyc gives none, as for defaults that are no literals."""
    making = _functions(node.body).get("__init__")
    docstring = _docstring(node)

    def complete(found: re.Match[str]) -> str:
        signature = found[1]
        if signature == "NULL":
            if making is None and docstring is None:
                return found[0]
            signature = c_literal(_class_signature(node.name, making)) if making is not None else ""
        return f".tp_doc = PyDoc_STR({signature} {c_literal(docstring or '')})"

    return _in_block(text, header, lambda block: re.sub(rf"\.tp_doc = PyDoc_STR\({_LITERAL}\)", complete, block))


def _in_fillers(text: str, tree: ast.Module, code: str) -> str:
    """Replace the fillers, which come in the order of the classes."""
    docstrings = [_docstring(node) or "" for node in tree.body if isinstance(node, ast.ClassDef) and _has_filler(node)]
    left: Iterator[str] = iter(docstrings)
    if len(_FILLER.findall(text)) != len(docstrings):
        raise ValueError(f"{code} does not have as many fillers as there are enums and dataclasses in its source")
    return _FILLER.sub(lambda _: f"PyUnicode_FromString({c_literal(next(left))});", text)


def _has_filler(node: ast.ClassDef) -> bool:
    names = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    made = {ast.unparse(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list}
    return bool(names & _ENUMS) or "dataclass" in made


def c_literal(text: str) -> str:
    """A string literal of C."""
    plain = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("?"): "\\?"}
    return '"' + "".join(plain.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text.encode()) + '"'
