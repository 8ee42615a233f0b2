"""The verbs, and the two engines of other modules behind them. A shape is written once, and runs on each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import headwater as hw

T = TypeVar("T")
Get: TypeAlias = Callable[[], int]
Put: TypeAlias = Callable[[int], None]


class Engine(Protocol):
    """What follows from a write has run when it returns."""

    name: str

    def source(self, value: int) -> tuple[Get, Put]: ...

    def computed(self, fn: Callable[[], T]) -> Callable[[], T]: ...

    def effect(self, fn: Callable[[], None]) -> object:
        """Runs at once, and again when what it read has changed."""
        ...

    def dispose(self, function: object) -> None:
        """Of what `computed` or `effect` gave."""
        ...

    def together(self, write: Callable[[], None]) -> None:
        """All writes as one."""
        ...

    def rest(self) -> None:
        """Wait for what other threads still do because of the writes."""
        ...

    def close(self) -> None: ...


class Headwater:
    """With documents, transactions and a log; in memory."""

    name = "headwater"

    def __init__(self) -> None:
        self._app = hw.App("bench")
        self._space = self._app.open("memory:")
        self._space.__enter__()
        self._count = 0

    def source(self, value: int) -> tuple[Get, Put]:
        cell = self._app.cell(self._next(), value)

        def put(new: int) -> None:
            cell.value = new

        return lambda: cell.value, put

    def computed(self, fn: Callable[[], T]) -> Callable[[], T]:
        return self._app.computed(name=self._next())(fn)

    def effect(self, fn: Callable[[], None]) -> object:
        return self._app.sink(name=self._next())(fn)

    def dispose(self, function: object) -> None:
        self._space._runtime.drop(function)

    def together(self, write: Callable[[], None]) -> None:
        with self._space.transaction():
            write()

    def rest(self) -> None:
        self._space.sync()

    def close(self) -> None:
        self._space.__exit__(None, None, None)

    def _next(self) -> str:
        self._count += 1
        return f"n{self._count}"


class Reaktiv:
    """The library of that name, as it comes: what has changed is told by identity, and there are locks."""

    name = "reaktiv"

    def __init__(self) -> None:
        # By name: what checks types is installed without it.
        self._library: Final[Any] = import_module("reaktiv")
        # It holds effects weakly.
        self._effects: set[Any] = set()

    def source(self, value: int) -> tuple[Get, Put]:
        signal = self._library.Signal(value)
        return signal.get, signal.set

    def computed(self, fn: Callable[[], T]) -> Callable[[], T]:
        get: Callable[[], T] = self._library.Computed(fn).get
        return get

    def effect(self, fn: Callable[[], None]) -> object:
        effect = self._library.Effect(fn)
        self._effects.add(effect)
        return effect

    def dispose(self, function: Any) -> None:
        if function in self._effects:
            self._effects.remove(function)
            function.dispose()

    def together(self, write: Callable[[], None]) -> None:
        with self._library.batch():
            write()

    def rest(self) -> None:
        """It has no threads."""

    def close(self) -> None:
        self._effects.clear()


class Counted:
    """Any of them, with a count of the functions it has run."""

    def __init__(self, engine: Engine) -> None:
        self.name = engine.name
        self.runs = 0
        self._engine = engine
        self.source = engine.source
        self.dispose = engine.dispose
        self.together = engine.together
        self.rest = engine.rest
        self.close = engine.close

    def computed(self, fn: Callable[[], T]) -> Callable[[], T]:
        return self._engine.computed(self._counting(fn))

    def effect(self, fn: Callable[[], None]) -> object:
        return self._engine.effect(self._counting(fn))

    def _counting(self, fn: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            self.runs += 1
            return fn()

        return run
