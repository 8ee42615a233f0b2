"""Checksums of rows. Each covers the key of the row as well as its content, so that a moved row is detected.

From format 4 on. Bodies of earlier formats have a checksum of the body alone; the two are distinguished by `_PLACED`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from headwater.store.backend import HeadRow, LogRow

_PLACED: Final = 1 << 32
"""Added to a checksum that also covers the key of its row. A CRC has 32 bits, so a plain one is always smaller."""

_MASK: Final = _PLACED - 1


def sum_of(*parts: object) -> int:
    """The checksum of a short row: its columns, with names instead of their numbers."""
    return crc32("\0".join(map(str, parts)).encode(errors="surrogatepass"))


def key_sum(key: str) -> int:
    """The same as `sum_of(key)`: a fold computes it for each new document."""
    return crc32(key.encode(errors="surrogatepass"))


def head_sum(branch: str, row: HeadRow) -> int:
    """The checksum of a row of `head`."""
    return columns_sum(branch, row.doc, row.seq, int(row.live), row.size, row.since)


def columns_sum(branch: str, doc: str, seq: object, live: object, size: object, since: object) -> int:  # noqa: PLR0917  # columns
    """The same of its columns, as they are stored: the same as `sum_of`, at half the cost."""
    return crc32(f"{branch}\0{doc}\0{seq}\0{live}\0{size}\0{since}".encode(errors="surrogatepass"))


def log_sum(seq: int, body: bytes) -> int:
    """The checksum of a row of the log."""
    return _PLACED + crc32(body, seq & _MASK)


def log_values(rows: Sequence[LogRow]) -> list[tuple[int, bytes, bytes, int]]:
    """Rows of the log with their checksums, as they are stored."""
    return [(row.seq, row.body, row.chain, _PLACED + crc32(row.body, row.seq & _MASK)) for row in rows]


def is_log_row(seq: int, body: bytes, checksum: object) -> bool:
    """Whether the checksum matches content and key of the row."""
    return checksum == log_sum(seq, body) or checksum == crc32(body)


def snapshot_sum(branch: str, doc: str, seq: int, body: bytes | None) -> int:
    """The checksum of a snapshot. No body differs from an empty body."""
    # As `sum_of` of these parts.
    key = f"{branch}\0{doc}\0{seq}\0{body is None}"
    return _PLACED + crc32(body or b"", crc32(key.encode(errors="surrogatepass")))


def is_snapshot(branch: str, doc: str, seq: int, body: bytes | None, checksum: object) -> bool:
    """Whether the checksum matches content and key of the row."""
    return checksum == snapshot_sum(branch, doc, seq, body) or checksum == crc32(body or b"")
