"""What is checked of a file before anything is written to it: whether it is one that this program knows, and is whole.

Must never know: documents.
"""

from __future__ import annotations

import apsw

from headwater.errors import CorruptError
from headwater.store.backends.checksums import sum_of
from headwater.store.backends.sqlite_schema import check_schema
from headwater.store.backends.sqlite_wal import lost_transactions
from headwater.store.features import check_known

_FIRST_WITH_FACTS = 4
"""The first format whose files say which features they use, and how durable their commits are."""


def inspect(db: apsw.Connection, path: str, vfs: str | None, version: int) -> None:
    """Raise CorruptError or MigrationError if the file of this format must not be opened."""
    check_schema(db, path, version)
    if version < _FIRST_WITH_FACTS:
        return
    check_known(_fact(db, path, "features"), path)
    lost = lost_transactions(db, path, vfs)
    # Without a sync for each commit, a power cut may take earlier ones and leave later ones: that was asked for.
    if lost is not None and _fact(db, path, "durability") == "full":
        message = (
            f"{path}-wal is damaged at byte {lost.offset:,}: {lost.transactions} transactions after that were "
            f"committed, and cannot be read. Restore a backup; or, to open the space without them, keep a copy of both "
            f"files, and cut the log: `truncate -s {lost.offset} {path}-wal`"
        )
        raise CorruptError(message, path=path, transactions=lost.transactions, offset=lost.offset)


def _fact(db: apsw.Connection, path: str, key: str) -> str:
    found = db.execute("select value, sum from meta where key = ?", (key,)).fetchall()
    if not found or sum_of(key, found[0][0]) != found[0][1]:
        message = f"{path} is damaged: the space's {key} does not match its checksum; restore a backup"
        raise CorruptError(message, path=path, found=key)
    return str(found[0][0])
