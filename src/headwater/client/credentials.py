"""Credentials of a client: a token, or a signature with a private key."""

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
"""Validity of a signature: enough for a slow connection."""


class Signer(Protocol):
    """Signs challenges with a private key."""

    def prove(self, welcome: Welcome, space: str, session: SessionId) -> Proof:
        """Sign the server's challenge."""
        ...


class KeySigner:
    """A private key in a file, as `headwater token keygen` makes one. Read at construction, and never displayed."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._private = read_private_key(path)
        self._public = public_of(self._private)
        self._now_ms = machine().now_ms if clock is None else clock.now_ms

    def prove(self, welcome: Welcome, space: str, session: SessionId) -> Proof:
        """Sign for this connection to this server only."""
        expires = self._now_ms() + LASTS_MS
        text = challenge_text(welcome.nonce, welcome.audience, space, session, expires)
        return Proof(self._public, sign(self._private, text), expires)


def check_audience(audience: str, url: ServerUrl) -> None:
    """Raise RemoteProtocolError unless the server's audience is the address that was asked for.

    Otherwise a server could relay the challenge of another server, and authenticate there with the answer. A name
    without a port matches every port. `localhost` does not match an IP address: another process may listen there.
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
    """Token or signer of one opening."""

    token: str | None = None
    signer: Signer | None = None
    tls: ssl.SSLContext | None = None

    @property
    def authorization(self) -> str:
        """The Authorization header; empty if only the local token of this user's server is used."""
        if self.token is not None:
            return f"Bearer {self.token}"
        return "Headwater-Key" if self.signer is not None else ""
