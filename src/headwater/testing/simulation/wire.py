"""One side of a simulated connection, as a transport of asyncio."""
# ruff: noqa: SLF001  (both sides are one class)

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, Protocol

from headwater.testing.simulation.conductor import Conductor

KERNEL_BYTES: Final = 64 * 1024
"""What the system takes of one direction before the other side has read it."""

HIGH_BYTES: Final = 64 * 1024
"""From how many unsent bytes on a protocol is asked to pause, unless it says otherwise: as asyncio has it."""

SPLIT: Final = 0.05
"""The probability that bytes written together arrive in two parts."""

_BINARY: Final = 0x82
"""The first byte of a WebSocket message of one frame."""

_HEADER_BYTES: Final = 6
_SIZE_FOLLOWS: Final = 126


class WireLoop(Protocol):
    """What a wire needs of the loop of its side."""

    node: str

    def arrive_at(self, when: float, do: Callable[[], None], context: Context) -> None:
        """Call it in the loop at a virtual time."""
        ...


class WireNetwork(Protocol):
    """What a wire needs of the network it is part of."""

    conductor: Conductor
    window: int
    again: float
    again_mark: bytes

    def delay(self, wire: Wire) -> float:
        """How long bytes take now."""
        ...

    def silent_until(self, wire: Wire) -> float:
        """Until when nothing arrives at this side."""
        ...

    def wrote(self, wire: Wire, data: bytes) -> None:
        """Bytes were sent."""
        ...


class Wire(asyncio.Transport):
    """One side. What it writes arrives at `other`, in the loop of the other side."""

    def __init__(self, network: WireNetwork, name: str, node: str, rng: random.Random) -> None:
        super().__init__()
        self._network, self._conductor = network, network.conductor
        self.name, self.node, self.rng = name, node, rng
        self.other: Wire
        self.addresses: tuple[tuple[str, int], tuple[str, int]] = (("", 0), ("", 0))
        self._loop: WireLoop | None = None
        self._context: Context | None = None
        self._protocol: asyncio.Protocol | None = None
        # connection_lost was called, or will not be: the process is dead.
        self.is_gone = False
        self._is_closing = False
        self._has_ended_writing = False
        # What is on its way to this side, with the time of arrival. None: the end.
        self._incoming: deque[tuple[float, bytes | None]] = deque()
        self._last = 0.0
        self._is_paused = False
        # Bytes on their way from this side, and those that the system has not taken yet.
        self._flying = 0
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._high, self._low = HIGH_BYTES, HIGH_BYTES // 4
        self._is_full = False
        self._ends_after = False
        # Nothing written by this side arrives any more; nothing arrives here before a time.
        self.is_cut = False
        self.silent_until = 0.0
        self._error: Exception | None = None

    @staticmethod
    def pair(network: WireNetwork, name: str, node: str, to: str, rng: random.Random) -> tuple[Wire, Wire]:
        here, there = Wire(network, name, node, rng), Wire(network, name, to, rng)
        here.other, there.other = there, here
        return here, there

    def join(self, loop: WireLoop, context: Context) -> None:
        """From now on this side has a loop; what arrived before is delivered to it."""
        self._loop, self._context = loop, context

    def made(self, protocol: asyncio.BaseProtocol) -> None:
        """In the loop of this side."""
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol
        protocol.connection_made(self)
        for when, _ in self._incoming:
            self._wake_at(when)

    # -- in the other loop or any ----------------------------------------------------------------------------

    def _wake_at(self, when: float) -> None:
        if self._loop is not None and self._context is not None and self._protocol is not None:
            self._loop.arrive_at(when, self._arrive, self._context)

    def _put(self, data: bytes | None) -> None:
        """Bytes, or the end, for the other side."""
        if self.is_cut:
            return
        other = self.other
        self._last = max(self._last + 1e-7, self._conductor.now + self._network.delay(self))
        if data is not None:
            self._flying += len(data)
        other._incoming.append((self._last, data))
        other._wake_at(self._last)

    def learn(self, error: Exception | None, after: float) -> None:
        """This side learns that the connection is gone."""
        if self.is_gone:
            return
        if self._loop is None or self._context is None or self._protocol is None:
            self.is_gone = True
            return
        self._loop.arrive_at(self._conductor.now + after, lambda: self._lost(error), self._context)

    def lose_from_some_byte(self) -> int:
        """What is on its way to this side is lost from some byte on, and all that follows. How many bytes."""
        self.other.is_cut = True
        total = sum(len(data) for _, data in self._incoming if data is not None)
        kept = self.rng.randint(0, total) if total else 0
        found: deque[tuple[float, bytes | None]] = deque()
        left = kept
        for when, data in self._incoming:
            if data is None or not left:
                break
            found.append((when, data[:left]))
            left -= len(data[:left])
        self._incoming = found
        return total - kept

    def reset_other(self) -> None:
        """Nothing accepts this side: the other side is reset."""
        self.is_gone = True
        self.is_cut = True
        self.other.is_cut = True
        self.other.learn(ConnectionResetError(104, "Connection reset by peer"), self._network.delay(self))

    def die(self) -> None:
        """The process of this side is gone: what it wrote arrives, then the end."""
        if self.is_gone:
            return
        self.is_gone = True
        self._unsent.clear()
        self._put(None)
        self.is_cut = True

    @property
    def is_awaiting(self) -> bool:
        """Whether something is on its way to this side."""
        return not self.is_gone and bool(self._incoming)

    def hurry(self) -> None:
        """What waited for the end of a silence arrives now."""
        if self._incoming:
            self._wake_at(max(self._incoming[0][0], self._conductor.now))

    # -- in its own loop -----------------------------------------------------------------------------------

    def _arrive(self) -> None:
        """Deliver what has arrived."""
        now = self._conductor.now
        if self.is_gone or self._is_paused or not self._incoming or self._protocol is None:
            return
        silent_until = self._network.silent_until(self)
        if silent_until > now:
            self._wake_at(silent_until)
            return
        parts: list[bytes] = []
        is_end = False
        while self._incoming and self._incoming[0][0] <= now and not is_end:
            _, data = self._incoming.popleft()
            if data is None:
                is_end = True
            else:
                parts.append(data)
        if parts:
            joined = b"".join(parts)
            self.other._was_read(len(joined))
            if self._is_closing:
                return
            self._protocol.data_received(joined)
        if is_end and not self.is_gone:
            self._end_received()

    def _end_received(self) -> None:
        if self.other.is_gone and self.other._error is not None:
            self._lost(self.other._error)
            return
        assert self._protocol is not None
        if not self._protocol.eof_received():
            self.close()

    def _was_read(self, size: int) -> None:
        """The other side has read: there is room for more."""
        self._flying -= size
        if self._unsent and not self.is_gone and self._loop is not None and self._context is not None:
            self._loop.arrive_at(self._conductor.now + self._network.delay(self), self._drain, self._context)

    def _drain(self) -> None:
        window = self._network.window
        while self._unsent and self._flying < window and not self.is_gone:
            data = self._unsent.popleft()
            room = window - self._flying
            if len(data) > room:
                self._unsent.appendleft(data[room:])
                data = data[:room]
            self._unsent_bytes -= len(data)
            self._put(data)
        if self._is_full and self._unsent_bytes <= self._low and self._protocol is not None:
            self._is_full = False
            self._protocol.resume_writing()
        if not self._unsent and self._ends_after:
            self._ends_after = False
            self._put(None)
            if self._is_closing:
                self.learn(None, 0.0)

    def _lost(self, error: Exception | None) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        self._is_closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        if not self.other.is_gone and not self.is_cut:
            self._put(None)
        self.is_cut = True
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    # -- as a transport ------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_gone or self._is_closing or self._has_ended_writing or not data:
            return
        sent = bytes(data)
        self._network.wrote(self, sent)
        if self._network.again and sent[0] == _BINARY and self.rng.random() < self._network.again:
            sent = _with_last_again(sent, self._network.again_mark)
        if self.other.is_gone and not self.is_cut:
            # As the system does: it sends, and is told that no process has the connection.
            self.is_cut = True
            self.learn(ConnectionResetError(104, "Connection reset by peer"), self._network.delay(self))
            return
        if len(sent) > 1 and self.rng.random() < SPLIT:
            at = self.rng.randrange(1, len(sent))
            self._unsent += (sent[:at], sent[at:])
        else:
            self._unsent.append(sent)
        self._unsent_bytes += len(sent)
        self._drain()
        if self._unsent_bytes > self._high and not self._is_full and self._protocol is not None:
            self._is_full = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:  # noqa: ANN401  # as asyncio has it
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._has_ended_writing and not self.is_gone:
            self._has_ended_writing = True
            self._ends_after = True
            self._drain()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        """After what was written."""
        if self._is_closing or self.is_gone:
            return
        self._is_closing = True
        if self._has_ended_writing and not self._ends_after:
            self.learn(None, 0.0)
            return
        self._has_ended_writing = self._ends_after = True
        self._drain()

    def abort(self) -> None:
        """Without what was not sent. The other side is reset."""
        if self.is_gone or self._error is not None:
            return
        self._is_closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        if not self.is_cut:
            self.is_cut = True
            # Where nothing arrives, the reset is lost: the other side learns it when it sends, or by a time-out.
            if not self.other.is_gone and self._network.silent_until(self.other) <= self._conductor.now:
                self.other.learn(ConnectionResetError(104, "Connection reset by peer"), self._network.delay(self))
        self._error = ConnectionAbortedError(103, "Connection aborted")
        self.learn(None, 0.0)

    def is_closing(self) -> bool:
        return self._is_closing or self.is_gone

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as asyncio has it
        if name == "sockname":
            return self.addresses[0]
        return self.addresses[1] if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_BYTES if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            for when, _ in self._incoming:
                self._wake_at(max(when, self._conductor.now))

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol


def _with_last_again(data: bytes, mark: bytes) -> bytes:
    """WebSocket messages of a client, the last one twice if it begins with a mark.

    As they are, if they are not whole messages.
    """
    at, last, begins = 0, 0, 0
    while at < len(data):
        if len(data) - at < _HEADER_BYTES or data[at] != _BINARY or not data[at + 1] & 0x80:
            return data
        last, size = at, data[at + 1] & 0x7F
        at += 2
        if size >= _SIZE_FOLLOWS:
            width = 2 if size == _SIZE_FOLLOWS else 8
            size, at = int.from_bytes(data[at : at + width], "big"), at + width
        begins = at
        at += 4 + size
    mask, masked = data[begins : begins + 4], data[begins + 4 : begins + 24]
    shown = bytes(byte ^ mask[index % 4] for index, byte in enumerate(masked))
    return data + data[last:] if at == len(data) and mark in shown else data
