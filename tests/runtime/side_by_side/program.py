"""A chain and a diamond with a sink each: the program that several runtimes have open. Run by itself, it is one.

As a process it reads lines: `set N` changes the input, `see N` waits for that, `end` is the end. After each it says
what it has run and adopted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from pathlib import Path

import headwater as hw
from headwater.server.server import Server

COMPUTED = ("double", "plus", "left", "right", "both")
SINKS = ("show_chain", "show_diamond")
ROWS = 1 + len(COMPUTED)
"""Of the log, for one change of the input: the input, and each result once."""
WAIT_S = 120.0


class Shop:
    """One runtime."""

    def __init__(self) -> None:
        app = self.app = hw.App("shop")
        price = self.price = app.cell("price", 1)
        self.shown: dict[str, int] = {}

        @app.computed
        def double() -> int:
            return price.value * 2

        @app.computed
        def plus() -> int:
            return double() + 1

        @app.computed
        def left() -> int:
            return price.value + 3

        @app.computed
        def right() -> int:
            return price.value + 5

        @app.computed
        def both() -> int:
            return left() * right()

        @app.sink
        def show_chain() -> None:
            self.shown["chain"] = plus()

        @app.sink
        def show_diamond() -> None:
            self.shown["diamond"] = both()

        self.space: hw.Space | None = None

    def open(self, url: str | Path) -> hw.Space:
        self.space = self.app.open(url)
        return self.space

    @property
    def opened(self) -> hw.Space:
        assert self.space is not None
        return self.space

    def runs(self) -> dict[str, int]:
        """How often each function has run."""
        return {node.name: node.runs for node in self.opened.nodes.values()}

    def adopted(self) -> int:
        """How often a run of another stood for one here."""
        return sum(node.rare.adopted for node in self.opened.nodes.values())

    def is_right(self, price: int) -> bool:
        """What is shown here is what is to be shown."""
        return self.shown == {"chain": price * 2 + 1, "diamond": (price + 3) * (price + 5)}

    def settle_until(self, price: int) -> None:
        """Take in what comes, and run, until the right thing is shown and all that was written is decided."""
        end = time.monotonic() + WAIT_S
        while not self.is_right(price) or self.opened._opening.replica.pending_count:
            assert time.monotonic() < end, f"{self.shown} is shown at {price}; {self.opened.connection}"
            self.opened.settle()
            threading.Event().wait(0.002)


def rows_of(server: Server, space: str = "shop") -> int:
    """Of the log."""
    assert server.spaces is not None
    return server.spaces.channels[space].storage.call(lambda engine: int(engine.head))


def serve_lines(url: str) -> None:
    """One process: runs what follows from what it hears, and does what it is told."""
    shop = Shop()
    told: deque[str] = deque()

    def listen() -> None:
        for line in sys.stdin:
            told.append(line.strip())
        told.append("end")

    with shop.open(url) as space:
        threading.Thread(target=listen, daemon=True).start()
        print(json.dumps({"ready": True}), flush=True)
        while True:
            space.settle()
            if not told:
                threading.Event().wait(0.002)
                continue
            word, _, price = told.popleft().partition(" ")
            if word == "end":
                return
            if word == "set":
                shop.price.value = int(price)
            shop.settle_until(int(price))
            print(json.dumps({"runs": shop.runs(), "adopted": shop.adopted()}), flush=True)


if __name__ == "__main__":
    serve_lines(sys.argv[1])
