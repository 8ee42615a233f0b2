"""An app with handlers, as a module that commands can open, and as a process that has it open."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.open_spaces import BEGINNING, running

ORDERS = '''
import headwater as hw

app = hw.App("orders")
price = app.cell("price", 250)
limit = app.cell("limit", 10)
typed = app.cell("typed", 0)
taken = app.cell("taken", list[int]())

@app.computed
def total() -> int:
    return price.value * sum(taken.value)

@app.computed(debounce="1h")
def quiet() -> int:
    return typed.value

@app.sink
def watch() -> None:
    quiet()

@app.handler
def submit(note: str, amount: int = 1) -> int:
    """Fails if somebody wants too many."""
    print(f"a handler prints {note[:20]}\\n", end="")
    if amount > limit.value:
        raise ValueError(f"{amount} is too many")
    taken.value = [*taken.value, amount]
    return total()

@app.handler
def finish() -> int:
    """Waits for an hour if something was typed."""
    return quiet()

clicks = app.stream("clicks", dict[str, int])

@app.handler(on=clicks)
def count(click: dict[str, int]) -> int:
    return sum(click.values())
'''
"""The module `orders`."""

STAYING = (
    BEGINNING
    + """
from orders import *
with app.open(sys.argv[1], on_error=lambda _: None) as space:
    ready()
    for line in sys.stdin:
        exec(line)
        ready("done")
"""
)
"""Has it open until its input ends, and does what it is told there."""

ASYNC = """
import asyncio
import headwater as hw

app = hw.App("orders")
taken = app.cell("taken", list[int]())

@app.handler
async def submit(amount: int) -> int:
    await asyncio.sleep(0)
    if amount < 0:
        raise ValueError("less than nothing")
    taken.value = [*taken.value, amount]
    return sum(taken.value)
"""

ASYNC_STAYING = (
    BEGINNING
    + """
import asyncio
from orders import *
async def main():
    async with app.aopen(sys.argv[1], on_error=lambda _: None):
        ready()
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""
)


def write_module(source: str = ORDERS) -> None:
    """Put `orders.py` into the current folder."""
    Path("orders.py").write_text(source, encoding="utf-8")


@contextmanager
def orders_open(url: str = "orders.db") -> Iterator[subprocess.Popen[str]]:
    """A process that has it open. It is killed in the end, if it has not ended."""
    write_module()
    with running(STAYING, url) as process:
        yield process


def have(process: subprocess.Popen[str], code: str) -> None:
    """Let it do that, and wait until it has."""
    assert process.stdin is not None
    process.stdin.write(f"{code}\n")
    process.stdin.flush()
    said = iter(lambda: process.stdout.readline().strip() if process.stdout else "done", "done")
    for line in said:
        assert line.startswith("a handler prints"), line
