"""Reads of a transaction in another space.

A commit covers one space: no write passes here, and the store of the transaction checks none of these reads. They are
dependencies all the same: a run registers them under far keys (`values.address.far_key`).
"""

from __future__ import annotations

from typing import Final, NoReturn

from headwater.cells.cross_space import WRITTEN, crossing_error
from headwater.cells.drafts import Draft
from headwater.cells.pending_commit import Mark, ReadKey
from headwater.cells.space_port import SpacePort
from headwater.cells.span_records import SpanKey, far_span
from headwater.cells.transaction import Transaction
from headwater.errors import InvariantError
from headwater.store.commit import Precondition
from headwater.values.address import Depth, address_text
from headwater.values.ids import DocKey
from headwater.values.native import mypyc_attr
from headwater.values.overlap import touches
from headwater.values.tree import Path

_RUN: Final = object()
"""In place of the node, which belongs to another scheduler."""


@mypyc_attr(allow_interpreted_subclasses=True)
class FarSpace:
    """Another space, as transactions of one space see it: they may read there, and not write."""

    def __init__(self, near: SpacePort, far: SpacePort) -> None:
        self.near = near
        self.far = far

        # The id under which the spans that were read there are registered here; empty: they are not.
        self.span_space = ""

    def read_index(self, index: str) -> None:
        """An index of a collection is read there. Overridden by the runtime, which follows its changes."""

    def refuse_write(self, tx: Transaction, doc: DocKey, path: Path) -> NoReturn:
        """Raise CrossSpaceError, or WriteError where nothing may be written at all."""
        raise crossing_error(tx, self.near, self.far, address_text(doc, path), WRITTEN, tx.read_only)

    def pull(self, node: object) -> None:
        """Make a function of the other space current, or raise its error. Overridden by the runtime."""
        raise InvariantError("a space without functions was asked for one", node=node)


class FarReads(Transaction):
    """The part of a transaction that reads one other space: each document once, as first seen, committed or pending.

    Its documents have the keys that they have there.
    """

    def __init__(self, near: Transaction, far: FarSpace) -> None:
        replica = far.far.replica
        super().__init__(replica)
        self.near = near
        self.far = far
        # One value for each handle: every write of the transaction clears it.
        self.memo = near.memo
        self.node = None if near.node is None else _RUN
        # Of the other space at the first read: while it is the same, so are all documents.
        self.version = replica.version

    @property
    def name(self) -> str:
        """That of the transaction whose reads these are."""
        return self.near.name

    def reads_there(self) -> dict[ReadKey, Mark | None]:
        """The dependencies of a run, with the keys of the other space. Read-only for the caller."""
        journal = self.journal
        return journal.entries if journal.is_plain else journal.reads()

    def is_undecided(self) -> bool:
        """Whether something that was read here has no verdict yet."""
        for mark in self._seen.values():
            if mark.count:
                return True
        return False

    def is_outdated(self) -> bool:
        """Whether something that was read here is another value now."""
        replica = self.replica
        if replica.version == self.version:
            return False
        for (doc, path, bits), mark in self.reads_there().items():
            if mark is None or replica.is_unchanged(doc, mark):
                continue
            now = replica.snapshot(doc).value
            if mark.value is not now and touches(path, Depth.SHALLOW if bits else Depth.DEEP, mark.value, now):
                return True
        return False

    # -- nothing is written --------------------------------------------------------------------------------

    @property
    def has_writes(self) -> bool:
        """The writes of the transaction are in its own space, where functions of this one do not see them."""
        return False

    def _begin_write(self, doc: DocKey, path: Path) -> Draft:
        self.far.refuse_write(self.near, doc, path)

    def require(self, precondition: Precondition) -> None:
        """No commit covers two spaces."""
        doc: DocKey = getattr(precondition, "doc", DocKey("space/?"))
        self.far.refuse_write(self.near, doc, ())


def far_spans(tx: Transaction) -> dict[SpanKey, bytes]:
    """The reads of a run in indexes of other spaces, with the answers to questions."""
    found: dict[SpanKey, bytes] = {}
    for view in (tx.views or {}).values():
        if isinstance(view, FarReads) and view.spans is not None and view.far.span_space:
            for key, answer in view.spans.dependencies().items():
                found[far_span(view.far.span_space, key)] = answer
    return found


def is_undecided(tx: Transaction) -> bool:
    """Whether a run has read a commit without a verdict in another space."""
    views = tx.views
    for view in () if views is None else views.values():
        if isinstance(view, FarReads) and view.is_undecided():
            return True
    return False
