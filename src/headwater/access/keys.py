"""Ed25519 keys: the text that a client signs, signing, and verification.

PyNaCl signs and verifies (`pip install "pynacl>=1.5"`). Points on which libraries differ, non-canonical signatures and
weak public keys, are checked here first.
"""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

from headwater.access.private_files import create_private, read_private
from headwater.errors import UsageError
from headwater.machine import machine

KEY_BYTES: Final = 32
"""Size of a public key, and of the seed of a private one."""
SIGNATURE_BYTES: Final = 64
NONCE_BYTES: Final = 32
"""Size of a challenge, which the server draws for one connection."""

_HEADING: Final = b"headwater challenge 1\0"
"""Domain separation: no other signed text begins so."""
_LENGTH_BYTES: Final = 8

_PRIVATE: Final = re.compile(r"hwk_([A-Za-z0-9_-]{43})", re.ASCII)
_PUBLIC: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_FILE_MAX: Final = 256

# --- what is signed -------------------------------------------------------------------------------------------


def challenge_text(nonce: bytes, audience: str, space: str, session: str, expires: int) -> bytes:
    """What a client signs: this connection, to this server, about this space, as this session, until then (in ms).

    A heading with a version, then each field as its length (8 bytes, big end first) and its bytes, text as UTF-8, the
    time as 8 bytes. So no two sets of fields have the same text.
    """
    if len(nonce) != NONCE_BYTES or not 0 <= expires < 1 << 63:
        message = f"a challenge has {NONCE_BYTES} random bytes and a time in ms; found {len(nonce)} bytes and {expires}"
        raise UsageError(message)
    # Lone surrogates are passed on, not replaced: two different texts must stay different.
    words = [word.encode("utf-8", "surrogatepass") for word in (audience, space, session)]
    fields = (nonce, *words, expires.to_bytes(8, "big"))
    return _HEADING + b"".join(len(field).to_bytes(_LENGTH_BYTES, "big") + field for field in fields)


def sign(private: bytes, text: bytes) -> bytes:
    """Sign a text with a private key from `read_private_key`: 64 bytes."""
    return bytes(_signing().SigningKey(private).sign(text).signature)


def verify(public: bytes, text: bytes, signature: bytes) -> bool:
    """Whether the signature of the text is valid for this public key. False if anything is malformed."""
    if len(signature) != SIGNATURE_BYTES or not _is_usable(public):
        return False
    # Otherwise S and S + order would both be valid, and a signature would have two encodings.
    if int.from_bytes(signature[KEY_BYTES:], "little") >= _ORDER:
        return False
    signing = _signing()
    try:
        signing.VerifyKey(public).verify(text, signature)
    except signing.exc.BadSignatureError:
        return False
    return True


def require() -> None:
    """Raise UsageError if PyNaCl is missing."""
    if find_spec("nacl") is None:
        raise UsageError('keys need PyNaCl: pip install "pynacl>=1.5", or use tokens')


def _signing() -> ModuleType:
    require()
    return import_module("nacl.signing")


# --- public keys ----------------------------------------------------------------------------------------------

_PRIME: Final = (1 << 255) - 19
_ORDER: Final = (1 << 252) + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _PRIME) % _PRIME
_EIGHTH: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL: Final = frozenset({0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH})
"""The y coordinates of the eight points of small order. With such a key, one signature is valid for every text."""


def public_text(public: bytes) -> str:
    """A public key as text: 43 characters of base64url."""
    return urlsafe_b64encode(public).decode().rstrip("=")


def parse_public(text: str) -> bytes:
    """Parse a public key. Raises UsageError if it is not usable."""
    if _PRIVATE.match(text):
        raise UsageError("that is a private key, which must stay secret; the server is given the public one")
    found = urlsafe_b64decode(f"{text}=") if _PUBLIC.fullmatch(text) else b""
    if public_text(found) != text:
        message = (
            f"{text[:60]!r} is not a public key: the 43 characters that `headwater token keygen` prints are expected"
        )
        raise UsageError(message)
    check_public(found)
    return found


def check_public(public: bytes) -> None:
    """Raise UsageError unless the key is usable: mistakes are found at registration."""
    if not _is_usable(public) or not _is_on_curve(public):
        message = f"{public_text(public)[:60]!r} is not a public key of Ed25519; `headwater token keygen` makes one"
        raise UsageError(message)


def _is_usable(public: bytes) -> bool:
    """Whether it has the right length, is canonical, and is not of small order."""
    if len(public) != KEY_BYTES:
        return False
    height = _height(public)
    return height < _PRIME and height not in _SMALL


def _is_on_curve(public: bytes) -> bool:
    """Whether x² = (y² - 1) / (d·y² + 1) has a solution."""
    square = pow(_height(public), 2, _PRIME)
    wanted = (square - 1) * pow(_D * square + 1, -1, _PRIME)
    return pow(wanted, (_PRIME - 1) // 2, _PRIME) == 1


def _height(public: bytes) -> int:
    return int.from_bytes(public, "little") & ((1 << 255) - 1)


# --- private keys ---------------------------------------------------------------------------------------------


def generate() -> bytes:
    """A new private key."""
    return machine().token_bytes(KEY_BYTES)


def public_of(private: bytes) -> bytes:
    """The public key that belongs to a private one."""
    return bytes(_signing().SigningKey(private).verify_key)


def write_private_key(path: Path, private: bytes) -> None:
    """Write a private key to a new file that only its owner can read. Raises FileExistsError."""
    with create_private(path, os.O_WRONLY | os.O_EXCL) as file:
        file.write(b"hwk_" + public_text(private).encode() + b"\n")
        file.sync()


def read_private_key(path: Path) -> bytes:
    """The private key in a file. Raises UnavailableError if others can read it, UsageError if it holds none."""
    text = read_private(path, {os.geteuid()}, _FILE_MAX).decode("ascii", "replace").strip()
    found = _PRIVATE.fullmatch(text)
    if found is None:
        message = f"{path} holds no private key; `headwater token keygen FILE` makes one"
        raise UsageError(message, path=str(path))
    return urlsafe_b64decode(f"{found[1]}=")
