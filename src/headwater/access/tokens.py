"""Bearer tokens: `hw_` and 32 random bytes. Whoever has one is let in, so only its hash is ever kept.

A hash without salt or stretching is enough: nobody tries 256 random bits.

Must never know: what a token is good for.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from headwater.machine import machine

_BYTES: Final = 32
_TOKEN: Final = re.compile(r"hw_[A-Za-z0-9_-]{43}", re.ASCII)
_SECRET: Final = re.compile(r"(hwk?_)[A-Za-z0-9_-]{16,}", re.ASCII)
"""A token, a private key, or enough of one to be of use. No name that people choose looks so."""


def mint() -> str:
    """A new token."""
    return f"hw_{machine().token_urlsafe(_BYTES)}"


def digest(token: str) -> str | None:
    """What is kept of a token, and what it is found by; None if it is none, whatever it is."""
    found: object = token
    if not isinstance(found, str) or _TOKEN.fullmatch(found) is None:
        return None
    return sha256(found.encode()).hexdigest()


def redacted(text: str) -> str:
    """The text without the tokens and private keys in it: for logs."""
    return _SECRET.sub(r"\1…", text)
