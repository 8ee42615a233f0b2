"""The one codec, for disk and wire: msgpack with sorted keys. Values have equal bytes exactly if they are the same."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from headwater.errors import AddressError
from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.tree import Value, is_array, is_map
from headwater.values.value_limits import CHUNKED_FROM

Plain: TypeAlias = object
"""Decoded by msgspec: built-in dicts and lists."""


def flatten(value: object) -> object:
    """A chunked container as the built-in one; msgspec encodes the others itself."""
    if isinstance(value, ChunkedMap | ChunkedList):
        return value.flat()
    raise TypeError(f"{type(value).__name__} got into a value tree")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=flatten)
_decode: Final = msgspec.msgpack.Decoder().decode


def encode(value: Value) -> bytes:
    """Canonical bytes, because maps are always sorted."""
    return _encoder.encode(value)


def decode(data: bytes) -> Value:
    """The exact inverse of `encode`. Trusts the bytes: only for bytes from `encode` that a checksum protects.

    Raises msgspec.DecodeError for invalid msgpack, but accepts msgpack that `encode` would not write. Untrusted data
    goes through `tree.freeze` instead of `adopt`, which sorts and checks.
    """
    return adopt(_decode(data))


def digest(value: Value) -> bytes:
    """A digest of 16 bytes: equal exactly if the values are the same."""
    return sha256(_encoder.encode(value)).digest()[:16]


def adopt(plain: Plain) -> Value:
    """Convert decoded containers to tree types. They were checked and sorted when they were encoded."""
    if type(plain) is dict:
        for key, item in plain.items():
            if type(item) is dict or type(item) is list:
                plain[key] = adopt(item)
        return FrozenDict(plain) if len(plain) <= CHUNKED_FROM else ChunkedMap.of(plain)
    if type(plain) is list:
        for index, item in enumerate(plain):
            if type(item) is dict or type(item) is list:
                plain[index] = adopt(item)
        return FrozenList(plain) if len(plain) <= CHUNKED_FROM else ChunkedList.of(plain)
    return plain  # type: ignore[return-value]  # everything else is a scalar


# --- JSON, for people and scripts -----------------------------------------------------------------------------

_BYTES: Final = "bytes@1"
_QUOTE: Final = "quote@1"
"""Escapes a map that looks like one of these two marks."""


def to_json(value: Value) -> object:
    """Lossless as JSON: bytes become {"/": {"bytes@1": base64}}, and a map of that very shape is quoted."""
    if isinstance(value, bytes):
        return {"/": {_BYTES: b2a_base64(value, newline=False).decode()}}
    # Loops, here and below: before Python 3.12 a comprehension takes a stack frame of its own.
    if is_map(value):
        plain: dict[str, object] = {}
        for key, item in value.items():
            plain[key] = to_json(item)
        return {"/": {_QUOTE: plain}} if _mark(value) is not None else plain
    if is_array(value):
        items: list[object] = []
        for item in value:
            items.append(to_json(item))  # noqa: PERF401
        return items
    return value


def from_json(plain: object) -> object:
    """The inverse of `to_json`; the result still has to pass `tree.freeze`."""
    if isinstance(plain, dict):
        match _mark(plain):
            case (mark, str(text)) if mark == _BYTES:
                return _from_base64(text)
            case (mark, dict(quoted)) if mark == _QUOTE:
                plain = quoted
        result: dict[object, object] = {}
        for key, item in plain.items():
            result[key] = from_json(item)
        return result
    if isinstance(plain, list):
        items: list[object] = []
        for item in plain:
            items.append(from_json(item))  # noqa: PERF401
        return items
    return plain


def _from_base64(text: str) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except (Base64Error, ValueError) as error:
        raise AddressError(f"cannot read {_BYTES} {text[:40]!r}: it is not base64 ({error})", text=text) from None


def _mark(value: Mapping[str, object]) -> tuple[str, object] | None:
    """The mark and its content, if this map has the shape {"/": {mark: ...}}."""
    if len(value) == 1 and "/" in value and isinstance(inner := value["/"], dict) and len(inner) == 1:
        [(mark, content)] = inner.items()
        if mark in (_BYTES, _QUOTE):
            return mark, content
    return None
