"""Resources that are fresh and not observed, by the time at which they go stale. They have no timer."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from headwater.declare.resources.resource_instance import ResourceInstance

TIDY_MIN: Final = 64
"""Entries above which outdated ones are removed."""


class Freshness:
    """The entries of one open space. An entry is valid while its instance has the same time."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, ResourceInstance]] = []
        self._number = count()
        self._tidy_at = TIDY_MIN

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, source: ResourceInstance, due_at: float) -> None:
        """Record when an instance goes stale."""
        if due_at == source.stale_at:
            return
        source.stale_at = due_at
        heappush(self._entries, (due_at, next(self._number), source))
        if len(self._entries) > self._tidy_at:
            # When doubled: constant amortized cost.
            self._entries = [entry for entry in self._entries if entry[2].stale_at == entry[0]]
            heapify(self._entries)
            self._tidy_at = max(2 * len(self._entries), TIDY_MIN)

    def take(self, now: float) -> Iterator[ResourceInstance]:
        """Instances that are stale by now, each once."""
        while self._entries and self._entries[0][0] <= now:
            due_at, _, source = heappop(self._entries)
            if source.stale_at == due_at:
                source.stale_at = None
                yield source
