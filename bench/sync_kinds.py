"""The servers of table `sync`, each with the programs that are its clients: a relay, y-websocket, Headwater.

Must never know: what is measured.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import urlopen

from bench.sync_programs import Process, Program, free_port, node_folder, served
from bench.sync_speech import UPDATES

WRITES: Final = 120
GAP_MS: Final = 8
SENT: Final = {1: 200, 64: 1500}
"""Messages of the one writer: how many are under way at a time, and how many there are."""
WRITERS: Final = 10
OPS: Final = 150
CHANGES: Final = 20
"""Of the input of functions."""
SERVE: Final = (sys.executable, "-m", "headwater", "serve")


@dataclass(frozen=True, slots=True)
class Counts:
    """What a server has done so far."""

    commits: float
    groups: float
    frames: float
    bytes: float

    def since(self, before: Counts) -> Counts:
        """What was done after that."""
        return Counts(
            self.commits - before.commits,
            self.groups - before.groups,
            self.frames - before.frames,
            self.bytes - before.bytes,
        )


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
    runtime: Callable[[str], Sequence[str]] | None = None
    """A program with functions, and the one that writes their input; None if clients of this server have none."""
    outsider: Callable[[str, int], Sequence[str]] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    work: dict[tuple[str, int], list[Counts]] = field(default_factory=dict)
    """What the server itself has counted, of each round that is named, and how many listen; nothing if it does not."""
    counts: Callable[[str], Counts] | None = None

    @contextmanager
    def counting(self, name: str, listeners: int, url: str) -> Iterator[None]:
        """Let the server count what is done meanwhile."""
        before = self.counts(url) if self.counts is not None else None
        yield
        if self.counts is not None and before is not None:
            self.work.setdefault((name, listeners), []).append(self.counts(url).since(before))


def started(stack: ExitStack, place: Path, peer: Peer, commands: Sequence[Sequence[str]]) -> list[Program]:
    """All started, then each once it is ready."""
    log = place / f"{peer.kind}-clients.log"
    all_of_them = [stack.enter_context(Program(each, environment=peer.environment, log=log)) for each in commands]
    for each in all_of_them:
        each.ready()
    return all_of_them


def peers_at(place: Path) -> list[Peer]:
    folder = node_folder()
    return [relay(place), *([y_websocket(place, folder)] if folder else []), headwater(place)]


def load(role: str, kind: str, url: str, *numbers: int) -> list[str]:
    return [sys.executable, "-m", "bench.sync_load", role, kind, url, *map(str, numbers)]


def _shared(writers: int) -> list[tuple[int, int]]:
    """Who is first, and how many: two programs have half of them each."""
    half = writers // 2
    return [(0, half), (half, writers - half)]


def relay(place: Path) -> Peer:
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
        lambda url: load("stamps", "relay", url, WRITES),
        lambda url: load("stamping", "relay", url, WRITES, GAP_MS),
    )


def y_websocket(place: Path, folder: Path) -> Peer:
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


def headwater(place: Path) -> Peer:
    # Where the server leaves its token: not where this user's other servers do.
    runtime = place / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environment = {"XDG_RUNTIME_DIR": str(runtime)}

    @contextmanager
    def start() -> Iterator[tuple[Process, str]]:
        port = free_port()
        store = tempfile.mkdtemp(prefix="store-", dir=place)
        command = [*SERVE, "--store", store, "--listen", f"127.0.0.1:{port}"]
        with served(command, port, place / "headwater.log", environment, is_ready=is_ready) as server:
            url = f"ws://127.0.0.1:{port}/room"
            with ExitStack() as stack:
                for each in started(stack, place, peer, [load("prepare", "headwater", url)]):
                    each.go()
                    each.result()
            yield server, url

    def program(role: str, url: str, *numbers: int) -> list[str]:
        return [sys.executable, "-m", "bench.sync_clients", role, url, *map(str, numbers)]

    peer = Peer(
        "headwater",
        "headwater",
        start,
        lambda url: program("reader", url, WRITES),
        lambda url: program("writer", url, WRITES, GAP_MS),
        lambda url: [program("one_of_many", url, who, OPS) for who in range(WRITERS)],
        lambda url: program("runtime", url, CHANGES),
        lambda url, gap_ms: program("outsider", url, CHANGES, gap_ms),
        environment,
        counts=_counted,
    )
    return peer


def is_ready(port: int) -> bool:
    """It listens before it has left the token for programs of this user."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _counted(url: str) -> Counts:
    """From the server's own page of numbers."""
    parts = urlsplit(url)
    with urlopen(f"http://{parts.netloc}/metrics", timeout=10) as page:
        lines = [line.rpartition(" ") for line in page.read().decode().splitlines() if not line.startswith("#")]
    found = {name: float(value) for name, _, value in lines}
    out = '{direction="out"}'
    return Counts(
        found["headwater_commits_total"],
        found["headwater_groups_total"],
        found[f"headwater_frames_total{out}"],
        found[f"headwater_bytes_total{out}"],
    )


def light_writers(kind: str, url: str) -> list[list[str]]:
    return [load("writers", kind, url, first, count, OPS) for first, count in _shared(WRITERS)]
