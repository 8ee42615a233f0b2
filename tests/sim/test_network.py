"""Loops and connections of a simulated machine."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from headwater.machine import Files, use
from headwater.testing.simulation.conductor import Conductor
from headwater.testing.simulation.sim_machine import SimMachine
from headwater.testing.simulation.sim_network import SimNetwork
from sim.oracles.cycles import cycle_in, edges_of


class Side(asyncio.Protocol):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.received = b""
        self.ended: list[object] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.append(error)


class Pair:
    """A server on node s and a client on node c."""

    def __init__(self, seed: int = 1) -> None:
        self.conductor = Conductor(seed)
        self.network = SimNetwork(self.conductor, random.Random(seed))
        self.here, self.there = Side(), Side()
        self.is_over = False

    def machine(self, name: str) -> SimMachine:
        return SimMachine(name, self.conductor, files=Files(), network=self.network)

    def begin(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        made = self.machine(name)

        def run() -> None:
            with use(made):
                made.run(main())

        self.conductor.begin(name, run, made.sim_process)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(lambda: self.there, "127.0.0.1", 80)
        while not self.is_over:  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(0.05)

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self.here, "127.0.0.1", 80)
        while not self.is_over:  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(0.05)

    def play(self, *steps: tuple[float, Callable[[], object]]) -> None:
        self.begin("s", self.serve)
        self.conductor.sleep(0.1)
        self.begin("c", self.connect)
        self.conductor.sleep(2.0)
        for seconds, do in steps:
            do()
            self.conductor.sleep(seconds)
        self.is_over = True
        self.conductor.sleep(1.0)


def test_bytes_arrive_in_the_order_in_which_they_were_sent() -> None:
    pair = Pair()
    sent = [f"{number};".encode() for number in range(200)]
    pair.play((2.0, lambda: [pair.here.transport.write(each) for each in sent]))
    assert pair.there.received == b"".join(sent)


def test_a_cut_connection_loses_what_is_on_its_way_and_both_sides_learn_it() -> None:
    pair = Pair()
    pair.play((0.0, lambda: pair.here.transport.write(b"x" * 1000)), (3.0, lambda: pair.network.cut("c")))
    assert len(pair.there.received) < 1000
    assert [type(each) for each in pair.here.ended + pair.there.ended] == [ConnectionResetError] * 2


def test_bytes_of_a_killed_node_arrive_and_then_the_end() -> None:
    pair = Pair()
    pair.play((0.0, lambda: pair.here.transport.write(b"last words")), (3.0, lambda: pair.network.node_died("c")))
    assert pair.there.received == b"last words"
    assert pair.there.ended == [None]


def test_a_silent_direction_delivers_later_and_the_other_one_goes_on() -> None:
    pair = Pair()
    found: list[tuple[bytes, bytes]] = []

    def send() -> None:
        pair.here.transport.write(b"up")
        pair.there.transport.write(b"down")

    pair.play(
        (0.0, lambda: pair.network.half_open("c", 5.0, inward=True)),
        (2.0, send),
        (5.0, lambda: found.append((pair.there.received, pair.here.received))),
    )
    assert found == [(b"up", b"")]
    assert pair.here.received == b"down"


def test_one_seed_gives_one_digest() -> None:
    def digest(seed: int) -> str:
        pair = Pair(seed)
        pair.play((2.0, lambda: pair.here.transport.write(b"x" * 5000)), (2.0, lambda: pair.network.cut("c")))
        return pair.conductor.digest

    assert digest(3) == digest(3)
    assert digest(3) != digest(4)


def test_a_cycle_of_three_transactions_is_found_and_a_serial_history_has_none() -> None:
    registers = {"x": [10], "y": [20], "z": [30]}
    writer = {10: 1, 20: 2, 30: 3}
    serial, wrong = edges_of(registers, writer, [(2, "x", [10]), (3, "y", [20])])
    assert (cycle_in(serial), wrong) == ([], [])
    # Each has read the register of the next one before that one has written.
    crossed, wrong = edges_of(registers, writer, [(1, "y", []), (2, "z", []), (3, "x", [])])
    assert (cycle_in(crossed), wrong) == ([1, 2, 3], [])
    _, wrong = edges_of(registers, writer, [(1, "y", [99])])
    assert wrong
