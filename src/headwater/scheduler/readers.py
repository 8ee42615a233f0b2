"""Who read what: the index that finds, for a change, the nodes it concerns.

Must never know: what a node does.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.cells.journal import Entry
from headwater.scheduler.node import Node
from headwater.values.change import Change
from headwater.values.ids import DocKey
from headwater.values.match import is_touched


class Readers:
    """By document: the nodes that read in it, and the places they read. A container of the documents it covers."""

    def __init__(self) -> None:
        self._by_doc: dict[DocKey, dict[Node, list[Entry]]] = {}

    def __contains__(self, doc: object) -> bool:
        return doc in self._by_doc

    def replace(self, node: Node, reads: list[Entry]) -> None:
        """These are the places the node has read now."""
        for doc in {entry.doc for entry in node.reads}:
            readers = self._by_doc[doc]
            del readers[node]
            if not readers:
                del self._by_doc[doc]
        for entry in reads:
            self._by_doc.setdefault(entry.doc, {}).setdefault(node, []).append(entry)
        node.reads = reads

    def of_doc(self, doc: DocKey) -> Iterator[Node]:
        """Everyone who read anything of a document."""
        return iter(self._by_doc.get(doc, ()))

    def concerned(self, change: Change) -> list[Node]:
        """The nodes that would see something else now, by the exact rules."""
        return [
            node
            for node, entries in self._by_doc.get(change.doc, {}).items()
            if any(is_touched(entry.path, entry.depth, change) for entry in entries)
        ]
