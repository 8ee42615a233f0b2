"""What an app declares of collections, stored in the space: the documents `collection:KIND`, and their indexes."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.store.collection_record import CollectionRecord


def declare_collections(opened: object, records: Sequence[CollectionRecord]) -> None:
    """Write the records that differ, build new indexes, and let queries use them."""
