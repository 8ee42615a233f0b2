"""What is kept of a run for the next opening, and what an opening makes of what is kept.

Out: with the commit of a run goes what it has read, or only its digest if that is as before; of a run that wrote
nothing, a note that goes with the next commit. In: a node whose code is the same, and whose result is the one of that
run, is installed as if it had just run; if something that it read has changed since, as invalid. In all other cases it
is as new, and says why (I7).

Must never know: how rows are stored, and when a node runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from headwater.cells.journal import SHALLOW_BIT, Mark, ReadKey
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.gates import Gates
from headwater.scheduler.graph import Graph
from headwater.scheduler.invalidation import Invalidation
from headwater.scheduler.node import Node, Place, Signal
from headwater.scheduler.trace import Restored, Trace
from headwater.store.backend import ObservationRow
from headwater.store.observations import DIGEST_BYTES, Observation, decode_observation, digest_of, encode_observation
from headwater.store.resumption import Listing
from headwater.values.address import Depth, address_text
from headwater.values.ids import DocKey, Seq
from headwater.values.tree import ABSENT, Maybe, Path, same

Changed: TypeAlias = Callable[[DocKey, list[tuple[Path, Depth]], Seq], bool]
"""Whether a commit after a place of the log has changed one of these places of a document, or may have."""

SINCE: Final = "while nobody looked"
"""How a node became invalid that was not there."""


NOTHING: Final = "nothing is kept of it"
"""Why most nodes are fresh that are."""


ADOPTED: Final = "adopted"
"""What became of a node that need not run because another runtime has run it."""


class Resumed(msgspec.Struct, frozen=True):
    """What an opening made of one node that it could not take over as it was."""

    node: str
    outcome: str
    """dirty or fresh."""
    reason: str = ""
    """Why it was not simply restored."""


class Persistence:
    """Rows out, rows in."""

    def __init__(self, replica: Replica, graph: Graph, gates: Gates, invalidation: Invalidation, trace: Trace) -> None:
        self._gates = gates
        self._replica = replica
        self._graph = graph
        self._invalidation = invalidation
        self._trace = trace
        self._now = gates.now
        # How many could be taken over as they were; and the others, by their ids.
        self.restored = 0
        self.missed: dict[str, Resumed] = {}

    # -- out -----------------------------------------------------------------------------------------------

    def observe(self, node: Node, tx: Transaction) -> None:
        """A run is about to commit. The node's reads are those of this run already."""
        body = self._body(node, tx)
        if body is not None:
            tx.observes = (_key(node), body)

    def note(self, node: Node, tx: Transaction, reads: Mapping[ReadKey, Mark | None], value: Maybe = ABSENT) -> None:
        """A run had nothing to write: what it has read is kept all the same, if it is so when it is stored.

        So is what it has come to: by then somebody else may have written there, or the commit that it stands in was
        taken back.
        """
        body = self._body(node, tx, whole=True)
        # Perhaps it will not be kept: the next commit must not refer to it.
        node.recorded = None
        if body is None:
            return
        seen = [mark.read(doc, path, _depth(bits)) for (doc, path, bits), mark in reads.items() if mark is not None]
        if len(seen) != len(reads):
            return
        for index, doc in enumerate(node.outputs):
            stands, mark = self._replica.hold(doc)
            if not index and not same(stands, value):
                return
            seen.append(mark.read(doc, (), Depth.DEEP))
        self._replica.notes.put(_key(node), body, seen)

    def _body(self, node: Node, tx: Transaction, *, whole: bool = False) -> bytes | None:
        """What is kept of this run; its digest, if it is as the time before. None: nothing."""
        code = node.spec.print
        if code is None:
            return None
        recorded = node.recorded
        if recorded is not None and recorded[0] is node.reads and not whole and not tx.reaches_out:
            if len(recorded[1]) != DIGEST_BYTES:
                node.recorded = recorded = (node.reads, digest_of(recorded[1]))
            return recorded[1]
        node.recorded = None
        if node.breadth or tx.reaches_out or self._coordinates(node):
            return None
        body = encode_observation(code(), node.reads)
        node.recorded = (node.reads, digest_of(body))
        return body

    def _coordinates(self, node: Node) -> bool:
        """It calls functions with arguments: only its own run makes those again. Each of them is kept for itself."""
        writers, made = self._graph.writers, node.spec.made_before
        for doc in node.above:
            for writer in writers[doc]:
                if writer.spec.is_instance and doc not in made:
                    return True
        return False

    def rejected(self, node: Node) -> None:
        """A commit of its was taken back: what was kept with it, too."""
        node.recorded = None

    # -- in ------------------------------------------------------------------------------------------------

    def restore_all(self, nodes: Iterable[Node], listing: Listing, changed: Changed) -> None:
        """Install what is kept. Nothing runs, and no document is looked at that has not changed."""
        rows = [(listing.rows.pop(_key(node), None), node) for node in nodes if node.spec.print is not None]
        # Those that ran first are above the others, mostly: so ranks are right at once.
        rows.sort(key=lambda each: 0 if each[0] is None else each[0].seq)
        dirty: list[tuple[Node, Place]] = []
        for row, node in rows:
            cause = self._restore(node, row, listing, changed)
            if cause is not None:
                dirty.append((node, cause))
        for node, cause in dirty:
            self._invalidation.mark(node, cause, SINCE)
            self._gates.at_once(node)

    def _restore(self, node: Node, row: ObservationRow | None, listing: Listing, changed: Changed) -> Place | None:
        """Install one. Returns what has changed since, if anything did."""
        observation, miss = self._valid(node, row, listing)
        if observation is None or row is None:
            self._tell(node, "fresh", miss)
            return None
        newer: dict[DocKey, list[tuple[Path, Depth]]] = {}
        reads = reads_of(observation)
        for doc, path, bits in reads:
            if self._is_newer(doc, row.seq, listing):
                newer.setdefault(doc, []).append((path, _depth(bits)))
        self._graph.install_reads(node, reads)
        self._invalidation.forget(node)
        # I7: as if it had run just now; and if that is not so any more, as if it had been told.
        node.signal(Signal.RESTORED)
        node.restored = True
        if row.doc not in listing.inherited:
            # What stands on another branch cannot be referred to on this one. The digest of what stands on this one is
            # made when it is needed: most are never run again.
            node.recorded = (node.reads, row.body)
        for doc, places in newer.items():
            if changed(doc, places, row.seq):
                self._tell(node, "dirty", f"{address_text(doc)} has changed since")
                return (doc, places[0][0])
        self.restored += 1
        if self._trace.on:
            self._trace.emit(Restored(self._now(), node.id, "restored", ""))
        return None

    def take_up(self, node: Node, reads: tuple[ReadKey, ...], recorded: tuple[tuple[ReadKey, ...], bytes]) -> None:
        """Install what another node of the same function knew, all of which is still so."""
        self._graph.install_reads(node, reads)
        self._invalidation.forget(node)
        node.signal(Signal.RESTORED)
        node.restored = True
        node.recorded = (node.reads, recorded[1])
        self.restored += 1
        if self._trace.on:
            self._trace.emit(Restored(self._now(), node.id, "restored", ""))

    def adopt(self, node: Node, reads: tuple[ReadKey, ...], body: bytes) -> None:
        """Install what the run of another runtime has read, all of which is here as it was there."""
        self._graph.install_reads(node, reads)
        self._invalidation.relieve(node)
        node.recorded = (node.reads, body)
        node.adopted += 1
        if self._trace.on:
            self._trace.emit(Restored(self._now(), node.id, ADOPTED, "another runtime has run it"))

    def _is_newer(self, doc: DocKey, seq: Seq, listing: Listing) -> bool:
        """Written since, or here, and not decided yet: of that the store does not know."""
        return listing.is_newer(doc, seq) or self._replica.is_layered(doc)

    def _valid(self, node: Node, row: ObservationRow | None, listing: Listing) -> tuple[Observation | None, str]:
        """What is kept, if it is of this very node and its result; or why not."""
        if row is None:
            return None, NOTHING
        observation = decode_observation(row.body)
        if observation is None:
            return None, "what is kept of it cannot be read"
        code = node.spec.print
        if code is None or observation.print != code():
            return None, "its code, or something that it uses, has changed"
        if node.outputs and not listing.is_there(node.outputs[0]):
            return None, "its result is gone"
        for doc in node.outputs:
            if self._is_newer(doc, row.seq, listing):
                return None, f"{address_text(doc)} was written by somebody else"
        return observation, ""

    def _tell(self, node: Node, outcome: str, reason: str) -> None:
        self.missed[node.id] = Resumed(node.id, outcome, reason)
        if self._trace.on:
            self._trace.emit(Restored(self._now(), node.id, outcome, reason))


def reads_of(observation: Observation) -> tuple[ReadKey, ...]:
    """As the journal says it: the next run is compared with this."""
    found: dict[ReadKey, None] = {}
    for read in observation.reads:
        doc, path, shallow = read if isinstance(read, tuple) else (read, (), False)
        found[doc, path, SHALLOW_BIT if shallow else 0] = None
    return tuple(found)


def _key(node: Node) -> DocKey:
    """What its row is called by."""
    return node.spec.kept_as or node.outputs[0]


def _depth(bits: int) -> Depth:
    return Depth.SHALLOW if bits else Depth.DEEP
