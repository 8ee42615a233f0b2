"""A generated app as a module, and what its functions do outside: what sinks show, and which handlers were called."""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

from headwater.cells.context import CONTEXT
from headwater.machine import machine
from sim.apps.resources import OUTSIDE
from sim.apps.source import MODULE

Shown = dict[str, object]
"""What the sinks of one opening have shown last, by name."""


class _Screens:
    """Of each open space, what its sinks have shown: a new process has a new screen."""

    def __init__(self) -> None:
        self.by_space: dict[object, Shown] = {}
        self.called: Counter[str] = Counter()
        self.called_in: Counter[tuple[object, str]] = Counter()

    def clear(self) -> None:
        """Before the first opening of a world."""
        self.by_space = {}
        self.called = Counter()
        self.called_in = Counter()
        OUTSIDE.clear()

    def call(self, tag: str) -> None:
        """A handler or block was called."""
        frame = CONTEXT.get()
        self.called[tag] += 1
        self.called_in[None if frame is None else frame.space, tag] += 1

    def show(self, name: str, value: object) -> None:
        frame = CONTEXT.get()
        assert frame is not None
        self.by_space.setdefault(frame.space, {})[name] = value


SCREENS: Final = _Screens()


_OUTSIDE: Final = """\
def show(name, value):
    screens.show(name, value)


def called(tag):
    screens.call(tag)


async def ask(name, argument):
    return await outside.ask(name, argument)


def work(ms):
    machine().sleep(ms / 1000)
"""


def _outside() -> None:
    """A module without a file counts as a library: fingerprints name its functions, and do not follow them."""
    if "simulated_outside" not in sys.modules:
        module = ModuleType("simulated_outside")
        module.__dict__.update(screens=SCREENS, machine=machine, outside=OUTSIDE)
        exec(_OUTSIDE, module.__dict__)  # noqa: S102  # the text above
        sys.modules["simulated_outside"] = module


def load(text: str) -> ModuleType:
    """Execute the source of an app as a new module."""
    _outside()
    module = ModuleType(MODULE)
    file = f"<{MODULE}>"
    # Classes of documents resolve their annotations by the name of their module.
    sys.modules[MODULE] = module
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102  # the app of this world
    return module


@contextmanager
def beside(text: str) -> Iterator[ModuleType]:
    """The module of another app, which takes the place of the present one for a while."""
    file = f"<{MODULE}>"
    module, lines = sys.modules[MODULE], linecache.cache[file]
    try:
        yield load(text)
    finally:
        sys.modules[MODULE], linecache.cache[file] = module, lines


def add(module: ModuleType, text: str, name: str) -> Callable[..., object]:
    """Execute one more function in the module of an app."""
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)  # noqa: S102  # an operation of this world
    found: Callable[..., object] = module.__dict__[name]
    return found
