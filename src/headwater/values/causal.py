"""Ids derived from causes: the same cause gives the same id, in every process and after every restart.

No randomness here. What has no cause inside the system gets its id from `seams.Entropy`.
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from typing_extensions import TypeIs

from headwater.errors import LimitError, NameRefusedError
from headwater.values.address import Address
from headwater.values.chunked import ChunkedList
from headwater.values.codec import encode
from headwater.values.ids import DocId
from headwater.values.intake import SCALARS
from headwater.values.link import LinkRecord, parse_link
from headwater.values.tree import LINK_TAG, LINK_VERSION, Value, array_of, freeze
from headwater.values.value_limits import INT_MAX

_DIGEST_BYTES: Final = 20
"""160 bits: 32 letters without padding; a collision is practically impossible."""

_SHORT: Final = 1_000
"""Characters of a text that is not measured."""

_FEW: Final = 16
"""Parts of a cause that is not measured. With short texts, it is far below the limit of a value."""


def derive_id(kind: str, *cause: object) -> DocId:
    """The id of the effect of a cause. `kind` is part of the cause and the first word of the id, for people.

    A cause consists of values, links and addresses. Links, as records or as stored, and addresses count only by what
    they refer to: adding a schema to a document, or a label to a link, does not change derived ids. A link is not
    resolved: it counts by its fields, and differs from every address.
    """
    if not kind or ":" in kind or "/" in kind:
        raise NameRefusedError(f"{kind!r} is not a kind of id: a word without ':' or '/' is expected", kind=kind)
    parts = (kind, *cause)
    body = encode(array_of(parts) if _is_plain(parts) else _frozen(kind, cause))
    letters = b32encode(sha256(body).digest()[:_DIGEST_BYTES]).decode().lower()
    return DocId(f"{kind}:{letters}")


def _is_plain(parts: tuple[object, ...]) -> TypeIs[tuple[str | int, ...]]:
    """Short texts and small numbers only, as most causes are: they need no check, and are stored as they are."""
    for each in parts:
        if type(each) is str:
            if len(each) > _SHORT or not each.isascii():
                return False
        elif type(each) is not int or not 0 <= each <= INT_MAX:
            return False
    return len(parts) <= _FEW


def _frozen(kind: str, cause: tuple[object, ...]) -> Value:
    """A cause as a checked value."""
    try:
        parts = [kind, *(each if type(each) in SCALARS else _reduce(each) for each in cause)]
    except RecursionError:
        raise LimitError("cannot derive an id: the cause contains itself or is nested too deep") from None
    return freeze(parts, "a cause")


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
