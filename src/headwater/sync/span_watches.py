"""Which sessions watch which spans of indexes, and what each of them is sent of a commit that moves keys.

A moved key is compared with the ranges that hold it, not with all spans of all sessions.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from headwater.store.collection_record import IndexName, KeyMove, Shift, kind_of
from headwater.values.ids import DocKey
from headwater.values.ranges import RangeIndex

_BEFORE: Final = 1
_AFTER: Final = 2
_FROM_DOCS: Final = 4
_INTO_DOCS: Final = 8


class WatchedSpan(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A span that a session watches, under the number of its question."""

    number: int
    index: IndexName
    lo: bytes
    hi: bytes
    has_docs: bool
    """Documents that enter it are sent."""


class SpanWatcher(Protocol):
    """The part of a session that is used here."""

    @property
    def spans(self) -> dict[int, WatchedSpan]:
        """The watched spans, by number."""
        ...

    def may_see(self, doc: DocKey) -> bool:
        """Whether a document is in a scope of the session."""
        ...


W = TypeVar("W", bound=SpanWatcher)


class SpanNews:
    """What one session is sent of a commit: the moves within its spans, and the documents that enter them."""

    __slots__ = ("entered", "moves")

    def __init__(self) -> None:
        self.moves: list[KeyMove] = []
        self.entered: dict[DocKey, None] = {}


class SpanWatches(Generic[W]):
    """The watched spans of one branch."""

    def __init__(self) -> None:
        self._by_index: dict[IndexName, RangeIndex[tuple[W, WatchedSpan]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def visits(self) -> int:
        """Ranges that moved keys were compared with: tests bound it."""
        return sum(each.visits for each in self._by_index.values())

    def add(self, watcher: W, span: WatchedSpan) -> None:
        """Watch a span, too."""
        watcher.spans[span.number] = span
        self._by_index.setdefault(span.index, RangeIndex()).add(span.lo, span.hi, (watcher, span))
        self._count += 1

    def remove(self, watcher: W, numbers: Iterable[int]) -> None:
        """Stop watching spans. Unknown numbers are ignored."""
        for number in numbers:
            span = watcher.spans.pop(number, None)
            if span is None:
                continue
            self._count -= 1
            spans = self._by_index[span.index]
            spans.remove(span.lo, span.hi, (watcher, span))
            if not len(spans):
                del self._by_index[span.index]

    def watchers_of(self, indexes: Iterable[IndexName]) -> list[W]:
        """The sessions that watch spans of these indexes, each once."""
        found: dict[W, None] = {}
        for index in indexes:
            if index in self._by_index:
                found.update({watcher: None for _, _, (watcher, _) in self._by_index[index].entries()})
        return list(found)

    @property
    def indexes(self) -> list[IndexName]:
        """The indexes with watched spans."""
        return list(self._by_index)

    def news_of(self, shifts: Iterable[Shift], writer: W | None, ruled: Container[str]) -> dict[W, SpanNews]:
        """What each session is sent of the shifts of one commit, its writer excepted.

        A key that is in no span of a session is left out. Sessions with the same spans get the same records.
        """
        found: dict[W, SpanNews] = {}
        for shift in shifts:
            is_ruled = kind_of(shift.doc) in ruled
            for move in shift.moves:
                spans = self._by_index.get(move.index)
                if spans is None:
                    continue
                sides: dict[W, int] = {}
                for key, side, docs_side in ((move.before, _BEFORE, _FROM_DOCS), (move.after, _AFTER, _INTO_DOCS)):
                    for watcher, span in () if key is None else spans.match((key,)):
                        sides[watcher] = sides.get(watcher, 0) | side | (docs_side if span.has_docs else 0)
                parts: dict[int, KeyMove] = {}
                for watcher, seen in sides.items():
                    if watcher is writer or (is_ruled and not watcher.may_see(shift.doc)):
                        continue
                    news = found.get(watcher)
                    if news is None:
                        news = found[watcher] = SpanNews()
                    news.moves.append(_part(move, seen, parts))
                    if seen & _INTO_DOCS and not seen & _FROM_DOCS:
                        news.entered[shift.doc] = None
        return found


def _part(move: KeyMove, seen: int, parts: dict[int, KeyMove]) -> KeyMove:
    """A move without the keys that a session does not watch."""
    sides = seen & (_BEFORE | _AFTER)
    part = parts.get(sides)
    if part is None:
        before = move.before if sides & _BEFORE else None
        part = parts[sides] = KeyMove(move.index, before, move.after if sides & _AFTER else None)
    return part
