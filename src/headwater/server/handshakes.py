"""Limits for requests that are not complete: a time limit, and a maximum number.

uvicorn waits for the rest of a request without a limit. Here headers have a few seconds, a body some more. Above the
maximum the oldest incomplete request is closed: a normal client has finished by then.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from headwater.server.server_limits import BODY_S, GREETING_S, HALF_OPEN_MAX

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Handshakes(H11Protocol):
    """One connection while it speaks HTTP. Made by uvicorn; `bound` sets `begun` and `half_open_max`."""

    half_open_max: ClassVar[int]
    """Maximum size of `begun`; above it, the oldest is closed."""
    begun: ClassVar[dict[Handshakes, None]]
    """Connections with an incomplete request, oldest first."""
    page_sockets: ClassVar[frozenset[bytes]] = frozenset()
    """Paths at which an upgrade is answered by a page, and not by a session of a program."""

    def __init__(self, *args: Any, **keywords: Any) -> None:  # noqa: ANN401  # as uvicorn calls it
        super().__init__(*args, **keywords)
        self._timer: asyncio.TimerHandle | None = None
        self._in_body = False

    @classmethod
    def bound(cls, half_open_max: int | None = None, page_sockets: frozenset[bytes] = frozenset()) -> type[Handshakes]:
        """The class for one server."""
        half_open_max = HALF_OPEN_MAX if half_open_max is None else half_open_max
        fields = {"begun": {}, "half_open_max": half_open_max, "page_sockets": page_sockets}
        return type("BoundHandshakes", (cls,), fields)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._begin(GREETING_S)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._finish()
            return
        state = self.conn.their_state
        if state is h11.IDLE:
            # Part of the first request, or of the next one, has arrived.
            if self._timer is None:
                self._begin(GREETING_S)
        elif state is h11.SEND_BODY:
            if not self._in_body:
                self._finish()
                self._in_body = True
                self._begin(BODY_S)
        else:
            self._finish()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        if event.target.partition(b"?")[0] in self.page_sockets:
            self.ws_protocol_class = WebSocketsSansIOProtocol
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()
        super().connection_lost(exc)

    def _begin(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._too_slow)
        self.begun[self] = None
        if len(self.begun) > self.half_open_max:
            oldest = next(iter(self.begun))
            oldest._finish()  # noqa: SLF001  # one of us
            oldest.transport.abort()

    def _finish(self) -> None:
        self._in_body = False
        self.begun.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._finish()
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
            self.transport.close()
