"""Table `sync`: what sharing costs, beside a relay that keeps nothing and beside y-websocket, which keeps it in memory.

One server process on this machine, clients in other processes, all over TCP. Rows of programs have real clients at both
ends; rows of light clients (`bench.sync_load`) have many connections in one process, so that the server is what is
measured. Servers take turns, figures are medians of rounds, and `+-` is half of how far the rounds lie apart.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.sync_kinds import CHANGES, GAP_MS, SENT, WRITERS, WRITES, Peer, light_writers, load, peers_at, started
from bench.sync_programs import say
from bench.table import Table
from headwater.host.space_files import open_space
from headwater.store.commit import SetDoc
from headwater.values.address import doc_key
from headwater.values.tree import freeze

ROUNDS: Final = 3
READERS: Final = 100
ALONE: Final = 500
"""Messages of a light client that waits for each, with nobody else connected."""
IDLE: Final = 1000
WARM: Final = 20
"""Connections before memory is first looked at: what the first few need is not needed again."""
SYNCS: Final = 100
RUNTIMES: Final = 8
RUNTIME_GAPS_MS: Final = {"a change when the last is over": 40, "a change each millisecond": 1, "all at once": 0}


def measure(table: Table) -> None:
    """All rows."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        peers = peers_at(place)
        _latency(table, place, peers, Disk(place))
        _answers(table, place, peers)
        _fan_out(table, place, peers)
        _writers(table, place, peers)
        _runtimes(table, place, peers)
        _idle(table, place, peers)
        _work(table, peers)


# --- the disk -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Disk:
    """What it takes, in milliseconds: in turn with what is compared with it, and as often, for it has moods."""

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
                time.sleep(GAP_MS / 1e3)
        return times

    def show(self, table: Table) -> None:
        """Add the rows."""
        table.add("fdatasync of 4 KB: p50, p99", _times(self.syncs))
        table.add("a group of one commit, on disk: p50, p99", _times(self.groups))


# --- from a writer to a reader ------------------------------------------------------------------------------------


def _latency(table: Table, place: Path, peers: Sequence[Peer], disk: Disk) -> None:
    seen: dict[str, list[list[float]]] = {peer.name: [] for peer in peers}
    told: list[list[float]] = []
    missed = 0
    for turn in range(ROUNDS):
        for peer in peers:
            if peer.name == "headwater":
                disk.round()
            say(f"from a writer to a reader: {peer.name}, {turn + 1} of {ROUNDS}")
            reader, writer = _stamped(peer, place)
            seen[peer.name].append(reader["times"])
            missed += reader.get("missed", 0)
            if "times" in writer:
                told.append(writer["times"])
    disk.show(table)
    for name, rounds in seen.items():
        limit, holds = "", None
        if name == "headwater" and "y-websocket" in seen:
            ours, theirs, groups = (
                [_at(times, 0.5) for times in each] for each in (rounds, seen["y-websocket"], disk.groups)
            )
            most = [2 * half + group for half, group in zip(theirs, groups, strict=True)]
            # Each round is held against its own: the machine's moods hit all three.
            over = statistics.median(mine - allowed for mine, allowed in zip(ours, most, strict=True))
            limit = f"p50 <= 2x y-websocket + a group: {statistics.median(most):.2f} ms, by {over:+.2f} ms"
            if max(groups) <= 2 * min(groups):
                holds = over <= 0
            else:
                limit += "; not judged, for others use the disk"
        table.add(f"a write until another program has seen it, {name}: p50, p99", _times(rounds), limit, holds)
    if "y-websocket" in seen:
        mine, other = ([_at(times, 0.5) for times in seen[name]] for name in ("headwater", "y-websocket"))
        _ratio(table, "a write until another program has seen it", mine, other, "goal: <= 1.6x, with the disk in it")
    if told:
        table.add("a write until the writer knows that it is on disk, headwater: p50, p99", _times(told))
        of_all = f"{missed} of {ROUNDS * WRITES}"
        table.add("writes that the reader saw only together with the next one, headwater", of_all)


def _stamped(peer: Peer, place: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the reader and the writer have to say: milliseconds from before each write."""
    with peer.start() as (_, url), ExitStack() as stack:
        reader, writer = started(stack, place, peer, [peer.reader(url), peer.writer(url)])
        with peer.counting("one program writes, one reads", 2, url):
            reader.go()
            writer.go()
            return reader.result(), writer.result()


def _answers(table: Table, place: Path, peers: Sequence[Peer]) -> None:
    """What is left without programs at the ends: the server's part, and two ways through the kernel."""
    found: dict[str, list[tuple[float, float]]] = {peer.name: [] for peer in peers}
    for turn in range(ROUNDS):
        for peer in peers:
            say(f"one light client: {peer.name}, {turn + 1} of {ROUNDS}")
            with peer.start() as (server, url), ExitStack() as stack:
                [writer] = started(stack, place, peer, [load("writer", peer.kind, url, ALONE, 1)])
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
            load("readers", peer.kind, url, READERS, messages),
            load("writer", peer.kind, url, messages, window),
        ]
        readers, writer = started(stack, place, peer, commands)
        with peer.counting(f"one writer, {window} under way, {READERS} readers", READERS + 1, url):
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

    def add(self, name: str, peer: Peer, place: Path, commands: Callable[[str], Sequence[Sequence[str]]]) -> None:
        """One round. Each write is waited for by whoever wrote it; what was taken back is a conflict, too."""
        with peer.start() as (_, url), ExitStack() as stack:
            programs = started(stack, place, peer, commands(url))
            with peer.counting(name, WRITERS, url):
                for each in programs:
                    each.go()
                results = [each.result() for each in programs]
        ops = sum(each["ops"] for each in results)
        self.rates.append(ops / (max(each["ended"] for each in results) - min(each["begun"] for each in results)))
        self.conflicts += sum(each.get("conflicts", 0) + each.get("rejected", 0) for each in results)
        if "frames" in results[0]:
            self.frames = sum(each["frames"] for each in results) / sum(each["told"] for each in results)


def _writers(table: Table, place: Path, peers: Sequence[Peer]) -> None:
    light, programs = ({peer.name: _Many() for peer in peers} for _ in range(2))
    for turn in range(ROUNDS):
        for peer in peers:
            say(f"{WRITERS} writers: {peer.name}, {turn + 1} of {ROUNDS}")
            light[peer.name].add(f"{WRITERS} writers, light clients", peer, place, partial(light_writers, peer.kind))
            if peer.writers is not None:
                programs[peer.name].add(f"{WRITERS} writers, programs", peer, place, peer.writers)
    for title, found in (("light clients", light), ("programs", programs)):
        for name, many in found.items():
            if many.rates:
                figure = f"{statistics.median(many.rates):,.0f}/s {_noise(many.rates)}, {many.conflicts}"
                limit, holds = ("0 conflicts", many.conflicts == 0) if name == "headwater" else ("", None)
                table.add(f"{WRITERS} writers, a key each, {title}, {name}: writes, conflicts", figure, limit, holds)
    if "y-websocket" in programs:
        ours, theirs = programs["headwater"].rates, programs["y-websocket"].rates
        _ratio(table, f"{WRITERS} writers, a key each, programs: writes", ours, theirs, "goal: >= 1.2x")
    for name, many in light.items():
        table.add(f"the same, light clients, {name}: frames for a write told to one", f"{many.frames:.2f}")


# --- several runtimes with the same functions -----------------------------------------------------------------------


def _runtimes(table: Table, place: Path, peers: Sequence[Peer]) -> None:
    """Counts: an outsider writes what all of them read. Figures are for one change."""
    for title, gap_ms in RUNTIME_GAPS_MS.items():
        for peer in peers:
            if peer.runtime is None or peer.outsider is None:
                continue
            say(f"{RUNTIMES} runtimes, an outsider writes the input, {title}")
            with peer.start() as (_, url), ExitStack() as stack:
                commands = [peer.runtime(url)] * RUNTIMES + [peer.outsider(url, gap_ms)]
                programs = started(stack, place, peer, commands)
                for each in programs:
                    each.go()
                results = [each.result() for each in programs[:-1]]
            runs = [sum(each) for each in zip(*(result["runs"] for result in results), strict=True)]
            adopted, rejected, shown = (
                sum(each[what] for each in results) for what in ("adopted", "rejected", "shown")
            )
            figure = f"{max(runs) / CHANGES:.1f}, {adopted / CHANGES:.1f}, {rejected / CHANGES:.1f}"
            limit = f"<= {RUNTIMES + 1} runs, and <= {shown / CHANGES:.1f}, the states shown"
            holds = max(runs) <= min((RUNTIMES + 1) * CHANGES, shown)
            row = (
                f"{RUNTIMES} runtimes, an outsider writes, {title}, {peer.name}: runs of a function, adopted, rejected"
            )
            table.add(row, figure, limit, holds)


# --- nobody says anything -----------------------------------------------------------------------------------------


def _idle(table: Table, place: Path, peers: Sequence[Peer]) -> None:
    found: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for turn in range(ROUNDS):
        for peer in peers:
            say(f"{IDLE} idle clients: {peer.name}, {turn + 1} of {ROUNDS}")
            with peer.start() as (server, url), ExitStack() as stack:
                started(stack, place, peer, [load("idle", peer.kind, url, WARM)])
                before = server.rss_kib()
                started(stack, place, peer, [load("idle", peer.kind, url, IDLE)])
                found[peer.name].append((server.rss_kib() - before) / IDLE)
    for name, each in found.items():
        figure = f"{statistics.median(each):.1f} KiB {_noise(each)}"
        table.add(f"{IDLE:,} idle clients, {name}: server's memory for each", figure)


# --- what the server has counted ----------------------------------------------------------------------------------


def _work(table: Table, peers: Sequence[Peer]) -> None:
    for peer in peers:
        for (name, listeners), rounds in peer.work.items():
            commits, groups, frames, size = (
                sum(getattr(each, what) for each in rounds) for what in ("commits", "groups", "frames", "bytes")
            )
            figure = f"{groups / commits:.2f}, {frames / commits:.1f}, {size / frames:.0f} B"
            # A frame more now and then: what was asked for before anything was written.
            holds = groups <= commits and frames <= 1.02 * listeners * commits
            row = f"{name}, {peer.name}: fsyncs, frames of a commit; bytes of a frame"
            table.add(row, figure, f"<= 1, {listeners}", holds)


# --- figures ------------------------------------------------------------------------------------------------------


def _at(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


def _all(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [each for times in rounds for each in times]


def _times(rounds: Sequence[Sequence[float]]) -> str:
    every = _all(rounds)
    return f"{_at(every, 0.5):.2f} ms {_noise([_at(times, 0.5) for times in rounds])}, {_at(every, 0.99):.2f} ms"


def _ratio(table: Table, what: str, ours: Sequence[float], theirs: Sequence[float], goal: str) -> None:
    """Each round over its own. Not judged: what others do to the disk is in ours, and not in theirs."""
    found = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    table.add(f"{what}, headwater over y-websocket", f"{statistics.median(found):.2f}x {_noise(found)}", goal)


def _noise(rounds: Sequence[float]) -> str:
    return f"+-{(max(rounds) - min(rounds)) / 2 / statistics.median(rounds):.0%}"
