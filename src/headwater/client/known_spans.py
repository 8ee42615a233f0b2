"""The parts of indexes that a client knows: their keys as of the replica's place in the log. They are watched.

Of a span that was only read by a restored run, no keys are known, but every move there is.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from headwater.cells.key_moves import KeyMoves
from headwater.cells.span_records import KeyQuestion
from headwater.store.collection_record import CollectionRecord, KeyMove, doc_of, id_of, keys_of, kind_of_index
from headwater.sync.client_listener import SpanArrived, known_part
from headwater.sync.frames import SpanKeys, WatchSpan
from headwater.values.ids import DocKey, Seq
from headwater.values.ranges import RangeIndex
from headwater.values.sortkey import encode_id
from headwater.values.tree import Maybe


class KnownSpan:
    """A known part of one index."""

    __slots__ = ("has_docs", "hi", "index", "keys", "lo", "number", "seq", "used_at")

    def __init__(self, asked: WatchSpan, lo: bytes, hi: bytes, keys: list[bytes] | None, seq: Seq) -> None:
        self.number = asked.number
        self.index = asked.index
        self.lo = lo
        self.hi = hi
        # Sorted; None: only the moves are known.
        self.keys = keys
        # Commits up to here are in it.
        self.seq = seq
        # Documents that enter it are sent.
        self.has_docs = asked.docs > 0
        self.used_at = 0.0

    def between(self, lo: bytes, hi: bytes) -> list[bytes]:
        """Its keys in a span."""
        keys = self.keys or []
        return keys[bisect_left(keys, lo) : bisect_left(keys, hi)]

    def become(self, keys: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """These are all its keys. Returns those that are gone, and those that have come."""
        old = self.keys or []
        before, after = set(old), set(keys)
        self.keys = keys
        return [key for key in old if key not in after], [key for key in keys if key not in before]

    def is_short(self, question: KeyQuestion) -> bool:
        """Whether it has less than the documents that are read next, and there may be more: one question brings all."""
        if question.reverse:
            return self.lo > question.lo and len(self.between(self.lo, question.hi)) < question.docs
        return self.hi < question.hi and len(self.between(question.lo, self.hi)) < question.docs

    def take(self, key: bytes) -> bool:
        """A key is gone. Returns whether it was there, or may have been."""
        keys = self.keys
        if keys is None:
            return True
        place = bisect_left(keys, key)
        if place == len(keys) or keys[place] != key:
            return False
        del keys[place]
        return True

    def put(self, key: bytes) -> bool:
        """A key has come. Returns whether it was not there, or may not have been."""
        keys = self.keys
        if keys is None:
            return True
        place = bisect_left(keys, key)
        if place < len(keys) and keys[place] == key:
            return False
        keys.insert(place, key)
        return True


class KnownSpans:
    """The known parts of all indexes of one replica."""

    def __init__(self) -> None:
        self.by_number: dict[int, KnownSpan] = {}
        self._by_index: dict[str, RangeIndex[KnownSpan]] = {}

    def __len__(self) -> int:
        return len(self.by_number)

    def add(self, span: KnownSpan) -> None:
        """A part is known from now on."""
        self.by_number[span.number] = span
        if span.lo < span.hi:
            self._by_index.setdefault(span.index, RangeIndex()).add(span.lo, span.hi, span)

    def remove(self, number: int) -> KnownSpan | None:
        """A part is not known any more."""
        span = self.by_number.pop(number, None)
        if span is not None and span.lo < span.hi:
            ranges = self._by_index[span.index]
            ranges.remove(span.lo, span.hi, span)
            if not len(ranges):
                del self._by_index[span.index]
        return span

    def indexes(self) -> list[str]:
        """The indexes of which something is known."""
        return list(self._by_index)

    def holding(self, index: str, key: bytes) -> list[KnownSpan]:
        """The known parts that hold a key."""
        ranges = self._by_index.get(index)
        return [] if ranges is None else list(ranges.match((key,)))

    # -- reading -------------------------------------------------------------------------------------------

    def first(self, index: str, lo: bytes, hi: bytes, *, reverse: bool, docs: bool) -> KnownSpan | None:
        """The part that has the first keys of a span, or with `reverse` the last, and of such the most."""
        best: KnownSpan | None = None
        if reverse:
            for span in [each for each in self.by_number.values() if each.index == index]:
                if span.lo < hi <= span.hi and _serves(span, docs) and (best is None or span.lo < best.lo):
                    best = span
            return best
        for span in self.holding(index, lo):
            if _serves(span, docs) and (best is None or span.hi > best.hi):
                best = span
        return best

    def keys(
        self, index: str, lo: bytes, hi: bytes, size: int, *, reverse: bool
    ) -> tuple[list[bytes], tuple[bytes, bytes] | None, KnownSpan] | None:
        """Some keys of a span, and where the next ones begin; None if the first are not known."""
        span = self.first(index, lo, hi, reverse=reverse, docs=False)
        if span is None:
            return None
        if reverse:
            low = max(lo, span.lo)
            found = span.between(low, hi)
            if len(found) > size:
                found = found[-size:]
                return found[::-1], (lo, found[0]), span
            return found[::-1], (lo, low) if low > lo else None, span
        high = min(hi, span.hi)
        found = span.between(lo, high)
        if len(found) > size:
            del found[size:]
            return found, (found[-1] + b"\0", hi), span
        return found, (high, hi) if high < hi else None, span

    def covers(self, index: str, lo: bytes, hi: bytes, *, docs: bool) -> bool:
        """Whether all keys of a span are known."""
        while lo < hi:
            span = self.first(index, lo, hi, reverse=False, docs=docs)
            if span is None:
                return False
            lo = span.hi
        return True

    # -- changes -------------------------------------------------------------------------------------------

    def move(self, move: KeyMove, seq: Seq) -> tuple[bool, bool]:
        """A commit has moved a key. Returns whether a known part has lost the one, and got the other."""
        lost = got = False
        if move.before is not None:
            for span in self.holding(move.index, move.before):
                lost |= seq > span.seq and span.take(move.before)
        if move.after is not None:
            for span in self.holding(move.index, move.after):
                got |= seq > span.seq and span.put(move.after)
        return lost, got

    def correct(
        self, record: CollectionRecord, doc: DocKey, tree: Maybe, seq: Seq
    ) -> Iterator[tuple[str, bytes, bool]]:
        """An own commit is part of a document that is newer: what keys it has moved is not known any more.

        In the parts that do not have the commit, the keys of the document become those of today. Gives the changed
        keys, each with its index, and whether it has come.
        """
        end, now = encode_id(id_of(doc)), dict(keys_of(record, doc, tree))
        for span in self.by_number.values():
            if span.seq >= seq or span.keys is None or kind_of_index(span.index) != record.kind:
                continue
            new = now.get(span.index)
            for key in [each for each in span.keys if each != new and each.endswith(end)]:
                if doc_of(record, key) == doc:
                    span.take(key)
                    yield span.index, key, False
            if new is not None and span.lo <= new < span.hi and span.put(new):
                yield span.index, new, True

    def arrive(self, item: SpanArrived, moves: KeyMoves) -> tuple[list[bytes], list[bytes]]:
        """An answer has come in its place among the commits. Returns the keys that are gone, and those that came."""
        asked, answer = item.asked, item.answer
        span = self.by_number.get(asked.number)
        if answer is None:
            if span is not None:
                self.remove(span.number)
                moves.lose(span.index, span.lo, span.hi)
            return [], []
        if span is None:
            if asked.at is None:
                # Requested by code that did not wait.
                self.add(new_span(asked, answer))
            return [], []
        if span.keys is None and answer.at is None:
            moves.lose(span.index, span.lo, span.hi)
            gone, came = [], []
        elif span.keys is None or (asked.known and answer.at is not None):
            gone = [key for key in answer.gone if span.take(key)]
            came = [key for key in answer.came if span.put(key)]
        else:
            lo, hi = known_part(asked, answer)
            if (lo, hi) != (span.lo, span.hi):
                # More than one answer may have: what is beyond is not known any more.
                self.remove(span.number)
                moves.lose(span.index, span.lo, span.hi)
                self.add(KnownSpan(asked, lo, hi, sorted(answer.keys), answer.seq))
                return [], []
            gone, came = span.become(sorted(answer.keys))
        span.seq = max(span.seq, answer.seq)
        return gone, came

    def unread(self, reads: Iterable[tuple[str, bytes, bytes]]) -> list[KnownSpan]:
        """The parts that none of these reads touches, in the order of their last use."""
        by_index: dict[str, list[tuple[bytes, bytes]]] = {}
        for index, lo, hi in reads:
            if index in self._by_index:
                by_index.setdefault(index, []).append((lo, hi))
        joined = {index: _joined(ranges) for index, ranges in by_index.items()}
        found = [span for span in self.by_number.values() if not _is_touched(span, joined.get(span.index, ([], [])))]
        return sorted(found, key=lambda span: span.used_at)


def _joined(ranges: list[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    """The same keys in ranges that do not touch each other: their beginnings, and their ends."""
    starts: list[bytes] = []
    ends: list[bytes] = []
    for lo, hi in sorted(ranges):
        if ends and lo <= ends[-1]:
            ends[-1] = max(ends[-1], hi)
        else:
            starts.append(lo)
            ends.append(hi)
    return starts, ends


def _is_touched(span: KnownSpan, joined: tuple[list[bytes], list[bytes]]) -> bool:
    starts, ends = joined
    place = bisect_left(starts, span.hi) - 1
    return place >= 0 and ends[place] > span.lo


def new_span(asked: WatchSpan, answer: SpanKeys, seq: Seq | None = None) -> KnownSpan:
    """What an answer says, as of it, or as of the place that the question named."""
    lo, hi = known_part(asked, answer)
    keys: list[bytes] | None = sorted(answer.keys)
    if asked.known and asked.limit == 0:
        keys = None
    place = Seq(answer.seq)
    if seq is not None and answer.at is not None and keys is not None:
        keys, place = rewound(keys, answer.gone, answer.came), seq
    elif seq is not None and answer.at is not None:
        place = seq
    return KnownSpan(asked, lo, hi, keys, place)


def rewound(keys: list[bytes], gone: Iterable[bytes], came: Iterable[bytes]) -> list[bytes]:
    """The keys before the changes."""
    new = set(came)
    found = [key for key in keys if key not in new]
    for key in gone:
        insort(found, key)
    return found


def _serves(span: KnownSpan, docs: bool) -> bool:  # noqa: FBT001
    return span.keys is not None and (span.has_docs or not docs)
