"""A process to kill: writes numbers, each of which is asked for outside; and outside says which numbers it was asked.

Usage: askers_to_kill.py PATH plain|async DURABILITY

What is printed is printed by the resource itself: whoever reads it stands outside.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import cast

import headwater as hw
from headwater.store.backends.sqlite_file import Durability

app = hw.App("asker")
number = app.cell("number", 0)


@app.resource
async def square(of: int) -> int:
    sys.stdout.write(f"{of}\n")
    sys.stdout.flush()
    return of * of


@app.sink
def show() -> None:
    if number.value:
        square(number.value)


def plain(path: str, durability: Durability) -> None:
    with app.open(path, durability=durability) as space:
        while True:
            number.value += 1
            before = space.runs(square)
            while space.runs(square) == before:
                time.sleep(0.0005)


async def in_a_loop(path: str, durability: Durability) -> None:
    async with app.aopen(path, durability=durability) as space:
        while True:
            number.value += 1
            await space.settle()


if __name__ == "__main__":
    where, how, durable = sys.argv[1:]
    durability = cast("Durability", durable)
    if how == "plain":
        plain(where, durability)
    else:
        asyncio.run(in_a_loop(where, durability))
