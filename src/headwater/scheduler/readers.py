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
        """These are the places the node has read now.

        Whoever looks meanwhile finds all of the old places or all of the new ones, document by document.
        """
        by_doc: dict[DocKey, list[Entry]] = {}
        for entry in reads:
            by_doc.setdefault(entry.doc, []).append(entry)
        for doc, entries in by_doc.items():
            self._by_doc.setdefault(doc, {})[node] = entries
        for doc in {entry.doc for entry in node.reads if entry.doc not in by_doc}:
            readers = self._by_doc[doc]
            del readers[node]
            if not readers:
                del self._by_doc[doc]
        node.reads = reads

    def of_doc(self, doc: DocKey) -> Iterator[Node]:
        """Everyone who read anything of a document."""
        return iter(list(self._by_doc.get(doc, ())))

    def concerned(self, change: Change) -> list[Node]:
        """The nodes that would see something else now, by the exact rules."""
        return [
            node
            for node, entries in list(self._by_doc.get(change.doc, {}).items())
            if any(is_touched(entry.path, entry.depth, change) for entry in entries)
        ]
