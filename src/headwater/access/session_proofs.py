"""Whose session it is: what a client shows when it comes back after its connection was lost.

A proof is signed with a secret of the server's, which is kept beside the spaces: so it is good after a restart, too.
Each is good until the one that was given for it is shown: the answer may have been lost on its way, and the client
comes again with the one it has. It says how often it has come, so that a connection that was given up, and whose bytes
come late, does not take the place of the one after it. Who comes with an older proof has been taken over.

Must never know: connections.
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
"""Of which it is known which proof was shown. The oldest is forgotten, and its proofs are good once more."""

_BYTES: Final = 32
_EPOCH: Final = 8


class SessionProofs:
    """Of one server."""

    def __init__(self, folder: Path) -> None:
        self._secret = _secret(folder)
        # The newest that was shown, and at which attempt, of each session that came back in this life of the server.
        self._shown: dict[SessionId, tuple[int, int]] = {}

    def make(  # noqa: PLR0917  # what it proves
        self, space: str, branch: BranchId, actor: str, session: SessionId, epoch: int, lineage: bytes = b""
    ) -> bytes:
        """What the client shows next time. `lineage`: in which life of the space it has been."""
        text = _text(space, branch, actor, session, epoch, lineage)
        return epoch.to_bytes(_EPOCH, "big") + hmac.digest(self._secret, text, "sha256") + lineage

    def check(  # noqa: PLR0917  # likewise
        self, shown: bytes, space: str, branch: BranchId, actor: str, session: SessionId, attempt: int = 0
    ) -> int | None:
        """Which time it is that the client comes back; None if this is no proof, or not the newest."""
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
        """Whether nobody has come with the session after the one who was told this epoch."""
        shown = epoch - 1, attempt
        return self._shown.get(session, shown) == shown

    def forget(self, session: SessionId) -> None:
        """It ended for good: nobody comes back."""
        self._shown.pop(session, None)


def lineage_in(shown: bytes) -> bytes:
    """In which life of the space somebody has been who shows this. True if the proof is."""
    return shown[_EPOCH + _BYTES :]


def _text(  # noqa: PLR0917  # what is proved
    space: str, branch: BranchId, actor: str, session: SessionId, epoch: int, lineage: bytes
) -> bytes:
    words = ("headwater session 1", space, branch, actor, session, str(epoch), lineage.hex())
    parts = [each.encode() for each in words]
    # Each with its length: no two lists of parts have the same text.
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
