"""The identity of a space: its id, which stays, and its lineage, which names one unbroken log.

Restoring a backup, or anything else that sets a log back, starts a new lineage. Sequence numbers are then not
comparable: 17 may be another commit than a client has seen. So a session continues only in the lineage in which it
began, and a sequence number of another space is valid only within one lineage of that space.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from headwater.errors import CorruptError, NameRefusedError
from headwater.store.backend import Backend
from headwater.values.ids import SpaceId
from headwater.values.space_ids import RANDOM_BYTES, space_id_from, stored_space_id

ID_KEY: Final = "space_id"
LINEAGE_KEY: Final = "lineage"
_LINEAGE_BYTES: Final = 8

RandomBytes: TypeAlias = Callable[[int], bytes]
"""A source of random bytes: this many of them."""


class SpaceIdentity(NamedTuple):
    """The id and the lineage of a space."""

    id: SpaceId
    lineage: bytes


def identity_of(backend: Backend) -> SpaceIdentity:
    """The identity of a space. Raises CorruptError if the stored one has a wrong form."""
    stored, lineage = backend.meta(ID_KEY) or "", backend.meta(LINEAGE_KEY) or ""
    try:
        return SpaceIdentity(stored_space_id(stored), bytes.fromhex(lineage))
    except (NameRefusedError, ValueError):
        message = f"the space's id {stored[:40]!r} or its lineage {lineage[:40]!r} is not one; restore a backup"
        raise CorruptError(message, id=stored, lineage=lineage) from None


def renew_lineage(backend: Backend, random: RandomBytes) -> bytes:
    """Start a new lineage: no earlier session continues, and no sequence number of before is valid."""
    made = random(_LINEAGE_BYTES)
    backend.set_meta(LINEAGE_KEY, made.hex())
    return made


def renew_identity(backend: Backend, random: RandomBytes) -> SpaceIdentity:
    """Give a copy its own id and lineage. Links that name the former id lead to the original."""
    made = space_id_from(random(RANDOM_BYTES))
    backend.set_meta(ID_KEY, made)
    return SpaceIdentity(made, renew_lineage(backend, random))
