"""Tests on the compiled form of the core: `./hw test --compiled`.

A test that is marked `pure` needs the sources, and is skipped there: it counts the calls of Python functions, measures
Python objects, or reads code objects. The mark says which, and the summary of the run counts them.

A test that replaces a method, a function or a constant of a compiled module needs no mark. Compiled code does not look
these up, so the test would pass without testing anything: it is skipped when it replaces them.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headwater.host.libraries import core_form


def check(config: pytest.Config) -> None:
    """A run that is said to test the compiled form does so, and one that is not does not."""
    asked = "compiled" if config.getoption("compiled") else "pure"
    if core_form() != asked:
        raise pytest.UsageError(f"the core is {core_form()} here, and the tests were asked to run on the {asked} one")
    if asked == "compiled":
        _watch_replacing()


def needs_sources(reason: str) -> None:
    """Skip the running test on the compiled form: for helpers that many tests use."""
    if core_form() == "compiled":
        pytest.skip(f"needs the sources: {reason}")


def skip_pure(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs the sources."""
    if not config.getoption("compiled"):
        return
    for item in items:
        mark = item.get_closest_marker("pure")
        if mark is not None:
            item.add_marker(pytest.mark.skip(reason=f"needs the sources: {mark.args[0]}"))


def is_bound_early(owner: object, name: str) -> bool:
    """Whether compiled code uses an attribute of a class or module without looking it up."""
    if isinstance(owner, type):
        return _is_compiled(owner.__module__)
    if not isinstance(owner, ModuleType) or not _is_compiled(owner.__name__):
        return False
    value = getattr(owner, name, None)
    if callable(value):
        return _is_compiled(getattr(value, "__module__", None) or "")
    return any(name in _constants(module) for module in list(sys.modules) if _is_compiled(module))


def _watch_replacing() -> None:
    original = pytest.MonkeyPatch.setattr

    def setattr_or_skip(self: pytest.MonkeyPatch, target: Any, name: Any, *rest: Any, **options: Any) -> None:
        owner, attribute = target, name
        if isinstance(target, str):
            path, _, attribute = target.rpartition(".")
            owner = pkgutil.resolve_name(path)
        if is_bound_early(owner, attribute):
            pytest.skip(f"needs the sources: replaces {'a method' if isinstance(owner, type) else 'part of a module'}")
        original(self, target, name, *rest, **options)

    pytest.MonkeyPatch.setattr = setattr_or_skip  # type: ignore[method-assign, assignment]


def _is_compiled(module: str) -> bool:
    if not module.startswith("headwater.") or module not in sys.modules:
        return False
    file = getattr(sys.modules[module], "__file__", None)
    return file is not None and not file.endswith(".py")


@cache
def _constants(module: str) -> frozenset[str]:
    """The names that the source of a compiled module declares as Final. Other compiled modules may import them."""
    file = Path(sys.modules[module].__file__ or "")
    source = file.with_name(f"{file.name.partition('.')[0]}.py").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^(\w+): Final\b", source, re.MULTILINE))
