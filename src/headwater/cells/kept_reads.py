"""Reads that a run reuses of the run before: a long list is not read again because one element has changed.

A run that depends on thousands of results would record each of them at each run. Instead, it may keep the reads of the
last run, together with what it made of them, and read again only what its causes name. That is exact as long as every
change of a kept read is a cause of the next run: see `RunReads.is_overtaken`, and `Invalidation.discard`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from headwater.cells.pending_commit import ReadKey
from headwater.cells.replica import Replica
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.tree import Path

_DEEP: Final = Depth.DEEP
_SHALLOW: Final = Depth.SHALLOW


class KeyChange:
    """How reads differ from others: from the same dict, with few keys more and few less."""

    __slots__ = ("added", "base", "gone")

    def __init__(self, base: dict[ReadKey, None], added: list[ReadKey], gone: list[ReadKey]) -> None:
        self.base = base
        self.added = added
        self.gone = gone


class KeptReads:
    """The reads of one part of a run, such as a computed list, and what was read."""

    __slots__ = ("change", "content", "keys")

    def __init__(self, keys: dict[ReadKey, None], content: object, change: KeyChange | None = None) -> None:
        # Never changed: other reads are another dict, so that equal reads are found by identity.
        self.keys = keys
        # Only its owner knows it.
        self.content = content
        # How the keys differ from those of an earlier run, if that is known; only the run itself needs it.
        self.change = change


class KeepingTransaction(Protocol):
    """The transaction of a run that keeps reads."""

    replica: Replica

    def record(self, doc: DocKey, path: Path, depth: Depth) -> None:
        """Record a read in the journal."""


class Keeping:
    """What one run keeps, by owner."""

    __slots__ = ("_version", "is_reused", "parts")

    def __init__(self) -> None:
        self.parts: dict[object, KeptReads] = {}
        # Some of the reads are those of the run before, and not in the journal.
        self.is_reused = False
        self._version = 0

    def reuse(self, version: int) -> None:
        """Reads were reused that are current at a visible version."""
        if not self.is_reused:
            self.is_reused, self._version = True, version

    def record(self, tx: KeepingTransaction) -> bool:
        """Record the reads that were reused, for a commit. False: one of them may have changed."""
        if not self.is_reused:
            return True
        with tx.replica.lock:
            if tx.replica.version != self._version:
                return False
            self.record_as_of_now(tx)
        return True

    def record_as_of_now(self, tx: KeepingTransaction) -> None:
        """Record the reads that were reused. The caller knows that they are unchanged."""
        self.is_reused = False
        for part in self.parts.values():
            for doc, path, bits in part.keys:
                tx.record(doc, path, _SHALLOW if bits else _DEEP)


class RunReads:
    """The reads of the last run of a node, if a part of them can be kept."""

    __slots__ = ("is_overtaken", "parts", "rest")

    def __init__(self, parts: dict[object, KeptReads], rest: tuple[ReadKey, ...]) -> None:
        # By owner.
        self.parts = parts
        # All other reads.
        self.rest = rest
        # invalidation: one of the reads has changed while the node was running, so it is no cause of the next run.
        self.is_overtaken = False

    def is_same(self, parts: dict[object, KeptReads], rest: tuple[ReadKey, ...]) -> bool:
        """Whether a run with these reads has the same reads."""
        if rest != self.rest or len(parts) != len(self.parts):
            return False
        for owner, part in parts.items():
            before = self.parts.get(owner)
            if before is None or before.keys is not part.keys:
                return False
        return True


def changed_keys(before: RunReads, parts: dict[object, KeptReads], rest: tuple[ReadKey, ...]) -> KeyChange | None:
    """How the reads of a run differ from those of the run before, if each part knows that of itself."""
    if rest != before.rest or len(parts) != len(before.parts):
        return None
    added: list[ReadKey] = []
    gone: list[ReadKey] = []
    for owner, part in parts.items():
        known = before.parts.get(owner)
        if known is None:
            return None
        if known.keys is part.keys:
            continue
        if part.change is None or part.change.base is not known.keys:
            return None
        added += part.change.added
        gone += part.change.gone
        part.change = None
    old = (dict.fromkeys(before.rest), *[part.keys for part in before.parts.values()])
    new = (dict.fromkeys(rest), *[part.keys for part in parts.values()])
    # What is in two parts is there as long as it is in one.
    added = [key for key in dict.fromkeys(added) if not any(key in keys for keys in old)]
    gone = [key for key in dict.fromkeys(gone) if not any(key in keys for keys in new)]
    return KeyChange({}, added, gone)


def without_kept(reads: Mapping[ReadKey, object], parts: dict[object, KeptReads]) -> tuple[ReadKey, ...]:
    """The reads that are in none of the parts."""
    rest = tuple(reads)
    for part in parts.values():
        keys = part.keys
        rest = tuple([key for key in rest if key not in keys])
    return rest
