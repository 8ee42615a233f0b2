"""Checksums of rows. Each covers the key of the row as well as its content, so that a moved row is detected.

From format 4 on. Bodies of earlier formats have a checksum of the body alone; the two are distinguished by `_PLACED`.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

_PLACED: Final = 1 << 32
"""Added to the checksum of a body that covers its place, too. A CRC has 32 bits, so none is as large by itself."""

_MASK: Final = _PLACED - 1


def sum_of(*parts: object) -> int:
    """Of a short row: its columns, with names in the place of numbers that stand for them."""
    return crc32("\0".join(map(str, parts)).encode(errors="surrogatepass"))


def log_sum(seq: int, body: bytes) -> int:
    """Of a row of the log."""
    return _PLACED + crc32(body, seq & _MASK)


def is_log_row(seq: int, body: bytes, checksum: object) -> bool:
    """Whether the row is as it was written, and where."""
    return checksum == log_sum(seq, body) or checksum == crc32(body)


def snapshot_sum(branch: str, doc: str, seq: int, body: bytes | None) -> int:
    """Of a snapshot. One without a body differs from one with an empty body."""
    return _PLACED + crc32(body or b"", sum_of(branch, doc, seq, body is None))


def is_snapshot(branch: str, doc: str, seq: int, body: bytes | None, checksum: object) -> bool:
    """Whether the row is as it was written, and where."""
    return checksum == snapshot_sum(branch, doc, seq, body) or checksum == crc32(body or b"")
