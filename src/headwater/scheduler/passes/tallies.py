"""Tallies for runs that ask about a span: shared by all of them, and current up to the newest change."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, cast

from headwater.cells.span_records import SpanKey
from headwater.cells.span_tallies import Tally
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.runs.invalidation import Invalidation


class TryLock(Protocol):
    """A lock of the machine, as it is used here."""

    def acquire(self, blocking: bool = True) -> bool:  # noqa: FBT001, FBT002  # as it is declared there
        """Take the lock; without blocking, only if it is free."""

    def release(self) -> None:
        """Release it."""


class Tallies:
    """The tallies of one scheduler, as a replica asks for them."""

    def __init__(self, lock: AbstractContextManager[object], invalidation: Invalidation, graph: Graph) -> None:
        # Of the scheduler. Without a lock, one thread uses it.
        self._lock = cast("TryLock", lock) if hasattr(lock, "acquire") else None
        self._invalidation = invalidation
        self._graph = graph

    def tally(self, key: SpanKey) -> Tally | None:
        """The tally of a question; None if another thread uses the scheduler: the run that asks then reads the span."""
        lock = self._lock
        if lock is not None and not lock.acquire(blocking=False):
            return None
        try:
            self._invalidation.drain()
            return self._graph.spans.tally(key)
        finally:
            if lock is not None:
                lock.release()
