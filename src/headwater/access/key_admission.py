"""Letting in whoever has a private key: it signs what the server made up for this one connection.

Must never know: sockets.
"""

from __future__ import annotations

from typing import Final

from headwater.access.access_control import AccessControl
from headwater.access.grants import Grant
from headwater.access.keys import challenge_text, verify
from headwater.errors import AccessError
from headwater.sync.frames import Open
from headwater.sync.server_session import ServerSession
from headwater.values.ids import Millis

LEEWAY_MS: Final = 60_000
"""How much the client's clock may be ahead or behind."""

LASTS_MAX_MS: Final = 5 * 60_000
"""A signature is for now: one that is good for longer is refused."""


def grant_of(access: AccessControl, talk: ServerSession, asked: Open, now: Millis) -> Grant | None:
    """Whose key has signed this connection's challenge; None if nobody's that is known. Raises AccessError."""
    proof = asked.proof
    assert proof is not None
    if not now - LEEWAY_MS <= proof.expires <= now + LASTS_MAX_MS + LEEWAY_MS:
        raise AccessError("the signature has expired, or the clocks differ by more than a minute; come again")
    text = challenge_text(talk.nonce, talk.audience, asked.space, asked.session, proof.expires)
    if not verify(proof.key, text, proof.signature):
        return None
    return access.with_key(proof.key, asked.space)
