"""Two openings of one program on one file: what one called, and what failed there, decides what the other adopts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headwater as hw


class Shop:
    def __init__(self) -> None:
        self.app = app = hw.App("shop")
        self.rate = rate = app.cell("rate", 5)
        self.names = names = app.cell("names", ["a", "b"])

        @app.computed
        def per(name: str) -> int:
            return 100 * len(name) // rate.value

        @app.computed
        def total() -> int:
            return sum(per(name) for name in names.value)

        @app.computed
        def label() -> str:
            try:
                return f"in all {total()}"
            except ZeroDivisionError:
                return "no rate"

        self.seen: list[str] = []
        seen = self.seen

        @app.sink
        def show() -> None:
            seen.append(label())

        self.label = label


def settled(*spaces: Any) -> None:
    for _ in range(3):
        for space in spaces:
            space.sync()
            space.settle()


def test_both_come_to_the_same_in_either_order(tmp_path: Path) -> None:
    one, other = Shop(), Shop()
    path = tmp_path / "shop.db"
    with one.app.open(path) as first, other.app.open(path) as second:
        steps = [("rate", 0), ("rate", 5), ("names", ["a", "bb"]), ("rate", 0), ("names", ["c"]), ("rate", 10)]
        for number, (name, value) in enumerate(steps):
            writer = (one, other)[number % 2]
            home = (first, second)[number % 2]
            with home.transaction():
                getattr(writer, name).value = value
            settled(first, second)
            with home.transaction():
                rate, names = writer.rate.value, writer.names.value
            right = "no rate" if not rate else f"in all {sum(100 * len(each) // rate for each in names)}"
            assert (one.seen[-1], other.seen[-1]) == (right, right), f"after {name} = {value}"
    with Shop().app.open(path) as again:
        assert again.explain_resume().dirty == 0
