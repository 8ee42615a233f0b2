"""The form of space ids: 100 random bits as 20 digits and letters of Crockford's base 32, in small letters.

Files of earlier versions store 32 hexadecimal digits. Their id is the first 100 bits of these, so that every program
that reads such a file, and every copy of it, has the same id, and nothing has to be written.
"""

from __future__ import annotations

import re
from typing import Final

from headwater.errors import NameRefusedError
from headwater.values.ids import SpaceId

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Without i, l, o and u, which people confuse with other letters or digits."""

LENGTH: Final = 20
RANDOM_BYTES: Final = 16
"""Random bytes that an id is made of; the first 100 bits of them are used."""

_BITS: Final = 5 * LENGTH
_FORM: Final = re.compile(f"[{ALPHABET}]{{{LENGTH}}}")
_EARLIER: Final = re.compile("[0-9a-f]{32}")


def is_space_id(text: str) -> bool:
    """Whether the text has the form of a space id."""
    return _FORM.fullmatch(text) is not None


def check_space_id(text: str) -> SpaceId:
    """The text as a space id. Raises NameRefusedError."""
    if is_space_id(text):
        return SpaceId(text)
    hint = "; it is written in small letters" if is_space_id(text.lower()) else ""
    message = f"{text[:40]!r} is not a space id: {LENGTH} digits and small letters but i, l, o and u are expected{hint}"
    raise NameRefusedError(message, id=text)


def space_id_from(random: bytes) -> SpaceId:
    """The id of these random bytes: their first 100 bits."""
    bits = int.from_bytes(random, "big") >> (8 * len(random) - _BITS)
    return SpaceId("".join([ALPHABET[bits >> shift & 31] for shift in range(_BITS - 5, -1, -5)]))


def stored_space_id(text: str) -> SpaceId:
    """The id of a space, from the text that its file stores, in the form of any version. Raises NameRefusedError."""
    return space_id_from(bytes.fromhex(text)) if _EARLIER.fullmatch(text) else check_space_id(text)
