"""The interface of a replica to the store: in this process the storage, otherwise a connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from headwater.store.commit import Submission
from headwater.store.document import StoredDocument
from headwater.values.ids import DocKey, Seq


class Upstream(Protocol):
    """The receiver of a replica's commits and the source of its documents."""

    def load(self, doc: DocKey, through: Seq) -> StoredDocument | None:
        """The confirmed document as of a sequence number; None if it has to be fetched and will arrive by `pull`."""

    def load_many(self, docs: Sequence[DocKey], through: Seq) -> Mapping[DocKey, StoredDocument]:
        """The confirmed documents, by few lookups for all; none of those that `load` would have to fetch."""

    def span(self, index: str, lo: bytes, hi: bytes, *, limit: int | None, reverse: bool, through: Seq) -> list[bytes]:
        """The confirmed keys of an index from `lo` to `hi`, exclusive, as of a sequence number. Raises QueryError."""

    def submit(self, submission: Submission) -> None:
        """Submit a commit for decision. Raises if that is not possible; then nothing was submitted."""


class _All:
    """A container of every document."""

    def __contains__(self, _doc: object) -> bool:
        return True


EVERYTHING: Final = _All()
"""The documents of a listener that names none."""
