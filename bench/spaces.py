"""Table `spaces`: large spaces, many spaces, and what one space costs the others, at one server.

One server process on this machine, clients in other processes, over TCP. Counts come first: documents, bytes,
questions, threads and memory are the same on every machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.spaces_clients import fill
from bench.sync_kinds import SERVE, is_ready
from bench.sync_programs import Process, Program, free_port, say, served
from bench.table import Table

DOCUMENTS: Final = 100_000
OPENINGS: Final = 5
ROUNDS: Final = 3
WRITES: Final = 400
SPACES: Final = 2_000
"""As many as one token may have connections."""
PART: Final = 190
"""Spaces of one client process."""
WARM: Final = 100
"""Spaces before memory is first looked at."""
IDLE_S: Final = 8.0
"""After this, an unused space has released what it does not need."""

FIRST_S: Final = 0.15
QUESTIONS_MAX: Final = 110
HELD_MAX: Final = 6_000
TIMES_MAX: Final = 2.0
KIB_MAX: Final = 150
THREADS_MAX: Final = 16


def measure(table: Table) -> None:
    """All rows."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        say(f"a space with {DOCUMENTS:,} documents")
        fill(place / "large", DOCUMENTS)
        _large(table, place)
        _neighbors(table, place)
        _many(table, place)


@dataclass(slots=True)
class _Running:
    """A server, and how its clients are started."""

    place: Path
    server: Process
    url: str
    environment: dict[str, str]
    stack: ExitStack

    def start(self, role: str, *arguments: object) -> Program:
        """A client that is ready."""
        command = [sys.executable, "-m", "bench.spaces_clients", role, self.url, *map(str, arguments)]
        log = self.place / "spaces-clients.log"
        client = self.stack.enter_context(Program(command, environment=self.environment, log=log))
        client.ready()
        return client

    def run(self, role: str, *arguments: object) -> dict[str, Any]:
        """What a client has found."""
        client = self.start(role, *arguments)
        client.go()
        found = client.result()
        client.close()
        return found


@contextmanager
def _serving(place: Path, store: Path) -> Iterator[_Running]:
    runtime = place / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environment = {"XDG_RUNTIME_DIR": str(runtime)}
    port = free_port()
    command = [*SERVE, "--store", str(store), "--listen", f"127.0.0.1:{port}", "--log", "off"]
    with served(command, port, place / "spaces.log", environment, is_ready=is_ready) as server, ExitStack() as stack:
        yield _Running(place, server, f"ws://127.0.0.1:{port}", environment, stack)


# --- one large space ----------------------------------------------------------------------------------------------


def _large(table: Table, place: Path) -> None:
    with _serving(place, place / "large") as at:
        say("the first value of a cell")
        found = [at.run("first", "main") for _ in range(OPENINGS)]
        times = [each["seconds"] for each in found]
        best = found[0]
        name = f"first value of a cell, {DOCUMENTS:,} linked documents"
        figure = f"{best['documents']}, {best['questions']}, {best['bytes']:,} B"
        holds = best["documents"] <= 500 and best["bytes"] <= 1 << 20
        table.add(f"{name}: documents, questions, bytes", figure, "<= 500 documents, 1 MiB", holds)
        seconds = statistics.median(times)
        figure = f"{seconds:.3f} s, {statistics.median(each['cpu'] for each in found):.3f} s"
        table.add(f"{name}: time, processor of the program", figure, f"<= {FIRST_S} s", seconds <= FIRST_S)
        say("a walk over all of them")
        walk = at.run("walk", "main")
        assert walk["count"] == DOCUMENTS
        name = f"a walk over {DOCUMENTS:,} links"
        figure = f"{walk['questions']}, {walk['held']:,}"
        limit = f"<= {QUESTIONS_MAX}, {HELD_MAX:,}"
        holds = walk["questions"] <= QUESTIONS_MAX and walk["held"] <= HELD_MAX
        table.add(f"{name}: questions, documents held at most", figure, limit, holds)
        figure = f"{walk['cpu'] / DOCUMENTS * 1e6:.0f} us, {walk['kib'] / 1024:.0f} MiB"
        table.add(f"{name}: processor of the program for each; its memory after the list was read", figure)


# --- neighbors ----------------------------------------------------------------------------------------------------


def _neighbors(table: Table, place: Path) -> None:
    alone: list[float] = []
    beside: dict[str, list[float]] = {"openings": [], "hot": []}
    with _serving(place, place / "large") as at:
        for turn in range(ROUNDS):
            for kind, times in beside.items():
                say(f"a space beside {kind}, {turn + 1} of {ROUNDS}")
                alone.append(_middle(at.run("write", "small", WRITES)))
                busy = at.start(kind, "main" if kind == "openings" else "hot")
                busy.go()
                times.append(_middle(at.run("write", "small", WRITES)))
                busy.close()
    own = statistics.median(alone)
    names = {
        "openings": f"a write while another space with {DOCUMENTS:,} documents is opened again and again",
        "hot": "a write while another space gets as many writes as it takes",
    }
    for kind, times in beside.items():
        found = statistics.median(times)
        figure = f"{found:.2f} ms, {found / own:.1f} times its own {own:.2f} ms"
        table.add(f"{names[kind]}: p50", figure, f"<= {TIMES_MAX:.0f} times", found <= TIMES_MAX * own)


def _middle(found: dict[str, Any]) -> float:
    times: Sequence[float] = found["times"]
    return statistics.median(times)


# --- many spaces --------------------------------------------------------------------------------------------------


def _many(table: Table, place: Path) -> None:
    with _serving(place, place / "many") as at:
        _enter(at, "warm", WARM, IDLE_S)
        before = at.server.rss_kib()
        for number in range(WARM, SPACES, PART):
            say(f"spaces: {number + PART:,} of {SPACES:,}")
            _enter(at, f"space-{number}-", PART, IDLE_S if number + PART == SPACES else 0)
        kib = (at.server.rss_kib() - before) / (SPACES - WARM)
        threads = at.server.threads()
        name = f"{SPACES:,} spaces with a client each"
        table.add(f"{name}: memory of the server for each", f"{kib:.0f} KiB", f"<= {KIB_MAX} KiB", kib <= KIB_MAX)
        table.add(f"{name}: threads of the server", str(threads), f"<= {THREADS_MAX}", threads <= THREADS_MAX)


def _enter(at: _Running, name: str, spaces: int, idle_s: float) -> None:
    """Clients that stay."""
    client = at.start("many", name, spaces, idle_s)
    client.go()
    client.result()
