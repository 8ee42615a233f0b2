"""The network between simulated machines: listeners by address and port, connections as ordered bytes in memory.

Each direction of a connection is a queue of chunks with times of arrival. Chunks of one direction do not overtake each
other; those of two connections do. Faults act on connections: cut, silent in one direction, refused, slow.

All chance comes from one stream for each connection, so a connection more leaves the delays of others as they are.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Final
from zlib import crc32

from headwater.testing.simulation.conductor import Conductor
from headwater.testing.simulation.wire import KERNEL_BYTES, Wire, WireLoop

NAMES: Final = {"localhost": "127.0.0.1"}
"""All other names are unknown."""

FIRST_FREE: Final = 40_000
"""Ports that are given away for port 0, and to connecting clients."""

SLOW_SHARE: Final = 0.03
"""The share of chunks that take much longer."""

LEARNS_S: Final = 2.0
"""How long a side of a cut connection may not know it."""

_STREAM: Final = 1
_TCP: Final = 6
_INET: Final = 2


class SimListener:
    """A bound port. As a socket of the system, it takes connections before they are accepted."""

    def __init__(self, network: SimNetwork, node: str, address: str, port: int) -> None:
        self._network = network
        self.node, self.address, self.port = node, address, port
        self._loop: WireLoop | None = None
        self._factory: Callable[[], asyncio.BaseProtocol] | None = None
        self._context: Context | None = None
        self._waiting: list[Wire] = []
        self.is_closed = False

    # As a socket has them.

    def getsockname(self) -> tuple[str, int]:
        return self.address, self.port

    def setsockopt(self, *_args: object) -> None: ...

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        """The port is free. Connections that were not accepted are reset."""
        if self.is_closed:
            return
        self.is_closed = True
        self._network.forget(self)
        for wire in self._waiting:
            wire.reset_other()
        self._waiting.clear()

    # As a server of asyncio has them.

    @property
    def sockets(self) -> tuple[SimListener, ...]:
        return () if self.is_closed else (self,)

    def is_serving(self) -> bool:
        return self._loop is not None and not self.is_closed

    def get_loop(self) -> WireLoop | None:
        return self._loop

    async def wait_closed(self) -> None: ...

    async def start_serving(self) -> None: ...

    # Of the network.

    def serve(self, loop: WireLoop, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self._loop, self._factory, self._context = loop, factory, copy_context()
        waiting, self._waiting = self._waiting, []
        for wire in waiting:
            self.take(wire)

    def take(self, wire: Wire, after: float = 0.0) -> None:
        """Accept a connection, in the loop of the server."""
        if self._loop is None or self._context is None:
            self._waiting.append(wire)
            return
        wire.join(self._loop, self._context)
        self._loop.arrive_at(self._network.conductor.now + after, lambda: self._accept(wire), self._context)

    def _accept(self, wire: Wire) -> None:
        if self.is_closed:
            wire.reset_other()
            return
        if wire.is_gone:
            return
        assert self._factory is not None
        wire.made(self._factory())


class SimNetwork:
    """All connections of a world."""

    def __init__(self, conductor: Conductor, rng: random.Random) -> None:
        self.conductor = conductor
        self.rng = rng
        # Of the streams of connections.
        self._seed = rng.getrandbits(64)
        self.counts: Counter[str] = Counter()
        self.listeners: dict[tuple[str, int], SimListener] = {}
        # One wire of each connection: that of the side that connected.
        self.connections: list[Wire] = []
        self._between: Counter[tuple[str, int]] = Counter()
        self._port = FIRST_FREE
        # By node that listens: until when connections are refused, or accepted late. Until when bytes are slower.
        self.refused: dict[str, float] = {}
        self.late: dict[str, tuple[float, float]] = {}
        self.slow: dict[str, tuple[float, float]] = {}
        # Until when all of a node is unreachable: bytes wait, connections are not made.
        self.unreachable: dict[str, float] = {}
        # The probability that a message of a client arrives twice, and what such a message begins with.
        self.again: float = 0.0
        self.again_mark = b""
        # How many bytes of one direction the system takes before the other side has read them.
        self.window = KERNEL_BYTES

    # -- listening and connecting --------------------------------------------------------------------------

    def addresses(self, host: str, port: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """As `socket.getaddrinfo`. Raises OSError."""
        address = NAMES.get(host.lower(), host)
        if not address.replace(".", "").isdigit():
            raise OSError(-2, "Name or service not known")
        return [(_INET, _STREAM, _TCP, "", (address, port))]

    def listen(self, node: str, address: str, port: int) -> SimListener:
        """Bind a port. Raises OSError."""
        address = NAMES.get(address, address)
        if not port:
            port = self._next_port()
        if (address, port) in self.listeners:
            raise OSError(98, "Address already in use")
        made = self.listeners[address, port] = SimListener(self, node, address, port)
        return made

    def serve(self, loop: WireLoop, listener: SimListener, factory: Callable[[], asyncio.BaseProtocol]) -> SimListener:
        listener.serve(loop, factory)
        return listener

    def forget(self, listener: SimListener) -> None:
        """A listener was closed."""
        if self.listeners.get((listener.address, listener.port)) is listener:
            del self.listeners[listener.address, listener.port]

    async def connect(
        self, loop: WireLoop, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect from a node. Raises OSError."""
        address, node = self.addresses(host, port)[0][4][0], loop.node
        pair = f"{node}-{port}", port
        self._between[pair] += 1
        rng = random.Random(f"net-{self._seed}-{pair[0]}-{self._between[pair]}")
        await asyncio.sleep(_delay(rng))
        while (wait := self._silence(node, address, port)) > 0:  # noqa: ASYNC110  # virtual time, known in advance
            await asyncio.sleep(wait)
        found = self.listeners.get((address, port))
        if found is None or self.refused.get(found.node, 0.0) > self.conductor.now:
            self.counts["refused"] += 1
            raise ConnectionRefusedError(111, f"Connect call failed ('{address}', {port})")
        name = f"{node}{self._between[pair]}"
        here, there = Wire.pair(self, name, node, found.node, rng)
        here.addresses = ((address, self._next_port()), (address, port))
        there.addresses = (here.addresses[1], here.addresses[0])
        self.connections.append(here)
        self.counts["connections"] += 1
        self.conductor.note(f"net {name} connected to {found.node}")
        here.join(loop, copy_context())
        until, seconds = self.late.get(found.node, (0.0, 0.0))
        found.take(there, rng.uniform(0, seconds) if until > self.conductor.now else _delay(rng))
        protocol = factory()
        here.made(protocol)
        return here, protocol

    def _silence(self, node: str, address: str, port: int) -> float:
        found = self.listeners.get((address, port))
        other = None if found is None else found.node
        ends = [self.unreachable.get(each, 0.0) for each in (node, other) if each is not None]
        return max(ends) - self.conductor.now

    def _next_port(self) -> int:
        self._port += 1
        return self._port

    def delay(self, wire: Wire) -> float:
        """How long a chunk takes: mostly 0.5 to 20 ms, at times much longer."""
        found = _delay(wire.rng)
        for node in (wire.node, wire.other.node):
            until, factor = self.slow.get(node, (0.0, 1.0))
            if until > self.conductor.now:
                found *= factor
        return found

    def silent_until(self, wire: Wire) -> float:
        """Until when nothing arrives at a wire."""
        return max(wire.silent_until, self.unreachable.get(wire.node, 0.0), self.unreachable.get(wire.other.node, 0.0))

    def wrote(self, wire: Wire, data: bytes) -> None:
        """Count what was sent; it is a part of the digest."""
        self.counts["writes"] += 1
        self.counts["bytes"] += len(data)
        self.conductor.note(f"net {wire.name} {wire.node}>{wire.other.node} {len(data)} {crc32(data):08x}")

    # -- faults --------------------------------------------------------------------------------------------

    def open_connections(self, node: str | None = None) -> list[Wire]:
        """Connections that neither side has closed, of a node or of all, in the order in which they were made."""
        self.connections = [each for each in self.connections if not (each.is_gone and each.other.is_gone)]
        return [each for each in self.connections if node is None or node in (each.node, each.other.node)]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way. After a slow time, the last bytes take long."""
        return not any(each.is_awaiting or each.other.is_awaiting for each in self.open_connections())

    def cut(self, node: str | None = None, *, every: bool = False) -> int:
        """Cut one connection or all, of a node or of any. Each side learns it in its own time. How many were cut."""
        found = self.open_connections(node)
        if found and not every:
            found = [self.rng.choice(found)]
        for wire in found:
            self.counts["cuts"] += 1
            lost = wire.lose_from_some_byte() + wire.other.lose_from_some_byte()
            self.counts["bytes lost"] += lost
            self.conductor.note(f"net {wire.name} cut, {lost} bytes lost")
            for side in (wire, wire.other):
                # Often at once: a reset; else when the system gives up.
                side.learn(ConnectionResetError(104, "Connection reset by peer"), self._learns())
        return len(found)

    def _learns(self) -> float:
        return self.rng.choice((0.0, self.rng.uniform(0, LEARNS_S)))

    def half_open(self, node: str, seconds: float, *, inward: bool, then_cut: bool = False) -> int:
        """One direction of a node's connections is silent for a while: that to the node, or that from it."""
        found = self.open_connections(node)
        until = self.conductor.now + seconds
        for wire in found:
            side = wire if (wire.node == node) == inward else wire.other
            side.silent_until = max(side.silent_until, until)
            if then_cut:
                for each in (wire, wire.other):
                    each.lose_from_some_byte()
                    each.learn(TimeoutError(110, "Connection timed out"), seconds)
        self.counts["half-open"] += len(found)
        self.conductor.note(f"net {node} silent {'in' if inward else 'out'} for {seconds:.3f}")
        return len(found)

    def refuse(self, node: str, seconds: float) -> None:
        """Refuse connections to a node; those that are open stay."""
        self.refused[node] = self.conductor.now + seconds

    def accept_late(self, node: str, seconds: float, at_most: float) -> None:
        """For some seconds, connections to a node are accepted up to `at_most` seconds late."""
        self.late[node] = self.conductor.now + seconds, at_most

    def slow_down(self, node: str, seconds: float, factor: float) -> None:
        """Bytes from and to a node take longer for a while."""
        self.slow[node] = self.conductor.now + seconds, factor

    def isolate(self, node: str, seconds: float) -> None:
        """A node is unreachable for a while: what is sent arrives afterwards."""
        self.unreachable[node] = self.conductor.now + seconds

    def heal(self) -> None:
        """End all faults that last."""
        for each in (self.refused, self.late, self.slow, self.unreachable):
            each.clear()
        self.again = 0.0
        for wire in self.open_connections():
            wire.silent_until = wire.other.silent_until = 0.0
            wire.hurry()
            wire.other.hurry()

    def node_died(self, node: str) -> None:
        """A process is gone. The system sends what it had been given, and closes its connections and ports."""
        for listener in [each for each in self.listeners.values() if each.node == node]:
            listener.close()
        for wire in self.open_connections(node):
            for side in (wire, wire.other):
                if side.node == node:
                    side.die()


def _delay(rng: random.Random) -> float:
    return rng.uniform(0.0005, 0.02) * (rng.uniform(1, 25) if rng.random() < SLOW_SHARE else 1)
