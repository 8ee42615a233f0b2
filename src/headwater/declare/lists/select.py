"""`hw.select` and `hw.flat_each`: lists that a function makes of the elements of another list.

The function is called as by `each`; a second node combines its results.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast

from headwater.cells.context import Owner
from headwater.cells.elements import ElementEntry
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import Traverse
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.lists.computed_list import ComputedList, Roster, read_all, roster_of
from headwater.declare.lists.each import Each
from headwater.declare.lists.each_row import Row
from headwater.declare.lists.element import Element, Spread
from headwater.declare.lists.list_sources import read_source
from headwater.values.address import Depth, doc_key
from headwater.values.ids import DocKey
from headwater.values.link import link_to
from headwater.values.tree import Value, is_array

E = TypeVar("E")
R = TypeVar("R")

_SHALLOW: Final = Depth.SHALLOW


class Select(ComputedList[E]):
    """A computed list with the elements for which a function is true. Made by `app.select`; a call returns the list."""

    def __init__(self, app: Owner, each: Each[bool], name: str, doc: str) -> None:
        super().__init__(app, name, doc, each.element.__wrapped__)
        self.each: Each[bool] = each

    @property
    def element(self) -> Element[bool]:
        """The function, with a node for each element."""
        return self.each.element

    def _parts_of_list(self) -> list[Computed[..., Any]]:
        return [self.each]

    def _plain(self) -> list[E]:
        elements = read_source(self.each.source, self.name)
        kept = [each for index, each in enumerate(elements) if self.element.call_plain(each, index)]
        return cast("list[E]", kept)

    def _roster(self, home: FunctionPort, tx: Transaction, before: Roster | None) -> Roster:
        rows = [row for row in self.each.entries_in(home, tx) if isinstance(row, Row)]
        found = zip(rows, read_all(rows, self.each.read_row), strict=True)
        return roster_of([row.entry for row, is_meant in found if is_meant], before)


class FlatEntry(ElementEntry):
    """One of the results for an element."""

    __slots__ = ("_each", "_index", "_row")

    def __init__(self, each: Each[Any], row: Row, index: int) -> None:
        super().__init__(("at", f"{row.doc}/{index}"), f"{row.label}/{index}")
        self._each = each
        self._row = row
        self._index = index

    def read(self) -> object:
        """The result, as a recorded read."""
        return self._each.read_in_row(self._row, lambda cell: cell.at(self._index).value)

    def reference(self) -> Value:
        """A link to the result."""
        return link_to(doc_key(self._row.doc), (self._index,)).to_value()

    def prepare(self, home: SpacePort) -> tuple[DocKey, ...]:
        """Make the node of its element."""
        return self._row.prepare(home)


class FlatEach(ComputedList[R]):
    """A computed list that joins the lists that a function returns.

    Made by `app.flat_each`; a call returns the list.
    """

    def __init__(self, app: Owner, each: Each[list[R]], spread: Spread[R], name: str, doc: str) -> None:
        super().__init__(app, name, doc, spread.__wrapped__)
        self.each: Each[list[R]] = each
        self.element: Spread[R] = spread

    def _parts_of_list(self) -> list[Computed[..., Any]]:
        return [self.each]

    def _plain(self) -> list[R]:
        found: list[object] = []
        for index, each in enumerate(read_source(self.each.source, self.name)):
            made: object = self.element.call_plain(each, index)
            found += [] if made is None else self.element.checked(made)
        return cast("list[R]", found)

    def _roster(self, home: FunctionPort, tx: Transaction, before: Roster | None) -> Roster:
        rows = [row for row in self.each.entries_in(home, tx) if isinstance(row, Row)]
        traverse = Traverse(tx, home)

        def count(row: Row) -> int:
            self.each.row_cell(row)
            # The number of results, without a dependency on their values.
            place = traverse.resolve(doc_key(row.doc), ())
            made = None if place is None else tx.read(place.doc, place.path, _SHALLOW)
            return len(made) if is_array(made) else 0

        counts = zip(rows, read_all(rows, count), strict=True)
        return roster_of([FlatEntry(self.each, row, index) for row, size in counts for index in range(size)], before)
