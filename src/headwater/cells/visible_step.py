"""One step of the visible state: all changes of one call, collected before listeners are notified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from headwater.cells.moved_document import MovedDocument
from headwater.cells.pending_commit import PendingCommit, joined
from headwater.errors import HeadwaterError
from headwater.store.commit import Committed, Verdict
from headwater.values.diff import changes_between, changes_of
from headwater.values.ids import DocKey
from headwater.values.notifications import Change, Derived
from headwater.values.patch import Touches
from headwater.values.tree import Maybe

_T = TypeVar("_T")


class VisibleStep(Generic[_T]):
    """All changes of one call of `integrate`, collected before listeners are notified."""

    __slots__ = ("derived", "endings", "has_rejected", "moved", "rolled_back", "settled", "stale")

    def __init__(self) -> None:
        self.moved: dict[DocKey, MovedDocument] = {}
        self.rolled_back: set[DocKey] = set()
        # Documents to be rendered: layers on the new confirmed value.
        self.stale: dict[DocKey, _T] = {}
        # Decided commits, and of each its verdict or error. Two lists: a pair for each would be what the garbage
        # collector looks at, and there is one for every commit.
        self.settled: list[PendingCommit] = []
        self.endings: list[Verdict | HeadwaterError] = []
        self.has_rejected = False
        # Derived results of other sessions.
        self.derived: list[Derived] = []

    def record(self, doc: DocKey, before: Maybe, after: Maybe, touches: Touches | None) -> None:
        """Record a change of a document; several are merged."""
        moved = self.moved.get(doc)
        if moved is None:
            self.moved[doc] = MovedDocument(before, after, touches)
            return
        moved.after = after
        if moved.touches is None or touches is None:
            moved.touches = None
        elif isinstance(moved.touches, list):
            # In place: a step may have many commits to one document.
            moved.touches += touches
        else:
            moved.touches = [*moved.touches, *touches]

    def settle(self) -> None:
        """Settle every decided commit, even if a callback raises. The errors are raised at the end."""
        raised: BaseException | None = None
        for pending, ending in zip(self.settled, self.endings, strict=True):
            try:
                if isinstance(ending, HeadwaterError):
                    pending.settle(None, ending)
                else:
                    pending.settle(ending, None)
            except BaseException as failure:  # noqa: BLE001  # re-raised below
                raised = joined(raised, failure)
        if raised is not None:
            raise raised

    def changes(self, is_read: Callable[[DocKey], bool]) -> tuple[list[Change], list[Change]]:
        """The net changes of documents with readers: of rolled back documents, and of the others."""
        reverted: list[Change] = []
        arrived: list[Change] = []
        for doc, move in self.moved.items():
            if not is_read(doc):
                continue
            if move.touches is None:
                changes = changes_between(doc, move.before, move.after)
            elif move.touches:
                changes = changes_of(doc, move.before, move.after, move.touches)
            else:
                continue
            (reverted if doc in self.rolled_back else arrived).extend(changes)
        return reverted, arrived

    def rejected(self) -> list[tuple[PendingCommit, Verdict | None, HeadwaterError | None]]:
        """The rejected and failed commits."""
        if not self.has_rejected:
            return []
        return [
            (pending, None, ending) if isinstance(ending, HeadwaterError) else (pending, ending, None)
            for pending, ending in zip(self.settled, self.endings, strict=True)
            if type(ending) is not Committed
        ]

    def rejected_source(self) -> object:
        """The transaction that was rolled back, if it was exactly one."""
        sources = [pending.source for pending, _, _ in self.rejected()]
        return sources[0] if len(sources) == 1 else None
