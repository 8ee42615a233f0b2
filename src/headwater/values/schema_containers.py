"""Schemas of lists, tuples and dicts.

A container whose items all load as themselves loads as itself: `load(tree) is tree`. A chunked container loads as a
real list or dict, which it caches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Final, final

from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.frozen import FrozenDict, FrozenList, ImmutableList, ImmutableMap
from headwater.values.intake import RefusedError, check_key
from headwater.values.schema import ANY, Forms, LinkFound, Schema, misfit, solid, to_chunked, too_deep
from headwater.values.tree import LINK_TAG, Map, Value, array_of, is_link, is_map, map_of


@final
class ReadList(ImmutableList, list[object]):
    """A loaded list of objects that are no trees. Not a FrozenList, whose content `tree.freeze` takes as checked."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[ReadList], tuple[list[object]]]:
        return ReadList, (list(self),)


@final
class ReadDict(ImmutableMap, dict[object, object]):
    """A loaded dict with keys or values that are no trees. Not a FrozenDict, for the same reason."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[ReadDict], tuple[dict[object, object]]]:
        return ReadDict, (dict(self),)


def new_map(items: dict[str, Value]) -> Map:
    """A map of the tree from stored items."""
    made = map_of(items)
    if LINK_TAG in made and is_link(made):
        raise RefusedError("a dict of this very shape would be read as a link; use another key")
    return made


_ARRAYS: Final = (list, tuple, FrozenList, ChunkedList, ReadList)
MAPS: Final = (dict, FrozenDict, ChunkedMap, ReadDict)


class ListSchema(Schema):
    """list[T]: elements of one type. Lists and tuples are accepted."""

    __slots__ = ("item",)

    def __init__(self, item: Schema, expected: str | None = None) -> None:
        super().__init__(f"list[{item.expected}]" if expected is None else expected)
        self.item = item

    def store(self, value: object) -> Value:
        if not isinstance(value, list | tuple | ChunkedList):
            raise misfit(self.expected, value)
        if self.item is ANY:
            return ANY.store(value)
        is_tree = type(value) is FrozenList or type(value) is ChunkedList
        if self.item.stores_all(value):
            return to_chunked(value) if is_tree else array_of(value)  # type: ignore[arg-type]
        items: list[Value] = []
        store = self.item.store
        for index, item in enumerate(value):
            try:
                items.append(store(item))
            except RefusedError as refused:
                refused.steps.append(index)
                raise
            except RecursionError:
                raise too_deep() from None
        if is_tree and all(map(is_, items, value)):
            return to_chunked(value)  # type: ignore[arg-type]
        return array_of(items)

    def load(self, value: Value, binder: object) -> object:
        if type(value) is FrozenList:
            return self._load(value, binder)
        if type(value) is not ChunkedList:
            raise self.unfit(value)
        if value.cached is not None and value.cached[0] is self:
            return value.cached[1]
        loaded = self._load(FrozenList(value.flat()), binder)
        if not self.has_handles:
            value.cached = (self, loaded)
        return loaded

    def _load(self, value: FrozenList, binder: object) -> Sequence[object]:
        plain = self.item.plain
        if plain and plain.issuperset(map(type, value)):
            return value
        items: list[object] = []
        load = self.item.load
        for index, item in enumerate(value):
            try:
                items.append(load(item, binder))
            except (RefusedError, LinkFound) as met:
                met.steps.append(index)
                raise
            except RecursionError:
                raise too_deep() from None
        return value if all(map(is_, items, value)) else ReadList(items)

    def child(self, step: str | int) -> Schema | None:
        return self.item if type(step) is int and step >= 0 else None

    def parts(self) -> Iterable[Schema]:
        return (self.item,)

    def settle(self) -> None:
        self.item = solid(self.item)

    def takes(self) -> tuple[type, ...]:
        return _ARRAYS

    def forms(self) -> Forms:
        return {FrozenList: None}


class RowSchema(ListSchema):
    """tuple[T, ...]: stored as a list, loaded as a tuple."""

    __slots__ = ()

    def __init__(self, item: Schema) -> None:
        super().__init__(item, f"tuple[{item.expected}, ...]")

    def _load(self, value: FrozenList, binder: object) -> Sequence[object]:
        return tuple(super()._load(value, binder))


class TupleSchema(Schema):
    """tuple[A, B]: a fixed number of elements, each of its own type."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Schema]) -> None:
        self.items = tuple(items)
        super().__init__(f"tuple[{', '.join(item.expected for item in self.items) or '()'}]")

    def store(self, value: object) -> Value:
        if not isinstance(value, list | tuple | ChunkedList) or len(value) != len(self.items):
            raise misfit(self.expected, value)
        items: list[Value] = []
        for index, item in enumerate(value):
            try:
                items.append(self.items[index].store(item))
            except RefusedError as refused:
                refused.steps.append(index)
                raise
            except RecursionError:
                raise too_deep() from None
        return array_of(items)

    def load(self, value: Value, binder: object) -> object:
        if not isinstance(value, FrozenList | ChunkedList) or len(value) != len(self.items):
            raise self.unfit(value)
        items: list[object] = []
        for index, item in enumerate(value):
            try:
                items.append(self.items[index].load(item, binder))
            except (RefusedError, LinkFound) as met:
                met.steps.append(index)
                raise
            except RecursionError:
                raise too_deep() from None
        return tuple(items)

    def child(self, step: str | int) -> Schema | None:
        return self.items[step] if type(step) is int and 0 <= step < len(self.items) else None

    def needs(self, step: str | int) -> bool:
        return self.child(step) is not None

    def parts(self) -> Iterable[Schema]:
        return self.items

    def settle(self) -> None:
        self.items = tuple(map(solid, self.items))

    def takes(self) -> tuple[type, ...]:
        return _ARRAYS

    def forms(self) -> Forms:
        return {FrozenList: None}


class MapSchema(Schema):
    """dict[K, T]: values of one type, with keys that are text or (with `key`) stored as text.

    Keys that are not text are loaded in the order of their text.
    """

    __slots__ = ("item", "key")

    def __init__(self, item: Schema, key: Schema | None = None, expected: str | None = None) -> None:
        keys = "str" if key is None else key.expected
        super().__init__(f"dict[{keys}, {item.expected}]" if expected is None else expected)
        self.item = item
        self.key = key

    def store(self, value: object) -> Value:
        if not isinstance(value, dict | Mapping):
            raise misfit(self.expected, value)
        if self.item is ANY and self.key is None:
            return ANY.store(value)
        items: dict[str, Value] = {}
        store = self.item.store
        for key, item in value.items():
            name = self.store_key(key)
            try:
                items[name] = store(item)
            except RefusedError as refused:
                refused.steps.append(name)
                raise
            except RecursionError:
                raise too_deep() from None
        if is_map(value) and self.key is None and all(map(is_, items.values(), value.values())):
            return to_chunked(value)
        return new_map(items)

    def load(self, value: Value, binder: object) -> object:
        if type(value) is FrozenDict:
            if LINK_TAG in value and is_link(value):
                raise LinkFound
            return self._load(value, binder)
        if type(value) is not ChunkedMap:
            raise self.unfit(value)
        if value.cached is not None and value.cached[0] is self:
            return value.cached[1]
        loaded = self._load(FrozenDict(value.flat()), binder)
        if not self.has_handles:
            value.cached = (self, loaded)
        return loaded

    def _load(self, value: FrozenDict, binder: object) -> FrozenDict | ReadDict:
        plain = self.item.plain
        if self.key is None and plain and plain.issuperset(map(type, value.values())):
            return value
        items: dict[object, object] = {}
        load = self.item.load
        for name, item in value.items():
            try:
                key = name if self.key is None else self.key.key_of(name)
                items[key] = load(item, binder)
            except (RefusedError, LinkFound) as met:
                met.steps.append(name)
                raise
            except RecursionError:
                raise too_deep() from None
        if self.key is None and all(map(is_, items.values(), value.values())):
            return value
        return ReadDict(items)

    def store_key(self, key: object) -> str:
        if self.key is not None:
            key = self.key.key_text(key)
        elif not isinstance(key, str):
            raise misfit("str as key", key)
        return check_key(key)[0]

    def load_key(self, text: str) -> object:
        return text if self.key is None else self.key.key_of(text)

    def child(self, step: str | int) -> Schema | None:
        if not isinstance(step, str):
            return None
        try:
            self.load_key(step)
        except RefusedError:
            return None
        return self.item

    def parts(self) -> Iterable[Schema]:
        return (self.item,)

    def settle(self) -> None:
        self.item = solid(self.item)

    def takes(self) -> tuple[type, ...]:
        return MAPS

    def forms(self) -> Forms:
        return {FrozenDict: None}
