"""Headwater's own programs of table `sync`, each a process: a reader, a writer, one of many writers, one of several
runtimes with the same functions, and an outsider that writes their input.

`python -m bench.sync_clients ROLE URL NUMBERS...`, started by `bench.sync_programs` as the light clients are.

Must never know: how a server is spoken to.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import headwater as hw
from headwater.errors import ConflictError

app = hw.App("bench")
board = app.cell("board", dict[str, float]())
shop = hw.App("shop")
price = shop.cell("price", 0)
COMPUTED: Final = ("double", "plus", "left", "right", "both")


def _go() -> float:
    print("ready", flush=True)
    sys.stdin.readline()
    return time.monotonic()


def reader(url: str, numbers: Sequence[int]) -> dict[str, object]:
    """COUNT: how many milliseconds ago what is there was written."""
    [count] = numbers
    return asyncio.run(_read(url, count))


async def _read(url: str, count: int) -> dict[str, object]:
    times: list[float] = []
    last, done = 0.0, asyncio.Event()

    @app.sink
    def seen() -> None:
        nonlocal last
        at = board.value.get("at", 0.0)
        if at != last:
            times.append((time.monotonic() - at) * 1e3)
            last = at
            if at < 0:
                done.set()

    async with app.aopen(url) as space:
        await space.settle()
        await asyncio.to_thread(_go)
        await done.wait()
    # The last one says only that it is the last.
    return {"times": times[:-1], "missed": count - (len(times) - 1)}


def writer(url: str, numbers: Sequence[int]) -> dict[str, object]:
    """COUNT GAP_MS: write the time, wait until it is on disk, and some more."""
    count, gap_ms = numbers
    times: list[float] = []
    with app.open(url) as space:
        board.key("at").value = 0.0
        space.sync()
        _go()
        for _ in range(count):
            start = time.monotonic()
            board.key("at").value = start
            space.sync()
            times.append((time.monotonic() - start) * 1e3)
            time.sleep(gap_ms / 1e3)
        board.key("at").value = -1.0
        space.sync()
    return {"times": times}


def one_of_many(url: str, numbers: Sequence[int]) -> dict[str, object]:
    """WHO COUNT: write a key of one's own, the next time when the last is on disk."""
    who, count = numbers
    key, conflicts = f"w{who}", 0
    with app.open(url) as space:
        mine = board.key(key)
        mine.value = -1
        space.sync()
        begun = _go()
        for number in range(count):
            try:
                mine.value = number
                space.sync()
            except ConflictError:
                conflicts += 1
        ended = time.monotonic()
        rejected = space.stats.rejected
    return {"begun": begun, "ended": ended, "ops": count, "conflicts": conflicts, "rejected": rejected}


def runtime(url: str, numbers: Sequence[int]) -> dict[str, object]:
    """LAST: keep a chain and a diamond current until the input is the last, and say how often each function ran."""
    [last] = numbers
    return asyncio.run(_keep_current(url, last))


async def _keep_current(url: str, last: int) -> dict[str, object]:
    shown, done = 0, asyncio.Event()

    @shop.computed
    def double() -> int:
        return price.value * 2

    @shop.computed
    def plus() -> int:
        return double() + 1

    @shop.computed
    def left() -> int:
        return price.value + 3

    @shop.computed
    def right() -> int:
        return price.value + 5

    @shop.computed
    def both() -> int:
        return left() * right()

    @shop.sink
    def show() -> None:
        nonlocal shown
        shown += 1
        if (plus(), both()) == (2 * last + 1, (last + 3) * (last + 5)):
            done.set()

    async with shop.aopen(url) as space:
        await space.settle()
        await space.synced()
        nodes = {node.name: node for node in space.nodes.values()}
        before, begun = {name: nodes[name].runs for name in COMPUTED}, shown
        await asyncio.to_thread(_go)
        await done.wait()
        await space.synced()
        runs = [nodes[name].runs - before[name] for name in COMPUTED]
        adopted, rejected = sum(nodes[name].rare.adopted for name in COMPUTED), space.stats.rejected
    return {"runs": runs, "adopted": adopted, "rejected": rejected, "shown": shown - begun}


def outsider(url: str, numbers: Sequence[int]) -> dict[str, object]:
    """LAST GAP_MS: write the input of the functions so often, with so much time between."""
    last, gap_ms = numbers
    with hw.App("office").open(url) as space:
        cell = space.cell("shop.price", int)
        _go()
        for number in range(1, last + 1):
            cell.value = number
            time.sleep(gap_ms / 1e3)
        space.sync()
    return {}


ROLES: Final[dict[str, Callable[[str, Sequence[int]], object]]] = {
    each.__name__: each for each in (reader, writer, one_of_many, runtime, outsider)
}


def main() -> None:
    """One role, once."""
    role, url, *numbers = sys.argv[1:]
    print(json.dumps(ROLES[role](url, [int(each) for each in numbers])), flush=True)


if __name__ == "__main__":
    main()
