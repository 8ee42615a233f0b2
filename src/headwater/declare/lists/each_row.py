"""One result of `hw.each`: the element, and the document that its function's result is stored in."""

from __future__ import annotations

from typing import Any, Protocol

from headwater.cells.elements import ElementEntry
from headwater.cells.pending_commit import ReadKey
from headwater.cells.space_port import SpacePort
from headwater.declare.functions.instances import Key
from headwater.values.address import doc_key
from headwater.values.ids import DocKey
from headwater.values.link import link_to
from headwater.values.tree import Value


class RowList(Protocol):
    """The list of a row."""

    def read_row(self, row: Any) -> Any:  # noqa: ANN401  # a row of its own
        """The result of the function for one element."""

    def prepare_row(self, home: SpacePort, row: Any) -> tuple[DocKey, ...]:  # noqa: ANN401
        """Make the node of a row."""
        ...


class Row(ElementEntry):
    """The result of the function for one element."""

    __slots__ = ("_link", "_list", "count", "doc", "element_key", "entry", "index", "read_key")

    def __init__(self, rows: RowList, entry: ElementEntry, index: int, key: Key, doc: str) -> None:
        super().__init__(("row", doc), entry.label)
        self._list = rows
        self.doc = doc
        # The read of the result.
        self.read_key: ReadKey = (doc_key(doc), (), 0)
        self._link: Value = link_to(self.result).to_value()
        self.entry = entry
        self.index = index
        self.element_key = key
        # In how many places of the list it is.
        self.count = 0

    @property
    def result(self) -> DocKey:
        """The document of the result."""
        return self.read_key[0]

    def read(self) -> object:
        """The result, as a recorded read."""
        found: object = self._list.read_row(self)
        return found

    def reference(self) -> Value:
        """A link to the result."""
        return self._link

    def prepare(self, home: SpacePort) -> tuple[DocKey, ...]:
        """Make its node; the documents that it writes."""
        return self._list.prepare_row(home, self)


class SharedRow(Row):
    """A row of a computed that has other callers: its nodes belong to that computed."""

    __slots__ = ()
