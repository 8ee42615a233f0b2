"""What a client shows at the door of a server: a token, or that it has a private key.

Must never know: connections.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from headwater.access.keys import challenge_text, public_of, read_private_key, sign
from headwater.client.server_url import ServerUrl
from headwater.errors import RemoteProtocolError
from headwater.machine import machine
from headwater.sync.frames import Proof, Welcome
from headwater.values.ids import SessionId
from headwater.values.seams import Clock

LASTS_MS: Final = 60_000
"""How long a signature is good: as long as a slow connection may take to show it."""


class Signer(Protocol):
    """Whoever has a private key."""

    def prove(self, welcome: Welcome, space: str, session: SessionId) -> Proof:
        """Sign the server's challenge."""
        ...


class KeySigner:
    """A private key in a file, as `headwater token keygen` makes one. Read when it is made, and never shown."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._private = read_private_key(path)
        self._public = public_of(self._private)
        self._now_ms = machine().now_ms if clock is None else clock.now_ms

    def prove(self, welcome: Welcome, space: str, session: SessionId) -> Proof:
        """For this connection to this server, and no other."""
        expires = self._now_ms() + LASTS_MS
        text = challenge_text(welcome.nonce, welcome.audience, space, session, expires)
        return Proof(self._public, sign(self._private, text), expires)


def check_audience(audience: str, url: ServerUrl) -> None:
    """Raise RemoteProtocolError unless the server is called what was asked for.

    Else one server could pass on the challenge of another, and come in there with the answer. A name without a port is
    meant by every one. `localhost` is no other name for an address: somebody else may listen at the next one.
    """
    for name in audience.split():
        try:
            parts = urlsplit(name)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            continue
        if host == url.host and port in (None, url.port):
            return
    message = (
        f"{url.origin} was asked for, and the server there calls itself {audience[:200]!r}: nothing is signed for it. "
        "Ask for it by that name, or start it with the name that it is reached by (--host)"
    )
    raise RemoteProtocolError(message, url=url.origin)


@dataclass(slots=True, kw_only=True)
class Credentials:
    """What is shown at the door."""

    token: str | None = None
    signer: Signer | None = None
    tls: ssl.SSLContext | None = None

    @property
    def authorization(self) -> str:
        """The header; empty if nothing is shown but what a server of this user leaves."""
        if self.token is not None:
            return f"Bearer {self.token}"
        return "Headwater-Key" if self.signer is not None else ""
