"""Table `events`: what an event costs from being sent to being handled, beside a transaction that writes the same.

No other library promises the same, so there is none to compare with. Times are processor time of all threads, rates
are by the clock on the wall.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import headwater as hw
from bench.apart import apart
from bench.store import RECORD, CountingVFS, through
from bench.table import Table

READERS: Final = 200
"""Of the hub."""
UNRELATED: Final = 100_000
EVENTS: Final = 1_000
"""In one round."""
ROUNDS: Final = 7
QUEUED: Final = 10_000
STATM: Final = Path("/proc/self/statm")


def measure(table: Table) -> None:
    """All rows: first what is counted, which is the same on every machine."""
    _hub(table)
    flat = _unrelated(table)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        _bytes(table, place)
        _memory(table)
        _rates(table, place)
        _follow_ups(table, place)
    _flatness(table, flat)


# --- preflight ----------------------------------------------------------------------------------------------------


@contextmanager
def _graph(unrelated: int = 0) -> Iterator[tuple[hw.Space, _Desk]]:
    """A handler that reads a computation which others read as well; all of them have run, and nobody looks."""
    desk = _Desk()
    others = [desk.app.cell(f"other{number}", 0) for number in range(min(unrelated, 1000))]
    computeds = [desk.app.computed(name=f"apart{n}")(_plus_one(others[n % 1000])) for n in range(unrelated)]
    with desk.app.open("memory:") as space:
        for computed in computeds:
            computed()
        desk.total()
        desk.others = others
        yield space, desk


class _Desk:
    """`source` > `hub` > 200 readers, each with a cell of its own > `total`; and handlers that read of it."""

    def __init__(self) -> None:
        self.app = app = hw.App("bench")
        self.others: list[hw.Cell[int]] = []
        self.source = source = app.cell("source", 0)
        self.knobs = knobs = [app.cell(f"knob{number}", 0) for number in range(READERS)]
        log = app.cell("log", 0)
        hub = app.computed(name="hub")(_plus_one(source))

        def reader(knob: hw.Cell[int]) -> Callable[[], int]:
            return lambda: hub() + knob.value

        readers = [app.computed(name=f"reader{n}")(reader(knob)) for n, knob in enumerate(knobs)]
        total = self.total = app.computed(name="total")(lambda: sum(each() for each in readers))

        @app.handler
        def ask_hub(number: int) -> None:
            log.value = number + hub()

        @app.handler
        def ask_total(number: int) -> None:
            log.value = number + total()

        self.ask_hub, self.ask_total = ask_hub, ask_total


def _plus_one(cell: hw.Cell[int]) -> Callable[[], int]:
    return lambda: cell.value + 1


def _visits(space: hw.Space, send: Callable[[int], object], spoil: Callable[[int], object] | None = None) -> int:
    """The most nodes that are looked at for one event. `spoil` makes something invalid before each."""
    most = 0
    for number in range(1, 51):
        if spoil is not None:
            spoil(number)
        before = space.scheduler.preflight.visits
        send(number)
        # The first one finds out what the handler reads.
        most = max(most, space.scheduler.preflight.visits - before) if number > 1 else 0
    return most


def _hub(table: Table) -> None:
    name = f"hub of {READERS} readers: nodes looked at"
    with _graph() as (space, desk):

        def turn(number: int) -> None:
            desk.knobs[7].value = number

        def above(number: int) -> None:
            desk.source.value = number

        def add(what: str, most: int) -> None:
            table.add(f"{name}, {what}", f"{most}", "< 20", most < 20)

        clean = _visits(space, desk.ask_hub.send)
        table.add(f"{name}, all clean", f"{clean}", "0", clean == 0)
        add("one of these invalid", _visits(space, desk.ask_hub.send, turn))
        add("the hub invalid", _visits(space, desk.ask_hub.send, above))
        desk.total()
        add("sum of all read, one invalid", _visits(space, desk.ask_total.send, turn))


def _unrelated(table: Table) -> list[float]:
    """The same event, alone, with one invalid reader of the hub, and beside very many that have nothing to do with it.

    Returns how long it takes.
    """
    with _graph() as (space, desk):
        alone = _visits(space, desk.ask_hub.send)
        times = [_event_us(space, desk.ask_hub.send)]
        desk.knobs[7].value += 1
        times.append(_event_us(space, desk.ask_hub.send))
    with _graph(UNRELATED) as (space, desk):
        clean = _visits(space, desk.ask_hub.send)
        times.append(_event_us(space, desk.ask_hub.send))
        for cell in desk.others:
            cell.value += 1
        dormant = _visits(space, desk.ask_hub.send)
        times.append(_event_us(space, desk.ask_hub.send))
        invalid = space.scheduler.get_stats().invalid
    title = f"{UNRELATED:,} unrelated, clean, and {invalid:,} invalid: looked at"
    table.add(title, f"{alone} alone, {clean}, {dormant}", "< 20", max(clean, dormant) < 20)
    return times


def _flatness(table: Table, times: list[float]) -> None:
    alone, reader, clean, dormant = times
    figure = f"{alone:.0f} us, {reader:.0f}: {reader / alone:.2f}x"
    table.add(f"time of one event: hub of {READERS} all clean, one invalid", figure, "<= 1.5x", reader / alone <= 1.5)
    worst = max(clean, dormant) / alone
    figure = f"{clean:.0f} us, {dormant:.0f}: {worst:.2f}x"
    table.add(f"the same beside {UNRELATED:,} unrelated, clean, invalid", figure, "<= 1.5x", worst <= 1.5)


# --- what is written ----------------------------------------------------------------------------------------------


class _Till:
    """Handlers that write one cell, and others that send on; and a transaction that writes the same."""

    def __init__(self) -> None:
        self.app = app = hw.App("bench")
        self.count = count = app.cell("count", 0)

        @app.handler
        def one(number: int) -> None:
            count.value = number

        @app.handler
        def two(number: int) -> None:
            count.value = number
            _ = one.send(number)

        self.one, self.two = one, two


def _bytes(table: Table, place: Path) -> None:
    """As in table `store`: in groups of 20, with what folding and closing write."""
    rows: dict[str, Callable[[_Till, hw.Space], Callable[[int], object]]] = {
        "a plain transaction": lambda till, space: partial(_write, space, till.count),
        "an event with one write": lambda till, _: till.one.send,
        "an event that sends another, both": lambda till, _: till.two.send,
    }
    for name, work in rows.items():
        vfs, till, events = CountingVFS(), _Till(), 5_000
        with through(vfs), till.app.open(str(place / f"{len(name)}.db")) as space:
            send = work(till, space)
            send(0)
            space.sync()
            commits, written = space.stats.seq, vfs.written
            for number in range(1, events + 1):
                send(number)
                if not number % 20:
                    space.sync()
            commits = space.stats.seq - commits
        figure = f"{commits / events:.2f} commits, {(vfs.written - written) / events:,.0f} B"
        wanted = 2 if "both" in name else 1
        table.add(f"written for {name}", figure, f"{wanted:.2f} commits", commits == wanted * events)
        vfs.unregister()


def _write(space: hw.Space, cell: hw.Cell[int], number: int) -> None:
    with space.transaction():
        cell.value = number


# --- memory -------------------------------------------------------------------------------------------------------


def _memory(table: Table) -> None:
    for name, traced in (("Python's count", True), ("the process's size", False)):
        if traced or STATM.exists():
            total = apart(120, queued_bytes, traced=traced) or 0.0
            figure = f"{total / 1e6:.1f} MB, {total / QUEUED:,.0f} B each"
            title = f"{QUEUED:,} events that wait, 12 fields each ({name})"
            table.add(title, figure, "< 200 MB", 0 < total < 200e6)


def queued_bytes(*, traced: bool) -> float:
    """What the events take that were sent and wait for their turn. In an event loop, sending handles nothing."""
    app = hw.App("bench")
    count = app.cell("count", 0)

    @app.handler
    def take(record: dict[str, object]) -> None:
        count.value = int(str(record["count"]))

    async def main() -> float:
        async with app.aopen("memory:") as space:
            before = _memory_used(traced=traced)
            for number in range(QUEUED):
                _ = take.send({**RECORD, "id": f"item:{number}", "count": number})
            used = _memory_used(traced=traced) - before
            assert space.scheduler.events.waiting == QUEUED
            return used

    return asyncio.run(main())


def _memory_used(*, traced: bool) -> int:
    gc.collect()
    if not traced:
        return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    return tracemalloc.get_traced_memory()[0]


# --- times --------------------------------------------------------------------------------------------------------


def _event_us(space: hw.Space, send: Callable[[int], object]) -> float:
    """Processor time of one event, decided: the best of some rounds."""
    best = math.inf
    number = 1_000_000
    gc.collect()
    gc.freeze()
    for _ in range(ROUNDS):
        start = time.process_time()
        for number in range(number, number + EVENTS):  # noqa: B020  # goes on where it was
            send(number)
        space.sync()
        best = min(best, (time.process_time() - start) / EVENTS * 1e6)
    gc.unfreeze()
    return best


def _rate(space: hw.Space, send: Callable[[int], object], events: int, sync: Callable[[], object]) -> float:
    """Events a second, by the clock on the wall."""
    gc.collect()
    start = time.perf_counter()
    for number in range(events):
        send(number)
    sync()
    rate = events / (time.perf_counter() - start)
    space.sync()
    return rate


def _rates(table: Table, place: Path) -> None:
    till = _Till()
    with till.app.open(str(place / "rates.db")) as space:
        plain = partial(_write, space, till.count)

        def both(sync: Callable[[], object], events: int = EVENTS) -> tuple[float, float, float]:
            pairs = [
                (_rate(space, till.one.send, events, sync), _rate(space, plain, events, sync)) for _ in range(ROUNDS)
            ]
            ratio = statistics.median(theirs / ours for ours, theirs in pairs)
            return max(ours for ours, _ in pairs), max(theirs for _, theirs in pairs), ratio

        both(space.sync)
        rate, peer, ratio = both(lambda: None)
        figure = f"{rate:,.0f}/s, transaction {peer:,.0f}/s: {ratio:.1f}x its time"
        table.add("a handler with one write, clean data, applied", figure, ">= 25,000/s", rate >= 25_000)
        rate, peer, ratio = both(space.sync)
        figure = f"{rate:,.0f}/s, transaction {peer:,.0f}/s: {ratio:.1f}x its time"
        table.add("the same, all confirmed on disk", figure, ">= 15,000/s", rate >= 15_000)

        def single(number: int) -> None:
            till.one.send(number).result()

        def synced(number: int) -> None:
            plain(number)
            space.sync()

        one = max(_rate(space, single, 200, lambda: None) for _ in range(3))
        peer = max(_rate(space, synced, 200, lambda: None) for _ in range(3))
        figure = f"{one:,.0f}/s, transaction and sync {peer:,.0f}/s: {peer / one:.1f}x its time"
        table.add("the same, one at a time: send(...).result()", figure)
    rate = asyncio.run(_async_rate(place))
    table.add("an async handler with one write, in an event loop, all confirmed", f"{rate:,.0f}/s")


async def _async_rate(place: Path) -> float:
    app = hw.App("bench")
    count = app.cell("count", 0)

    @app.handler
    async def later(number: int) -> None:
        await asyncio.sleep(0)
        count.value = number

    best = 0.0
    async with app.aopen(str(place / "async.db")) as space:
        for _ in range(3):
            start = time.perf_counter()
            for number in range(EVENTS):
                _ = later.send(number)
            await space.settled()
            best = max(best, EVENTS / (time.perf_counter() - start))
    return best


def _follow_ups(table: Table, place: Path) -> None:
    """Both halves of an event that sends another, beside two events that are sent by plain code."""
    till = _Till()
    with till.app.open(str(place / "follow.db")) as space:
        two = _event_us(space, till.two.send)
        one = _event_us(space, till.one.send)
    table.add(
        "an event that sends another, beside two that are sent", f"{two:.0f} us, {2 * one:.0f}: {two / 2 / one:.2f}x"
    )
