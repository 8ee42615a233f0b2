"""Who is let in, before anything is said: by the name that was asked for, the page it comes from, and what is shown.

Must never know: frames, spaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from websockets.datastructures import MultipleValuesError

from headwater.host.serving.grants import Grant
from headwater.host.serving.guest import Client
from headwater.host.serving.house import House
from headwater.host.serving.limits import CONNECTIONS_MAX, GUESSES_BURST, GUESSES_PER_S, PER_GRANT_MAX
from headwater.host.serving.names import Names
from headwater.sync.frames import SUBPROTOCOL

if TYPE_CHECKING:
    from websockets.http11 import Request

    from headwater.host.serving.socket import ServerSocket

KEY_SCHEME: Final = "headwater-key"
"""What somebody says in `Authorization` who is going to sign the challenge."""

PEERS_MAX: Final = 10_000
"""Addresses that have guessed, of which it is known how often."""

Refusal = tuple[int, str, dict[str, str]]


class Doorman:
    """Of one server."""

    def __init__(self, house: House, names: Names, *, origins: Collection[str] = ()) -> None:
        self.house = house
        self.names = names
        self._origins = frozenset(each.lower().rstrip("/") for each in origins)
        self._sockets: dict[ServerSocket, str] = {}
        self._of_grant: dict[str, int] = {}
        self._guesses: dict[str, tuple[float, float]] = {}
        self._grants: dict[ServerSocket, Grant | None] = {}
        self.slow = 0
        self.refused = 0

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._sockets)

    def refusal(self, request: Request, socket: ServerSocket) -> Refusal | None:
        """Why an upgrade is refused: status, words and headers; None if it is not."""
        found = self._refusal(request, socket)
        if found is not None:
            self.refused += 1
        return found

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
        if path != "/" and "/" in path.strip("/"):
            return 404, "a space is opened at /, by its name in the first frames", {}
        if SUBPROTOCOL not in [each.strip() for each in headers.get("Sec-WebSocket-Protocol", "").split(",")]:
            return 400, f"the subprotocol {SUBPROTOCOL} is expected", {}
        if self.house.closing:
            return 503, "the server ends; come again", {"Retry-After": "1"}
        if len(self._sockets) >= CONNECTIONS_MAX:
            return 503, f"{CONNECTIONS_MAX} connections are open; come again later", {"Retry-After": "5"}
        return self._shown(given, socket)

    def _shown(self, given: str, socket: ServerSocket) -> Refusal | None:
        scheme, _, token = given.partition(" ")
        if scheme.lower() == KEY_SCHEME:
            self._keep(socket, None)
            return None
        peer = socket.peer
        if self._is_guessing(peer):
            return 429, "too many wrong tokens from this address; wait a little", {"Retry-After": "5"}
        grant = self.house.access.with_token(token.strip()) if scheme.lower() == "bearer" else None
        if grant is None:
            if given:
                self._guessed(peer)
            message = "a token is needed: send `Authorization: Bearer ...` (headwater token create makes one)"
            return 401, message, {"WWW-Authenticate": "Bearer"}
        if self._of_grant.get(grant.id, 0) >= PER_GRANT_MAX:
            return 429, f"{PER_GRANT_MAX} connections use this token already", {"Retry-After": "5"}
        self._keep(socket, grant)
        return None

    def _keep(self, socket: ServerSocket, grant: Grant | None) -> None:
        name = "" if grant is None else grant.id
        self._sockets[socket] = name
        self._grants[socket] = grant
        self._of_grant[name] = self._of_grant.get(name, 0) + 1

    def let_in(
        self,
        socket: ServerSocket,
        _request: Request,
        *,
        write: Callable[[bytes], None],
        shut: Callable[[int, str], None],
        peer: str,
    ) -> Client:
        """The connection stands."""
        return Client(self.house, self._grants.get(socket), peer=peer, write=write, shut=shut)

    def left(self, socket: ServerSocket) -> None:
        """It is gone."""
        name = self._sockets.pop(socket, None)
        self._grants.pop(socket, None)
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
