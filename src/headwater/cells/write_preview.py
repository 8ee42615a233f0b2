"""A transaction as it would be after one more write: for rules that are asked before it is made.

Must never know: rules.
"""

from __future__ import annotations

from typing import Final

from headwater.cells.journal import Flags
from headwater.cells.transaction import Transaction
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe, Path, get

_DEEP: Final = Depth.DEEP


class WritePreview:
    """Reads are noted in the transaction, and are answered of one document as it would be."""

    __slots__ = ("_after", "_doc", "_tx")

    def __init__(self, tx: Transaction, doc: DocKey, after: Maybe) -> None:
        self._tx = tx
        self._doc = doc
        self._after = after

    def read(self, doc: DocKey, path: Path = (), depth: Depth = _DEEP, flags: Flags = 0) -> Maybe:
        """What would stand there."""
        found = self._tx.read(doc, path, depth, flags)
        return get(self._after, path) if doc == self._doc else found

    def document(self, doc: DocKey) -> Maybe:
        """The document as it would be."""
        return self._after if doc == self._doc else self._tx.document(doc)

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """What was read."""
        self._tx.record(doc, path, depth, flags)
