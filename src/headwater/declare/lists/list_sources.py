"""The source of a list: a cell, a list in a document, a computed, another computed list, or a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from headwater.cells.cell import Cell
from headwater.cells.document_class import Doc
from headwater.cells.elements import ElementEntry, LinkList, entries_of, entry_for, is_listlike, links_of
from headwater.cells.list_and_map import List
from headwater.cells.query import Query, links_of_query
from headwater.cells.reading import Readable
from headwater.cells.slot import Slot
from headwater.cells.transaction import Transaction
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_code import is_async, signature_of
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.functions.instances import key_of
from headwater.declare.lists.computed_list import ComputedList
from headwater.errors import DeclarationError, UsageError
from headwater.values.schema import short
from headwater.values.tree import Value, freeze

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class ListHolder(Protocol[E_co]):
    """For type checkers, a cell of a list, of a tuple, or of None. In one form: from several they infer nothing."""

    @property
    def value(self) -> Sequence[E_co] | None: ...


class ListFunction(Protocol[E_co]):
    """For type checkers, a computed or a function. Not a `Callable`: that would be matched no sooner than a lambda."""

    def __call__(self) -> Sequence[E_co] | None: ...


ListSource: TypeAlias = ListHolder[E] | List[E] | ListFunction[E]
"""Where the elements of a list come from: a cell, a list in a document, a computed, or a function."""
ListResult: TypeAlias = list[E] | tuple[E, ...] | List[E]
"""What a function may return that makes several results of one element."""


class ValueEntry(ElementEntry):
    """A value returned by a function, which has no address: identified by its value."""

    __slots__ = ("value",)

    def __init__(self, value: object, name: str) -> None:
        key = key_of({"": value})
        if key is None:
            message = f"{name}: an element of the list cannot be stored, and so not be compared: {short(value)}"
            raise UsageError(message, name=name)
        super().__init__(key[0], repr(value))
        self.value = value

    def read(self) -> object:
        """The value."""
        return self.value

    def reference(self) -> Value:
        """The value itself."""
        return freeze(self.value)


def check_source(source: object, where: str) -> None:
    """Reject what cannot be a source. Raises DeclarationError."""
    if isinstance(source, Slot):
        if not is_listlike(source):
            message = f"{where}: {source.address} cannot hold a list, by its type; give a cell of a list"
            raise DeclarationError(message, source=source.address)
        return
    if not callable(source) or isinstance(source, type):
        message = f"{where}: {short(source)} is no source of a list; give a cell, a computed, or a function"
        if isinstance(source, list | tuple):
            message += " (a list that never changes needs no function for each element: write a comprehension)"
        raise DeclarationError(message)
    takes = source.is_parametrised if isinstance(source, Computed) else bool(signature_of(source).parameters)
    if takes:
        message = f"{where}: the source takes parameters, and nothing passes them; wrap it: lambda: ..."
        raise DeclarationError(message)
    if is_async(source):
        message = f"{where}: the source is async; make it a computed with @app.computed, and give that"
        raise DeclarationError(message)


def entries_of_source(source: object, home: FunctionPort, tx: Transaction, name: str) -> list[ElementEntry | None]:
    """The elements, in a run: depends on their identity, not on their values."""
    if isinstance(source, ComputedList):
        return source.entries_in(home, tx)
    if isinstance(source, Computed):
        return entries_of(source.current_in(home, tx))
    if isinstance(source, Slot):
        return entries_of(source)
    found = cast("Callable[[], object]", source)()
    if isinstance(found, Slot | ComputedList):
        return entries_of_source(found, home, tx, name)
    return [_entry(each, name) for each in _as_list(found, name)]


def links_of_source(source: object, home: FunctionPort, tx: Transaction) -> LinkList | None:
    """The elements as links, if the source is a list of links by its type. Depends on what `entries_of_source` does."""
    if isinstance(source, ComputedList):
        return None
    if isinstance(source, Computed):
        return links_of(source.current_in(home, tx))
    if isinstance(source, Query):
        return links_of_query(source)
    return links_of(source) if isinstance(source, Slot) else None


def _entry(each: object, name: str) -> ElementEntry | None:
    if each is None:
        return None
    return entry_for(each) if isinstance(each, Doc | Readable) else ValueEntry(each, name)


def read_source(source: object, name: str) -> list[object]:
    """The elements as plain code reads them."""
    if isinstance(source, List):
        return list(source)
    if isinstance(source, Slot):
        return _as_list(cast("Cell[Any]", source).value, name)
    if isinstance(source, Computed):
        return _as_list(source(), name)
    found = cast("Callable[[], object]", source)()
    return read_source(found, name) if isinstance(found, Slot | ComputedList) else _as_list(found, name)


def _as_list(found: object, name: str) -> list[object]:
    if found is None:
        return []
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise UsageError(f"{name}: its source is {short(found)}; a list is expected", name=name)
    return list(found)
