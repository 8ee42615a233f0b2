"""Table `sync`: what sharing costs, beside a relay that keeps nothing and beside y-websocket, which keeps it in memory.

One server process on this machine, clients in other processes, all over TCP. Rows of programs have real clients at both
ends; rows of light clients (`bench.sync_load`) have many connections in one process, so that the server is what is
measured. Servers take turns, figures are medians of rounds, and `+-` is half of how far the rounds lie apart.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.sync_programs import Process, Program, free_port, node_folder, say, served
from bench.sync_speech import UPDATES
from bench.table import Table
from headwater.host.opening import open_space
from headwater.store.commit import SetDoc
from headwater.values.address import doc_key
from headwater.values.tree import freeze

ROUNDS: Final = 3
WRITES: Final = 150
GAP_MS: Final = 8
READERS: Final = 100
ALONE: Final = 500
"""Messages of a light client that waits for each, with nobody else connected."""
SENT: Final = {1: 300, 64: 2000}
"""Messages of the one writer: how many are under way at a time, and how many there are."""
WRITERS: Final = 10
OPS: Final = 200
IDLE: Final = 1000
WARM: Final = 20
"""Connections before memory is first looked at: what the first few need is not needed again."""
SYNCS: Final = 100
SERVE: Final = (sys.executable, "-m", "headwater", "serve")


@dataclass(slots=True)
class Peer:
    """One kind of server, and the programs that are its clients."""

    name: str
    kind: str
    start: Callable[[], AbstractContextManager[tuple[Process, str]]]
    """A server with nothing in it, and where it is."""
    reader: Callable[[str], Sequence[str]]
    writer: Callable[[str], Sequence[str]]
    writers: Callable[[str], Sequence[Sequence[str]]] | None = None
    """Commands of as many programs as share the writers among them, if there are any but light clients."""
    environment: dict[str, str] = field(default_factory=dict)


def measure(table: Table) -> None:
    """All rows."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        peers = _peers(place)
        _latency(table, place, peers, Disk(place))
        _answers(table, place, peers)
        _fan_out(table, place, peers)
        _writers(table, place, peers)
        _idle(table, place, peers)


# --- the disk -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Disk:
    """What it takes, in milliseconds. Looked at in turn with what is compared with it, for it has moods of its own."""

    place: Path
    syncs: list[list[float]] = field(default_factory=list)
    groups: list[list[float]] = field(default_factory=list)

    def round(self) -> None:
        """Some of each."""
        say(f"the disk, {len(self.syncs) + 1} of {ROUNDS}")
        self.syncs.append(self._fdatasyncs())
        self.groups.append(self._groups())

    def _fdatasyncs(self) -> list[float]:
        block, times = os.urandom(4096), list[float]()
        descriptor = os.open(self.place / "block", os.O_CREAT | os.O_WRONLY)
        try:
            for number in range(SYNCS):
                start = time.perf_counter()
                os.pwrite(descriptor, block, 4096 * (number % 64))
                os.fdatasync(descriptor)
                times.append((time.perf_counter() - start) * 1e3)
        finally:
            os.close(descriptor)
        return times

    def _groups(self) -> list[float]:
        times: list[float] = []
        with open_space(str(self.place / "group.db")) as storage:
            replica = storage.attach()
            for number in range(SYNCS):
                start = time.perf_counter()
                replica.commit([SetDoc(doc_key("board"), freeze({"at": number}))])
                replica.sync()
                times.append((time.perf_counter() - start) * 1e3)
        return times

    def show(self, table: Table) -> float:
        """Add the rows. What one group takes is what a server adds that keeps what it is sent."""
        table.add("fdatasync of 4 KB: p50, p99", _times(self.syncs))
        table.add("a group of one commit, on disk: p50, p99", _times(self.groups))
        return _at(_all(self.groups), 0.5)


# --- who takes part -----------------------------------------------------------------------------------------------


def _peers(place: Path) -> list[Peer]:
    folder = node_folder()
    return [_relay(place), *([_y_websocket(place, folder)] if folder else []), _headwater(place)]


def _load(role: str, kind: str, url: str, *numbers: int) -> list[str]:
    return [sys.executable, "-m", "bench.sync_load", role, kind, url, *map(str, numbers)]


def _shared(writers: int) -> list[tuple[int, int]]:
    """Who is first, and how many: two programs have half of them each."""
    half = writers // 2
    return [(0, half), (half, writers - half)]


def _relay(place: Path) -> Peer:
    @contextmanager
    def start() -> Iterator[tuple[Process, str]]:
        port = free_port()
        command = [sys.executable, "-m", "bench.sync_peers.relay", str(port)]
        with served(command, port, place / "relay.log") as server:
            yield server, f"ws://127.0.0.1:{port}/room"

    return Peer(
        "bare relay",
        "relay",
        start,
        lambda url: _load("stamps", "relay", url, WRITES),
        lambda url: _load("stamping", "relay", url, WRITES, GAP_MS),
    )


def _y_websocket(place: Path, folder: Path) -> Peer:
    updates = place / "updates"
    with updates.open("wb") as file:
        command = ["node", str(folder / "updates.mjs"), str(WRITERS), str(max(OPS, *SENT.values()))]
        subprocess.run(command, stdout=file, check=True)

    @contextmanager
    def start() -> Iterator[tuple[Process, str]]:
        port = free_port()
        environment = {"HOST": "127.0.0.1", "PORT": str(port)}
        command = ["node", str(folder / "node_modules/@y/websocket-server/src/server.js")]
        with served(command, port, place / "y.log", environment) as server:
            yield server, f"ws://127.0.0.1:{port}/room"

    def node(name: str, *arguments: object) -> list[str]:
        return ["node", str(folder / name), *map(str, arguments)]

    return Peer(
        "y-websocket",
        "y-websocket",
        start,
        lambda url: node("latency.mjs", "reader", url, WRITES, GAP_MS),
        lambda url: node("latency.mjs", "writer", url, WRITES, GAP_MS),
        lambda url: [node("writers.mjs", url, first, count, OPS) for first, count in _shared(WRITERS)],
        environment={UPDATES: str(updates)},
    )


def _headwater(place: Path) -> Peer:
    # Where the server leaves its token: not where this user's other servers do.
    runtime = place / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environment = {"XDG_RUNTIME_DIR": str(runtime)}

    @contextmanager
    def start() -> Iterator[tuple[Process, str]]:
        port = free_port()
        store = tempfile.mkdtemp(prefix="store-", dir=place)
        command = [*SERVE, "--store", store, "--listen", f"127.0.0.1:{port}"]
        with served(command, port, place / "headwater.log", environment) as server:
            url = f"ws://127.0.0.1:{port}/room"
            with ExitStack() as stack:
                for each in _programs(stack, place, peer, [_load("prepare", "headwater", url)]):
                    each.go()
                    each.result()
            yield server, url

    def programs(role: str, url: str, *numbers: int) -> list[str]:
        return [sys.executable, "-m", "bench.sync_clients", role, url, *map(str, numbers)]

    peer = Peer(
        "headwater",
        "headwater",
        start,
        lambda url: programs("reader", url, WRITES),
        lambda url: programs("writer", url, WRITES, GAP_MS),
        lambda url: [programs("one_of_many", url, who, OPS) for who in range(WRITERS)],
        environment,
    )
    return peer


# --- from a writer to a reader ------------------------------------------------------------------------------------


def _latency(table: Table, place: Path, peers: Sequence[Peer], disk: Disk) -> None:
    seen: dict[str, list[list[float]]] = {peer.name: [] for peer in peers}
    told: list[list[float]] = []
    missed = 0
    for turn in range(ROUNDS):
        disk.round()
        for peer in peers:
            say(f"from a writer to a reader: {peer.name}, {turn + 1} of {ROUNDS}")
            reader, writer = _stamped(peer, place)
            seen[peer.name].append(reader["times"])
            missed += reader.get("missed", 0)
            if "times" in writer:
                told.append(writer["times"])
    group_ms = disk.show(table)
    halves = {name: _at(_all(rounds), 0.5) for name, rounds in seen.items()}
    for name, rounds in seen.items():
        limit, holds = "", None
        if name == "headwater" and "y-websocket" in halves:
            most = 2 * halves["y-websocket"] + group_ms
            limit, holds = f"p50 <= 2x y-websocket + a group: {most:.2f} ms", halves[name] <= most
        table.add(f"a write until another program has seen it, {name}: p50, p99", _times(rounds), limit, holds)
    if told:
        table.add("a write until the writer knows that it is on disk, headwater: p50, p99", _times(told))
        of_all = f"{missed} of {ROUNDS * WRITES}"
        table.add("writes that the reader saw only together with the next one, headwater", of_all)


def _stamped(peer: Peer, place: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the reader and the writer have to say: milliseconds from before each write."""
    with peer.start() as (_, url), ExitStack() as stack:
        reader, writer = _programs(stack, place, peer, [peer.reader(url), peer.writer(url)])
        reader.go()
        writer.go()
        return reader.result(), writer.result()


def _programs(stack: ExitStack, place: Path, peer: Peer, commands: Sequence[Sequence[str]]) -> list[Program]:
    """All started, then each once it is ready."""
    log = place / f"{peer.kind}-clients.log"
    started = [stack.enter_context(Program(each, environment=peer.environment, log=log)) for each in commands]
    for each in started:
        each.ready()
    return started


def _answers(table: Table, place: Path, peers: Sequence[Peer]) -> None:
    """What is left without programs at the ends: the server's part, and two ways through the kernel."""
    found: dict[str, list[tuple[float, float]]] = {peer.name: [] for peer in peers}
    for turn in range(ROUNDS):
        for peer in peers:
            say(f"one light client: {peer.name}, {turn + 1} of {ROUNDS}")
            with peer.start() as (server, url), ExitStack() as stack:
                [writer] = _programs(stack, place, peer, [_load("writer", peer.kind, url, ALONE, 1)])
                spent = server.cpu_s()
                writer.go()
                result = writer.result()
                spent = server.cpu_s() - spent
            found[peer.name].append(((result["ended"] - result["begun"]) / ALONE * 1e3, spent / ALONE * 1e3))
    for name, rounds in found.items():
        took, spent_ms = ([each[number] for each in rounds] for number in (0, 1))
        figure = f"{statistics.median(took):.2f} ms {_noise(took)}, {statistics.median(spent_ms):.2f} ms"
        table.add(f"one light client waits for each answer, {name}: mean, processor of the server", figure)


# --- one writer, many readers -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Spread:
    """What the rounds of one server came to."""

    rates: list[float] = field(default_factory=list)
    spent_us: list[float] = field(default_factory=list)
    frames: float = 0.0
    bytes: float = 0.0


def _fan_out(table: Table, place: Path, peers: Sequence[Peer]) -> None:
    for window, messages in SENT.items():
        found = {peer.name: _Spread() for peer in peers}
        for turn in range(ROUNDS):
            for peer in peers:
                say(f"one writer with {window} under way, {READERS} readers: {peer.name}, {turn + 1} of {ROUNDS}")
                _spread(peer, place, found[peer.name], window, messages)
        title = f"one writer, {window} under way, {READERS} readers"
        for name, each in found.items():
            rate = statistics.median(each.rates)
            table.add(f"{title}, {name}: deliveries", f"{rate:,.0f}/s {_noise(each.rates)}")
        for name, each in found.items():
            figure = f"{statistics.median(each.spent_us):.1f} us, {each.frames:.2f}, {each.bytes:.0f} B"
            table.add(f"{name}: processor of the server, frames, bytes for each", figure)


def _spread(peer: Peer, place: Path, into: _Spread, window: int, messages: int) -> None:
    with peer.start() as (server, url), ExitStack() as stack:
        commands = [
            _load("readers", peer.kind, url, READERS, messages),
            _load("writer", peer.kind, url, messages, window),
        ]
        readers, writer = _programs(stack, place, peer, commands)
        spent = server.cpu_s()
        readers.go()
        writer.go()
        begun, result = writer.result()["begun"], readers.result()
        spent = server.cpu_s() - spent
    deliveries = result["deliveries"]
    into.rates.append(deliveries / (result["ended"] - begun))
    into.spent_us.append(spent / deliveries * 1e6)
    into.frames, into.bytes = result["frames"] / deliveries, result["bytes"] / deliveries


# --- many writers -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Many:
    """What the rounds of many writers came to."""

    rates: list[float] = field(default_factory=list)
    conflicts: int = 0
    frames: float | None = None
    """For each write that a connection is told of."""


def _writers(table: Table, place: Path, peers: Sequence[Peer]) -> None:
    light, programs = ({peer.name: _Many() for peer in peers} for _ in range(2))
    for turn in range(ROUNDS):
        for peer in peers:
            say(f"{WRITERS} writers: {peer.name}, {turn + 1} of {ROUNDS}")
            _written(peer, place, partial(_light_writers, peer.kind), light[peer.name])
            if peer.writers is not None:
                _written(peer, place, peer.writers, programs[peer.name])
    for title, found in (("light clients", light), ("programs", programs)):
        for name, many in found.items():
            if many.rates:
                figure = f"{statistics.median(many.rates):,.0f}/s {_noise(many.rates)}, {many.conflicts}"
                limit, holds = ("0 conflicts", many.conflicts == 0) if name == "headwater" else ("", None)
                table.add(f"{WRITERS} writers, a key each, {title}, {name}: writes, conflicts", figure, limit, holds)
    for name, many in light.items():
        table.add(f"the same, light clients, {name}: frames for a write told to one", f"{many.frames:.2f}")


def _light_writers(kind: str, url: str) -> list[list[str]]:
    return [_load("writers", kind, url, first, count, OPS) for first, count in _shared(WRITERS)]


def _written(peer: Peer, place: Path, commands: Callable[[str], Sequence[Sequence[str]]], into: _Many) -> None:
    """Each write is waited for by whoever wrote it. What was taken back and done again counts as a conflict, too."""
    with peer.start() as (_, url), ExitStack() as stack:
        programs = _programs(stack, place, peer, commands(url))
        for each in programs:
            each.go()
        results = [each.result() for each in programs]
    ops = sum(each["ops"] for each in results)
    into.rates.append(ops / (max(each["ended"] for each in results) - min(each["begun"] for each in results)))
    into.conflicts += sum(each.get("conflicts", 0) + each.get("rejected", 0) for each in results)
    if "frames" in results[0]:
        into.frames = sum(each["frames"] for each in results) / sum(each["told"] for each in results)


# --- nobody says anything -----------------------------------------------------------------------------------------


def _idle(table: Table, place: Path, peers: Sequence[Peer]) -> None:
    found: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for turn in range(ROUNDS):
        for peer in peers:
            say(f"{IDLE} idle clients: {peer.name}, {turn + 1} of {ROUNDS}")
            with peer.start() as (server, url), ExitStack() as stack:
                _programs(stack, place, peer, [_load("idle", peer.kind, url, WARM)])
                before = server.rss_kib()
                _programs(stack, place, peer, [_load("idle", peer.kind, url, IDLE)])
                found[peer.name].append((server.rss_kib() - before) / IDLE)
    for name, each in found.items():
        figure = f"{statistics.median(each):.1f} KiB {_noise(each)}"
        table.add(f"{IDLE:,} idle clients, {name}: server's memory for each", figure)


# --- figures ------------------------------------------------------------------------------------------------------


def _at(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


def _all(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [each for times in rounds for each in times]


def _times(rounds: Sequence[Sequence[float]]) -> str:
    every = _all(rounds)
    return f"{_at(every, 0.5):.2f} ms {_noise([_at(times, 0.5) for times in rounds])}, {_at(every, 0.99):.2f} ms"


def _noise(rounds: Sequence[float]) -> str:
    return f"+-{(max(rounds) - min(rounds)) / 2 / statistics.median(rounds):.0%}"
