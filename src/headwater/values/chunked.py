"""Large containers, stored in chunks that versions share: an update copies one chunk, not the container.

A chunked map is a row of small sorted dicts, found by the first key of each. A chunked list is a row of lists, found by
the index at which each starts. Two levels are enough, because the document limit bounds the row. No chunk is empty or
holds more than CHUNK_MAX entries, and two neighbors together hold more than half of that, so the row stays short
after any sequence of updates.

The classes are not dicts and lists, but have all of their reading methods, and refuse the writing ones. The built-in
dicts and lists inside are never changed once a container is made; only this module's discipline ensures that.

`tree` decides when a container becomes chunked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final, overload

from headwater.values.frozen import ImmutableList, ImmutableMap
from headwater.values.value_limits import CHUNK_MAX

if TYPE_CHECKING:  # the tree is made of these containers, and their items are trees
    from headwater.values.tree import Value

_HALF: Final = CHUNK_MAX // 2

Cached: TypeAlias = tuple[object, object] | None
"""A cache for one derived object of a whole container: its key, and the object (see `schema`)."""


def _joined(chunks: Iterable[dict[str, Value]]) -> dict[str, Value]:
    result: dict[str, Value] = {}
    for chunk in chunks:
        result.update(chunk)
    return result


class _Items(ItemsView[str, "Value"]):
    """Iterates chunk by chunk, without a search for every key."""

    __slots__ = ()
    _mapping: ChunkedMap

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return chain.from_iterable(map(dict.items, self._mapping.chunks()))


class _Values(ValuesView["Value"]):
    """Likewise."""

    __slots__ = ()
    _mapping: ChunkedMap

    def __iter__(self) -> Iterator[Value]:
        return chain.from_iterable(map(dict.values, self._mapping.chunks()))


@final
class ChunkedMap(ImmutableMap, Mapping[str, "Value"]):
    """A sorted map of many keys, at least one. Equal to a dict with the same items."""

    __slots__ = ("_chunks", "_firsts", "_len", "cached")

    def __init__(self, chunks: list[dict[str, Value]], firsts: list[str], length: int) -> None:
        self._chunks = chunks
        self._firsts = firsts
        self._len = length
        self.cached: Cached = None

    @classmethod
    def of(cls, items: Mapping[str, Value]) -> ChunkedMap:
        """The items must already be in sorted key order."""
        it = iter(items.items())
        chunks = list(iter(lambda: dict(islice(it, _HALF)), {}))
        return cls(chunks, [next(iter(chunk)) for chunk in chunks], len(items))

    def chunks(self) -> list[dict[str, Value]]:
        """The chunks in order, read-only, for callers that work chunk by chunk."""
        return self._chunks

    def _at(self, key: str) -> int:
        return max(bisect_right(self._firsts, key) - 1, 0)

    def _replaced(self, at: int, until: int, new: list[dict[str, Value]], grown: int) -> ChunkedMap:
        """This map with the chunks from `at` until `until` replaced, which changes its length by `grown`."""
        chunks = self._chunks.copy()
        chunks[at:until] = new
        firsts = self._firsts
        if grown and not (len(new) == until - at == 1 and next(iter(new[0])) == firsts[at]):
            firsts = firsts.copy()
            firsts[at:until] = [next(iter(chunk)) for chunk in new]
        return ChunkedMap(chunks, firsts, self._len + grown)

    def put(self, key: str, value: Value) -> ChunkedMap:
        """This map with one key set."""
        at = self._at(key)
        chunk = self._chunks[at]
        if key in chunk:
            new = chunk.copy()
            new[key] = value
            return self._replaced(at, at + 1, [new], 0)
        position = bisect_left(list(chunk), key)
        items = list(chunk.items())
        items.insert(position, (key, value))
        if len(items) <= CHUNK_MAX:
            return self._replaced(at, at + 1, [dict(items)], 1)
        # Keys in ascending order fill the last chunk and start the next; all others split their chunk in half.
        is_end = position == CHUNK_MAX and at == len(self._chunks) - 1
        cut = CHUNK_MAX if is_end else _HALF
        return self._replaced(at, at + 1, [dict(items[:cut]), dict(items[cut:])], 1)

    def drop(self, key: str) -> ChunkedMap:
        """This map without one key that it holds."""
        chunks = self._chunks
        at = self._at(key)
        new = chunks[at].copy()
        del new[key]
        if not new:
            return self._replaced(at, at + 1, [], -1)
        if at and len(chunks[at - 1]) + len(new) <= _HALF:
            return self._replaced(at - 1, at + 1, [chunks[at - 1] | new], -1)
        if at + 1 < len(chunks) and len(new) + len(chunks[at + 1]) <= _HALF:
            return self._replaced(at, at + 2, [new | chunks[at + 1]], -1)
        return self._replaced(at, at + 1, [new], -1)

    def __getitem__(self, key: str) -> Value:
        if not isinstance(key, str):
            raise KeyError(key)
        return self._chunks[self._at(key)][key]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self._chunks[self._at(key)]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._chunks)

    def __reversed__(self) -> Iterator[str]:
        return chain.from_iterable(map(reversed, reversed(self._chunks)))

    def __len__(self) -> int:
        return self._len

    def items(self) -> ItemsView[str, Value]:
        return _Items(self)

    def values(self) -> ValuesView[Value]:
        return _Values(self)

    def flat(self) -> dict[str, Value]:
        """All items as one plain dict."""
        return _joined(self._chunks)

    copy = flat

    def __or__(self, other: object) -> dict[str, Any]:
        return {**self.flat(), **other} if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: object) -> dict[str, Any]:
        return {**other, **self.flat()} if isinstance(other, Mapping) else NotImplemented

    def unshared(self, other: ChunkedMap) -> tuple[dict[str, Value], dict[str, Value]]:
        """The items of each that are not in shared chunks: all that can differ, and little more."""
        if self._firsts is other._firsts:
            pairs = [pair for pair in zip(self._chunks, other._chunks, strict=True) if pair[0] is not pair[1]]
            return _joined(mine for mine, _ in pairs), _joined(theirs for _, theirs in pairs)
        mine, theirs = set(map(id, self._chunks)), set(map(id, other._chunks))
        return (
            _joined(chunk for chunk in self._chunks if id(chunk) not in theirs),
            _joined(chunk for chunk in other._chunks if id(chunk) not in mine),
        )

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ChunkedMap):
            mine, theirs = self.unshared(other)
            return mine == theirs
        if isinstance(other, dict):
            return self._len == len(other) and self.flat() == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # the way to say "unhashable"; typeshed knows it as a method

    def __reduce__(self) -> tuple[object, tuple[dict[str, Value]]]:
        return ChunkedMap.of, (self.flat(),)

    def __repr__(self) -> str:
        return f"ChunkedMap({self._len} keys, {self._firsts[0]!r} ...)"


@final
class ChunkedList(ImmutableList, Sequence["Value"]):
    """An array of many elements, at least one. Equal to a list with the same elements."""

    __slots__ = ("_chunks", "_len", "_starts", "cached")

    def __init__(self, chunks: list[list[Value]], starts: list[int], length: int) -> None:
        self._chunks = chunks
        self._starts = starts
        self._len = length
        self.cached: Cached = None

    @classmethod
    def of(cls, items: Iterable[Value]) -> ChunkedList:
        """The list of these elements."""
        it = iter(items)
        return cls._of_chunks(list(iter(lambda: list(islice(it, CHUNK_MAX)), [])))

    @classmethod
    def _of_chunks(cls, chunks: list[list[Value]]) -> ChunkedList:
        *starts, length = accumulate(map(len, chunks), initial=0)
        return cls(chunks, starts, length)

    def chunks(self) -> list[list[Value]]:
        """The chunks in order, read-only, for callers that work chunk by chunk."""
        return self._chunks

    def put(self, index: int, value: Value) -> ChunkedList:
        """This list with one existing element replaced."""
        at = bisect_right(self._starts, index) - 1
        chunk = self._chunks[at].copy()
        chunk[index - self._starts[at]] = value
        chunks = self._chunks.copy()
        chunks[at] = chunk
        return ChunkedList(chunks, self._starts, self._len)

    def splice(self, index: int, delete: int, items: Sequence[Value]) -> ChunkedList:
        """Replace a run of elements, but not all of them, by others."""
        chunks = self._chunks
        if index == self._len:
            return self._appended(items)
        first = bisect_right(self._starts, index) - 1
        last = max(bisect_left(self._starts, index + delete), first + 1)
        run = list(chain.from_iterable(chunks[first:last]))
        offset = index - self._starts[first]
        run[offset : offset + delete] = items
        if len(run) < _HALF:
            # Merge with the neighbors, so that no small chunks remain.
            before, after = chunks[max(first - 1, 0) : first], chunks[last : last + 1]
            run = list(chain(*before, run, *after))
            first, last = first - len(before), last + len(after)
        pieces = -(-len(run) // CHUNK_MAX)
        cuts = [len(run) * piece // pieces for piece in range(pieces + 1)]
        chunks = chunks.copy()
        chunks[first:last] = [run[start:end] for start, end in pairwise(cuts)]
        return ChunkedList._of_chunks(chunks)

    def _appended(self, items: Sequence[Value]) -> ChunkedList:
        """Appended elements fill the last chunk and start the next."""
        chunks = self._chunks.copy()
        last = [*chunks[-1], *items]
        chunks[-1] = last[:CHUNK_MAX]
        if len(last) <= CHUNK_MAX:
            return ChunkedList(chunks, self._starts, self._len + len(items))
        chunks += [last[start : start + CHUNK_MAX] for start in range(CHUNK_MAX, len(last), CHUNK_MAX)]
        return ChunkedList._of_chunks(chunks)

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> list[Value]: ...
    def __getitem__(self, index: int | slice) -> Value | list[Value]:
        if isinstance(index, slice):
            return self._part(range(*index.indices(self._len)))
        if index < 0:
            index += self._len
        if not 0 <= index < self._len:
            raise IndexError("list index out of range")
        at = bisect_right(self._starts, index) - 1
        return self._chunks[at][index - self._starts[at]]

    def _part(self, places: range) -> list[Value]:
        if not places:
            return []
        low, high = min(places[0], places[-1]), max(places[0], places[-1]) + 1
        first = bisect_right(self._starts, low) - 1
        run = list(chain.from_iterable(self._chunks[first : bisect_left(self._starts, high)]))
        start = self._starts[first]
        return run[low - start : high - start][:: places.step]

    def __iter__(self) -> Iterator[Value]:
        return chain.from_iterable(self._chunks)

    def __reversed__(self) -> Iterator[Value]:
        return chain.from_iterable(map(reversed, reversed(self._chunks)))

    def __len__(self) -> int:
        return self._len

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        anything: list[object] = [*self]
        return anything.index(value, start, self._len if stop is None else stop)

    def flat(self) -> list[Value]:
        """All elements as one plain list."""
        return list(chain.from_iterable(self._chunks))

    copy = flat

    def __add__(self, other: object) -> list[Any]:
        return [*self, *other] if isinstance(other, list | ChunkedList) else NotImplemented

    def __radd__(self, other: object) -> list[Any]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __mul__(self, times: int) -> list[Value]:
        return self.flat() * times

    __rmul__ = __mul__

    def unshared(self, other: ChunkedList) -> list[tuple[int, list[Value], list[Value]]]:
        """The runs that can differ, of two lists of equal length: the index of each, and the elements of both."""
        if self._starts != other._starts:
            return [(0, self.flat(), other.flat())]
        runs = zip(self._starts, self._chunks, other._chunks, strict=True)
        return [run for run in runs if run[1] is not run[2]]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ChunkedList):
            return self._len == other._len and all(mine == theirs for _, mine, theirs in self.unshared(other))
        if isinstance(other, list):
            return self._len == len(other) and self.flat() == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as for ChunkedMap

    def __reduce__(self) -> tuple[object, tuple[list[Value]]]:
        return ChunkedList.of, (self.flat(),)

    def __repr__(self) -> str:
        return f"ChunkedList({self._len} elements)"


def common_ends(old: Sequence[Value], new: Sequence[Value]) -> tuple[int, int]:
    """How many elements at the beginning, and how many at the end, are the same objects in both lists.

    Shared chunks are compared as a whole. Both together are no more than the shorter list.
    """
    mine = old.chunks() if isinstance(old, ChunkedList) else [list(old)]
    theirs = new.chunks() if isinstance(new, ChunkedList) else [list(new)]
    shortest = min(len(old), len(new))
    start = _common(zip(mine, theirs, strict=False), chain.from_iterable(mine), chain.from_iterable(theirs), shortest)
    pairs = zip(reversed(mine), reversed(theirs), strict=False)
    one, other = (chain.from_iterable(map(reversed, reversed(chunks))) for chunks in (mine, theirs))
    return start, _common(pairs, one, other, shortest - start)


def _common(
    chunks: Iterable[tuple[list[Value], list[Value]]], mine: Iterator[Value], theirs: Iterator[Value], most: int
) -> int:
    """How many elements at one end are the same objects. The chunks, and the elements, are in order from that end."""
    count = 0
    for one, other in chunks:
        if one is not other or count + len(one) > most:
            break
        count += len(one)
    for element, counterpart in zip(islice(mine, count, most), islice(theirs, count, most), strict=True):
        if element is not counterpart:
            break
        count += 1
    return count
