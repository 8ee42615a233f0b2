"""Values as bytes in the order of the values, for the keys of indexes, and back.

A key has the values of some fields one after the other, then the id of the document, so no two documents have the same
key. A tag before each value separates the types. A prefix of fields is a prefix of the bytes: all keys that begin with
these fields are in the span from `prefix` to `prefix + AFTER`.

Long text and bytes are cut, and containers are represented by a digest: equality stays exact, the order does not.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from enum import Enum
from hashlib import sha256
from types import NoneType
from typing import Any, Final, TypeAlias, cast

import msgspec

from headwater.values.causal import letters_of
from headwater.values.codec import digest
from headwater.values.ids import DocId
from headwater.values.tree import ABSENT, AbsentType, Maybe, Value


class Instant(msgspec.Struct, frozen=True, order=True, gc=False):
    """A date and time with an offset, by its instant: microseconds since 1970, UTC."""

    micros: int


class Elapsed(msgspec.Struct, frozen=True, order=True, gc=False):
    """A duration, in microseconds."""

    micros: int


class InexactType(Enum):
    """The type of INEXACT."""

    INEXACT = "inexact"

    def __repr__(self) -> str:
        return "INEXACT"


INEXACT: Final = InexactType.INEXACT
"""The value of a field that its key does not have: long text, long bytes, a container."""

Ordered: TypeAlias = Maybe | Instant | Elapsed
"""What a key can have."""

CUT_BYTES: Final = 512
"""Text and bytes are cut after so many bytes."""

AFTER: Final = b"\xff"
"""After everything that begins with a prefix: no tag is so large."""

_ABSENT: Final = b"\x01"
_NULL: Final = b"\x02"
_FALSE: Final = b"\x03"
_TRUE: Final = b"\x04"
_INT: Final = b"\x10"
_FLOAT: Final = b"\x11"
_TEXT: Final = b"\x20"
_BYTES: Final = b"\x21"
_INSTANT: Final = b"\x28"
_ELAPSED: Final = b"\x29"
_CONTAINER: Final = b"\x30"
_SHORT_ID: Final = b"\x40"
_LONG_ID: Final = b"\x41"

_AT_INT: Final = _INT[0]
_AT_FLOAT: Final = _FLOAT[0]
_AT_TEXT: Final = _TEXT[0]
_AT_BYTES: Final = _BYTES[0]
_AT_INSTANT: Final = _INSTANT[0]
_AT_ELAPSED: Final = _ELAPSED[0]
_AT_CONTAINER: Final = _CONTAINER[0]
_AT_SHORT_ID: Final = _SHORT_ID[0]
_AT_LONG_ID: Final = _LONG_ID[0]

_SIZES: Final = {1: 1, 2: 1, 3: 1, 4: 1, _AT_INT: 10, _AT_FLOAT: 9, _AT_INSTANT: 10, _AT_ELAPSED: 12, _AT_CONTAINER: 17}
"""The bytes of a field, by its tag, unless it is text or bytes."""

_CONSTANTS: Final[dict[int, Maybe]] = {1: ABSENT, 2: None, 3: False, 4: True}
_END: Final = b"\0"
_ESCAPED: Final = b"\0\xff"
_CUT: Final = b"\xfe"
"""After the bytes that were not cut away, in the place of `_END`: greater than it, and no byte of UTF-8."""

_DIGEST_BYTES: Final = 16
_ID_BYTES: Final = 20
_SHORT_ID_END: Final = b"\x01"

_OFFSET: Final = 1 << 63
_WIDE_OFFSET: Final = 1 << 87
"""The microseconds of the longest durations need more than 64 bits."""

_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1

_derived: Final = re.compile(r"[a-z2-7]{32}", re.ASCII)
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_DIGITS: Final = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)


# --- encoding -------------------------------------------------------------------------------------------------


def encode_field(value: Ordered) -> bytes:
    """One field. Types are distinguished by their tags, so 1, 1.0 and True are three keys; 0.0 and -0.0 are one."""
    encoder = _ENCODERS.get(type(value))
    return encoder(value) if encoder is not None else _CONTAINER + digest(cast("Value", value))


def _encode_float(value: float) -> bytes:
    # Without the sign of zero.
    bits = int.from_bytes(struct.pack(">d", value or 0.0), "big")
    return _FLOAT + (bits ^ (_ALL if bits & _SIGN else _SIGN)).to_bytes(8, "big")


def _run(tag: bytes, content: bytes) -> bytes:
    if len(content) <= CUT_BYTES:
        return tag + (content.replace(_END, _ESCAPED) if _END in content else content) + _END
    kept = content[:CUT_BYTES].replace(_END, _ESCAPED)
    return tag + kept + _CUT + sha256(content).digest()[:_DIGEST_BYTES]


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    str: lambda value: _run(_TEXT, value.encode()),
    int: lambda value: _INT + (value + _OFFSET).to_bytes(9, "big"),
    NoneType: lambda _: _NULL,
    bool: lambda value: _TRUE if value else _FALSE,
    AbsentType: lambda _: _ABSENT,
    float: _encode_float,
    bytes: lambda value: _run(_BYTES, value),
    Instant: lambda value: _INSTANT + (value.micros + _OFFSET).to_bytes(9, "big"),
    Elapsed: lambda value: _ELAPSED + (value.micros + _WIDE_OFFSET).to_bytes(11, "big"),
}


def encode_whole(text: str) -> bytes:
    """A text that is not cut, however long it is: what it says has to be found in the key."""
    return _TEXT + text.encode().replace(_END, _ESCAPED) + _END


def encode_key(fields: Iterable[Ordered], doc: DocId, prefix: bytes = b"") -> bytes:
    """The key of a document: a prefix of encoded fields, more fields, and its id."""
    return prefix + b"".join([encode_field(each) for each in fields]) + encode_id(doc)


def encode_id(doc: DocId) -> bytes:
    """The id of a document at the end of a key. Its kind is left out: all keys of an index have the same."""
    name = doc.partition(":")[2]
    if _derived.fullmatch(name):
        return _SHORT_ID + int(name.translate(_DIGITS), 32).to_bytes(_ID_BYTES, "big") + _SHORT_ID_END
    return _LONG_ID + name.encode().replace(_END, _ESCAPED) + _END


def prefix_span(text: str | bytes, prefix: bytes = b"") -> tuple[bytes, bytes]:
    """The span of all keys whose next field begins with a text, or with bytes, of at most `CUT_BYTES`."""
    content = text.encode() if isinstance(text, str) else text
    lo = prefix + (_TEXT if isinstance(text, str) else _BYTES) + content[:CUT_BYTES].replace(_END, _ESCAPED)
    return lo, following(lo)


def following(prefix: bytes) -> bytes:
    """The first key after all keys that begin with these bytes, which are not all of value 255."""
    start = prefix.rstrip(AFTER)
    return start[:-1] + bytes((start[-1] + 1,))


# --- decoding -------------------------------------------------------------------------------------------------


def fields_of(key: bytes) -> tuple[Ordered | InexactType, ...]:
    """The values of the fields of a key, those of its prefix included."""
    return _decoded(key)[0]


def fields_end(key: bytes, count: int) -> int:
    """Where the first fields of a key end: so many of them, those of its prefix included."""
    place = 0
    for _ in range(count):
        place = _field_end(key, place)
    return place


def whole_fields(key: bytes, count: int | None = None) -> list[bytes]:
    """The first fields of a key, each as it is encoded; or all, of a key without an id.

    Raises ValueError if the bytes end within a field.
    """
    found: list[bytes] = []
    place = 0
    while place < len(key) if count is None else len(found) < count:
        try:
            end = _field_end(key, place)
        except (IndexError, KeyError):
            end = len(key) + 1
        if end > len(key):
            raise ValueError(f"{key!r} ends within a field")
        found.append(key[place:end])
        place = end
    return found


def _field_end(key: bytes, place: int) -> int:
    tag = key[place]
    return _content(key, place + 1)[1] if tag in (_AT_TEXT, _AT_BYTES) else place + _SIZES[tag]


def doc_id_of(key: bytes, kind: str) -> DocId:
    """The id at the end of a key of an index of this kind."""
    if key.endswith(_SHORT_ID_END):
        return DocId(f"{kind}:{letters_of(key[-_ID_BYTES - 1 : -1])}")
    start = _decoded(key)[1]
    return DocId(f"{kind}:{key[start + 1 : -1].replace(_ESCAPED, _END).decode()}")


def doc_ids_of(keys: Iterable[bytes], kind: str, before: str = "") -> list[str]:
    """The ids at the ends of many keys, as `doc_id_of` has each, with a text before each."""
    start = f"{before}{kind}:"
    return [
        f"{start}{letters_of(key[-_ID_BYTES - 1 : -1])}"
        if key[-1:] == _SHORT_ID_END
        else f"{before}{doc_id_of(key, kind)}"
        for key in keys
    ]


def _decoded(key: bytes) -> tuple[tuple[Ordered | InexactType, ...], int]:
    """The fields, and where the id begins."""
    found: list[Ordered | InexactType] = []
    place, size = 0, len(key)
    while place < size:
        # By frequency: a query decodes many keys.
        tag = key[place]
        if tag in (_AT_TEXT, _AT_BYTES):
            content, place = _content(key, place + 1)
            found.append(INEXACT if content is None else content.decode() if tag == _AT_TEXT else content)
        elif tag == _AT_INT:
            found.append(int.from_bytes(key[place + 1 : place + 10], "big") - _OFFSET)
            place += 10
        elif tag in (_AT_SHORT_ID, _AT_LONG_ID):
            break
        elif tag == _AT_INSTANT:
            found.append(Instant(int.from_bytes(key[place + 1 : place + 10], "big") - _OFFSET))
            place += 10
        elif tag in _CONSTANTS:
            found.append(_CONSTANTS[tag])
            place += 1
        elif tag == _AT_ELAPSED:
            found.append(Elapsed(int.from_bytes(key[place + 1 : place + 12], "big") - _WIDE_OFFSET))
            place += 12
        elif tag == _AT_FLOAT:
            bits = int.from_bytes(key[place + 1 : place + 9], "big")
            found.append(struct.unpack(">d", (bits ^ (_SIGN if bits & _SIGN else _ALL)).to_bytes(8, "big"))[0])
            place += 9
        elif tag == _AT_CONTAINER:
            found.append(INEXACT)
            place += 1 + _DIGEST_BYTES
        else:
            raise ValueError(f"{key!r} is not a key: {bytes([tag])!r} at {place} is the tag of no value")
    return tuple(found), place


def _content(key: bytes, start: int) -> tuple[bytes | None, int]:
    """The content of text or bytes, and the place after it; None if it was cut."""
    end = key.find(_END, start)
    if 0 <= end - start <= CUT_BYTES and key[end + 1 : end + 2] != b"\xff":
        return key[start:end], end + 1
    place, size = start, 0
    while True:
        if size == CUT_BYTES and key[place : place + 1] == _CUT:
            return None, place + 1 + _DIGEST_BYTES
        if key[place] == 0:
            if key[place + 1 : place + 2] != b"\xff":
                return key[start:place].replace(_ESCAPED, _END), place + 1
            place += 1
        place, size = place + 1, size + 1


# --- stored values in the order of their meaning ----------------------------------------------------------------


def instant(value: Maybe) -> Ordered:
    """The stored text of a datetime in its order: with an offset, as its instant; other values as they are.

    Without an offset, the text has the order of its digits, and is before all instants.
    """
    if type(value) is not str:
        return value
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return value
    return value if found.utcoffset() is None else Instant((found - _EPOCH) // _MICRO)


def elapsed(value: Maybe) -> Ordered:
    """The stored text of a timedelta in its order; other values as they are."""
    if type(value) is not str:
        return value
    try:
        return Elapsed(msgspec.convert(value, timedelta) // _MICRO)
    except (msgspec.ValidationError, OverflowError):
        return value


def as_float(value: Maybe) -> Value | AbsentType:
    """An int of a field of floats as the float that it is read as."""
    return float(value) if type(value) is int else value
