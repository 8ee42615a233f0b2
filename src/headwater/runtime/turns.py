"""The order in which the spaces of one thread settle: a space that others read comes before them.

After a write, the space itself settles. Then each space that was notified has its turn, by the longest way of bridges
to it. Spaces that read each other are a ring. They take turns too, a limited number of times; then the functions that
are still not current back off (I6).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Final, Protocol

from headwater.machine import machine

ROUNDS_MAX: Final = 10
"""Turns of one space after one write. As many as runs of one function in one pass: a ring is a cycle of functions."""


class TurnTaker(Protocol):
    """An open space that settles in this thread."""

    @property
    def is_passing(self) -> bool:
        """Whether this code is called in the middle of a pass."""

    @property
    def sources(self) -> Iterable[TurnTaker]:
        """The spaces that it reads."""

    @abstractmethod
    def catch_up(self) -> None:
        """Run what is due."""

    @abstractmethod
    def rest(self) -> None:
        """Back off what is due."""


class Chain:
    """Passes of spaces in event loops that follow from each other: each was notified in the one before it."""

    __slots__ = ("_passes",)

    def __init__(self) -> None:
        # Each space counts its own, in the thread of its loop.
        self._passes: dict[object, int] = {}

    def passes(self, space: object) -> int:
        """How many passes of a space belong to it."""
        return self._passes.get(space, 0)

    def begin(self, space: object) -> bool:
        """A pass of a space begins. Returns whether it is within the limit."""
        self._passes[space] = count = self.passes(space) + 1
        return count <= ROUNDS_MAX


class Turns:
    """The spaces whose turn it is, by thread. Per-process state."""

    def __init__(self) -> None:
        # By thread; empty in a program with one space.
        self.due: dict[int, dict[TurnTaker, None]] = {}
        self._active: set[int] = set()
        self._ranks: dict[TurnTaker, int] = {}

    @staticmethod
    def of_process() -> Turns:
        """Of this process."""
        return machine().state(Turns)

    def changed(self) -> None:
        """There are other bridges."""
        self._ranks = {}

    def add(self, space: TurnTaker, thread: int) -> None:
        """A space of this thread was notified."""
        self.due.setdefault(thread, {})[space] = None

    def take(self, thread: int) -> None:
        """Let the spaces of this thread that were notified settle, until none is left. Inside of a turn, nothing."""
        due = self.due.get(thread)
        if not due or thread in self._active:
            return
        self._active.add(thread)
        turns: dict[TurnTaker, int] = {}
        try:
            while due:
                space = next(iter(due)) if len(due) == 1 else min(due, key=self._rank)
                del due[space]
                if space.is_passing:
                    # This code is part of its pass, which takes in what has come.
                    continue
                turns[space] = turns.get(space, 0) + 1
                if turns[space] > ROUNDS_MAX:
                    space.rest()
                else:
                    space.catch_up()
        finally:
            self._active.discard(thread)
            if not due:
                self.due.pop(thread, None)

    def _rank(self, space: TurnTaker) -> int:
        found = self._ranks.get(space)
        if found is None:
            # Of a ring, the first that is asked for comes last.
            self._ranks[space] = 0
            found = self._ranks[space] = 1 + max((self._rank(other) for other in space.sources), default=-1)
        return found
