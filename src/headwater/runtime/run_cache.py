"""The stored observations of runs, for the next opening; here for a storage in this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from headwater.store.backend import ObservationRow
from headwater.store.collection_checks import FEED, renew_damaged_feed
from headwater.store.commit import NewObservation
from headwater.store.engine import Engine
from headwater.store.resumption import (
    FarRow,
    Listing,
    changed_since,
    drop_unclaimed,
    heads_of,
    listing,
    overlapping_writes,
)
from headwater.store.span_resumption import SpanRow, SpanShifts
from headwater.values.address import Depth
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import Path

T = TypeVar("T")


class EnginePort(Protocol):
    """An engine that one thread at a time uses."""

    def call(self, work: Callable[[Engine], T]) -> T:
        """Call a function with the engine, between two groups of commits."""


class RunCache(Protocol):
    """Questions about the runs of earlier openings."""

    def listing(self, branch: BranchId, prefix: str, besides: Iterable[DocKey]) -> Listing:
        """The observations of runs whose results have a prefix, and the versions of what they read."""

    def heads_of(self, listed: Listing, row: ObservationRow, outputs: Sequence[DocKey]) -> Listing:
        """The current versions of everything that a row names."""

    def is_changed(self, branch: BranchId, doc: DocKey, places: Sequence[tuple[Path, Depth]], after: Seq) -> bool:
        """Whether one of these places was changed after a sequence number, or may have been."""

    def changed_since(self, branch: BranchId, rows: Sequence[FarRow]) -> list[list[Path]]:
        """For each row, which of its places were changed after its sequence number, or may have been."""

    def shifted(self, branch: BranchId, rows: Sequence[SpanRow]) -> Sequence[Sequence[DocKey]]:
        """For each row, the documents that have changed in its spans since, or the record of a collection."""

    def note(self, notes: Sequence[NewObservation]) -> None:
        """Store observations of runs that wrote nothing."""

    def forget(self, branch: BranchId, gone: Collection[DocKey], *, let_go: bool = False) -> None:
        """Delete the observations of these, and release their results."""


class LocalRunCache:
    """The observations in a store of this process."""

    def __init__(self, storage: EnginePort, tell_rebuilt: Callable[[str], None]) -> None:
        """`tell_rebuilt` is called with what was damaged, and was made again."""
        self._storage = storage
        self._tell_rebuilt = tell_rebuilt
        self._shifts = SpanShifts()

    def listing(self, branch: BranchId, prefix: str, besides: Iterable[DocKey]) -> Listing:
        return self._storage.call(lambda engine: listing(engine, branch, prefix, besides))

    def heads_of(self, listed: Listing, row: ObservationRow, outputs: Sequence[DocKey]) -> Listing:
        return self._storage.call(lambda engine: heads_of(engine, listed, row, outputs))

    def is_changed(self, branch: BranchId, doc: DocKey, places: Sequence[tuple[Path, Depth]], after: Seq) -> bool:
        found = self._storage.call(lambda engine: overlapping_writes(engine, branch, doc, places, after))
        return found is None or bool(found)

    def changed_since(self, branch: BranchId, rows: Sequence[FarRow]) -> list[list[Path]]:
        return self._storage.call(lambda engine: changed_since(engine, branch, rows))

    def shifted(self, branch: BranchId, rows: Sequence[SpanRow]) -> Sequence[Sequence[DocKey]]:
        found, is_renewed = self._storage.call(lambda engine: self._shifted(engine, branch, rows))
        if is_renewed:
            self._tell_rebuilt(FEED)
        return found

    def _shifted(
        self, engine: Engine, branch: BranchId, rows: Sequence[SpanRow]
    ) -> tuple[Sequence[Sequence[DocKey]], bool]:
        found = self._shifts.shifted_since(engine, branch, rows)
        if not renew_damaged_feed(engine):
            return found, False
        self._shifts = SpanShifts()
        return self._shifts.shifted_since(engine, branch, rows), True

    def note(self, notes: Sequence[NewObservation]) -> None:
        self._storage.call(lambda engine: engine.observe(notes))

    def forget(self, branch: BranchId, gone: Collection[DocKey], *, let_go: bool = False) -> None:
        def drop(engine: Engine) -> None:
            if let_go:
                # A row in the tail of the log would return with the next fold.
                engine.release(branch, gone)
            drop_unclaimed(engine, branch, gone)

        self._storage.call(drop)
