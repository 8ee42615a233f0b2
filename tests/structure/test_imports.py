"""Counts beside import-linter: cycles of modules, imports for annotations or inside functions, names, start-up."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.structure.project import PACKAGE, parsed, walk

CYCLE_MAX = 4
"""Modules of the largest import cycle, annotations and imports inside functions counted."""

TYPE_CHECKING_MAX = 37
IN_FUNCTION_MAX = 10
"""May only shrink: each has its reason beside it, nearly all that plain programs do not load asyncio or workflows."""

COMPOSED_MAX = 5
"""Modules that name the composing object of an open space. All others use a port."""

PLAIN_PROGRAM = """
import sys
import headwater as hw

app = hw.App("plain")
count = app.cell("count", 0)
with app.open("memory:"):
    count.value = 1
print(*sys.modules)
"""


def trees() -> dict[Path, ast.Module]:
    """Every module. Parsed by the first test here, not when tests are collected."""
    return {path: parsed(path) for path in PACKAGE.rglob("*.py")}


def name_of(path: Path) -> str:
    name = ".".join(("headwater", *path.relative_to(PACKAGE).with_suffix("").parts))
    return name.removesuffix(".__init__")


def import_graph() -> dict[str, set[str]]:
    modules = {name_of(path) for path in trees()}
    graph: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees().items():
        for node in walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for each in node.names:
                    whole = f"{node.module}.{each.name}"
                    graph[name_of(path)].add(whole if whole in modules else node.module)
            elif isinstance(node, ast.Import):
                graph[name_of(path)] |= {each.name for each in node.names}
    return {name: (found & modules) - {name} for name, found in graph.items()}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for each in graph.get(waiting.pop(), set()) - seen:
            seen.add(each)
            waiting.append(each)
    return seen


def test_import_cycles_are_small() -> None:
    graph = import_graph()
    below = {name: reachable(graph, name) for name in graph}
    cycles = {frozenset(other for other in below[name] if name in below.get(other, ())) for name in graph}
    assert [sorted(cycle) for cycle in cycles if len(cycle) > CYCLE_MAX] == []


def test_few_imports_are_for_annotations_only() -> None:
    blocks = [
        path
        for path, tree in trees().items()
        for node in walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    assert len(blocks) <= TYPE_CHECKING_MAX


def test_few_imports_are_inside_functions() -> None:
    functions = [
        node
        for tree in trees().values()
        for node in walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    inside = {each for node in functions for each in walk(node) if isinstance(each, ast.Import | ast.ImportFrom)}
    assert len(inside) <= IN_FUNCTION_MAX


def test_few_modules_name_the_composing_object() -> None:
    naming = [
        name_of(path)
        for path, tree in trees().items()
        if any(isinstance(node, ast.Name) and node.id == "Opening" for node in walk(tree))
        or any(isinstance(node, ast.ClassDef) and node.name == "Opening" for node in tree.body)
    ]
    assert len(naming) <= COMPOSED_MAX, sorted(naming)


def test_a_plain_program_loads_no_event_loop_no_workflows_and_no_client() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_PROGRAM], capture_output=True, text=True, timeout=300, check=True
    )
    loaded = set(done.stdout.split())
    assert "headwater.host.plain_runtime" in loaded
    heavy = {"asyncio", "httpx", "websockets", "rich"}
    late = ("headwater.client.", "headwater.runtime.workflows.hub", "headwater.workflow.transitions")
    assert heavy & loaded == set()
    assert [name for name in sorted(loaded) if name.startswith(late)] == []


def test_a_name_of_a_module_or_class_says_one_thing_in_the_whole_package() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    classes: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        if path.name != "__init__.py":
            modules[path.name].append(name_of(path))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(name_of(path))
    assert {name: found for name, found in (modules | classes).items() if len(found) > 1} == {}
