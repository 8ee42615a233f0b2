"""The verbs, and Headwater behind them. A shape is written once, and runs on each engine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

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

    def __init__(self, url: str = "memory:") -> None:
        self._app = hw.App("bench")
        self._space = self._app.open(url)
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
        self._space._opening.drop(function)

    def together(self, write: Callable[[], None]) -> None:
        with self._space.transaction():
            write()

    def rest(self) -> None:
        self._space.sync()

    def close(self) -> None:
        self._space.__exit__(None, None, None)

    @property
    def commits(self) -> int:
        """How many there were."""
        return self._space.stats.commits

    def _next(self) -> str:
        self._count += 1
        return f"n{self._count}"


class OnFile(Headwater):
    """The same in a file."""

    name = "file"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headwater-bench-")
        super().__init__(str(Path(self._folder.name) / "space.db"))

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


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
