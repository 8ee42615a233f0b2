"""`hw.each`: the list of the results of a function for each element of a list.

Its own node depends on which elements are in the list, and stores a link to the result of each. An element that leaves
the list is removed in that run, before its function could run for it once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from headwater.cells.cell import Cell
from headwater.cells.context import Owner, find
from headwater.cells.elements import DocEntry, ElementEntry, LinkList
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.functions.instances import Instances, Key
from headwater.declare.lists.computed_list import ComputedList, Roster
from headwater.declare.lists.each_roster import EachRoster
from headwater.declare.lists.each_row import Row, SharedRow
from headwater.declare.lists.element import Element
from headwater.declare.lists.kept_rows import may_keep, read_rows
from headwater.declare.lists.list_sources import entries_of_source, links_of_source, read_source
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

    def _roster(self, home: FunctionPort, tx: Transaction, before: Roster | None) -> Roster:
        assert before is None or isinstance(before, EachRoster)
        # With its index, each element behind an insertion is another one.
        found = None if self.element.takes_index else links_of_source(self.source, home, tx)
        made = None if before is None or found is None else self._spliced(home, before, found)
        if made is None:
            made = self._made_anew(home, tx, before)
            if found is not None and found.is_plain:
                made.links = found
        return made

    def _spliced(self, home: FunctionPort, before: EachRoster, found: LinkList) -> EachRoster | None:
        """The roster, with the rows of all links that are the same objects as before; None if that is not possible."""
        if before.links is None or before.links.source is not found.source:
            return None
        start, end = found.common_ends(before.links)
        entries = found.entries(start, len(found) - end)
        if entries is None:
            return None
        delete = len(before.entries) - end - start
        if not entries and not delete:
            before.links = found
            return before
        rows: list[Row] = []
        fresh: dict[Key, Row] = {}
        for index, entry in enumerate(entries, start):
            key = self.element.key_of(entry, index)
            row = before.by_key.get(key) or fresh.get(key)
            if row is None:
                row = fresh[key] = self._row(entry, index, key)
            row.entry = entry
            rows.append(row)
        if rows == before.entries[start : start + delete]:
            # Other links to the same documents.
            before.links = found
            return before
        roster, gone = before.spliced(start, delete, rows, found)
        self._release(home, gone)
        return roster

    def _release(self, home: FunctionPort, gone: Iterable[Row]) -> None:
        """Remove the nodes of rows that have left. Their readers depend on the list, and are notified by that."""
        keys = [row.element_key for row in gone if not isinstance(row, SharedRow)]
        if keys:
            home.instances_of(self.element).release(keys)

    def _made_anew(self, home: FunctionPort, tx: Transaction, roster: EachRoster | None) -> EachRoster:
        before = {} if roster is None else roster.by_key
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
            if key not in now:
                now[key] = row
                row.count = 0
            row.count += 1
            rows.append(row)
        self._release(home, [row for key, row in before.items() if key not in now])
        if roster is not None and rows == roster.entries:
            roster.by_key, roster.links = now, None
            return roster
        return EachRoster(rows, now)

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
        if (
            not isinstance(roster, EachRoster)
            or not may_keep(tx)
            or self.element.returns_handles
            or not roster.has_stored(stored)
        ):
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
