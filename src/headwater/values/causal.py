"""Ids derived from causes: the same cause gives the same id, in every process and after every restart.

No randomness here. What has no cause inside the system gets its id from `seams.Entropy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec

from headwater.errors import LimitError, NameRefusedError
from headwater.values.address import Address
from headwater.values.chunked import ChunkedList
from headwater.values.codec import encode
from headwater.values.ids import DocId
from headwater.values.intake import SCALARS
from headwater.values.link import LinkRecord, parse_link
from headwater.values.tree import LINK_TAG, LINK_VERSION, freeze

_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]

_COUNTER_SHIFTS: Final = (30, 20, 10, 0)
_COUNTER_LETTERS: Final = 8
"""40 bits; the digest keeps 120."""

_SMALL: Final = 2**63
_SHORT: Final = 1000
_FEW: Final = 16
"""Bounds of a cause that is encoded without a check: far below those of a document."""

_plain: Final = msgspec.msgpack.Encoder()


def derive_id(kind: str, *cause: object) -> DocId:
    """The id of the effect of a cause. `kind` is part of the cause and the first word of the id, for people.

    A cause consists of values, links and addresses. Links, as records or as stored, and addresses count only by what
    they refer to: adding a schema to a document, or a label to a link, does not change derived ids. A link is not
    resolved: it counts by its fields, and differs from every address.
    """
    if not kind or ":" in kind or "/" in kind:
        raise NameRefusedError(f"{kind!r} is not a kind of id: a word without ':' or '/' is expected", kind=kind)
    body = _short_body(kind, cause)
    if body is None:
        try:
            parts = [kind, *(each if type(each) in SCALARS else _reduce(each) for each in cause)]
        except RecursionError:
            raise LimitError("cannot derive an id: the cause contains itself or is nested too deep") from None
        body = encode(freeze(parts, "a cause"))
    return DocId(f"{kind}:{letters_of(sha256(body).digest())}")


def derive_ids(kind: str, count: int, *cause: object) -> list[DocId]:
    """The ids of many effects of one cause: one digest, and a counter in place of its last letters."""
    start = derive_id(kind, *cause)[:-_COUNTER_LETTERS]
    return [DocId(start + _counter_text(number)) for number in range(count)]


def _counter_text(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _COUNTER_SHIFTS])


def _short_body(kind: str, cause: tuple[object, ...]) -> bytes | None:
    """The encoded cause, if it is a short list of ASCII texts and small numbers, as of most events; otherwise None.

    Such a list needs no check, and its frozen form has the same bytes.
    """
    size = len(kind)
    for each in cause:
        if type(each) is str and each.isascii():
            size += len(each)
        elif type(each) is not int or not 0 <= each < _SMALL:
            return None
    if size > _SHORT or not kind.isascii() or len(cause) > _FEW:
        return None
    return _plain.encode([kind, *cause])


def letters_of(digest: bytes) -> str:
    """The first 160 bits in base 32, in small letters: ten bits, two letters at a time.

    That is 32 letters without padding; a collision is practically impossible.
    """
    # Without a loop: a query computes this for each key that it reads.
    pairs = _PAIRS
    first, second = int.from_bytes(digest[:5], "big"), int.from_bytes(digest[5:10], "big")
    third, fourth = int.from_bytes(digest[10:15], "big"), int.from_bytes(digest[15:20], "big")
    return (
        f"{pairs[first >> 30]}{pairs[first >> 20 & 1023]}{pairs[first >> 10 & 1023]}{pairs[first & 1023]}"
        f"{pairs[second >> 30]}{pairs[second >> 20 & 1023]}{pairs[second >> 10 & 1023]}{pairs[second & 1023]}"
        f"{pairs[third >> 30]}{pairs[third >> 20 & 1023]}{pairs[third >> 10 & 1023]}{pairs[third & 1023]}"
        f"{pairs[fourth >> 30]}{pairs[fourth >> 20 & 1023]}{pairs[fourth >> 10 & 1023]}{pairs[fourth & 1023]}"
    )


def _reduce(cause: object) -> object:
    """A cause as a value. {"/": [...]} is an address; a map that has the key "/" itself is wrapped in {"/": map}."""
    if isinstance(cause, Address):
        return {LINK_TAG: ["address", cause.space, cause.doc, cause.path]}
    if isinstance(cause, LinkRecord):
        return {LINK_TAG: ["link", cause.fields()]}
    if isinstance(cause, Mapping):
        link = _as_link(cause)
        if link is not None:
            return _reduce(link)
        reduced = {key: _reduce(item) for key, item in cause.items()}
        return {LINK_TAG: reduced} if LINK_TAG in cause else reduced
    if isinstance(cause, list | tuple | ChunkedList):
        return [_reduce(item) for item in cause]
    return cause


def _as_link(cause: Mapping[object, object]) -> LinkRecord | None:
    """The link, if the map is a stored link."""
    inner = cause.get(LINK_TAG) if len(cause) == 1 else None
    is_like = isinstance(inner, Mapping) and LINK_VERSION in inner
    return parse_link(freeze(cause, "a cause")) if is_like else None
