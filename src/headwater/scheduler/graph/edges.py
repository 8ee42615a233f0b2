"""The graph: readers and writers of documents, and the edges between nodes.

An edge leads from a node to another that reads a document it writes. Edges are never learnt from what a run writes:
outputs are fixed at registration. They change when a node is registered or removed, and when a run has read other
documents than the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headwater.cells.pending_commit import Mark, ReadKey
from headwater.cells.replica import Replica
from headwater.scheduler.graph.liveness import Liveness
from headwater.scheduler.graph.node import DocPath, Node, NodeStatus
from headwater.scheduler.graph.order import Ranks
from headwater.scheduler.graph.reader_index import ReaderIndex
from headwater.scheduler.graph.span_readers import SpanReaders
from headwater.store.collection_record import kind_of
from headwater.values.address import overlaps
from headwater.values.ids import DocKey


class Graph:
    """The nodes of one scheduler and the edges between them."""

    def __init__(
        self,
        replica: Replica,
        on_live: Callable[[Node], None],
        on_dormant: Callable[[Node], None],
        on_lowered: Callable[[Node], None],
    ) -> None:
        self.index: ReaderIndex[Node] = ReaderIndex()
        # The same for indexes of collections.
        self.spans: SpanReaders = SpanReaders(replica)
        # The documents that nodes write, by kind: made when it is asked for.
        self._written: dict[str, list[DocKey]] | None = None
        # The nodes that write a document, by its key: most documents have one, which stands for itself.
        self.writers: dict[DocKey, Node | tuple[Node, ...]] = {}
        # Nodes that have not run yet, by their declared reads.
        self._declared: dict[DocKey, dict[Node, None]] = {}
        # Materializers, by the documents in which they may write.
        self.envelopes: dict[DocKey, tuple[tuple[DocPath, Node], ...]] = {}
        # settle: nodes with `on_unread` that lost their last reader; handled at the end of a pass.
        self.unread: dict[Node, None] = {}
        # invalidation: called with a node that has not run and whose result was read: its reader is invalid.
        self.on_awaited: Callable[[Node], None] = lambda _: None
        # The names of other spaces that nodes read, by their ids: for people.
        self.far_names: dict[str, str] = {}
        # Other spaces read documents of this one: called with a document that has other writers now.
        self.on_writers: Callable[[DocKey], None] | None = None
        self.liveness = Liveness(self, on_live, on_dormant)
        self.ranks = Ranks(self, on_lowered)

    # -- edges ---------------------------------------------------------------------------------------------

    def writers_of(self, doc: DocKey) -> tuple[Node, ...]:
        """The nodes that write a document."""
        found = self.writers.get(doc)
        return () if found is None else found if isinstance(found, tuple) else (found,)

    def sources(self, node: Node) -> Iterator[Node]:
        """The writers of its reads; once for each document."""
        writers = self.writers
        for doc in node.above:
            found = writers[doc]
            if not isinstance(found, tuple):
                if found is not node:
                    yield found
                continue
            for writer in found:
                if writer is not node:
                    yield writer

    def readers(self, node: Node) -> list[Node]:
        """The readers of its outputs; once for each document."""
        found: list[Node] = []
        for doc in node.outputs:
            # The same edges as of `sources`: new reads of a run become edges document by document.
            found += [reader for reader in self.readers_of(doc) if reader is not node and doc in reader.above]
        return found

    def readers_of(self, doc: DocKey) -> list[Node]:
        """The readers of a document, declared ones included."""
        found = self.index.of_doc(doc) if doc in self.index.docs else []
        if doc in self._declared:
            found = list(dict.fromkeys([*found, *self._declared[doc]]))
        return found

    def materializers(self, node: Node) -> list[Node]:
        """The materializers whose envelope covers one of its reads."""
        envelopes = self.envelopes
        if not envelopes:
            return []
        found: dict[Node, None] = {}
        reads: Iterable[tuple[DocKey, DocPath | None]] = [(doc, (doc, path)) for doc, path, _ in node.reads]
        for doc, place in reads or [(doc, None) for doc in node.above]:
            for (_, path), writer in envelopes.get(doc, ()):
                if writer is not node and (place is None or overlaps(path, place[1])):
                    found[writer] = None
        return list(found)

    def written_docs(self, kind: str) -> list[DocKey]:
        """The documents of a kind that nodes write."""
        found = self._written
        if found is None:
            found = self._written = {}
            for doc in dict.fromkeys([*self.writers, *self.envelopes]):
                found.setdefault(kind_of(doc), []).append(doc)
        return found.get(kind, [])

    def is_awaited(self, node: Node) -> bool:
        """Whether its output, or its envelope, was read."""
        readers = self.readers(node)
        for doc, _ in node.spec.side_write_envelope:
            readers += self.readers_of(doc)
        return any(reader.status is not NodeStatus.NEVER_RAN for reader in readers)

    # -- nodes come and go ---------------------------------------------------------------------------------

    def insert(self, node: Node) -> None:
        """Add a node with its outputs and declared reads."""
        self._written = None
        for doc in node.outputs:
            # Before the node is one of the writers.
            readers = self.readers_of(doc) if self._declared or doc in self.index.docs else ()
            self.writers[doc] = (*self.writers_of(doc), node) if doc in self.writers else node
            for reader in readers:
                if reader is not node:
                    self.on_awaited(node)
                    self._put_above(reader, doc)
                    self.ranks.link(node, reader)
                    if reader.is_live:
                        self.liveness.grant(node)
            if self.on_writers is not None:
                self.on_writers(doc)
        for place in node.spec.side_write_envelope:
            self.envelopes[place[0]] = (*self.envelopes.get(place[0], ()), (place, node))
            if self.readers_of(place[0]):
                self.on_awaited(node)
        for doc in dict.fromkeys(node.spec.declared_reads) if node.spec.declared_reads else ():
            self._declared.setdefault(doc, {})[node] = None
            self._link(node, doc)

    def take_out(self, node: Node) -> None:  # noqa: C901  # everything that `insert` and runs have added
        """Remove a node with all its edges."""
        for doc, path, bits in node.reads:
            self.index.remove(doc, path, bool(bits), node)
        node.reads = ()
        self._written = None
        if node.rare.spans:
            self.spans.forget(node)
        if node.spec.declared_reads:
            self._undeclare(node)
        if node.above:
            self._unlink(node, list(node.above))
        self.unread.pop(node, None)
        self.liveness.forget(node)
        for doc in node.outputs:
            found = self.writers[doc]
            if isinstance(found, tuple):
                others = tuple([writer for writer in found if writer is not node])
                self.writers[doc] = others if len(others) > 1 else others[0]
                continue
            del self.writers[doc]
            if self._declared or doc in self.index.docs:
                for reader in self.readers_of(doc):
                    reader.above.pop(doc, None)
        if self.on_writers is not None:
            self._tell_writers(node, self.on_writers)
        for doc, _ in node.spec.side_write_envelope:
            rest = tuple(entry for entry in self.envelopes.get(doc, ()) if entry[1] is not node)
            if rest:
                self.envelopes[doc] = rest
            else:
                self.envelopes.pop(doc, None)

    @staticmethod
    def _tell_writers(node: Node, tell: Callable[[DocKey], None]) -> None:
        for doc in node.outputs:
            tell(doc)

    def apply_reads(self, node: Node, reads: dict[ReadKey, Mark | None]) -> bool:
        """Register the reads of a run. Only differences are applied. Returns whether there were any.

        Unchanged reads keep their position in the index.
        """
        # Without the versions, which would keep old layers alive.
        now = tuple(reads)
        if now == node.reads and not node.spec.declared_reads:
            # Mostly also in the same order.
            return False
        old = dict.fromkeys(node.reads)
        if old.keys() == reads.keys() and not node.spec.declared_reads:
            return False
        index = self.index
        added = [key for key in now if key not in old] if old else list(now)
        for doc, path, bits in added:
            index.add(doc, path, bool(bits), node)
        for doc, path, bits in old:
            if (doc, path, bits) not in reads:
                index.remove(doc, path, bool(bits), node)
        node.reads, node.recorded = now, None
        if node.spec.declared_reads:
            self._undeclare(node)
        self._relink(node, added)
        return True

    def change_reads(self, node: Node, reads: tuple[ReadKey, ...], added: list[ReadKey], gone: list[ReadKey]) -> None:
        """As `apply_reads`, for a node without declared reads whose differences are known. Costs as much as these."""
        index = self.index
        for doc, path, bits in added:
            index.add(doc, path, bool(bits), node)
        for doc, path, bits in gone:
            index.remove(doc, path, bool(bits), node)
        node.reads, node.recorded = reads, None
        left = dict.fromkeys(doc for doc, _, _ in gone if doc in node.above)
        unread = [doc for doc in left if node not in index.of_doc(doc)]
        if unread:
            self._unlink(node, unread)
        self._link_added(node, added)
        self._find_awaited(node, dict.fromkeys(key[0] for key in added))

    def _undeclare(self, node: Node) -> None:
        """It has run, or was removed: its declared reads are not needed any more."""
        for doc in node.spec.declared_reads:
            declared = self._declared.get(doc)
            if declared is not None and declared.pop(node, node) is None and not declared:
                del self._declared[doc]

    def install_reads(self, node: Node, reads: tuple[ReadKey, ...]) -> None:
        """As `apply_reads`, for a node without reads: the reads are those of an earlier opening."""
        if node.reads or node.above or node.spec.declared_reads:
            self.apply_reads(node, dict.fromkeys(reads))
            return
        add, writers = self.index.add, self.writers
        is_linked = bool(self.envelopes)
        for doc, path, bits in reads:
            add(doc, path, bool(bits), node)
            is_linked = is_linked or doc in writers
        node.reads, node.recorded = reads, None
        if is_linked:
            self._relink(node, list(reads))

    def _relink(self, node: Node, added: list[ReadKey]) -> None:
        """Update the edges after new reads."""
        if node.above:
            docs = {key[0] for key in node.reads}
            gone = [doc for doc in node.above if doc not in docs]
            if gone:
                self._unlink(node, gone)
        self._link_added(node, added)
        self._find_awaited(node, node.above)

    def _link_added(self, node: Node, added: list[ReadKey]) -> None:
        """Add the edges of new reads."""
        for doc, _, _ in added:
            if doc in self.writers and doc not in node.above:
                self._link(node, doc)

    def _find_awaited(self, node: Node, docs: Iterable[DocKey]) -> None:
        """Find the results among these documents that are still to come."""
        for doc in docs:
            for source in self.writers_of(doc):
                if source.status is NodeStatus.NEVER_RAN and source is not node:
                    self.on_awaited(source)
        for source in self.materializers(node) if self.envelopes else ():
            if source.status is NodeStatus.NEVER_RAN:
                self.on_awaited(source)

    def _unlink(self, node: Node, docs: list[DocKey]) -> None:
        was_live = node.live_refs > 0
        released: list[Node] = []
        # All at once, and first: a removed edge must not be found by the search for a root.
        for doc in docs:
            del node.above[doc]
            is_read = doc in self.index.docs
            for writer in self.writers_of(doc):
                if not is_read and writer.on_unread is not None:
                    self.unread[writer] = None
                if was_live and writer is not node:
                    released.append(writer)
        for writer in released:
            self.liveness.withdraw(writer)
        if node.rare.cycle is not None:
            self.ranks.loosen(node)

    def _link(self, node: Node, doc: DocKey) -> None:
        writers = self.writers_of(doc)
        if node in writers:
            writers = tuple(writer for writer in writers if writer is not node)
        if not writers:
            return
        self._put_above(node, doc)
        if len(writers) == 1:
            self.ranks.link(writers[0], node)
        else:
            self.ranks.link_all([(writer, node) for writer in writers])
        for writer in writers:
            if node.live_refs:
                self.liveness.grant(writer)

    @staticmethod
    def _put_above(node: Node, doc: DocKey) -> None:
        if node.above:
            node.above[doc] = None
        else:
            node.above = {doc: None}
