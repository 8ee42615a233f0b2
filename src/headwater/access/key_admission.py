"""Authentication with a key: the client signs a challenge that the server chose for this connection."""

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
"""Allowed difference of the client's clock."""

LASTS_MAX_MS: Final = 5 * 60_000
"""Longest validity of a signature."""


def grant_of(access: AccessControl, talk: ServerSession, asked: Open, now: Millis) -> Grant | None:
    """The grant of the key that signed this connection's challenge; None for an unknown key. Raises AccessError."""
    proof = asked.proof
    assert proof is not None
    if not now - LEEWAY_MS <= proof.expires <= now + LASTS_MAX_MS + LEEWAY_MS:
        raise AccessError("the signature has expired, or the clocks differ by more than a minute; try again")
    text = challenge_text(talk.nonce, talk.audience, asked.space, asked.session, proof.expires)
    if not verify(proof.key, text, proof.signature):
        return None
    return access.with_key(proof.key, asked.space)
