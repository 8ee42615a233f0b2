"""The log of a space, as its rows say: documents at every place, and where each number of the workload was written."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from headwater.store.applying import apply_operation
from headwater.store.backend import LogRow
from headwater.store.commit import CommitEntry
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.values.codec import encode
from headwater.values.ids import MAIN, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT, Maybe
from sim.shared.shared_app import KEYS_OF, LENGTH_OF
from sim.shared.workload import FIRST_NUMBER

NUMBERS_FROM = FIRST_NUMBER - 1_000
"""Smaller numbers are counters."""

Repeat: TypeAlias = tuple[int, SessionId, LocalSeq]
"""A commit, by its session and its number there, and a number of another transaction that it has written again."""


class History:
    """Rows of a log from its beginning, and what follows from them. Only the main branch."""

    def __init__(self, rows: Iterable[LogRow], repeats: AbstractSet[Repeat] = frozenset()) -> None:
        self.rows = {int(row.seq): row for row in rows}
        self.entries: dict[int, CommitEntry] = {}
        self._versions: dict[DocKey, list[tuple[int, Maybe]]] = defaultdict(list)
        # Where a number appeared in a document that did not have it before. A transaction that writes a value again
        # which was read outside of it does not depend on the one that had written it: last write wins, and the value
        # may be that of a commit that was rejected. Such a place says nothing about the transaction of the number.
        self._repeats = repeats
        self.written: dict[int, list[int]] = defaultdict(list)
        # The first place of a number that is such a repetition.
        self.repeated: dict[int, int] = {}
        for seq in sorted(self.rows):
            entry = read_entry(self.rows[seq])
            if isinstance(entry, CommitEntry) and entry.branch == MAIN:
                self._fold(seq, entry)

    def _fold(self, seq: int, entry: CommitEntry) -> None:
        self.entries[seq] = entry
        before = {operation.doc: self.now(operation.doc) for operation in entry.operations}
        after = dict(before)
        for operation in entry.operations:
            after[operation.doc], _ = apply_operation(after[operation.doc], operation)
        for doc, value in after.items():
            self._versions[doc].append((seq, value))
            for number in sorted(set(_numbers(value)) - set(_numbers(before[doc]))):
                if (number, entry.session, entry.local_seq) in self._repeats:
                    self.repeated.setdefault(number, seq)
                elif seq not in self.written[number]:
                    self.written[number].append(seq)

    def now(self, doc: DocKey) -> Maybe:
        """The newest value."""
        versions = self._versions.get(doc)
        return versions[-1][1] if versions else ABSENT

    def before(self, doc: DocKey, seq: int) -> Maybe:
        """The value before a place of the log."""
        versions = self._versions.get(doc, [])
        index = bisect_right(versions, seq - 1, key=lambda version: version[0])
        return versions[index - 1][1] if index else ABSENT

    def has(self, doc: DocKey, *, before: int) -> bool:
        """Whether a document was written before a place of the log."""
        return any(seq < before for seq, _ in self._versions.get(doc, []))

    @property
    def head(self) -> int:
        """The newest place."""
        return max(self.rows, default=0)

    @property
    def docs(self) -> list[DocKey]:
        """All documents that were ever written, sorted."""
        return sorted(self._versions)


class Mirror:
    """Rows of a log as they were seen at several times: none may change or disappear."""

    def __init__(self) -> None:
        self.rows: dict[int, LogRow] = {}

    def look(self, engine: Engine) -> list[str]:
        """Take over the rows of the log. Returns what is wrong with them."""
        horizon = engine.documents.horizon.seq
        found = {int(row.seq): row for row in engine.backend.log(horizon, engine.head)}
        wrong: list[str] = []
        for seq, row in sorted(self.rows.items()):
            if seq <= horizon:
                continue
            if seq not in found:
                wrong.append(f"commit {seq} was in the log, and is not any more")
            elif found[seq].body != row.body:
                wrong.append(f"commit {seq} has changed")
        self.rows |= found
        return wrong

    def history(self, repeats: AbstractSet[Repeat] = frozenset()) -> History:
        """All that was seen."""
        return History(self.rows.values(), repeats)


def lookup(value: Maybe, path: tuple[object, ...]) -> object:
    """The part of a value at a path, as plain Python; None if there is none."""
    found: object = None if value is ABSENT else value
    for step in path:
        if step == KEYS_OF:
            return sorted(found) if isinstance(found, dict) else []
        if step == LENGTH_OF:
            return len(found) if isinstance(found, list) else 0
        found = _child(found, step)
    return plain(found)


def _child(value: object, step: object) -> object:
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None


def plain(value: object) -> object:
    """Without the frozen types of the store."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def body(value: Maybe) -> bytes:
    """For comparison: canonical bytes; none for a document that does not exist."""
    return b"" if value is ABSENT else encode(value)


def _numbers(value: object) -> Iterator[int]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _numbers(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int) and value >= NUMBERS_FROM:
        yield value


__all__ = ["History", "Mirror", "Repeat", "Seq", "body", "lookup", "plain"]
