"""The keys of a transaction's own writes in one index."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

from headwater.cells.drafts import Draft
from headwater.store.collection_record import CollectionRecord, NamedIndex, id_of, kind_of, scope_prefix
from headwater.values.ids import DocKey
from headwater.values.tree import ABSENT, Maybe


class DraftKeys:
    """The keys of a transaction's own writes in one index."""

    __slots__ = ("added", "docs")

    def __init__(self) -> None:
        # Of each written document: its value and key with the writes.
        self.docs: dict[DocKey, tuple[Maybe, bytes | None]] = {}
        self.added: list[bytes] = []

    def update(self, drafts: Mapping[DocKey, Draft], record: CollectionRecord, named: NamedIndex) -> None:
        """Take in what was written since."""
        for doc, draft in drafts.items():
            known, is_written = self.docs.get(doc), draft.whole or bool(draft.ops)
            if known is not None and known[0] is draft.value and is_written:
                continue
            if known is None:
                if not is_written or kind_of(doc) != record.kind or scope_prefix(record, doc) is None:
                    continue
            elif known[1] is not None:
                del self.added[bisect_left(self.added, known[1])]
            if not is_written:
                # Rolled back to a savepoint.
                del self.docs[doc]
                continue
            key = key_in(record, named, doc, draft.value)
            self.docs[doc] = (draft.value, key)
            if key is not None:
                insort(self.added, key)


def key_in(record: CollectionRecord, named: NamedIndex, doc: DocKey, value: Maybe) -> bytes | None:
    """The key of a member with this value; None if it does not exist."""
    return None if value is ABSENT else named.key(scope_prefix(record, doc) or b"", value, id_of(doc))
