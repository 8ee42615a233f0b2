"""Session proofs: a client that reconnects proves that a session is its own.

A proof is signed with a secret of the server, which is stored beside the spaces, so it stays valid across restarts. It
is valid until its successor is used: the answer with the successor may have been lost, and the client returns with the
old one. It includes an attempt number, so that delayed bytes of an abandoned connection do not replace a newer one.
An older proof means that another client continues the session.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path
from typing import Final

from headwater.access.private_files import owners_of, read_private, replace_private
from headwater.machine import machine
from headwater.values.ids import BranchId, SessionId

FILE: Final = "session.key"
SESSIONS_MAX: Final = 100_000
"""Sessions whose last proof is remembered. The oldest is forgotten, and its proofs become valid again."""

_BYTES: Final = 32
_EPOCH: Final = 8


class SessionProofs:
    """The proofs of one server."""

    def __init__(self, folder: Path) -> None:
        self._secret = _secret(folder)
        # The newest proof used and its attempt, per session that reconnected since the server started.
        self._shown: dict[SessionId, tuple[int, int]] = {}

    def make(  # noqa: PLR0917  # what it proves
        self, space: str, branch: BranchId, actor: str, session: SessionId, epoch: int, lineage: bytes = b""
    ) -> bytes:
        """The proof for the next reconnect. `lineage`: of the space's log."""
        text = _text(space, branch, actor, session, epoch, lineage)
        return epoch.to_bytes(_EPOCH, "big") + hmac.digest(self._secret, text, "sha256") + lineage

    def check(  # noqa: PLR0917  # likewise
        self, shown: bytes, space: str, branch: BranchId, actor: str, session: SessionId, attempt: int = 0
    ) -> int | None:
        """The number of this reconnect; None if the proof is invalid, or not the newest."""
        epoch = int.from_bytes(shown[:_EPOCH], "big")
        expected = self.make(space, branch, actor, session, epoch, lineage_in(shown))
        if not hmac.compare_digest(shown, expected) or (epoch, attempt) <= self._shown.get(session, (-1, 0)):
            return None
        self._shown.pop(session, None)
        self._shown[session] = epoch, attempt
        while len(self._shown) > SESSIONS_MAX:
            del self._shown[next(iter(self._shown))]
        return epoch + 1

    def is_newest(self, session: SessionId, epoch: int, attempt: int) -> bool:
        """Whether this epoch is the newest of the session."""
        shown = epoch - 1, attempt
        return self._shown.get(session, shown) == shown

    def forget(self, session: SessionId) -> None:
        """Forget a session that has ended."""
        self._shown.pop(session, None)


def lineage_in(shown: bytes) -> bytes:
    """The lineage in a proof, unverified."""
    return shown[_EPOCH + _BYTES :]


def _text(  # noqa: PLR0917  # what is proved
    space: str, branch: BranchId, actor: str, session: SessionId, epoch: int, lineage: bytes
) -> bytes:
    words = ("headwater session 1", space, branch, actor, session, str(epoch), lineage.hex())
    parts = [each.encode() for each in words]
    # Length-prefixed, so that no two lists of parts have the same text.
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _secret(folder: Path) -> bytes:
    path = folder / FILE
    try:
        found = read_private(path, owners_of(folder), _BYTES)
    except FileNotFoundError:
        found = b""
    if len(found) != _BYTES:
        found = sha256(machine().token_bytes(_BYTES)).digest()
        replace_private(path, found)
    return found
