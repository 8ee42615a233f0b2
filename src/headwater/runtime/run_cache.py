"""What is stored of runs for the next opening; here for a storage in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from headwater.store.backend import ObservationRow
from headwater.store.commit import NewObservation
from headwater.store.engine import Engine
from headwater.store.resumption import Listing, drop_unclaimed, heads_of, listing, overlapping_writes
from headwater.values.address import Depth
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import Path

if TYPE_CHECKING:
    from headwater.runtime.storage_port import EnginePort


class RunCache(Protocol):
    """What is asked about the runs of earlier openings."""

    def listing(self, branch: BranchId, prefix: str, besides: Iterable[DocKey]) -> Listing:
        """All that is kept of runs whose results begin so, and how new everything is that they read."""

    def heads_of(self, listed: Listing, row: ObservationRow, outputs: Sequence[DocKey]) -> Listing:
        """One row, with how new everything is now that it names."""

    def is_changed(self, branch: BranchId, doc: DocKey, places: Sequence[tuple[Path, Depth]], after: Seq) -> bool:
        """Whether one of these places was changed after a place of the log, or may have been."""

    def note(self, notes: Sequence[NewObservation]) -> None:
        """Keep what runs have read that had nothing to write."""

    def forget(self, branch: BranchId, gone: Collection[DocKey], *, let_go: bool = False) -> None:
        """Keep nothing of these; and hold their results no longer."""


class LocalRunCache:
    """Of a store in this process."""

    def __init__(self, storage: EnginePort) -> None:
        self._storage = storage

    def listing(self, branch: BranchId, prefix: str, besides: Iterable[DocKey]) -> Listing:
        return self._storage.call(lambda engine: listing(engine, branch, prefix, besides))

    def heads_of(self, listed: Listing, row: ObservationRow, outputs: Sequence[DocKey]) -> Listing:
        return self._storage.call(lambda engine: heads_of(engine, listed, row, outputs))

    def is_changed(self, branch: BranchId, doc: DocKey, places: Sequence[tuple[Path, Depth]], after: Seq) -> bool:
        found = self._storage.call(lambda engine: overlapping_writes(engine, branch, doc, places, after))
        return found is None or bool(found)

    def note(self, notes: Sequence[NewObservation]) -> None:
        self._storage.call(lambda engine: engine.observe(notes))

    def forget(self, branch: BranchId, gone: Collection[DocKey], *, let_go: bool = False) -> None:
        def drop(engine: Engine) -> None:
            if let_go:
                # What stands in the tail of the log would come back with it.
                engine.release(branch, gone)
            drop_unclaimed(engine, branch, gone)

        self._storage.call(drop)
