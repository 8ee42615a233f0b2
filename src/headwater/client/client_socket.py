"""The client's WebSocket: an asyncio protocol around the sans-IO protocol of `websockets`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidState, InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from headwater.machine import Lock, machine
from headwater.sync.frame_limits import FRAME_BYTES_MAX
from headwater.sync.frames import SUBPROTOCOL

QUIET_S: Final = 4.0
"""Silence before a ping, while an answer is due."""

IDLE_S: Final = 15.0
"""Silence before a ping on an idle connection: less than the time after which routers drop it."""

PONG_S: Final = 4.0
"""Time allowed for the pong. Without one, the server counts as unreachable."""

_QUIET: Final = logging.getLogger("headwater.websocket")


class ClientSocket(asyncio.Protocol):
    """One connection. `done` is set when it has ended."""

    def __init__(
        self,
        uri: WebSocketURI,
        authorization: str,
        *,
        up: Callable[[], None],
        hear: Callable[[bytes], None],
        is_answer_due: Callable[[], bool],
        turn: Lock | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = ClientProtocol(
            uri, subprotocols=[Subprotocol(SUBPROTOCOL)], max_size=FRAME_BYTES_MAX, logger=_QUIET
        )
        self._authorization = authorization
        self._up = up
        self._hear = hear
        self._machine = machine()
        # Held by each step of the loop, and by a thread that sends.
        self._turn = turn or self._machine.lock()
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parts: list[bytes] = []
        # A flush is due: in the next turn of the loop, or at the end of the code that runs now.
        self._flushing = False
        # The rest of what a thread could not send at once.
        self._rest = b""
        self._is_lost = False
        self._is_answer_due = is_answer_due
        self._heard_at = self._loop.time()
        # When the last unanswered ping was sent, and how many bytes were unsent then.
        self._pinged_at: float | None = None
        self._unsent = 0
        self._timer: asyncio.TimerHandle | None = None
        # How long the server was silent, if the connection was given up because of that.
        self.silence_s = 0.0
        self.done: asyncio.Future[None] = self._loop.create_future()
        # Status and reason, if the server refused the upgrade.
        self.refused: tuple[int, str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self._protocol.state is State.OPEN and not self._transport.is_closing()

    @property
    def close_code(self) -> int:
        """The server's close code; 0 if there was none."""
        received = self._protocol.close_rcvd
        return 0 if received is None else int(received.code)

    @property
    def close_reason(self) -> str:
        received = self._protocol.close_rcvd
        return "" if received is None else received.reason

    # -- asyncio -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        request = self._protocol.connect()
        if self._authorization:
            request.headers["Authorization"] = self._authorization
        self._protocol.send_request(request)
        self._write_out()
        self._heard_at = self._loop.time()
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._pinged_at = None
        protocol = self._protocol
        with self._turn, self.writing_together():
            protocol.receive_data(data)
            for event in protocol.events_received():
                if isinstance(event, Response):
                    self._shaken(event)
                elif isinstance(event, Frame):
                    self._frame(event)
        if protocol.close_expected():
            self._loop.call_later(1.0, self._hang_up)

    def _shaken(self, response: Response) -> None:
        if self._protocol.handshake_exc is None:
            self._up()
            return
        if isinstance(self._protocol.handshake_exc, InvalidStatus):
            body = bytes(response.body or b"").decode(errors="replace").strip()
            self.refused = (response.status_code, body or response.reason_phrase)
        self._transport.close()

    def _frame(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.BINARY, Opcode.CONT):
            return
        if frame.fin and not self._parts:
            self._hear(bytes(frame.data))
            return
        self._parts.append(bytes(frame.data))
        if frame.fin:
            data, self._parts = b"".join(self._parts), []
            self._hear(data)

    def eof_received(self) -> None:
        with self._turn:
            self._protocol.receive_eof()
            for event in self._protocol.events_received():
                if isinstance(event, Response):
                    self._shaken(event)

    def connection_lost(self, _error: Exception | None) -> None:
        with self._turn:
            # The descriptor is closed next, and may then be another file's: no thread writes to it from here on.
            self._is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        if not self.done.done():
            self.done.set_result(None)

    # -- sending -------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Buffer a frame: frames of one iteration of the loop are written together."""
        self._protocol.send_binary(data)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    @contextmanager
    def writing_together(self) -> Iterator[None]:
        """Write the frames of this block at its end: without another turn of the loop, which would cost them time."""
        is_due, self._flushing = self._flushing, True
        try:
            yield
        finally:
            self._flushing = is_due
            self._write_out()

    @property
    def is_idle(self) -> bool:
        """Whether a thread that holds the turn may `send_now`: the connection is open, and nothing waits to be sent."""
        return self.is_open and not (
            self._is_lost or self._flushing or self._rest or self._transport.get_write_buffer_size()
        )

    @contextmanager
    def sending_now(self) -> Iterator[None]:
        """Write the frames of this block from a thread that holds the turn; the loop writes what is not taken."""
        self._flushing = True
        try:
            yield
        finally:
            self._flushing = False
            data = b"".join(self._protocol.data_to_send())
            taken = self._machine.send_now(self._transport, data) if data else 0
            if taken < len(data):
                self._rest = data[taken:]
                self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        with self._turn:
            self._flushing = False
            self._write_out()

    def _write_out(self) -> None:
        out = self._protocol.data_to_send()
        if self._transport.is_closing():
            return
        joined = b"".join((self._rest, *out))
        self._rest = b""
        if joined:
            self._transport.write(joined)
        if out and not out[-1] and self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        """Close the connection with a closing handshake."""
        if self._transport is None or self._transport.is_closing():  # type: ignore[redundant-expr]  # before it is made
            return
        try:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
        except InvalidState:
            self._transport.abort()
            return
        self._write_out()
        self._loop.call_later(1.0, self._hang_up)

    def _hang_up(self) -> None:
        # A transport that ended with unwritten bytes does not report it.
        if not self.done.done():
            self._transport.abort()

    def abort(self) -> None:
        """Abort the connection."""
        self._transport.abort()

    # -- silence -------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Ping a silent server, or give up."""
        now = self._loop.time()
        with self._turn:
            if self._pinged_at is None:
                self._listen(now)
            else:
                self._give_up_or_wait(now, self._pinged_at)

    def _listen(self, now: float) -> None:
        due = self._heard_at + (QUIET_S if self._is_answer_due() or not self.is_open else IDLE_S)
        if now < due:
            # A frame sent meanwhile makes an answer due sooner.
            self._look_again(min(due - now, QUIET_S))
            return
        if self.is_open:
            self._protocol.send_ping(b"hw")
            self._write_out()
        self._pinged_at, self._unsent = now, self._transport.get_write_buffer_size()
        self._look_again(PONG_S)

    def _give_up_or_wait(self, now: float, pinged_at: float) -> None:
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            # The ping waits behind many unsent bytes, and these are being sent: the server is reading.
            self._pinged_at, self._unsent = now, unsent
            self._look_again(PONG_S)
        elif now - pinged_at >= PONG_S:
            self.silence_s = now - self._heard_at
            self._transport.abort()
        else:
            self._look_again(pinged_at + PONG_S - now)

    def _look_again(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._watch)
