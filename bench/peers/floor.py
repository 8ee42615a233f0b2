"""The floor: the smallest engine of signals that gets every shape right. A yardstick, and no design.

A write marks what is below it, directly read as dirty and the rest as to be checked; effects are then run in turn, each
after what it reads. No errors, no rings, no transactions, no threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from bench.peers.engine import Get, Put

T = TypeVar("T")

CLEAN: Final = 0
CHECK: Final = 1
DIRTY: Final = 2


class _Now:
    """What runs at the moment, and what waits."""

    __slots__ = ("active", "depth", "queue", "run")

    def __init__(self) -> None:
        self.active: Derived | None = None
        self.queue: list[Derived] = []
        self.depth = 0
        self.run = 0


NOW: Final = _Now()


class Source:
    """A value, and who has read it."""

    __slots__ = ("readers", "stamp", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.readers: dict[Derived, None] = {}
        # The last run that read it.
        self.stamp = 0

    def get(self) -> Any:
        active = NOW.active
        if active is not None:
            active.note(self)
        return self.value

    def put(self, value: Any) -> None:
        if value == self.value:
            return
        self.value = value
        for reader in self.readers:
            was, reader.state = reader.state, DIRTY
            if was == CLEAN:
                reader.mark_below()
        if NOW.queue and not NOW.depth:
            flush()


class Derived(Source):
    """A function of others, or an effect."""

    __slots__ = ("fn", "fresh", "is_effect", "known", "run_id", "sources", "state")

    def __init__(self, fn: Callable[[], Any], *, is_effect: bool) -> None:
        super().__init__(None)
        self.fn = fn
        self.is_effect = is_effect
        self.state = DIRTY
        self.sources: list[Source] = []
        # While it runs: how many of the sources were read again in their order, and what was read after these.
        self.known = 0
        self.fresh: list[Source] = []
        self.run_id = 0

    def get(self) -> Any:
        active = NOW.active
        if active is not None:
            active.note(self)
        if self.state != CLEAN:
            self.refresh()
        return self.value

    def note(self, source: Source) -> None:
        """A read. Reading the same as the last time, or twice, costs no memory."""
        if source.stamp == self.run_id:
            return
        source.stamp = self.run_id
        if not self.fresh and self.known < len(self.sources) and self.sources[self.known] is source:
            self.known += 1
        else:
            self.fresh.append(source)

    def mark_below(self) -> None:
        todo = [self]
        while todo:
            current = todo.pop()
            if current.is_effect:
                NOW.queue.append(current)
            for reader in current.readers:
                if reader.state == CLEAN:
                    reader.state = CHECK
                    todo.append(reader)

    def refresh(self) -> None:
        """Run what is above and may have changed, then itself if any of that did. Without recursion."""
        todo: list[tuple[Derived, int]] = [(self, 0)]
        while todo:
            current, place = todo.pop()
            if current.state == CHECK:
                sources = current.sources
                while place < len(sources):
                    above = sources[place]
                    place += 1
                    if isinstance(above, Derived) and above.state != CLEAN:
                        todo += ((current, place), (above, 0))
                        break
                else:
                    current.state = CLEAN
            elif current.state == DIRTY:
                current.run()

    def run(self) -> None:
        outer, NOW.active = NOW.active, self
        NOW.run += 1
        self.run_id = NOW.run
        self.known, self.fresh = 0, []
        NOW.depth += 1
        try:
            value = self.fn()
        finally:
            NOW.depth -= 1
            NOW.active = outer
        if self.fresh or self.known != len(self.sources):
            self._replace_sources()
        self.state = CLEAN
        if value != self.value:
            self.value = value
            for reader in self.readers:
                reader.state = DIRTY

    def _replace_sources(self) -> None:
        kept = dict.fromkeys(self.sources[: self.known] + self.fresh)
        for source in self.sources[self.known :]:
            if source not in kept:
                source.readers.pop(self, None)
        for source in self.fresh:
            source.readers[self] = None
        self.sources = list(kept)

    def dispose(self) -> None:
        """Nobody is told of it any more; nor is whoever only it has read."""
        todo: list[Derived] = [self]
        while todo:
            current = todo.pop()
            for source in current.sources:
                source.readers.pop(current, None)
                if isinstance(source, Derived) and not source.readers:
                    todo.append(source)
            current.sources = []
            current.state = DIRTY


def flush() -> None:
    """Run the effects that wait."""
    NOW.depth += 1
    try:
        for effect in NOW.queue:
            if effect.state != CLEAN:
                effect.refresh()
    finally:
        NOW.queue.clear()
        NOW.depth -= 1


class Floor:
    """The verbs over it."""

    name = "floor"

    def source(self, value: int) -> tuple[Get, Put]:
        made = Source(value)
        return made.get, made.put

    def computed(self, fn: Callable[[], T]) -> Callable[[], T]:
        return Derived(fn, is_effect=False).get

    def effect(self, fn: Callable[[], None]) -> object:
        made = Derived(fn, is_effect=True)
        made.get()
        return made

    def dispose(self, function: object) -> None:
        if isinstance(function, Derived):
            function.dispose()

    def together(self, write: Callable[[], None]) -> None:
        NOW.depth += 1
        try:
            write()
        finally:
            NOW.depth -= 1
        flush()

    def rest(self) -> None:
        """It has no threads."""

    def close(self) -> None:
        NOW.queue.clear()
