"""Authentication of WebSocket upgrades and HTTP requests: Host, Origin, token, connection limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from typing import Final
from urllib.parse import unquote

from websockets.datastructures import MultipleValuesError
from websockets.http11 import Request

from headwater.access.allowed_hosts import AllowedHosts
from headwater.access.grants import Grant
from headwater.access.local_token import loopback
from headwater.errors import ServerLimitError
from headwater.server.metrics import Traffic
from headwater.server.server_limits import CONNECTIONS_MAX, GUESSES_BURST, GUESSES_PER_S, PER_GRANT_MAX, STRANGERS_MAX
from headwater.server.server_log import RepeatLimiter
from headwater.server.spaces.client_connection import ClientConnection
from headwater.server.spaces.served_spaces import ServedSpaces
from headwater.server.spaces.server_socket import ServerSocket
from headwater.sync.frames import SUBPROTOCOL

log: Final = logging.getLogger("headwater.server")

KEY_SCHEME: Final = "headwater-key"
"""The value of `Authorization` for a client that will sign the challenge."""

PEERS_MAX: Final = 10_000
"""Addresses whose wrong tokens are counted."""

Refusal = tuple[int, str, dict[str, str]]


class Authenticator:
    """Authenticates the clients of one server, and counts their connections."""

    def __init__(self, spaces: ServedSpaces, names: AllowedHosts, *, origins: Collection[str] = ()) -> None:
        self.spaces = spaces
        self.names = names
        self._origins = frozenset(each.lower().rstrip("/") for each in origins)
        # The grant of each connection; none until a key was verified.
        self._sockets: dict[ServerSocket, Grant | None] = {}
        self._named: dict[ServerSocket, str] = {}
        self._places = places()
        self._of_grant: dict[str, int] = {}
        self._guesses: dict[str, tuple[float, float]] = {}
        self.traffic = Traffic()
        self._said = RepeatLimiter()

    @property
    def sockets(self) -> tuple[ServerSocket, ...]:
        """The connections of programs."""
        return tuple(self._sockets)

    def count_of(self, grant_id: str) -> int:
        """The number of connections with a grant."""
        return self._of_grant.get(grant_id, 0)

    @property
    def connections(self) -> int:
        """The number of connections."""
        return len(self._sockets)

    def refusal(self, request: Request, socket: ServerSocket) -> Refusal | None:
        """Why an upgrade is refused: status, text and headers; None if it is accepted."""
        found = self._refusal(request, socket)
        if found is not None:
            status, words, _ = found
            self.traffic.refused[status] = self.traffic.refused.get(status, 0) + 1
            left_out = self._said.left_out((socket.peer, status), _now())
            if left_out is not None:
                said = {"peer": socket.peer, "status": status, "why": words, "more": left_out}
                log.info("connection refused", extra=said)
            given = request.headers.get_all("Authorization")
            self.write_down(socket.peer, status, words, given[0] if given else "")
        else:
            self.traffic.upgrades += 1
        return found

    def write_down(self, peer: str, status: int, words: str, given: str) -> None:
        """Record a refusal in the audit log, rate-limited."""
        # An expired token is still known; a revoked one is not.
        grant = self.spaces.access.expired(given.partition(" ")[2].strip())
        told = grant.id if grant is not None else None
        self.spaces.turned_away.tell("refused", (peer, status, told), peer=peer, id=told, status=status, why=words)

    def _refusal(self, request: Request, socket: ServerSocket) -> Refusal | None:  # noqa: PLR0911  # one for each reason
        headers = request.headers
        try:
            host, origin = headers.get("Host", ""), headers.get("Origin")
            given = headers.get("Authorization", "")
        except MultipleValuesError:
            return 400, "a header that may be there once is there twice", {}
        wrong = self.names.refusal(host, origin, self._origins)
        if wrong is not None:
            return (*wrong, {})
        path, _, query = request.path.partition("?")
        if query:
            return 400, "nothing is taken from the address; a token goes into `Authorization: Bearer ...`", {}
        if not _is_one_name(path):
            return 404, "there is nothing here; a space is opened at /, by its name in the first frames", {}
        offered = ",".join(headers.get_all("Sec-WebSocket-Protocol")).split(",")
        if SUBPROTOCOL not in [each.strip() for each in offered]:
            return 400, f"the subprotocol {SUBPROTOCOL} is expected", {}
        if self.spaces.closing:
            return 503, "the server ends; try again", {"Retry-After": "1"}
        if len(self._sockets) >= self._places:
            return 503, f"{self._places} connections are open; try again later", {"Retry-After": "5"}
        return self._shown(given, socket)

    def _shown(self, given: str, socket: ServerSocket) -> Refusal | None:
        if given.partition(" ")[0].lower() == KEY_SCHEME:
            if self._of_grant.get(_stranger(socket), 0) >= STRANGERS_MAX:
                return 429, f"{STRANGERS_MAX} connections of this address have shown no key yet", {"Retry-After": "5"}
            self._keep(socket, None)
            return None
        grant = self.bearer(given, socket.peer)
        if not isinstance(grant, Grant):
            return grant
        if self._of_grant.get(grant.id, 0) >= PER_GRANT_MAX:
            return 429, f"{PER_GRANT_MAX} connections use this token already", {"Retry-After": "5"}
        self._keep(socket, grant)
        return None

    def bearer(self, given: str, peer: str) -> Grant | Refusal:
        """The grant of the given token, or why there is none."""
        is_guessing = self._is_guessing(peer)
        scheme, _, token = given.partition(" ")
        # All users of this machine share one address: guesses of one must not lock out the others. Guesses from other
        # addresses are rate-limited.
        is_heard = scheme.lower() == "bearer" and (not is_guessing or loopback(peer) is not None)
        grant = self.spaces.access.with_token(token.strip()) if is_heard else None
        if grant is not None:
            return grant
        if is_guessing:
            return 429, "too many wrong tokens from this address; wait a little", {"Retry-After": "5"}
        if given and not self.spaces.access.is_known:
            return 503, "the grants cannot be read now, so no client is let in; try again", {"Retry-After": "1"}
        if given:
            self._guessed(peer)
        message = (
            "the token is not known here: it is wrong, has expired, or was revoked"
            if given
            else "a token is needed, and none was given; `headwater token create` makes one"
        )
        return 401, message, {"WWW-Authenticate": "Bearer"}

    def _keep(self, socket: ServerSocket, grant: Grant | None) -> None:
        name = _stranger(socket) if grant is None else grant.id
        self._sockets[socket] = grant
        self._named[socket] = name
        self._of_grant[name] = self._of_grant.get(name, 0) + 1

    def let_in(self, socket: ServerSocket) -> ClientConnection:
        """Register a new connection."""
        return ClientConnection(
            self.spaces,
            self._sockets.get(socket),
            peer=socket.peer,
            write=socket.send,
            push=socket.push,
            flush=socket.flush,
            shut=socket.close,
            answer=socket.answer,
            admit=lambda grant: self._known(socket, grant),
        )

    def _known(self, socket: ServerSocket, grant: Grant) -> None:
        """Count a connection for its key. Raises ServerLimitError."""
        if socket in self._sockets and self._sockets[socket] is None:
            if self._of_grant.get(grant.id, 0) >= PER_GRANT_MAX:
                raise ServerLimitError(f"{PER_GRANT_MAX} connections use this key already")
            self.left(socket)
            self._keep(socket, grant)

    def left(self, socket: ServerSocket) -> None:
        """Remove a connection that has ended."""
        self._sockets.pop(socket, None)
        name = self._named.pop(socket, None)
        if name is not None:
            left = self._of_grant.get(name, 1) - 1
            if left:
                self._of_grant[name] = left
            else:
                self._of_grant.pop(name, None)

    # -- guessing ------------------------------------------------------------------------------------------

    def _is_guessing(self, peer: str) -> bool:
        level, at = self._guesses.get(peer, (0.0, 0.0))
        return level - (_now() - at) * GUESSES_PER_S > GUESSES_BURST

    def _guessed(self, peer: str) -> None:
        level, at = self._guesses.pop(peer, (0.0, _now()))
        now = _now()
        self._guesses[peer] = (max(level - (now - at) * GUESSES_PER_S, 0.0) + 1, now)
        while len(self._guesses) > PEERS_MAX:
            del self._guesses[next(iter(self._guesses))]


def _now() -> float:
    return asyncio.get_running_loop().time()


def places() -> int:
    """The number of connections allowed: some descriptors are reserved for spaces, pages and refusals."""
    allowed, _ = getrlimit(RLIMIT_NOFILE)
    return CONNECTIONS_MAX if allowed == RLIM_INFINITY else min(CONNECTIONS_MAX, allowed - allowed // 4)


def _is_one_name(path: str) -> bool:
    """Whether the path of a URL is empty or one name. The first frames name the space."""
    name = unquote(path.removeprefix("/"))
    return path.startswith("/") and "/" not in name and "\\" not in name and name not in (".", "..")


def _stranger(socket: ServerSocket) -> str:
    """The key under which connections without a grant are counted. Ids of grants have no space character."""
    return f"from {socket.peer}"
