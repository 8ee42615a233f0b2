"""The properties of a space's file, read without a lock: another process may have the file open.

Only the main file is read. What is still in the write-ahead log is not seen; the id and the lineage are written when
the file is made, and changed only while no process has it open. Every property has a checksum, so a page that is being
written is noticed.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import apsw

from headwater.store.backends.checksums import sum_of
from headwater.store.backends.sqlite_file import APPLICATION_ID

_FLAGS: Final = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def peek(path: str, vfs: str | None) -> dict[str, str] | None:
    """The properties in the main file; None if it is no space, of an earlier format, or cannot be read now.

    Never for a file that this process has open: closing it drops the locks of the process.
    """
    name = f"file:{quote(path)}?immutable=1"
    try:
        db = apsw.Connection(name, flags=_FLAGS, vfs=vfs)
        try:
            if db.execute("pragma application_id").get != APPLICATION_ID:
                return None
            rows = db.execute("select key, value, sum from meta").fetchall()
        finally:
            db.close()
    except (apsw.Error, OSError, UnicodeDecodeError):
        return None
    return {str(key): str(value) for key, value, checksum in rows if sum_of(key, value) == checksum}
