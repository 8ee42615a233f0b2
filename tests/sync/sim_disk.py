"""The server's disk in the simulated world: it may be full or away for a while, or fail, and the file is opened anew.

A full disk keeps nothing of what was to be written, and reads go on. One that is away can be neither read nor written
for a moment. A disk that fails may have kept the last write or not; then nothing can be read or written through the
same opening.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from headwater.errors import PoisonedError, StoreFullError, UnavailableError
from headwater.store.backends.memory_backend import MemoryBackend

WRITES = frozenset({"append", "set_meta", "drop_observations", "drop_log", "damaged_observations"})
READS = frozenset(
    {
        "folded", "last", "log", "row", "branches", "head", "heads", "revisions", "snapshot", "snapshots",
        "observation", "observations", "head_seqs", "replayed", "last_local", "meta",
    }
)  # fmt: skip


class SimDisk(MemoryBackend):
    """One file, whatever becomes of the server's processes."""

    def __init__(self, rng: random.Random, counts: Counter[str]) -> None:
        super().__init__()
        self._rng = rng
        self._seen = counts
        self.is_full = False
        self.is_away = False
        # Also the file that says who may come in, which is on it.
        self.hides_grants = False
        # The next write fails; and after that, until the file is opened anew, everything.
        self.fails_next = False
        self.is_poisoned = False

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in WRITES:
            return lambda *values, **named: self._written(found, *values, **named)
        if name in READS and self.is_poisoned:
            raise PoisonedError("the disk failed before")
        if name in READS and self.is_away:
            self._seen["reads of a disk that is away"] += 1
            raise UnavailableError("the disk is away")
        return found

    def _written(self, write: Any, *values: Any, **named: Any) -> Any:
        if self.is_poisoned:
            raise PoisonedError("the disk failed before")
        if self.fails_next:
            self.fails_next, self.is_poisoned = False, True
            self._seen["failed writes"] += 1
            if self._rng.random() < 0.5:
                write(*values, **named)
            raise PoisonedError("the disk fails")
        if self.is_away:
            raise UnavailableError("the disk is away")
        if self.is_full:
            self._seen["writes without room"] += 1
            raise StoreFullError("no room")
        return write(*values, **named)

    @property
    def is_well(self) -> bool:
        return not (self.is_full or self.is_away or self.fails_next or self.is_poisoned)

    def mend(self) -> None:
        """There is room, and no write is about to fail. What has failed has to be opened anew all the same."""
        self.is_full = self.is_away = self.hides_grants = self.fails_next = False

    def reopen(self) -> None:
        self.is_poisoned = False
