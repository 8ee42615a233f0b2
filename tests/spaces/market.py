"""Two apps: the functions of `shop` use what belongs to `stock`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import headwater as hw


class Market:
    """`stock` has tea and its value; `shop` sells it, and shows both."""

    def __init__(self, path: Path) -> None:
        self.url = str(path / "market.db")
        self.stock, self.shop = hw.App("stock"), hw.App("shop")
        tea = self.tea = self.stock.cell("tea", 10)
        sold = self.sold = self.shop.cell("sold", 0)
        shown = self.shown = list[tuple[int, int]]()
        self.errors: list[hw.UserCodeError] = []

        @self.stock.computed
        def value() -> int:
            return tea.value * 4

        @self.stock.computed
        def row(number: int) -> int:
            return tea.value + number

        @self.shop.computed
        def total() -> int:
            return value() + sold.value

        @self.shop.sink
        def show() -> None:
            shown.append((value(), sold.value))

        @self.shop.handler
        def sell(n: int) -> None:
            tea.value -= n
            sold.value += n
            if n > 5:
                message = "too much"
                raise ValueError(message)

        @self.stock.handler
        def refill(n: int) -> int:
            tea.value += n
            return tea.value

        self.value, self.row, self.total, self.show, self.sell, self.refill = value, row, total, show, sell, refill

    def openings(self, **options: Any) -> tuple[Any, Any]:
        return self.stock.opening(self.url, **options), self.shop.opening(self.url, **options)

    def together(self, **options: Any) -> Any:
        return hw.together(*self.openings(**options))


def in_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await work()

    asyncio.run(main())
