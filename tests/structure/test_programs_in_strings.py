"""Programs that tests start as text import modules and names that exist: no type checker reads them."""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import CodeType

from tests.structure.project import find_python

IMPORT = re.compile(r"^[ \t]*from (headwater[\w.]*) import ([\w, ]+?)(?:  #.*)?$", re.MULTILINE)
DOTTED = re.compile(r"^headwater(?:\.\w+)+$")


def stale(text: str) -> list[str]:
    """Imports in this text that cannot be made, and dotted names that lead nowhere."""
    found: list[str] = []
    for module, names in IMPORT.findall(text.replace(";", "\n")):
        wanted = [each.strip().split(" as ")[0] for each in names.split(",")]
        found += [f"from {module} import {name}" for name in wanted if name and not exists(module, name)]
    if DOTTED.match(text):
        module, _, name = text.rpartition(".")
        outer, _, member = module.rpartition(".")
        if not exists(module, name) and not hasattr(getattr(known(outer), member, None), name):
            found.append(text)
    return found


def known(module: str) -> object:
    try:
        return import_module(module)
    except (ImportError, ValueError):
        return None


def exists(module: str, name: str) -> bool:
    try:
        return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
    except (ImportError, ValueError):
        return False


def strings_of(source: str) -> Iterator[str]:
    """Every text in a module, taken from its compiled form: that is several times as quick as its syntax tree."""
    waiting: list[object] = [compile(source, "module", "exec", dont_inherit=True)]
    while waiting:
        match waiting.pop():
            case str(text):
                yield text
            case tuple(values) | frozenset(values):
                waiting += values
            case CodeType(co_consts=values):
                waiting += values
            case _:
                pass


def test_programs_in_strings_import_what_there_is() -> None:
    other = {
        "headwater.server",
        "headwater.scheduler",
        "headwater.websocket",
        "headwater.log",
        "headwater.toml",
        "headwater.v",
    }
    found = {
        f"{path.name}: {each}"
        for path in find_python("sim", "tests", "bench")
        if "structure" not in path.parts
        for text in strings_of(path.read_text(encoding="utf-8"))
        if "headwater." in text and text not in other and not text.startswith("headwater.v")
        for each in stale(text)
    }
    assert sorted(found) == []


def test_a_stale_import_is_found() -> None:
    assert stale("import sys\nfrom headwater.nowhere import it\n") == ["from headwater.nowhere import it"]
    assert stale("from headwater.errors import HeadwaterError, Gone") == ["from headwater.errors import Gone"]
    assert stale("headwater.errors.Gone") == ["headwater.errors.Gone"]


def test_strings_are_found_wherever_they_are() -> None:
    source = (
        'a = "one"\ndef f(b=("two", 3)):\n    return [f"three {b}" for c in {"four"}] if c in ("five",) else None\n'
    )
    assert {"one", "two", "three ", "four", "five"} <= set(strings_of(source))
