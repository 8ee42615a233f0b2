"""The libraries of signals that table `reactive` compares, each as it comes, behind the same verbs.

They are imported by name: what checks types is installed without them. All of them keep nothing: no transactions that
could be rejected, no log, no documents, no threads.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeVar

from bench.peers.engine import Get, Put

T = TypeVar("T")


class Reaktiv:
    """The library of that name, as it comes: what has changed is told by identity, and there are locks."""

    name = "reaktiv"

    def __init__(self) -> None:
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


class Signe:
    """The library of that name: what has changed is told by `==`."""

    name = "signe"

    def __init__(self) -> None:
        self._library: Final[Any] = import_module("signe")
        self._effects: set[Any] = set()

    def source(self, value: int) -> tuple[Get, Put]:
        signal = self._library.signal(value)
        return (lambda: signal.value), signal.set_value

    def computed(self, fn: Callable[[], T]) -> Callable[[], T]:
        get: Callable[[], T] = self._library.computed(fn)
        return get

    def effect(self, fn: Callable[[], None]) -> object:
        effect = self._library.effect(fn)
        self._effects.add(effect)
        return effect

    def dispose(self, function: Any) -> None:
        if function in self._effects:
            self._effects.remove(function)
            function.stop()

    def together(self, write: Callable[[], None]) -> None:
        self._library.batch(write)

    def rest(self) -> None:
        """It has no threads."""

    def close(self) -> None:
        for effect in self._effects:
            effect.stop()
        self._effects.clear()


class Observ:
    """The library of that name: containers that notice reads and writes. A computed that runs tells all its readers."""

    name = "observ"

    def __init__(self) -> None:
        self._library: Final[Any] = import_module("observ")
        # What runs because of a write runs at the end of it, and not when an event loop comes to it.
        self._library.scheduler.register_request_flush(lambda: None)
        # It holds effects weakly.
        self._effects: dict[int, Any] = {}

    def source(self, value: int) -> tuple[Get, Put]:
        place = self._library.ref(value)

        def put(new: int) -> None:
            place["value"] = new

        return (lambda: place["value"]), put

    def computed(self, fn: Callable[[], T]) -> Callable[[], T]:
        get: Callable[[], T] = self._library.computed(fn)
        return get

    def effect(self, fn: Callable[[], None]) -> object:
        effect = self._library.watch_effect(fn)
        self._effects[id(effect)] = effect
        return effect

    def dispose(self, function: Any) -> None:
        if self._effects.pop(id(function), None) is not None:
            function.stop()

    def together(self, write: Callable[[], None]) -> None:
        write()
        self._library.scheduler.flush()

    def rest(self) -> None:
        """It has no threads."""

    def close(self) -> None:
        self._effects.clear()
