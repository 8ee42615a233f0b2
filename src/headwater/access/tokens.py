"""Bearer tokens: `hw_` and 32 random bytes. Only hashes are stored.

A hash without salt or stretching is enough: 256 random bits cannot be guessed.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from headwater.machine import machine

_BYTES: Final = 32
_TOKEN: Final = re.compile(r"hw_[A-Za-z0-9_-]{43}", re.ASCII)
_SECRET: Final = re.compile(r"(hwk?_)[A-Za-z0-9_-]{16,}", re.ASCII)
"""Matches a token, a private key, or a usable part of one. Names chosen by people do not match."""


def mint() -> str:
    """A new token."""
    return f"hw_{machine().token_urlsafe(_BYTES)}"


def digest(token: str) -> str | None:
    """The hash under which a token is stored; None if the text is not a token."""
    found: object = token
    if not isinstance(found, str) or _TOKEN.fullmatch(found) is None:
        return None
    return sha256(found.encode()).hexdigest()


def redacted(text: str) -> str:
    """The text with tokens and private keys redacted, for logs."""
    return _SECRET.sub(r"\1…", text)
