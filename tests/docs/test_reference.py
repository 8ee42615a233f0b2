"""The reference is complete, and its tables say what the code says."""

import ast
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import get_overloads

import pytest

import headwater
from headwater import errors, testing
from headwater.app import App
from headwater.cli import exits, main
from headwater.http import http_limits
from headwater.scheduler import scheduler_limits
from headwater.server import server_limits
from headwater.store import store_limits
from headwater.store.backends import sqlite_file, sqlite_schema
from headwater.sync import frame_limits
from headwater.values import value_limits
from headwater.workflow import workflow_limits
from tests.docs.pages import DOCS, ROOT, read
from tests.docs.test_tables import cells, table_below
from tools.docs import command_line

REFERENCE = DOCS / "reference"
PACKAGE = ROOT / "src" / "headwater"
DIRECTIVE = re.compile(r"^::: (headwater(?:\.\w+)+)$((?:\n(?: {4}.*)?)*)", re.MULTILINE)
HTTP = {"Client", "Verb"}
"""Classes of `headwater.http` that have an entry; its errors are among the errors, its verbs are methods of Client."""


def entries() -> Iterator[tuple[str, list[str]]]:
    """Each name that has an entry, with the members that are listed for it."""
    for page in sorted((REFERENCE / "python").glob("*.md")):
        for name, options in DIRECTIVE.findall(read(page)):
            yield name, re.findall(r"^ {8}- (\w+)$", options, re.MULTILINE)


def find(dotted: str) -> object:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"there is no {dotted}")


def test_every_public_name_has_one_entry() -> None:
    public = {name for name in headwater.__all__ if name not in ("__version__", "http")} | set(testing.__all__) | HTTP
    public |= {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__ == errors.__name__
    }
    found = Counter(name.rpartition(".")[2] for name, _ in entries())
    assert sorted(public - found.keys()) == [], "these have no entry in docs/reference/python"
    assert sorted(found.keys() - public) == [], "these are not public"
    assert [name for name, count in found.items() if count > 1] == [], "these have several"


def test_every_member_that_is_listed_exists() -> None:
    missing = [
        f"{name}.{member}"
        for name, members in entries()
        for member in members
        if not hasattr(find(name), member) and member not in attributes_of(find(name))
    ]
    assert missing == []


def attributes_of(kind: object) -> set[str]:
    """Attributes that instances of a class have: those that are annotated, and those that its methods set."""
    found: set[str] = set()
    for each in getattr(kind, "__mro__", ()):
        if each.__module__.startswith("headwater"):
            found |= inspect.get_annotations(each).keys() | set(re.findall(r"self\.(\w+)\b", inspect.getsource(each)))
    return found


def test_every_public_name_has_a_docstring() -> None:
    def is_documented(name: str) -> bool:
        found = find(name)
        return bool(inspect.getdoc(found)) or not (inspect.isclass(found) or inspect.isroutine(found))

    assert [name for name, _ in entries() if not is_documented(name)] == []


def functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """Each function and method that has an entry."""
    for name, members in entries():
        found = find(name)
        if inspect.isroutine(found):
            yield name, found
        for member in members:
            given = inspect.getattr_static(found, member, None)
            if isinstance(given, property):
                assert given.fget is not None
                yield f"{name}.{member}", given.fget
            elif inspect.isroutine(given):
                yield f"{name}.{member}", getattr(given, "__func__", given)


def parameters_of(fn: Callable[..., object]) -> set[str]:
    """The parameters that a caller can give; if it takes any by name, its overloads tell which."""
    own = inspect.signature(fn).parameters.values()
    overloads = [
        inspect.signature(each).parameters.values() for each in (get_overloads(fn) if inspect.isfunction(fn) else ())
    ]
    takes_any = overloads and any(each.kind is inspect.Parameter.VAR_KEYWORD for each in own)
    shown = [each for given in (own, *(overloads if takes_any else ())) for each in given]
    return {
        each.name
        for each in shown
        if each.name not in ("self", "cls")
        and each.annotation not in ("None", "Never")
        and not (takes_any and each.kind is inspect.Parameter.VAR_KEYWORD)
    }


def test_every_function_has_a_docstring() -> None:
    assert [name for name, fn in functions() if not inspect.getdoc(fn)] == []


@pytest.mark.parametrize(("name", "fn"), [pytest.param(name, fn, id=name) for name, fn in functions()])
def test_arguments_that_a_docstring_describes_are_those_of_the_function(name: str, fn: Callable[..., object]) -> None:
    section = re.search(r"^Args:\n((?:(?: {4}.*)?\n?)*)", inspect.getdoc(fn) or "", re.MULTILINE)
    described = re.findall(r"^ {4}\*{0,2}(\w+)(?: \(.*?\))?:", section[1], re.MULTILINE) if section else []
    assert set(described) == parameters_of(fn), name


def test_every_error_names_its_code() -> None:
    shown = re.findall(
        r"^::: headwater\.errors\.(\w+)\n(?: {4}.*\n)+\nCode: \[(HW\d+)\]\(\.\./\.\./errors/\2\.md\)\.$",
        read(REFERENCE / "python" / "errors.md"),
        re.MULTILINE,
    )
    kinds = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.HeadwaterError)}
    assert dict(shown) == {kind.__name__: kind.code for kind in kinds - {errors.HeadwaterError}}


# --- the command line ------------------------------------------------------------------------------------------


def test_exit_codes_are_those_in_the_code() -> None:
    shown = table_below(REFERENCE / "cli.md", ("Code", "Meaning"))
    assert [int(code) for code, _ in shown] == [int(code) for code in exits.Exit]


def test_every_command_is_on_the_page_in_the_order_of_its_help() -> None:
    page = read(REFERENCE / "cli.md")
    shown = {
        title: re.findall(r"^ {4}:command: (\S+)\n {4}:prog_name: headwater \1$", text, re.MULTILINE)
        for title, text in re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", page, re.MULTILINE)
    }
    assert {title: names for title, names in shown.items() if names} == {
        title: list(commands) for title, commands in main.SECTIONS.items()
    }


def test_a_command_has_the_name_that_users_type() -> None:
    for commands in main.SECTIONS.values():
        for name in commands:
            assert getattr(command_line, name).name == name


# --- limits ----------------------------------------------------------------------------------------------------

MODULES: dict[str, ModuleType] = {
    "http": http_limits,
    "scheduler": scheduler_limits,
    "server": server_limits,
    "store": store_limits,
    "sync": frame_limits,
    "values": value_limits,
    "workflow": workflow_limits,
}
UNSEEN = {
    "http": "ADDRESSES_MAX NAME_MAX LABEL_MAX PORT_MAX TOLD_MAX TOLD_BYTES_MAX DIGEST_ROUNDS PACKED_ROOM "
    "RETRY_BACKOFF_S REST_MAX_MS",
    "scheduler": "AUTO_DEBOUNCE_RUNS FAILURES_MAX FAILURES_LONGEST SPLIT_MAX CAUSES_MAX LOWERED_MAX HANDLER_READS_MAX "
    "CHAIN_MAX RETRY_MS",
    "server": "OUT_MARK BEHIND FRAMES_BURST FRAMES_TURN SLICE_DOCS PAUSE_S SPARE_S SHRINKS_MAX BEHIND_S GREETING_S "
    "BODY_S HALF_OPEN_MAX STRANGERS_MAX GUESSES_BURST PAGE_MESSAGE_MAX "
    "LOOK_S LOOKS_MAX",
    "store": "FOLD_COMMITS FOLD_BYTES SNAPSHOT_SLACK_BYTES VERDICTS_MAX CACHE_BYTES BODIES_AT_ONCE SHIFTS_SLACK "
    "DECODED_MAX",
    "sync": "FRAME_BYTES_MAX GREETING_BYTES_MAX PREFIXES_MAX PREFETCH_MAX PREFETCH_BYTES_MAX LEFT_MAX PENDING_MAX "
    "PENDING_BYTES_MAX WINDOW QUESTIONS_MAX ACK_EVERY NAME_BYTES_MAX KEYS_MAX SPAN_BOUND_MAX INDEX_NAME_MAX",
    "values": "CHUNKED_FROM CHUNKED_UNTIL CHUNK_MAX",
    "workflow": "EARLY_US PAGE PRUNE_EVERY RECENT STALE_MS CONFLICT_MS CLOCK_MS SERVICE_MAX",
}
"""Sizes inside, which no program of a user meets: they are not on the page."""

UNITS = {"day": 86_400_000, "min": 60_000, "s": 1000, "ms": 1, "MiB": 1 << 20, "KiB": 1 << 10}


def shown_limits() -> list[tuple[str, str]]:
    rows = [cells(line) for line in read(REFERENCE / "limits.md").splitlines()]
    return [
        (row[-1].strip("`"), row[1]) for row in rows if len(row) > 1 and re.fullmatch(r"`[a-z]+\.[A-Z_]+`", row[-1])
    ]


def value_of(constant: str) -> float:
    module, _, name = constant.partition(".")
    value: float = getattr(MODULES[module], name)
    return value * 1000 if name.endswith("_S") and not name.endswith("_PER_S") else value


def number_in(text: str) -> float:
    """Of '16 MiB', '10 min', '8,000 characters'."""
    number, _, unit = text.partition(" ")
    return int(number.replace(",", "")) * UNITS.get(unit, 1)


@pytest.mark.parametrize(("constant", "value"), shown_limits())
def test_limit_is_the_one_in_the_code(constant: str, value: str) -> None:
    assert number_in(value) == value_of(constant)


def test_every_limit_is_on_the_page_or_inside() -> None:
    shown = {constant for constant, _ in shown_limits()}
    for name, module in MODULES.items():
        constants = {each for each in vars(module) if each.isupper() and f"{each}: Final" in inspect.getsource(module)}
        on_page = {each.partition(".")[2] for each in shown if each.startswith(f"{name}.")}
        assert constants == on_page | set(UNSEEN[name].split()), f"docs/reference/limits.md, {name}"
        assert not on_page & set(UNSEEN[name].split())


# --- configuration -----------------------------------------------------------------------------------------------


def environment_variables() -> set[str]:
    """The names that the package asks the environment for."""
    found: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        source = read(path)
        if "environ" not in source and "getenv" not in source:
            continue
        tree = ast.parse(source)
        constants = {
            target.id: node.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="environ"), attr="get"), args=[given, *_]):
                    asked: ast.expr = given
                case ast.Call(func=ast.Attribute(attr="getenv"), args=[given, *_]):
                    asked = given
                case ast.Subscript(value=ast.Attribute(attr="environ"), slice=given):
                    asked = given
                case _:
                    continue
            match asked:
                case ast.Constant(value=str(name)):
                    found.add(name)
                case ast.Name(id=name):
                    found.add(str(constants[name]))
                case ast.Attribute(attr="key_env"):
                    found.add(inspect.signature(headwater.OpenAIFixer).parameters["key_env"].default)
                case _:
                    raise AssertionError(f"{path}: which variable is {ast.unparse(asked)}?")
    return found


def test_environment_variables_are_those_that_the_code_reads() -> None:
    shown = table_below(REFERENCE / "configuration.md", ("Variable", "Read by", "Meaning"))
    assert {name.strip("`") for name, *_ in shown} == environment_variables()


def test_options_of_open_are_those_in_the_code() -> None:
    shown = [
        name.strip("`") for name, *_ in table_below(REFERENCE / "configuration.md", ("Option", "Default", "Meaning"))
    ]
    options = [name for name in inspect.signature(App.open).parameters if name not in ("self", "url")]
    assert shown == options == [n for n in inspect.signature(App.aopen).parameters if n not in ("self", "url")]
    assert [name for name in shown if name not in ("create", "apart")] == [
        name for name in inspect.signature(App.run).parameters if name not in ("self", "url")
    ]


# --- metrics and files -------------------------------------------------------------------------------------------


def metrics_in_the_code() -> dict[str, str]:
    """The names and types of all metrics, from the calls that write them."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(read(PACKAGE / "server" / "pages" / "metrics_page.py"))):
        match node:
            case ast.Call(func=ast.Attribute(attr="family"), args=[ast.Constant(value=str(name)), kind, *_]):
                assert isinstance(kind, ast.Constant)
                found[name if name.startswith("process_") else f"headwater_{name}"] = str(kind.value)
            case ast.Call(func=ast.Attribute(attr="histogram"), args=[ast.Constant(value=str(name)), *_]):
                found[f"headwater_{name}"] = "histogram"
            case ast.Call(func=ast.Name(id="gauge"), args=[ast.Constant(value=str(name)), *_]):
                found |= {f"headwater_{name}": "gauge", f"headwater_space_{name}": "gauge"}
            case _:
                pass
    return found


def test_metrics_are_those_in_the_code() -> None:
    shown = table_below(REFERENCE / "metrics.md", ("Metric", "Type", "Labels", "Meaning"))
    assert {name.strip("`"): kind for name, kind, *_ in shown} == metrics_in_the_code()


def test_tables_of_the_file_are_those_in_the_code() -> None:
    shown = [
        name
        for names, _ in table_below(REFERENCE / "file-format.md", ("Table", "One row is"))
        for name in names.split(", ")
    ]
    tables = [name for kind, name in sqlite_schema.expected_schema(sqlite_file.FORMAT) if kind == "table"]
    named = {name.strip("`") for name in shown}
    assert {name for name in tables if not name.startswith(("flow_", "sqlite_"))} == named - {"flow_*"}


def test_header_of_the_file_is_the_one_in_the_code() -> None:
    shown = {name.strip("`"): value for name, value in table_below(REFERENCE / "file-format.md", ("Setting", "Value"))}
    assert shown["application_id"].startswith(f"`{sqlite_file.APPLICATION_ID:#x}`")
    assert shown["user_version"] == f"the format, now {sqlite_file.FORMAT}"
    source = inspect.getsource(sqlite_file)
    for name in ("journal_mode", "locking_mode", "foreign_keys", "trusted_schema"):
        value = shown[name].partition("`")[2].partition("`")[0]
        assert f"pragma {name} = {value}" in source
    formats = [int(number) for number, _ in table_below(REFERENCE / "file-format.md", ("Format", "Added"))]
    assert formats == list(range(1, sqlite_file.FORMAT + 1))


# --- the glossary --------------------------------------------------------------------------------------------------


def test_glossary_has_sixty_terms_each_with_a_page_that_uses_it() -> None:
    rows = table_below(REFERENCE / "glossary.md", ("Term", "Meaning", "Also known as", "Page", "Module"))
    assert len(rows) >= 60
    for term, meaning, _, page, _ in rows:
        assert meaning.endswith("."), term
        target = re.search(r"\]\(([^)]+)\)", page)
        assert target is not None, term
        assert term.strip("*") in read((REFERENCE / target[1]).resolve()).lower(), f"{target[1]} does not use {term}"
