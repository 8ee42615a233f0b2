"""Reading across spaces, run by run, over several openings of two files.

Each step opens two files anew. `expected` is what ran at the opening: (total, direct, with_tax), and what was shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import headwater as hw


def visit(
    folder: Path, change: Callable[..., None] | None = None
) -> tuple[tuple[int, int, int], list[tuple[int, int]]]:
    """Open both, note what ran, change something, close both."""
    prices, basket = hw.App("prices"), hw.App("basket")
    tea, milk = prices.cell("tea", 4), prices.cell("milk", 1)
    count = basket.cell("count", 3)
    shown: list[tuple[int, int]] = []

    @prices.computed
    def with_tax() -> int:
        return tea.value * 12

    @basket.computed
    def total() -> int:
        return count.value * with_tax()

    @basket.computed
    def direct() -> int:
        return milk.value + 1

    @basket.sink
    def show() -> None:
        shown.append((total(), direct()))

    with prices.open(folder / "prices.db") as far, basket.open(folder / "basket.db") as near:
        ran = (near.runs(total), near.runs(direct), far.runs(with_tax))
        if change is not None:
            change(tea, milk)
    return ran, shown


def change_alone(folder: Path, name: str, value: int) -> None:
    """While the basket sleeps."""
    prices = hw.App("prices")
    cell = prices.cell(name, 0)
    with prices.open(folder / "prices.db"):
        cell.value = value


def test_only_what_read_a_change_runs_whenever_it_was_made(tmp_path: Path) -> None:
    assert visit(tmp_path) == ((1, 1, 1), [(144, 2)])
    assert visit(tmp_path) == ((0, 0, 0), [(144, 2)])
    # Live: with_tax, total, show; and the far commit was not decided when the near function ran.
    assert visit(tmp_path, lambda tea, _: setattr(tea, "value", 5)) == ((0, 0, 0), [(144, 2), (180, 2)])
    assert visit(tmp_path) == ((0, 0, 0), [(180, 2)])
    change_alone(tmp_path, "milk", 7)
    assert visit(tmp_path) == ((0, 1, 0), [(180, 8)])
    assert visit(tmp_path) == ((0, 0, 0), [(180, 8)])
    # The far input has changed, the far function has not run: nothing in its result says so.
    change_alone(tmp_path, "tea", 9)
    assert visit(tmp_path) == ((1, 0, 1), [(324, 8)])
    assert visit(tmp_path) == ((0, 0, 0), [(324, 8)])
