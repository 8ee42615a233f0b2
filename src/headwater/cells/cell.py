"""Cells: the handles through which functions read and write values.

A cell, declared once, works in every opening of its app, in tasks and in threads. `slot` does the work; here it gets
its type and its methods.

Length: the methods of one class, each with its text for the reference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Generic, NoReturn, TypeVar, cast, overload

from msgspec.structs import replace

from headwater.cells.binding import bound, link_space
from headwater.cells.context import CONTEXT, find
from headwater.cells.cross_space import WRITTEN
from headwater.cells.display import shorten
from headwater.cells.journal import IGNORED_FOR_SCHEDULING
from headwater.cells.post import Post
from headwater.cells.slot import Slot
from headwater.errors import AddressError, SchemaError, UsageError
from headwater.values.author_text import safe_repr
from headwater.values.hints import freeze_with, schema_of
from headwater.values.intake import RefusedError
from headwater.values.patch import AddUnique, Append, Increment, Remove, RemoveByValue
from headwater.values.schema import ANY, Handle, Schema
from headwater.values.tree import ABSENT, Maybe, Path, Value, get, is_link, is_map

T = TypeVar("T")
E = TypeVar("E")
V = TypeVar("V")

_MISSING: Final = object()


class Cell(Slot, Generic[T]):
    """A handle to one value in a document, read and written with `.value`.

    Made by `app.cell`, by `space.cell`, and by `at` and `key` of other cells. A cell works in every open space of its
    app, in tasks and in threads. It holds no value itself.
    """

    __slots__ = ()

    _is_memoized = True

    def _sibling(self, path: Path, schema: Schema, default: Maybe, parent: Slot | None) -> Slot:
        doc, scope = self._scope
        return Cell[Any](
            self._owner, doc, path, schema=schema, default=default, scope=scope, key=self._doc, parent=parent
        )

    @property
    def value(self) -> T:
        """The current value. Assign to it to write.

        A read in a function is a dependency: the function runs again when the value changes. A read in a transaction is
        validated when the transaction commits. An assignment outside a transaction is a transaction of its own.

        Raises:
            NotOpen: HW001. The app has no open space here.
            AmbiguousError: HW109. The app is open more than once, and none of these spaces is around this code.
            SchemaError: HW108. The value does not fit the type.
            WriteError: HW104. Only reading is allowed here, as in a computed function.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            price = app.cell("price", 250)
            with app.open("memory:"):
                price.value = 300
                print(price.value)  # 300
            ```
        """
        here = CONTEXT.get()
        if here is not None and here.tx is not None:
            found = here.tx.memo.get(self, _MISSING)
            if found is not _MISSING:
                return found  # type: ignore[return-value]  # as below: a cast is a call, and this is read all the time
            return self._read_in(here)  # type: ignore[return-value]
        return self._read_anywhere(0)  # type: ignore[return-value]

    @value.setter
    def value(self, new: T) -> None:
        self._write(new)

    def peek(self) -> T:
        """Read the value without a dependency: a change of it does not run the function again.

        In a transaction, the read is still validated.

        Returns:
            The current value.

        Raises:
            NotOpen: HW001. The app has no open space here.
        """
        return cast("T", self._read(IGNORED_FOR_SCHEDULING))

    @property
    def exists(self) -> bool:
        """Whether a value is stored. A default is not stored. The read is a dependency, as any other."""
        return self._exists()

    # -- parts ---------------------------------------------------------------------------------------------

    @overload
    def at(self: Cell[list[E]], step: int, /) -> Cell[E]: ...
    @overload
    def at(self: Cell[tuple[E, ...]], step: int, /) -> Cell[E]: ...
    @overload
    def at(self: Cell[dict[str, V]], step: str, /) -> Cell[V]: ...
    @overload
    def at(self, /, *steps: str | int, type: type[E]) -> Cell[E]: ...
    @overload
    def at(self, /, *steps: str | int) -> Cell[object]: ...
    def at(self, /, *steps: str | int, type: type[Any] | None = None) -> Cell[Any]:  # noqa: A002
        """The cell of a part of the value: an element of a list, an entry of a dict, a field.

        Args:
            steps: Indexes, keys and field names, from the outside in.
            type: The type of the part, if it does not follow from the type of this cell.

        Returns:
            The cell of the part. It reads and writes that part alone.

        Raises:
            SchemaError: HW108. The value has no such part by its type.

        Example:
            ```python
            import headwater as hw

            app = hw.App("club")
            people = app.cell("people", [{"name": "Ann"}])
            with app.open("memory:"):
                print(people.at(0, "name").value)  # Ann
            ```
        """
        part: Slot = self
        for step in steps:
            part = part._part(step)
        if type is not None:
            part = part._sibling(part._path, schema_of(type, where="at(type=...)"), part._default, part._parent)
        return cast("Cell[Any]", part)

    @overload
    def key(self: Cell[dict[str, V]], key: str, /) -> Cell[V]: ...
    @overload
    def key(self, key: str, /) -> Cell[object]: ...
    def key(self, key: str, /) -> Cell[Any]:
        """The cell of one entry of a dict, or of one field.

        Args:
            key: The key or the name of the field.

        Returns:
            The cell of the entry. It reads and writes that entry alone.

        Raises:
            AddressError: HW101. The key is not text.

        Example:
            ```python
            import headwater as hw

            app = hw.App("poll")
            votes = app.cell("votes", {"tea": 0})
            with app.open("memory:"):
                votes.key("tea").increment()
                print(votes.value)  # {'tea': 1}
            ```
        """
        if type(key) is not str:
            message = f"{key!r} is not a key of {self.address}: keys are text; elements of a list are found with .at(3)"
            raise AddressError(message, key=key)
        return cast("Cell[Any]", self._part(key))

    # -- writing -------------------------------------------------------------------------------------------

    def update(self, change: Callable[[T], T]) -> T:
        """Read the value, change it and write it back, in one transaction.

        Args:
            change: A function that takes the current value and returns the new one.

        Returns:
            The new value.

        Raises:
            ConflictError: HW211. The value was changed by another transaction meanwhile.
            SchemaError: HW108. The new value does not fit the type.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            price = app.cell("price", 250)
            with app.open("memory:"):
                print(price.update(lambda cents: cents * 2))  # 500
            ```
        """
        space, tx = find(self._owner, self, WRITTEN)
        if tx is None:
            with space.transaction():
                return self.update(change)
        new = change(self.value)
        self._write(new)
        return new

    def clear(self) -> None:
        """Remove the stored value. The cell then reads as its default.

        Raises:
            WriteError: HW104. Only reading is allowed here, as in a computed function.
        """
        self._remove()

    @overload
    def append(self: Cell[list[E]], item: E) -> None: ...
    @overload
    def append(self: Cell[tuple[E, ...]], item: E) -> None: ...
    def append(self: Cell[Any], item: object) -> None:
        """Append an item to a list. Concurrent appends merge.

        Args:
            item: The item.

        Raises:
            SchemaError: HW108. The item does not fit the type, or the value is not a list.

        Example:
            ```python
            import headwater as hw

            app = hw.App("todo")
            items = app.cell("items", ["tea"])
            with app.open("memory:"):
                items.append("milk")
                print(items.value)  # ['tea', 'milk']
            ```
        """
        items = self._items([item])
        self._edit(lambda path: Append(path, items))

    @overload
    def extend(self: Cell[list[E]], items: Iterable[E]) -> None: ...
    @overload
    def extend(self: Cell[tuple[E, ...]], items: Iterable[E]) -> None: ...
    def extend(self: Cell[Any], items: Iterable[object]) -> None:
        """Append several items to a list in one step. Concurrent appends merge.

        Args:
            items: The items.

        Raises:
            SchemaError: HW108. An item does not fit the type, or the value is not a list.
        """
        self._insert(sys.maxsize, self._items(items))

    @overload
    def add_unique(self: Cell[list[E]], item: E) -> None: ...
    @overload
    def add_unique(self: Cell[tuple[E, ...]], item: E) -> None: ...
    def add_unique(self: Cell[Any], item: object) -> None:
        """Append an item to a list unless the list contains it.

        Two programs that add the same item at the same time add it once.

        Args:
            item: The item.

        Raises:
            SchemaError: HW108. The item does not fit the type, or the value is not a list.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            tags = app.cell("tags", ["tea"])
            with app.open("memory:"):
                tags.add_unique("tea")
                print(tags.value)  # ['tea']
            ```
        """
        items = self._items([item])
        self._edit(lambda path: AddUnique(path, items))

    @overload
    def insert(self: Cell[list[E]], index: int, item: E) -> None: ...
    @overload
    def insert(self: Cell[tuple[E, ...]], index: int, item: E) -> None: ...
    def insert(self: Cell[Any], index: int, item: object) -> None:
        """Insert an item into a list, before an element.

        Args:
            index: The index of the element. A negative index counts from the end; one beyond the end appends.
            item: The item.

        Raises:
            SchemaError: HW108. The item does not fit the type, or the value is not a list.
        """
        self._insert(index, self._items([item]))

    @overload
    def remove(self: Cell[list[E]], item: E) -> None: ...
    @overload
    def remove(self: Cell[tuple[E, ...]], item: E) -> None: ...
    @overload
    def remove(self: Cell[dict[str, V]], item: str) -> None: ...
    def remove(self: Cell[Any], item: object) -> None:
        """Remove every equal element of a list, or one key of a dict. A missing one is not an error.

        Args:
            item: The element, or the key.

        Raises:
            WriteError: HW104. Only reading is allowed here, as in a computed function.

        Example:
            ```python
            import headwater as hw

            app = hw.App("todo")
            items = app.cell("items", ["tea", "milk"])
            with app.open("memory:"):
                items.remove("tea")
                print(items.value)  # ['milk']
            ```
        """
        space, tx = find(self._owner, self, WRITTEN)
        if tx is None:
            with space.transaction():
                self.remove(item)
            return
        self._materialize(space, tx)
        resolved = self._target(space, tx)
        there = get(tx.document(resolved.doc), resolved.path)
        if is_map(there) and not is_link(there):
            with suppress(RefusedError):  # no dict by its type, or no key of it
                item = self._schema.store_key(item)
            if type(item) is str and item in there:
                guard = None if self._schema.child(item) is None else self._part(item)._rule_root(removed=True)
                self._patch(space, tx, resolved.doc, Remove((*resolved.path, item)), guard)
        elif there is not ABSENT:
            op = RemoveByValue(resolved.path, self._items([item], ruled=False))
            self._patch(space, tx, resolved.doc, op, self._rule_root(edited=True))

    @overload
    def increment(self: Cell[int], by: int = ...) -> None: ...
    @overload
    def increment(self: Cell[float], by: float = ...) -> None: ...
    def increment(self: Cell[Any], by: float = 1) -> None:
        """Add to a number without reading it. Concurrent increments merge.

        Args:
            by: The number to add; negative to subtract.

        Raises:
            SchemaError: HW108. The cell or the step is not a number.

        Example:
            ```python
            import headwater as hw

            app = hw.App("counter")
            count = app.cell("count", 0)
            with app.open("memory:"):
                count.increment(5)
                print(count.value)  # 5
            ```
        """
        step = freeze_with(self._schema.bare, by, f"the step added to {self.address}")
        if type(step) is not int and type(step) is not float:
            message = f"cannot add {by!r} to {self.address}: it is declared as {self._schema.expected}"
            raise SchemaError(message, expected=self._schema.expected)
        self._edit(lambda path: Increment(path, step))

    @property
    def post(self) -> Post[T]:
        """Writes to this cell from a transaction of another space: `cell.post.increment(3)`.

        A post is sent with the transaction around this code, and applied in the space of the cell exactly once.
        """
        return Post(self)

    # -- for people ----------------------------------------------------------------------------------------

    def __bool__(self) -> NoReturn:
        message = f"{self.address} is a cell, which is neither true nor false; its value is read with .value"
        raise UsageError(message)

    def __headwater_value__(self) -> Value:
        """A cell is stored as a link to its address."""
        space = link_space(self._owner, "cell", self._doc)
        link = self._to_link()
        return (link if space is None else replace(link, space=space)).to_value()

    @classmethod
    def __headwater_schema__(cls, args: tuple[object, ...], schema_of: Callable[[object], Schema]) -> Schema:
        """A cell in a type: reading the containing value returns the cell, not its value."""
        return CellHandle(schema_of(args[0]) if args else ANY)


class CellHandle(Handle):
    """Stored as a link to the cell's address, or as the value itself: then the cell is at that address."""

    __slots__ = ("inner",)

    has_default = True

    def __init__(self, inner: Schema) -> None:
        super().__init__(f"Cell[{inner.expected}]")
        self.inner: Schema = inner

    def store(self, value: object) -> Value:
        """A cell is stored as a link to it."""
        if isinstance(value, Cell):
            return value.__headwater_value__()
        return self.inner.store(value)

    def load(self, value: Value, binder: object) -> object:
        """The cell at the address."""
        at = bound(value, binder)
        if at is None:
            raise RefusedError(f"expected {self.expected}, got {shorten(safe_repr(value))}")
        return Cell[Any](
            at.space,
            at.doc,
            at.path,
            schema=self.inner,
            default=at.default,
            scope=at.scope,
            key=at.key,
            parent=at.parent,
        )

    def target(self) -> Schema:
        """The type of the cell's value."""
        return self.inner

    def child(self, step: str | int) -> Schema | None:
        """The type of a part of the cell's value."""
        return self.inner.child(step)
