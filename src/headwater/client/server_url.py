"""URLs of servers: `ws://host:port/space`, or `wss://` with TLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from headwater.errors import UsageError

SCHEMES: Final = ("ws:", "wss:")
PORT: Final = 8400
"""The default port of a server."""


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The URL of one space of one server."""

    host: str
    port: int
    space: str
    secure: bool

    @property
    def origin(self) -> str:
        """Without the space."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.secure else 'ws'}://{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.origin}/{self.space}"


def is_server(url: str) -> bool:
    """Whether a URL names a server."""
    return url.lower().startswith(SCHEMES)


def _shown(url: str) -> str:
    """The URL without a part that may be secret."""
    scheme, _, rest = url.split("?", maxsplit=1)[0].split("#", maxsplit=1)[0].partition("//")
    return f"{scheme}//{rest.rpartition('@')[2]}"


def parse_server(url: str, space: str | None = None) -> ServerUrl:
    """Read a URL. Raises UsageError."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
    except ValueError as error:
        shown = _shown(url)
        raise UsageError(f"{shown!r} is not a URL of a server: {error}", url=shown) from None
    name = unquote(parts.path.removeprefix("/"))
    if parts.username is not None or parts.query or parts.fragment:
        shown = _shown(url)
        message = f"{shown!r}: a URL has no password and no parameters; give a token with token=..."
        raise UsageError(message, url=shown)
    if not parts.hostname or parts.scheme not in ("ws", "wss"):
        raise UsageError(f"{url!r} is not a URL of a server: ws://HOST:PORT/SPACE is expected", url=url)
    if name and space is not None and space != name:
        raise UsageError(f"{url} names the space {name!r}, and space={space!r} another; name it once", url=url)
    return ServerUrl(parts.hostname, port, name or space or "main", parts.scheme == "wss")
