"""Whose session it is: what a client shows when it comes back after its connection was lost.

A proof is signed with a secret of the server's, which is kept beside the spaces: so it is good after a restart, too.
Each is good once; who comes with an older one than was used already has been taken over.

Must never know: connections.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final

from headwater.host.serving.private import owners_of, read_private, replace_private
from headwater.values.ids import BranchId, SessionId

FILE: Final = "session.key"
_BYTES: Final = 32
_EPOCH: Final = 8


class Proofs:
    """Of one server."""

    def __init__(self, folder: Path) -> None:
        self._secret = _secret(folder)
        # The newest that was used, of each session that came back in this life of the server.
        self._used: dict[SessionId, int] = {}

    def make(self, space: str, branch: BranchId, actor: str, session: SessionId, epoch: int) -> bytes:
        """What the client shows next time."""
        text = _text(space, branch, actor, session, epoch)
        return epoch.to_bytes(_EPOCH, "big") + hmac.digest(self._secret, text, "sha256")

    def check(self, shown: bytes, space: str, branch: BranchId, actor: str, session: SessionId) -> int | None:
        """Which time it is that the client comes back; None if this is no proof, or one that was used."""
        epoch = int.from_bytes(shown[:_EPOCH], "big")
        expected = self.make(space, branch, actor, session, epoch)
        if not hmac.compare_digest(shown, expected) or epoch < self._used.get(session, 0):
            return None
        self._used[session] = epoch + 1
        return epoch + 1

    def forget(self, session: SessionId) -> None:
        """It ended for good: nobody comes back."""
        self._used.pop(session, None)


def _text(space: str, branch: BranchId, actor: str, session: SessionId, epoch: int) -> bytes:
    parts = [each.encode() for each in ("headwater session 1", space, branch, actor, session, str(epoch))]
    # Each with its length: no two lists of parts have the same text.
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _secret(folder: Path) -> bytes:
    path = folder / FILE
    try:
        found = read_private(path, owners_of(folder), _BYTES)
    except FileNotFoundError:
        found = b""
    if len(found) != _BYTES:
        found = sha256(secrets.token_bytes(_BYTES)).digest()
        replace_private(path, found)
    return found
