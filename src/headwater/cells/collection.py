"""Lists and maps that are part of a document: changed in place, element by element, each change a patch.

They behave like `list` and `dict`, and a reader depends on just what it looked at: the length, one element, one key,
or, by going through all of it, all.

Must never know: documents as classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, cast, overload

from headwater.cells.here import Addressed, Owner, find
from headwater.cells.home import Home
from headwater.cells.journal import IGNORED_FOR_SCHEDULING
from headwater.cells.show import cell_html, inert, shorten
from headwater.cells.slot import MISSING, Slot, slot_place
from headwater.cells.traverse import Traverse
from headwater.errors import HeadwaterError, UsageError
from headwater.values.address import Depth
from headwater.values.hints import freeze_with
from headwater.values.ids import DocKey
from headwater.values.intake import RefusedError
from headwater.values.patch import AddUnique, Append, RemoveByValue, Splice
from headwater.values.schema import Handle, Schema
from headwater.values.tree import ABSENT, Maybe, Path, Value, array_of, get, is_array, is_map, same

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class _Unbound:
    """The owner of a list or map that stands in a class body: it says what documents have, and holds nothing."""

    def sole_home(self, _what: str | Addressed) -> Home:
        message = (
            "hw.List() and hw.Map() in a class body declare a field; use them through a document of that class, "
            "such as board.items"
        )
        raise UsageError(message)


_UNBOUND: Final = _Unbound()


class _Collection(Slot):
    """What lists and maps have in common: a declared default, and a shape."""

    __slots__ = ("declared",)

    # What it holds by default, if it stands in a class body; else None.
    declared: object

    @classmethod
    def bound(
        cls, owner: Owner, doc: str, path: Path, *, schema: Schema, default: Maybe, scope: str, key: DocKey | None
    ) -> Self:
        """The collection at a place of a document."""
        made = cls.__new__(cls)
        Slot.__init__(made, owner, doc, path, schema=schema, default=default, scope=scope, key=key)
        made.declared = None
        return made

    def _shape(self) -> Maybe:
        """What stands here, of which only keys or length may be used."""
        home, source = self._source()
        traverse = Traverse(source, home.scope)
        doc = self._key(home)
        place = traverse.place(doc, self._path)
        value: Maybe = ABSENT if place is None else source.read(place.doc, place.path, Depth.SHALLOW)
        return self._default_here(traverse, doc) if value is ABSENT else value

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._owner is _UNBOUND:
            return f"hw.{name}()"
        try:
            return f"<{name} {inert(self.address)} = {shorten(repr(self._read(IGNORED_FOR_SCHEDULING)))}>"
        except HeadwaterError:
            return f"<{name} {inert(self.address)}: not readable here>"

    def _repr_html_(self) -> str:
        try:
            value = self._read(IGNORED_FOR_SCHEDULING)
        except HeadwaterError as error:
            return cell_html(self.address, self._schema.expected, None, str(error))
        return cell_html(self.address, self._schema.expected, value, None)


class List(_Collection, MutableSequence[T], Generic[T]):
    """A list in a document. In a class body, `items: hw.List[Item] = hw.List()` declares one."""

    __slots__ = ()

    def __init__(self, items: Iterable[T] = ()) -> None:
        super().__init__(_UNBOUND, "-")
        self.declared = list(items)

    # For type checkers: as a field it reads as itself, and a list may be assigned. `doc.Field` does it.
    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[object]) -> Self: ...
    def __get__(self, instance: object, owner: type[object]) -> Self:
        return self

    def __set__(self, instance: object, value: MutableSequence[T]) -> None:
        raise AttributeError("a list is assigned through its document")

    # -- reading -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        shape = self._shape()
        return len(shape) if is_array(shape) else 0

    def __iter__(self) -> Iterator[T]:
        return iter(cast("list[T]", self._read(0)))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return cast("list[T]", self._read(0))[index]
        place = self._index(index, len(self) if index < 0 else None)
        item = self._schema.child(place)
        found = MISSING if item is None else self._read_part(place, item)
        if found is not MISSING:
            return cast("T", found)
        part = self._part(place)
        if place < 0 or not part._exists():
            defaults = self._default_element(place)
            if defaults is ABSENT:
                raise IndexError(f"{self.address} has no element {index}: its length is {len(self)}")
        return cast("T", part._read(0))

    def _default_element(self, place: int) -> Maybe:
        shape = self._shape()
        return shape[place] if is_array(shape) and 0 <= place < len(shape) else ABSENT

    @staticmethod
    def _index(index: int, length: int | None) -> int:
        if type(index) is not int:
            raise TypeError(f"list indices are numbers or slices, not {type(index).__name__}")
        return index if length is None else index + length

    def __contains__(self, item: object) -> bool:
        return item in cast("list[T]", self._read(0))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, List | list | tuple):
            return list(self) == list(other)
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as for every list

    # -- writing -------------------------------------------------------------------------------------------

    def append(self, value: T) -> None:
        """Add to the end. Two who append at the same time both succeed."""
        items = self._items([value])
        self._edit(lambda path: Append(path, items))

    def extend(self, values: Iterable[T]) -> None:
        """Add several to the end, in one step."""
        items = self._items(values)
        self._edit(lambda path: Append(path, items))

    def __iadd__(self, values: Iterable[T]) -> Self:
        self.extend(values)
        return self

    def add_unique(self, value: T) -> None:
        """Add to the end unless it is there: also if another adds the same at the same time."""
        items = self._items([value])
        self._edit(lambda path: AddUnique(path, items))

    def insert(self, index: int, value: T) -> None:
        """Put in front of an element, as `list.insert`."""
        self._insert(index, self._items([value]))

    @overload
    def __setitem__(self, index: int, value: T) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[T]) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        length = self._length()
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            if step != 1:
                raise ValueError("a slice that is assigned to takes no step")
            items = self._items(value)
            self._edit(lambda path: Splice(path, start, max(0, stop - start), items))
            return
        items, place = self._items([value]), self._checked(index, length)
        self._edit(lambda path: Splice(path, place, 1, items))

    def __delitem__(self, index: int | slice) -> None:
        length = self._length()
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            if step != 1:
                raise ValueError("a slice that is deleted takes no step")
            self._edit(lambda path: Splice(path, start, max(0, stop - start), array_of([])))
            return
        place = self._checked(index, length)
        self._edit(lambda path: Splice(path, place, 1, array_of([])))

    def remove(self, value: T) -> None:
        """Take out the first equal element, as `list.remove`."""
        schema = self._schema.child(0)
        assert schema is not None
        stored = freeze_with(schema, value, f"an item of {self.address}")
        there = self._there()
        found = [index for index, item in enumerate(there if is_array(there) else ()) if same(item, stored)]
        if not found:
            raise ValueError(f"{shorten(repr(value))} is not in {self.address}")
        if len(found) == 1:
            # By value: it is the same element wherever others have moved it meanwhile.
            self._edit(lambda path: RemoveByValue(path, array_of([stored])))
        else:
            self._edit(lambda path: Splice(path, found[0], 1, array_of([])))

    def clear(self) -> None:
        """Take out everything."""
        self._write([])

    def _length(self) -> int:
        there = self._there()
        return len(there) if is_array(there) else 0

    def _checked(self, index: int, length: int) -> int:
        place = self._index(index, length if index < 0 else None)
        if not 0 <= place < length:
            raise IndexError(f"{self.address} has no element {index}: its length is {length}")
        return place

    @classmethod
    def __headwater_schema__(cls, args: tuple[object, ...], schema_of: Callable[[object], Schema]) -> Schema:
        """A list as part of a type: a handle, with a list behind it."""
        return CollectionHandle(cls, schema_of(list[args[0]] if args else list))  # type: ignore[valid-type]


class Map(_Collection, MutableMapping[K, V], Generic[K, V]):
    """A dict in a document. In a class body, `votes: hw.Map[str, int] = hw.Map()` declares one."""

    __slots__ = ()

    def __init__(self, items: Iterable[tuple[K, V]] | dict[K, V] = ()) -> None:
        super().__init__(_UNBOUND, "-")
        self.declared = dict(items)

    # For type checkers, as for lists.
    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[object]) -> Self: ...
    def __get__(self, instance: object, owner: type[object]) -> Self:
        return self

    def __set__(self, instance: object, value: Mapping[K, V]) -> None:
        raise AttributeError("a map is assigned through its document")

    # -- reading -------------------------------------------------------------------------------------------

    def _entry(self, key: object) -> Slot:
        return self._part(self._schema.store_key(key))

    def __len__(self) -> int:
        shape = self._shape()
        return len(shape) if is_map(shape) else 0

    def __iter__(self) -> Iterator[K]:
        shape = self._shape()
        load = self._schema.load_key
        return iter([cast("K", load(key)) for key in shape] if is_map(shape) else [])

    def __contains__(self, key: object) -> bool:
        try:
            entry = self._entry(key)
        except RefusedError:
            return False
        return entry._exists() or self._default_entry(entry) is not ABSENT

    def _default_entry(self, entry: Slot) -> Maybe:
        home, source = self._source()
        return entry._default_here(Traverse(source, home.scope), self._key(home))

    def __getitem__(self, key: K) -> V:
        try:
            entry = self._entry(key)
        except RefusedError:
            raise KeyError(key) from None
        found = self._read_part(entry._path[-1], entry._schema)
        if found is not MISSING:
            return cast("V", found)
        if not entry._exists() and self._default_entry(entry) is ABSENT:
            raise KeyError(key)
        return cast("V", entry._read(0))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Map | dict):
            return dict(self) == dict(other)
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as for every dict

    # -- writing -------------------------------------------------------------------------------------------

    def __setitem__(self, key: K, value: V) -> None:
        try:
            entry = self._entry(key)
        except RefusedError as refused:
            raise refused.explain(f"a key of {self.address}") from None
        entry._write(value)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        home, tx = find(self._owner, self)
        if tx is None:
            with home.transaction():
                del self[key]
            return
        self._materialise(home, tx)
        self._entry(key)._remove()

    def clear(self) -> None:
        """Take out everything."""
        self._write({})

    @classmethod
    def __headwater_schema__(cls, args: tuple[object, ...], schema_of: Callable[[object], Schema]) -> Schema:
        """A map as part of a type: a handle, with a dict behind it."""
        return CollectionHandle(cls, schema_of(dict[args[0], args[1]] if args else dict))  # type: ignore[valid-type]


class CollectionHandle(Handle):
    """A list or map as part of a document: reading the document hands out the collection."""

    __slots__ = ("inner", "kind")

    stands_alone = True

    def __init__(self, kind: type[_Collection], inner: Schema) -> None:
        super().__init__(f"hw.{kind.__name__} ({inner.expected})")
        self.kind: type[_Collection] = kind
        self.inner: Schema = inner

    def store(self, value: object) -> Value:
        """What it holds, as plain values."""
        if isinstance(value, _Collection):
            if value.declared is not None:
                return self.inner.store(value.declared)
            value = list(value) if isinstance(value, List) else dict(value) if isinstance(value, Map) else value
        return self.inner.store(value)

    def load(self, value: Value, binder: object) -> object:
        """The collection at the place."""
        assert isinstance(binder, Home)
        found = slot_place(value, binder)
        if found is None:
            raise RefusedError(f"expected {self.expected}, got {shorten(repr(value))}")
        key, doc, path = found
        return self.kind.bound(binder, doc, path, schema=self.inner, default=ABSENT, scope="space", key=key)

    def child(self, step: str | int) -> Schema | None:
        """What it holds."""
        return self.inner.child(step)


__all__ = ["CollectionHandle", "List", "Map"]
