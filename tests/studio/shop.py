"""A small shop for the tests of the Studio: a graph with a shared box, a failing function, events that fail."""

from __future__ import annotations

from typing import Any, NamedTuple

import headwater as hw

ROWS = 6


class Shop(NamedTuple):
    """The app, and what the tests use of it."""

    app: hw.App
    counted: hw.Cell[int]
    add: Any


def ignore(_error: hw.UserCodeError) -> None:
    """Some functions of the shop fail on purpose."""


def make_shop() -> Shop:
    """A new app, for a file of its own."""
    app = hw.App("shop")
    count = app.cell("count", 1)
    app.cell("note", "", type=str)

    @app.computed
    def double() -> int:
        return count.value * 2

    @app.computed
    def is_big() -> bool:
        return double() > 1000

    @app.computed
    def row(number: int) -> int:
        return double() + number

    @app.computed
    def broken() -> float:
        return 1 / (count.value - count.value)

    @app.sink
    def show() -> None:
        is_big()
        for number in range(ROWS):
            row(number)

    @app.sink
    def chart() -> None:
        broken()

    @app.handler
    def add(amount: int, why: str = "asked") -> int:
        if amount > 100:
            raise ValueError(f"{amount} is too many, {why}")
        count.value += amount
        return count.value

    return Shop(app, count, add)
