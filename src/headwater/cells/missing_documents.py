"""Reads of documents that are not loaded yet: they raise NotReadyError, because code in an event loop does not wait."""

from __future__ import annotations

from collections.abc import Callable

from headwater.cells.context import CONTEXT
from headwater.cells.journal import Flags
from headwater.cells.not_ready import not_ready
from headwater.cells.replica import Replica
from headwater.cells.space_port import UntrackedReads
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe, Path


def gate_of(replica: Replica, space: str) -> Callable[[DocKey], None]:
    """The gate that plain code passes before it reads a document. The gate of a surrounding run is called first."""

    def gate(doc: DocKey) -> None:
        if not replica.is_missing(doc):
            return
        frame = CONTEXT.get()
        while frame is not None:
            outer = None if frame.tx is None or frame.tx.replica is not replica else frame.tx.gate
            if outer is not None and outer is not gate:
                # It stops the run, which is repeated.
                outer(doc)
            frame = frame.outer
        raise not_ready(doc, space)

    return gate


class GuardedReads(UntrackedReads):
    """Reads outside any transaction, of a partial replica."""

    __slots__ = ("_gate",)

    def __init__(self, replica: Replica, gate: Callable[[DocKey], None]) -> None:
        super().__init__(replica)
        self._gate = gate

    def read(self, doc: DocKey, path: Path = (), depth: Depth = Depth.DEEP, flags: Flags = 0) -> Maybe:
        """The value at the address."""
        self._gate(doc)
        return super().read(doc, path, depth, flags)

    def document(self, doc: DocKey) -> Maybe:
        """The document."""
        self._gate(doc)
        return super().document(doc)
