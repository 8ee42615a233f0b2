"""Lists and maps in a document: changed in place, element by element, each change a patch.

They behave like `list` and `dict`. A reader depends only on what it read: the length, one element or a slice, one key,
or, if it iterated, everything.

Length: two classes of the same kind, each method with its text for the reference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar, cast, overload

from headwater.cells.container import UNBOUND, Container, ContainerHandle
from headwater.cells.context import find
from headwater.cells.cross_space import WRITTEN
from headwater.cells.display import shorten
from headwater.cells.journal import IGNORED_FOR_SCHEDULING
from headwater.cells.list_reads import links_at, read_slice
from headwater.cells.reading import MISSING
from headwater.cells.slot import Slot
from headwater.cells.traverse import Traverse
from headwater.values.address import Depth
from headwater.values.author_text import safe_repr
from headwater.values.intake import RefusedError
from headwater.values.patch import AddUnique, Append, RemoveByValue, Splice
from headwater.values.schema import Schema
from headwater.values.tree import ABSENT, Array, Maybe, array_of, is_array, is_map, same

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_SEEN_MAX: Final = 16
"""Up to so many removed elements are recorded one by one; for more, the whole list is recorded."""


class List(Container, MutableSequence[T], Generic[T]):
    """A list in a document, changed in place. It behaves like `list`.

    Declare it in a document class: `items: hw.List[Item] = hw.List()`. A reader depends only on what it has read: the
    length, one element, a slice, or everything.

    Args:
        items: The default elements.

    Example:
        ```python
        import headwater as hw


        class Board(hw.Doc):
            items: hw.List[str] = hw.List()


        app = hw.App("todo")
        with app.open("memory:"):
            board = Board()
            board.items.append("tea")
            print(list(board.items))  # ['tea']
        ```
    """

    __slots__ = ()

    def __init__(self, items: Iterable[T] = ()) -> None:
        super().__init__(UNBOUND, "-")
        self.declared = list(items)

    def _plain(self) -> object:
        return list(self) if self.declared is None else self.declared

    # For type checkers: as a field it reads as itself, and a list may be assigned. `DocField` implements it.
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
        return cast("Iterator[T]", iter(links_at(self) or cast("list[object]", self._read(0))))

    def __reversed__(self) -> Iterator[T]:
        return cast("Iterator[T]", reversed(links_at(self) or cast("list[object]", self._read(0))))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return cast("list[T]", read_slice(self, index))
        position = self._index(index, len(self) if type(index) is int and index < 0 else None)
        item = self._schema.child(position)
        found = MISSING if item is None else self._read_part(position, item)
        if found is not MISSING:
            return cast("T", found)
        # Below a link, in the default, or missing: its length decides.
        if not 0 <= position < len(self):
            raise IndexError(f"{self.address} has no element {index}: its length is {len(self)}")
        return cast("T", self._part(position)._read(0))

    @staticmethod
    def _index(index: int, length: int | None) -> int:
        if type(index) is not int:
            raise TypeError(f"list indices are numbers or slices, not {type(index).__name__}")
        return index if length is None else index + length

    def __contains__(self, item: object) -> bool:
        links = links_at(self)
        return item in cast("list[T]", self._read(0)) if links is None else links.holds(item)

    def index(self, value: object, start: int = 0, stop: int = sys.maxsize) -> int:
        """The index of the first equal element, as `list.index`.

        Args:
            value: The element.
            start: The first index to look at.
            stop: The index to stop before.

        Returns:
            The index.

        Raises:
            ValueError: There is no equal element.
        """
        links = links_at(self)
        if links is None:
            return cast("list[object]", self._read(0)).index(value, start, stop)
        return links.index(value, start, stop)

    def count(self, value: object) -> int:
        """The number of equal elements, as `list.count`.

        Args:
            value: The element.

        Returns:
            The number.
        """
        links = links_at(self)
        return cast("list[object]", self._read(0)).count(value) if links is None else links.count(value)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, List | list | tuple):
            return list(self) == list(other)
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as for every list

    # -- writing -------------------------------------------------------------------------------------------

    def append(self, value: T) -> None:
        """Append an item. Concurrent appends merge.

        Args:
            value: The item.

        Raises:
            SchemaError: HW108. The item does not fit the type, or the value is not a list.
        """
        items = self._items([value])
        self._edit(lambda path: Append(path, items))

    def extend(self, values: Iterable[T]) -> None:
        """Append several items in one step. Concurrent appends merge.

        Args:
            values: The items.

        Raises:
            SchemaError: HW108. An item does not fit the type, or the value is not a list.
        """
        self._insert(sys.maxsize, self._items(values))

    def __iadd__(self, values: Iterable[T]) -> Self:
        self.extend(values)
        return self

    def add_unique(self, value: T) -> None:
        """Append an item unless the list contains it, also if another program adds the same item at the same time.

        Args:
            value: The item.

        Raises:
            SchemaError: HW108. The item does not fit the type, or the value is not a list.
        """
        items = self._items([value])
        self._edit(lambda path: AddUnique(path, items))

    def insert(self, index: int, value: T) -> None:
        """Insert an item before an element, as `list.insert`.

        Args:
            index: The index of the element.
            value: The item.

        Raises:
            SchemaError: HW108. The item does not fit the type, or the value is not a list.
        """
        self._insert(index, self._items([value]))

    @overload
    def __setitem__(self, index: int, value: T) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[T]) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        if isinstance(index, slice):
            self._splice(*self._run(index), self._items(value))
        else:
            self._part(self._checked(index))._write(value)

    def __delitem__(self, index: int | slice) -> None:
        start, count = self._run(index) if isinstance(index, slice) else (self._checked(index), 1)
        self._splice(start, count, array_of([]))

    def pop(self, index: int = -1) -> T:
        """Remove an element and return it, as `list.pop`. Of two concurrent pops of one element, one conflicts.

        Args:
            index: The index of the element; by default the last one.

        Returns:
            The removed element.

        Raises:
            IndexError: There is no such element.
            ConflictError: HW211. Another transaction has changed the element.
        """
        with self._atomically():
            found = self._detached(self[index])
            del self[index]
        return found

    def reverse(self) -> None:
        """Reverse the order of the elements in one step."""
        with self._atomically():
            self._write(cast("list[T]", self._read(IGNORED_FOR_SCHEDULING))[::-1])

    def remove(self, value: T) -> None:
        """Remove the first equal element, as `list.remove`.

        Args:
            value: The element.

        Raises:
            ValueError: There is no equal element.
        """
        schema, there, found = self._schema.child(0), self._current(), list[int]()
        assert schema is not None
        with suppress(RefusedError):  # a value that does not fit the type is not in the list
            stored = schema.store(value)
            # The comparison in C first: it calls nothing for each of the others.
            items = enumerate(there if is_array(there) else ())
            found = [index for index, item in items if item == stored and same(item, stored)]
        if not found:
            raise ValueError(f"{shorten(safe_repr(value))} is not in {self.address}")
        if len(found) == 1:
            # By value: the same element even if concurrent writes have moved it.
            self._edit(lambda path: RemoveByValue(path, array_of([stored])))
        else:
            self._splice(found[0], 1, array_of([]))

    def clear(self) -> None:
        """Remove all elements."""
        self._write([])

    def _length(self) -> int:
        there = self._current()
        return len(there) if is_array(there) else 0

    def _checked(self, index: int) -> int:
        length = self._length()
        position = self._index(index, length if index < 0 else None)
        if not 0 <= position < length:
            raise IndexError(f"{self.address} has no element {index}: its length is {length}")
        return position

    def _run(self, part: slice) -> tuple[int, int]:
        """The start of a slice, and its number of elements."""
        start, stop, step = part.indices(self._length())
        if step != 1:
            raise ValueError("a slice that is written takes no step")
        return start, max(0, stop - start)

    def _splice(self, start: int, count: int, items: Array) -> None:
        """Replace a run of elements. The elements are recorded as reads: a concurrent change of them is a conflict."""
        if not count:
            self._insert(start, items)
            return
        with self._atomically():
            space, tx = find(self._owner, self, WRITTEN)
            assert tx is not None
            self._materialize(space, tx)
            resolved = self._target(space, tx)
            seen = (
                [(*resolved.path, start + number) for number in range(count)] if count <= _SEEN_MAX else [resolved.path]
            )
            for path in seen:
                tx.record(resolved.doc, path, Depth.DEEP, IGNORED_FOR_SCHEDULING)
            op = Splice(resolved.path, start, count, items)
            self._patch(space, tx, resolved.doc, op, self._rule_root(edited=True))

    @classmethod
    def __headwater_schema__(cls, args: tuple[object, ...], schema_of: Callable[[object], Schema]) -> Schema:
        """A list in a type: a handle of a list."""
        return ContainerHandle(cls, schema_of(list[args[0]] if args else list))  # type: ignore[valid-type]


class Map(Container, MutableMapping[K, V], Generic[K, V]):
    """A dict in a document, changed in place. It behaves like `dict`.

    Declare it in a document class: `votes: hw.Map[str, int] = hw.Map()`. A reader depends only on what it has read: one
    key, the length, or everything.

    Args:
        items: The default entries: a dict, or pairs of key and value.

    Example:
        ```python
        import headwater as hw


        class Poll(hw.Doc):
            votes: hw.Map[str, int] = hw.Map()


        app = hw.App("poll")
        with app.open("memory:"):
            poll = Poll()
            poll.votes["tea"] = 1
            print(dict(poll.votes))  # {'tea': 1}
        ```
    """

    __slots__ = ()

    def __init__(self, items: Iterable[tuple[K, V]] | dict[K, V] = ()) -> None:
        super().__init__(UNBOUND, "-")
        self.declared = dict(items)

    def _plain(self) -> object:
        return dict(self) if self.declared is None else self.declared

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
        return entry._is_stored() or self._default_entry(entry) is not ABSENT

    def _default_entry(self, entry: Slot) -> Maybe:
        space, source = self._source()
        return entry._effective_default(Traverse(source, space), self._key(space))

    def __getitem__(self, key: K) -> V:
        try:
            entry = self._entry(key)
        except RefusedError:
            raise KeyError(key) from None
        found = self._read_part(entry._path[-1], entry._schema)
        if found is not MISSING:
            return cast("V", found)
        if not entry._is_stored() and self._default_entry(entry) is ABSENT:
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
        there = self._current()
        try:
            entry = self._entry(key)
        except RefusedError:
            raise KeyError(key) from None
        if not is_map(there) or entry._path[-1] not in there:
            raise KeyError(key)
        with self._atomically():
            space, tx = find(self._owner, self, WRITTEN)
            assert tx is not None
            self._materialize(space, tx)
            entry._remove()

    if not TYPE_CHECKING:  # typed as in MutableMapping, whose methods take several steps; here each is one transaction

        def pop(self, key: K, *default: object) -> object:
            with self._atomically():
                if key in self:
                    found = self._detached(self[key])
                    del self[key]
                    return found
                return super().pop(key, *default)

        def popitem(self) -> tuple[K, V]:
            with self._atomically():
                key = next(iter(self), MISSING)
                if key is MISSING:
                    raise KeyError(f"{self.address} is empty")
                return key, self.pop(key)

        def setdefault(self, key: K, default: V | None = None) -> V | None:
            with self._atomically():
                if key not in self:
                    self[key] = default
                return self[key]

        def update(self, /, *items: object, **more: object) -> None:
            with self._atomically():
                super().update(*items, **more)

    def clear(self) -> None:
        """Remove all entries."""
        self._write({})

    @classmethod
    def __headwater_schema__(cls, args: tuple[object, ...], schema_of: Callable[[object], Schema]) -> Schema:
        """A map in a type: a handle of a dict."""
        return ContainerHandle(cls, schema_of(dict[args[0], args[1]] if args else dict))  # type: ignore[valid-type]


__all__ = ["ContainerHandle", "List", "Map"]
