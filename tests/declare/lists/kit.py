"""A board with items, and what was done since the last look."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import headwater as hw
from headwater.errors import UserCodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Item(hw.Doc):
    title: str
    done: bool = False
    tags: hw.List[str] = hw.List()


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()


def title_of(item: Item) -> str:
    return item.title.upper()


def is_open(item: Item) -> bool:
    return not item.done


class Desk:
    """An app with a board and a cell of numbers. A test declares lists of these, and looks at them."""

    def __init__(self) -> None:
        self.app = hw.App("desk")
        self.board = self.app.doc("board", Board)
        self.numbers = self.app.cell("numbers", list[int]())
        self.shown: list[object] = []
        self.errors: list[UserCodeError] = []
        self._space: hw.Space | None = None
        self._runs: dict[str, int] = {}
        self._commits = 0

    def look_at(self, *lists: Callable[[], object]) -> None:
        """Somebody looks at these, and keeps what he last saw."""

        @self.app.sink
        def look() -> None:
            self.shown = [each() for each in lists]

    @contextmanager
    def open(self, url: str | Path = "memory:") -> Iterator[hw.Space]:
        with self.app.open(url, on_error=self.errors.append) as space:
            self._space = space
            self._runs, self._commits = {}, space.stats.commits
            yield space

    @property
    def space(self) -> hw.Space:
        assert self._space is not None
        return self._space

    def runs(self) -> dict[str, int]:
        """How often each function has run since the last look, without those that have not, and without the sink."""
        now = self.space.stats.runs
        found = {name: count - self._runs.get(name, 0) for name, count in now.items()}
        self._runs = now
        return {name: count for name, count in found.items() if count and name != "look"}

    def commits(self) -> int:
        """How many transactions since the last look."""
        now = self.space.stats.commits
        found, self._commits = now - self._commits, now
        return found

    def fill(self, count: int) -> None:
        """So many items, and as many numbers."""
        with self.space.transaction():
            self.board.items.extend([Item(title=f"t{number}") for number in range(count)])
            self.numbers.value = list(range(count))
        self.runs()
        self.commits()

    @property
    def nodes(self) -> int:
        """How many there are."""
        return len(self.space.scheduler.registry.nodes)
