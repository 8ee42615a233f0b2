"""The floor of table `sync`: whatever arrives goes to everybody, on the WebSocket stack that Headwater serves with.

No store, no rights, no limits: what is left is what the sockets cost. `python -m bench.sync_peers.relay PORT`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any, Final

import uvicorn
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

QUIET: Final = logging.getLogger("bench.relay")
QUIET.setLevel(logging.CRITICAL)


class Relay(asyncio.Protocol):
    """One connection, handed over by uvicorn when it was upgraded."""

    every: Final[dict[asyncio.Transport, None]] = {}
    transport: asyncio.Transport

    def __init__(self, *, server_state: Any, **_others: Any) -> None:
        self._connections = server_state.connections
        self._sans_io = ServerProtocol(max_size=1 << 20, logger=QUIET)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._sans_io.receive_data(data)
        for event in self._sans_io.events_received():
            if isinstance(event, Request):
                self._sans_io.send_response(self._sans_io.accept(event))
                self.every[self.transport] = None
            elif isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.TEXT):
                # Frames of a server are not masked, so all are written the same bytes.
                frame = Frame(event.opcode, event.data).serialize(mask=False)
                for transport in self.every:
                    transport.write(frame)
        for chunk in self._sans_io.data_to_send():
            if chunk:
                self.transport.write(chunk)
            else:
                self.transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.every.pop(self.transport, None)
        self._connections.discard(self)

    def shutdown(self) -> None:
        """What uvicorn calls when it ends."""
        self.transport.close()


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    """Plain requests are not answered."""


def main() -> None:
    """Until it is killed."""
    port = int(sys.argv[1])
    uvicorn.run(_nothing, host="127.0.0.1", port=port, loop="asyncio", ws=Relay, lifespan="off", log_level="critical")


if __name__ == "__main__":
    main()
