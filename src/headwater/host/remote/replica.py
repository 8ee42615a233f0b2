"""A replica whose store is a server: what commits come to is worked out here, from what they do.

Must never know: connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from headwater.cells.pending import Failure, Pending, Pulled
from headwater.cells.view import Document
from headwater.errors import AddressError, InvariantError, LimitError
from headwater.host.attached import AttachedReplica, Port
from headwater.store.commit import Commit, Committed, Effect, Outcome
from headwater.store.document import Found, apply_operation
from headwater.values.ids import NEVER, BranchId, DocKey, Seq, SessionId
from headwater.values.tree import ABSENT

if TYPE_CHECKING:
    from headwater.host.attached import Space


class RemoteReplica(AttachedReplica):
    """Holds what is watched. `covers` says of which documents everything is; `unwatch` tells the server of the end."""

    def __init__(
        self,
        storage: Space,
        port: Port,
        session: SessionId,
        branch: BranchId,
        seq: Seq,
        *,
        covers: Callable[[DocKey], bool],
        unwatch: Callable[[DocKey], None],
    ) -> None:
        super().__init__(storage, port, session, branch, seq)
        self._covers = covers
        self._unwatch = unwatch

    def install(self, found: Iterable[tuple[DocKey, Found]]) -> None:
        """Documents that came before anybody has looked."""
        for doc, each in found:
            self._documents[doc] = Document(each.value, each.seq, each.value)

    def let_go(self, doc: DocKey) -> None:
        """Hold a document no longer; but for those that come with all of their kind."""
        with self._turn:
            if doc in self._documents and not self._covers(doc):
                super().let_go(doc)
                if doc not in self._documents:
                    self._unwatch(doc)

    def integrate(self, decided: Iterable[Outcome | Failure | Pulled]) -> None:
        """As everywhere. The server says what was done; what it comes to is found on the way."""
        super().integrate(self._worked_out(decided))

    def _worked_out(self, decided: Iterable[Outcome | Failure | Pulled]) -> Iterator[Outcome | Failure | Pulled]:
        for each in decided:
            if isinstance(each, Outcome) and isinstance(each.verdict, Committed) and not each.effects:
                mine = self._pending.get(each.commit.local_seq) if each.commit.session == self._session else None
                yield self._with_effects(each.commit, each.verdict.seq, mine)
            else:
                yield each

    def _with_effects(self, commit: Commit, seq: Seq, mine: Pending | None) -> Outcome:
        if mine is not None and not mine.moved and self._is_as_shown(mine, seq):
            return Outcome(commit, Committed(seq), mine.effects)
        effects: dict[DocKey, Effect] = {}
        for operation in commit.operations:
            doc = operation.doc
            record = self._documents.get(doc)
            if record is None:
                # It is new, and among those of which everything is here.
                record = self._documents[doc] = Document(ABSENT, NEVER, ABSENT)
            earlier = effects.get(doc)
            before = record.confirmed if earlier is None else earlier.after
            if record.seq >= seq:
                # It came with the document as a whole.
                effects[doc] = Effect(doc, before, before, ())
                continue
            try:
                after, touches = apply_operation(before, operation)
            except (AddressError, LimitError) as misfit:
                message = f"what the server has at {seq} does not fit what is here of {doc}: {misfit.message}"
                raise InvariantError(message, doc=doc, seq=seq) from misfit
            first = before if earlier is None else earlier.before
            effects[doc] = Effect(doc, first, after, touches if earlier is None else earlier.touches + touches)
        return Outcome(commit, Committed(seq), tuple(effects.values()))

    def _is_as_shown(self, mine: Pending, seq: Seq) -> bool:
        """The commit came upon the very documents that it was made on."""
        for effect in mine.effects:
            record = self._documents.get(effect.doc)
            if record is None or record.confirmed is not effect.before or record.seq >= seq:
                return False
        return True
