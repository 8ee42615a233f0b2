"""`hw.each`: the list of the results of a function for each element of a list.

Its own node depends on which elements are in the list, and stores a link to the result of each. An element that leaves
the list is removed in that run, before its function could run for it once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from headwater.cells.cell import Cell
from headwater.cells.context import Owner, find
from headwater.cells.elements import DocEntry, ElementEntry
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.functions.instances import Instances, Key
from headwater.declare.lists.computed_list import ComputedList
from headwater.declare.lists.each_row import Row, SharedRow
from headwater.declare.lists.element import Element
from headwater.declare.lists.kept_rows import may_keep, read_rows
from headwater.declare.lists.list_sources import entries_of_source, read_source
from headwater.scheduler.graph.node import Node
from headwater.values.ids import DocKey

R = TypeVar("R")
T = TypeVar("T")


class Each(ComputedList[R]):
    """A computed list with the result of a function for each element. Made by `app.each`; a call returns the list."""

    def __init__(
        self,
        app: Owner,
        source: object,
        element: Element[R],
        name: str,
        doc: str,
        *,
        shared: Computed[..., R] | None,
    ) -> None:
        super().__init__(app, name, doc, element.__wrapped__)
        self.source = source
        self.element: Element[R] = element
        # The function is a computed: for documents, its own nodes are used.
        self._shared = shared

    def _parts_of_list(self) -> list[Computed[..., Any]]:
        return [self.element]

    def _plain(self) -> list[R]:
        return [self.element.call_plain(each, index) for index, each in enumerate(read_source(self.source, self.name))]

    def _entries(self, home: FunctionPort, tx: Transaction) -> list[ElementEntry | None]:
        roster = self._rosters.get(home)
        known = [] if roster is None else roster.entries
        before = {row.element_key: row for row in known if isinstance(row, Row)}
        rows: list[ElementEntry | None] = []
        now: dict[Key, Row] = {}
        for index, entry in enumerate(entries_of_source(self.source, home, tx, self.name)):
            if entry is None:
                rows.append(None)
                continue
            key = self.element.key_of(entry, index)
            row = now.get(key) or before.get(key)
            if row is None:
                row = self._row(entry, index, key)
            # The same element, read through another function if one replaced the former.
            row.entry = entry
            now[key] = row
            rows.append(row)
        gone = [key for key, row in before.items() if key not in now and not isinstance(row, SharedRow)]
        if gone:
            # Readers of a removed row depend on the list as well, and are notified by that.
            home.instances_of(self.element).release(gone)
        return rows

    def node_in(self, home: FunctionPort, *args: object, **kwargs: object) -> Node | None:
        """Its node; while an element is in progress, the node of that: waiting for the list is waiting for it."""
        scheduler = home.scheduler
        if scheduler.runner.in_flight:
            for node in home.instances_of(self.element).nodes():
                if scheduler.is_under_way(node):
                    return node
        return super().node_in(home, *args, **kwargs)

    def _row(self, entry: ElementEntry, index: int, key: Key) -> Row:
        if self._shared is not None and isinstance(entry, DocEntry):
            return SharedRow(self, entry, index, key, Instances.doc_of(self._shared.doc, key))
        return Row(self, entry, index, key, self.element.doc_of(key))

    def _values_in(self, home: FunctionPort, tx: Transaction) -> list[R]:
        stored, roster = self._stored(home, tx), self._rosters.get(home)
        if roster is None or not may_keep(tx) or self.element.returns_handles or not roster.has_stored(stored):
            return self._values(home, stored)
        values = cast("list[R]", read_rows(self, home.scheduler, tx, roster))
        # Until the next write: whatever else is read of the list in this run is of the same moment.
        tx.memo[self] = values
        return list(values)

    # -- one of them ---------------------------------------------------------------------------------------

    def read_row(self, row: Row) -> R:
        """The result of the function for one element."""
        if self._shared is not None and isinstance(row, SharedRow):
            given = (row.index,) if self.element.takes_index else ()
            return self._shared(row.entry.read(), *given)
        home, tx = self._context()
        return self.element.value_of(home, tx, row)

    def prepare_row(self, home: SpacePort, row: Row) -> tuple[DocKey, ...]:
        """Make the node of a row."""
        if isinstance(row, SharedRow) or not isinstance(home, FunctionPort):
            return ()
        return self.element.instance_of(home, row).node.outputs

    def row_cell(self, row: Row) -> Cell[object]:
        """The cell of a row, made current."""
        home, tx = self._context()
        return self.element.current_of(home, tx, row).cell

    def read_in_row(self, row: Row, read: Callable[[Cell[Any]], T]) -> T:
        """Read a part of a row, made current."""
        home, tx = self._context()
        return self.element.read_of(home, tx, row, read)

    def _context(self) -> tuple[FunctionPort, Transaction | None]:
        home, tx = find(self._app, self)
        assert isinstance(home, FunctionPort)
        return home, tx
