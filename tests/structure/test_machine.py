"""The machine is the one way to the system, and holds all state of the process.

What is imported is checked by the contract "machine" in pyproject.toml. Calls and module-level state are checked here.
"""

from __future__ import annotations

import ast
import importlib
import logging
import re
import types
import typing
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from functools import _lru_cache_wrapper
from pathlib import Path

import click
import msgspec
import pytest

from tests.structure.project import PACKAGE, parsed, source_of, walk

SYSTEM = {
    "asyncio": {"Runner", "new_event_loop", "run", "run_coroutine_threadsafe", "set_event_loop_policy", "to_thread"},
    "datetime": {"now", "today", "utcnow"},
    "date": {"today"},
    "os": {
        "access",
        "chmod",
        "fchmod",
        "fchown",
        "fdatasync",
        "flock",
        "fork",
        "fstat",
        "fsync",
        "ftruncate",
        "getpid",
        "kill",
        "listdir",
        "lstat",
        "makedirs",
        "mkdir",
        "open",
        "pipe",
        "pread",
        "pwrite",
        "remove",
        "rename",
        "replace",
        "rmdir",
        "scandir",
        "stat",
        "symlink",
        "truncate",
        "unlink",
        "urandom",
    },
    "time": {"monotonic", "perf_counter", "sleep", "time", "time_ns"},
    "uuid": {"uuid1", "uuid4"},
}
"""Functions of modules, or methods of classes, by the name they are called through."""

ANYWHERE = {"run_in_executor", "uuid4", "urandom"}
"""Names that are called through anything, or through nothing."""

PATHS = {
    "chmod",
    "exists",
    "glob",
    "is_dir",
    "is_file",
    "is_symlink",
    "iterdir",
    "lstat",
    "mkdir",
    "read_bytes",
    "read_text",
    "rglob",
    "samefile",
    "unlink",
    "write_bytes",
    "write_text",
}
"""Methods of pathlib.Path that ask the file system. `machine().files` has some of the same names."""

NO_PATH = re.compile(r"(^|\.)files?$|^listing$")

EXCEPT = {
    "host/socket_paths.py": "the sockets of the system are files, which no other machine has",
    "host/wake_pipe.py": "likewise: it is a pipe of the system",
    "host/machine_checks.py": "it checks the file system of this machine: its kind, its rights, its free space",
    "host/standard_streams.py": "the descriptors of the terminal",
    "server/pages/metrics_page.py": "figures of the process, from /proc",
    "server/pages/backup_page.py": "whether a process is alive, from /proc",
    "store/backends/sqlite_file.py": "which process holds a lock: a question to the kernel",
}
"""Modules that ask the system for files all the same. At most ten; the command line may, too: people name its files."""

STATE = {
    "cells.document_kinds._CLASSES": "declared classes, which are code: weak, and filled where they are written",
    "declare.functions.mutables._declared": "defaults of functions, which are code: weak, by function",
    "values.hints._cache": "schemas of types, made of the types alone",
    "cells.transaction.NOTHING_NOTED": "the journal of a transaction that has ended: constant",
}
"""Module-level state that no record of the process holds. With the caches at most ten."""

CACHES = {
    "declare.functions.bytecode": "what the code of a function names",
    "host.author_modules": "which modules are an author's own",
    "store.backends.sqlite_schema": "the tables of a format, as SQLite spells them",
    "workflow.run_rows": "texts of statements",
    "workflow.schedule": "parsed schedules and time zones",
    "http.http_headers": "digests of headers",
}
"""Modules with functions that remember what they computed from their arguments alone."""

MUTATING = {
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "popleft",
    "remove",
    "setdefault",
    "sort",
    "update",
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("testing/") and name != "machine.py":
            yield name, parsed(path)


WATCHED = ANYWHERE | PATHS | {"open"}.union(*SYSTEM.values())


def called(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Of each call that some test here looks at: the line, the name, and what it is called through."""
    for node in walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WATCHED:
            yield node.lineno, node.func.attr, ast.unparse(node.func.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id, ""


def test_threads_loops_time_and_chance_come_from_the_machine() -> None:
    found = [
        f"{name}:{line} {through}.{call}()"
        for name, tree in sources()
        for line, call, through in called(tree)
        if call in ANYWHERE
        or (through.rpartition(".")[2] in SYSTEM and through != "os" and call in SYSTEM[through.rpartition(".")[2]])
    ]
    assert found == []


def test_names_of_asyncio_are_not_imported_past_the_machine() -> None:
    found = [
        f"{name}:{node.lineno} {node.module}.{alias.name}"
        for name, tree in sources()
        for node in walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in SYSTEM.get(node.module or "", ())
    ]
    assert found == []


def test_files_come_from_the_machine() -> None:
    found = [
        f"{name}:{line} {through}.{call}()"
        for name, tree in sources()
        if name not in EXCEPT and not name.startswith("cli/")
        for line, call, through in called(tree)
        if (call in PATHS and through and not NO_PATH.search(through))
        or (through == "os" and call in SYSTEM["os"])
        or (call == "open" and not through)
    ]
    assert found == []


@pytest.mark.parametrize("name", EXCEPT)
def test_exception_for_files_is_needed(name: str) -> None:
    tree = parsed(PACKAGE / name)
    assert any(call in PATHS | SYSTEM["os"] for _, call, _ in called(tree))


# -- state -----------------------------------------------------------------------------------------------------


def modules() -> Iterator[tuple[str, types.ModuleType]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")
        if not name.startswith("testing") and name != "__main__":
            yield name, importlib.import_module(f"headwater.{name}" if name else "headwater")


def assigned(path: Path) -> set[str]:
    """The names that a module binds itself, not those that it imports."""
    names: set[str] = set()
    for node in walk(parsed(path)):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                names |= {each.id for each in walk(target) if isinstance(each, ast.Name)}
    return names


def changed_names(tree: ast.Module) -> set[str]:
    """Names whose value some code of the module changes in place or binds anew."""
    found: set[str] = set()
    for node in walk(tree):
        match node:
            case ast.Global(names=names):
                found.update(names)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in MUTATING:
                found.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name))):
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                found.add(name)
            case _:
                pass
    return found


CONSTANT = (
    str, bytes, int, float, tuple, frozenset, range, type, types.FunctionType, types.BuiltinFunctionType,
    types.MethodType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ModuleType, types.GenericAlias, types.UnionType, types.NoneType, types.CodeType, re.Pattern, ContextVar,
    logging.Logger, click.Command,
    msgspec.msgpack.Encoder, msgspec.msgpack.Decoder, msgspec.json.Encoder, msgspec.json.Decoder, typing.TypeVar,
    typing.ParamSpec, typing.NewType,
)  # fmt: skip
HOLDING = (list, dict, set, bytearray, weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)


def has_attributes_to_set(value: object) -> bool:
    """Whether it is an object of the package whose attributes code can bind anew."""
    kind = type(value)
    if not kind.__module__.startswith("headwater") or isinstance(value, msgspec.Struct):
        return isinstance(value, msgspec.Struct) and not value.__struct_config__.frozen
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen:
        return False
    names = set(getattr(value, "__dict__", ())) | {
        slot
        for each in kind.__mro__
        for slot in (*getattr(each, "__slots__", ()), *getattr(each, "__mypyc_attrs__", ()))
        if hasattr(value, slot)
    }
    return any(isinstance(getattr(value, name, None), HOLDING) for name in names)


def test_state_of_the_process_is_held_by_the_machine() -> None:
    """A container that is changed, a lock, or an object that holds one, as the value of a module's name."""
    found: list[str] = []
    for name, module in modules():
        path = source_of(module)
        tree = parsed(path)
        changed = changed_names(tree)
        for each in sorted(assigned(path) & set(vars(module))):
            value = vars(module)[each]
            if isinstance(value, CONSTANT) or each.startswith("__"):
                continue
            if isinstance(value, HOLDING):
                is_state = each in changed or not isinstance(value, list | dict | set)
            else:
                is_state = has_attributes_to_set(value) or hasattr(value, "acquire") or each in changed
            if is_state:
                found.append(f"{name}.{each}")
        found += [f"{name}.{each}" for each in changed_globals(tree)]
    assert sorted(set(found)) == sorted(STATE)


def changed_globals(tree: ast.Module) -> list[str]:
    return [each for node in walk(tree) if isinstance(node, ast.Global) for each in node.names]


def test_functions_that_remember_results_are_listed() -> None:
    found = {
        name
        for name, module in modules()
        for value in vars(module).values()
        if isinstance(value, _lru_cache_wrapper) and value.__module__ == module.__name__
    }
    assert found == set(CACHES)


def test_lists_of_exceptions_are_short() -> None:
    assert len(EXCEPT) <= 10
    assert len(STATE) + len(CACHES) <= 10
