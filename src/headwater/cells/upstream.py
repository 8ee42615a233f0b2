"""The interface of a replica to the store: in this process the storage, otherwise a connection."""

from __future__ import annotations

from typing import Final, Protocol

from headwater.store.commit import Submission
from headwater.store.document import StoredDocument
from headwater.values.ids import DocKey, Seq


class Upstream(Protocol):
    """Where a replica's commits go and its documents come from."""

    def load(self, doc: DocKey, through: Seq) -> StoredDocument | None:
        """The confirmed document as of a place in the log; None if it has to be fetched and will arrive by `pull`."""

    def submit(self, submission: Submission) -> None:
        """Take a commit for decision. Raises if it cannot be taken; then it never was."""


class _All:
    """A container of every document."""

    def __contains__(self, _doc: object) -> bool:
        return True


EVERYTHING: Final = _All()
"""What a listener cares for that does not say."""
