"""Cursors of pages: the place behind the last document of a page, as text for a URL.

A cursor is not signed. It is checked like any input: it must be undamaged, of this query, and lie within its spans.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from hashlib import blake2b
from typing import Final

import msgspec

from headwater.errors import LimitError, UsageError

CURSOR_MAX: Final = 700
"""Bytes of a cursor: it is part of URLs, which some programs cut at 2,000."""

_CHECK_BYTES: Final = 6
_FORMAT: Final = 1


class _Content(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    format: int
    query: bytes
    index: str
    place: bytes


_decoder: Final = msgspec.msgpack.Decoder(_Content)
_encode: Final = msgspec.msgpack.Encoder().encode


def write_cursor(query: bytes, index: str, place: bytes) -> str:
    """The cursor behind a place in the order of a query. Raises LimitError if it would be too long for a URL."""
    body = _encode(_Content(_FORMAT, query, index, place))
    text = urlsafe_b64encode(_check(body) + body).rstrip(b"=").decode()
    if len(text) > CURSOR_MAX:
        message = (
            f"the last document of the page has a key of {len(place)} bytes in {index}, too long for a cursor of "
            f"{CURSOR_MAX} bytes; order by a field with shorter values"
        )
        raise LimitError(message, limit=CURSOR_MAX)
    return text


def read_cursor(text: str, query: bytes, index: str) -> bytes:
    """The place of a cursor. Raises UsageError if it is damaged, or of another query or index."""
    given: object = text
    if not isinstance(given, str) or not given or len(given) > CURSOR_MAX:
        raise _damaged()
    try:
        packed = urlsafe_b64decode(given.encode("ascii") + b"=" * (-len(given) % 4))
        check, body = packed[:_CHECK_BYTES], packed[_CHECK_BYTES:]
        found = _decoder.decode(body)
    except (UnicodeEncodeError, Base64Error, ValueError, msgspec.MsgspecError):
        raise _damaged() from None
    if check != _check(body) or urlsafe_b64encode(packed).rstrip(b"=").decode() != given:
        raise _damaged()
    if found.format != _FORMAT or found.query != query or found.index != index:
        raise UsageError("the cursor is of another query, or of an earlier version of this one; begin with after=None")
    return found.place


def _check(body: bytes) -> bytes:
    return blake2b(body, digest_size=_CHECK_BYTES, person=b"hw-cursor").digest()


def _damaged() -> UsageError:
    return UsageError("the cursor is damaged; pass the text of page.next unchanged, or begin with after=None")
