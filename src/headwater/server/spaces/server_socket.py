"""The server's WebSocket: an asyncio protocol around the sans-IO protocol of `websockets`.

uvicorn listens, speaks HTTP, and hands over connections that ask for an upgrade. Frames for many clients are encoded
once: a server does not mask.

Length: what comes in and what goes out share the state of one connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from headwater.machine import machine
from headwater.server.server_limits import (
    BEHIND_S,
    FRAMES_BURST,
    FRAMES_PER_S,
    FRAMES_TURN,
    GREETING_S,
    OUT_BYTES_MAX,
    OUT_MARK,
    PING_S,
)
from headwater.server.spaces.client_connection import ClientConnection
from headwater.sync.frame_limits import FRAME_BYTES_MAX, GREETING_BYTES_MAX
from headwater.sync.frames import SUBPROTOCOL
from headwater.sync.server_session import Close
from headwater.sync.server_session import ServerState as Talk

if TYPE_CHECKING:
    from headwater.server.authenticator import Authenticator

log: Final = logging.getLogger("headwater.server")

_HEAD_16: Final = 126
_QUIET: Final = logging.getLogger("headwater.websocket")
_QUIET.setLevel(logging.WARNING)


FRAGMENTS_MAX: Final = 4096
"""Fragments of one message. More are abuse."""


def framed(data: bytes) -> bytes:
    """A binary message as a server sends it: a header of two to ten bytes, then the payload."""
    size = len(data)
    if size < _HEAD_16:
        return b"\x82" + bytes((size,)) + data
    if size < 1 << 16:
        return b"\x82\x7e" + size.to_bytes(2, "big") + data
    return b"\x82\x7f" + size.to_bytes(8, "big") + data


class ServerSocket(asyncio.Protocol):
    """One connection after its upgrade. Made by uvicorn; `bound` sets `authenticator`."""

    authenticator: ClassVar[Authenticator]

    def __init__(self, config: object, server_state: Any, app_state: object, _loop: object = None) -> None:  # noqa: ANN401  # as uvicorn calls it
        del config, app_state
        self._loop = asyncio.get_running_loop()
        self._connections: set[object] = server_state.connections
        self._protocol = ServerProtocol(
            subprotocols=[Subprotocol(SUBPROTOCOL)], max_size=GREETING_BYTES_MAX, logger=_QUIET
        )
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.client: ClientConnection | None = None
        self.grant_id = ""
        self.peer = ""
        self.since_ms = machine().now_ms()
        self._parts: list[bytes] = []
        # What was received and is not handled yet: more frames than one turn of the loop is for.
        self._events: deque[object] = deque()
        # Frames to be written together at the end of this iteration of the loop.
        self._out: list[bytes] = []
        self._out_bytes = 0
        # Unsent bytes that are answers: the client may read them slowly.
        self._grace = 0
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._heard = True
        self._pinged = b""
        # The token bucket for incoming frames, and its time.
        self._credit = float(FRAMES_BURST)
        self._credit_at = self._loop.time()
        self._ended = False
        # Reading is paused; for good.
        self._is_paused = False
        self._is_held = False

    @classmethod
    def bound(cls, authenticator: Authenticator) -> type[ServerSocket]:
        """The class for one server."""
        return type("BoundSocket", (cls,), {"authenticator": authenticator})

    # -- asyncio -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        self.transport.set_write_buffer_limits(high=OUT_MARK)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self._timer = self._loop.call_later(GREETING_S, self._too_slow)

    def data_received(self, data: bytes) -> None:
        self.authenticator.traffic.bytes_in += len(data)
        self._protocol.receive_data(data)
        is_waiting = bool(self._events)
        self._events.extend(self._protocol.events_received())
        if not is_waiting:
            self._handle(FRAMES_TURN)

    def _handle(self, most: int) -> None:
        """Handle received frames. The rest waits for the next turn of the loop: other clients are served before."""
        protocol, events = self._protocol, self._events
        while events and most:
            most -= 1
            event = events.popleft()
            if isinstance(event, Request):
                self._shake(event)
            elif isinstance(event, Frame):
                self._frame(event)
        self._write_out()
        if events:
            if not self.transport.is_closing():
                self.transport.pause_reading()
            self._loop.call_soon(self._handle_more)
        elif protocol.handshake_exc is not None:
            # Refused: ignore further input.
            self.transport.close()
        elif protocol.close_expected() and not self._ended:
            self._ended = True
            self._loop.call_later(1.0, self._abort)
        elif (
            self.client is not None
            and self.client.is_behind
            and not self._is_paused
            and not self.transport.is_closing()
        ):
            self._is_paused = True
            self.transport.pause_reading()
            self._loop.call_later(BEHIND_S, self._go_on)

    def _handle_more(self) -> None:
        if not self._events:
            return
        self._handle(FRAMES_TURN)
        if not self._events:
            self._read_again()

    def _handle_all(self) -> None:
        """Handle what was received before the connection ends."""
        if self._events:
            self._handle(len(self._events))

    def _read_again(self) -> None:
        if not (self._is_paused or self._is_held or self._events or self.transport.is_closing()):
            self.transport.resume_reading()

    def _go_on(self) -> None:
        if self.client is not None and self.client.is_behind:
            self._loop.call_later(BEHIND_S, self._go_on)
            return
        self._is_paused = False
        self._read_again()

    def pause_writing(self) -> None:
        if self.client is not None:
            self.client.full(is_full=True)

    def resume_writing(self) -> None:
        self._grace = 0
        if self.client is not None:
            self.client.full(is_full=False)

    def eof_received(self) -> None:
        self._handle_all()
        self._protocol.receive_eof()
        self._write_out()

    def connection_lost(self, _error: Exception | None) -> None:
        self._handle_all()
        self._ended = True
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self.authenticator.left(self)
        client, self.client = self.client, None
        if client is not None:
            client.leave()
            client.let_go()
        # The parser refers to its protocol. Break the cycle, or ended connections wait for the garbage collector.
        self._protocol.parser.close()

    def hold(self) -> None:
        """Stop reading: received commits get their verdicts, then the connection ends."""
        self._is_held = True
        self._handle_all()
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def shutdown(self) -> None:
        """Called by uvicorn at its end."""
        if not self.transport.is_closing():
            # For the client's closing frame.
            self.transport.resume_reading()
        self.close(Close.RESTART, "the server ends; try again")

    # -- the handshake -------------------------------------------------------------------------------------

    def _shake(self, request: Request) -> None:
        protocol = self._protocol
        refused = self.authenticator.refusal(request, self)
        if refused is not None:
            status, text, headers = refused
            response = protocol.reject(HTTPStatus(status), text + "\n")
            for name, value in headers.items():
                response.headers[name] = value
        else:
            response = protocol.accept(request)
        protocol.send_response(response)
        if protocol.state is State.OPEN:
            self.client = self.authenticator.let_in(self)

    # -- frames --------------------------------------------------------------------------------------------

    def _frame(self, frame: Frame) -> None:
        self._heard = True
        if self._ended or not self._is_in_time():
            return
        opcode = frame.opcode
        if opcode is Opcode.BINARY or opcode is Opcode.CONT:
            if not frame.fin or self._parts:
                self._parts.append(bytes(frame.data))
                if not frame.fin:
                    if len(self._parts) > FRAGMENTS_MAX:
                        self.close(CloseCode.MESSAGE_TOO_BIG, f"more than {FRAGMENTS_MAX} fragments")
                    return
                data, self._parts = b"".join(self._parts), []
            else:
                data = bytes(frame.data)
            self._receive(data)
        elif opcode is Opcode.TEXT:
            self.close(CloseCode.UNSUPPORTED_DATA, "frames are binary")

    def _receive(self, data: bytes) -> None:
        client = self.client
        if client is None:
            return
        self.authenticator.traffic.frames_in += 1
        before = client.talk.state
        try:
            client.talk.receive(data)
        except Exception:
            # An internal error ends one connection, not the server.
            log.exception("a frame could not be handled", extra=client.said())
            self.close(CloseCode.INTERNAL_ERROR, "this could not be handled; the server's log says why")
            return
        if before is not Talk.OPEN and client.talk.state is Talk.OPENING:
            # Before authentication messages are small; after it they may be as large as a commit.
            self._protocol.max_message_size = FRAME_BYTES_MAX
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(PING_S, self._ask)

    def _is_in_time(self) -> bool:
        """Rate limit for frames of every kind, pings and fragments included."""
        now = self._loop.time()
        self._credit = min(self._credit + (now - self._credit_at) * FRAMES_PER_S, FRAMES_BURST) - 1
        self._credit_at = now
        if self._credit < 0:
            self.close(Close.LIMIT, f"more than {FRAMES_PER_S:,} frames a second")
        return self._credit >= 0

    # -- sending -------------------------------------------------------------------------------------------

    def answer(self, data: bytes) -> None:
        """Send an answer of any size."""
        self._grace += len(data)
        self.send(data)

    def send(self, data: bytes) -> None:
        """Buffer a frame: frames of one iteration are written together, since a system call costs more than a frame."""
        self.push(data)
        if self._out and not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_soon)

    def push(self, data: bytes) -> None:
        """Buffer a frame that the caller flushes in this turn of the loop: another turn would only delay it."""
        if self._ended or self._protocol.state is not State.OPEN:
            return
        waiting = self.transport.get_write_buffer_size() + self._out_bytes
        if waiting > OUT_BYTES_MAX + self._grace:
            self._out.clear()
            self._note_slow(waiting)
            self.close(Close.SLOW, "reads too slowly; connect again for the newest state")
            return
        self._out.append(framed(data))
        self._out_bytes += len(data)

    @property
    def unsent(self) -> int:
        """Bytes that the client has not read yet."""
        return self.transport.get_write_buffer_size() + self._out_bytes

    def _flush_soon(self) -> None:
        self._flushing = False
        self.flush()

    def flush(self) -> None:
        """Write the buffered frames."""
        if self._out and not self._ended:
            out, self._out, self._out_bytes = self._out, [], 0
            data = out[0] if len(out) == 1 else b"".join(out)
            traffic = self.authenticator.traffic
            traffic.frames_out += len(out)
            traffic.bytes_out += len(data)
            self.transport.write(data)
            if not self.transport.get_write_buffer_size():
                self._grace = 0

    def _note_slow(self, waiting: int) -> None:
        self.authenticator.traffic.slow += 1
        said = {} if self.client is None else self.client.said()
        log.warning("client reads too slowly", extra={**said, "waiting": waiting})

    def _write_out(self) -> None:
        """Send protocol messages: handshake, pongs, close."""
        for data in self._protocol.data_to_send():
            if data:
                self.flush()
                self.transport.write(data)
            else:
                self._half_close()
        waiting = self.transport.get_write_buffer_size()
        if waiting > OUT_BYTES_MAX + self._grace and not self._ended:
            # The client pings and does not read the pongs.
            self._note_slow(waiting)
            self.close(Close.SLOW, "reads too slowly")

    def _half_close(self) -> None:
        # Nothing can be sent after it.
        self.flush()
        if self.transport.can_write_eof():
            try:
                self.transport.write_eof()
            except OSError:
                # The client is gone already.
                self.transport.abort()
        else:
            self.transport.close()

    def close(self, code: int, reason: str) -> None:
        """Close the connection with a reason. Idempotent."""
        if self._ended:
            return
        self.flush()
        try:
            self._protocol.send_close(code, reason)
        except InvalidState:
            self._protocol.fail(code, reason)
        self._ended = True
        # With EOF, if the client has sent its closing frame.
        self._write_out()
        # Aborted a moment later if the client does not answer.
        self._loop.call_later(1.0, self._abort)

    def _abort(self) -> None:
        # Also where it is closing: a client that reads nothing would hold it open until the rest is sent.
        self.transport.abort()

    # -- time ----------------------------------------------------------------------------------------------

    def _too_slow(self) -> None:
        if self._protocol.state is State.OPEN:
            self.close(Close.TIMEOUT, "no space was opened in time")
        else:
            self._abort()

    def _ask(self) -> None:
        """Ping; a client that was silent since the last ping is disconnected."""
        if self._ended:
            return
        if (not self._heard and self._pinged) or self._protocol.state is not State.OPEN:
            # In the latter case the client has ended its side: what it does not read is not sent.
            self._abort()
            return
        self._pinged = b"" if self._heard else machine().token_bytes(4)
        if self._pinged:
            self._protocol.send_ping(self._pinged)
            self._write_out()
        self._heard = False
        self._timer = self._loop.call_later(PING_S, self._ask)
