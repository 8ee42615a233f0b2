"""What collections cost besides their answers: changes under sums, commits beside many spans, restarts, and counts.

The counts are the same on every machine; `tests/bench/test_collection_counts.py` holds them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final
from unittest.mock import patch

import headwater as hw
from bench.counting import calls_of, warm_up
from headwater.values.exact_sum import ExactSum
from headwater.values.sortkey import Ordered

WRITES: Final = 300
ROUNDS: Final = 5
CHANGES: Final = 2_000


class Item(hw.Doc):
    """A document of three fields, and one that no index has."""

    number: int
    state: str
    cents: int
    note: int = 0


def collection(*indexes: object) -> tuple[hw.App, hw.Collection[Item]]:
    """An app with a collection."""
    app = hw.App("shop")
    return app, app.collection(Item, indexes=list(indexes))


def insert(items: hw.Collection[Item], numbers: Iterable[int]) -> None:
    """Insert documents with these numbers."""
    items.insert_many({"number": number, "state": "open", "cents": number % 10_000} for number in numbers)


def cpu(work: Callable[[], object]) -> float:
    """Seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _mean_us(work: Callable[[], object]) -> float:
    """Microseconds of one of `WRITES` repetitions: the quickest of some rounds."""

    def repeated() -> None:
        for _ in range(WRITES):
            work()

    return min(cpu(repeated) for _ in range(ROUNDS)) / WRITES * 1e6


# --- counts -------------------------------------------------------------------------------------------------------


def calls_of_writes() -> tuple[int, int]:
    """Calls for a write of a cell: in an app without collections, and in one with."""
    found: list[int] = []
    for has_collection in (False, True):
        app = hw.App("shop")
        cell = app.cell("cell", 0)
        items = app.collection(Item, indexes=[(Item.state, Item.cents), Item.number]) if has_collection else None
        with app.open("memory:") as space:
            if items is not None:
                insert(items, range(100))

            def write(cell: hw.Cell[int] = cell, space: hw.Space = space) -> None:
                cell.value += 1
                space.sync()

            warm_up(write)
            found.append(calls_of(write))
    return found[0], found[1]


def deltas_of_a_change(count: int) -> tuple[int, int, int]:
    """Additions to the tally, runs, and documents found by statements, for one change under a sum of `count`."""
    app, items = collection(Item.cents)

    @app.computed
    def worth() -> int:
        return items.sum(Item.cents)

    with app.open("memory:") as space:
        insert(items, range(count))
        worth()
        item = items.order_by(Item.cents).first()
        assert item is not None
        item.cents = 5
        worth()
        added: list[int] = []
        original = ExactSum.add

        def adding(self: ExactSum, value: Ordered, sign: int = 1) -> None:
            added.append(sign)
            original(self, value, sign)

        before = space.runs(worth)
        with patch.object(ExactSum, "add", adding):
            item.cents = 7
            worth()
            item.note = 1
            worth()
        return added.count(1), added.count(-1), space.runs(worth) - before


def calls_of_a_page(count: int) -> int:
    """Calls for a page of 50 with one field each, in a transaction."""
    app, items = collection(Item.number)
    with app.open("memory:") as space:
        insert(items, range(count))

        def page() -> None:
            with space.transaction():
                found = items.where(Item.number >= count // 2).order_by(Item.number).limit(50)
                assert sum(1 for each in found if each.cents >= 0) == 50  # a page

        warm_up(page)
        return calls_of(page)


# --- times --------------------------------------------------------------------------------------------------------


def page_us(items: hw.Collection[Item], space: hw.Space, count: int) -> float:
    """A page of 50, one field each, in a transaction, warm."""
    rng = random.Random(3)
    firsts = [rng.randrange(count - 50) for _ in range(20)]

    def pages() -> None:
        for first in firsts:
            with space.transaction():
                sum(item.cents for item in items.where(Item.number >= first).order_by(Item.number).limit(50))

    pages()
    return min(cpu(pages) for _ in range(ROUNDS)) / len(firsts) * 1e6


def change_us(items: hw.Collection[Item], answer: Callable[[], object]) -> float:
    """One change of a member's number, and the answer after it."""
    item = items.order_by(Item.number).first()
    assert item is not None
    numbers = iter(range(-1, -(10**9), -1))

    def change() -> None:
        item.number = next(numbers)
        answer()

    warm_up(change)
    return _mean_us(change)


def pages_and_sums(place: Path, count: int) -> tuple[float, float]:
    """The times of a page, and of a change under a sum of all, with this number of documents in a file."""
    app, items = collection(Item.number)

    @app.computed
    def total() -> int:
        return items.sum(Item.number)

    with app.open(place / f"sum-{count}.db", durability="normal") as space:
        insert(items, range(count))
        page = page_us(items, space, count)
        total()
        return page, change_us(items, total)


def per_index(place: Path) -> list[float]:
    """Microseconds for a commit that moves a key in each of 0, 1, 2 and 4 indexes, folds included."""
    fields: Sequence[object] = (
        Item.cents,
        (Item.state, Item.cents),
        (Item.cents, Item.number),
        (Item.note, Item.cents),
    )
    found: list[float] = []
    for many in (0, 1, 2, 4):
        app, items = collection(*fields[:many])
        with app.open(place / f"indexes-{many}.db", durability="normal") as space:
            insert(items, range(500))
            members = list(items)

            def changes(members: list[Item] = members, space: hw.Space = space) -> None:
                for number in range(CHANGES):
                    members[number % len(members)].cents += 1
                space.sync()

            changes()
            found.append(min(cpu(changes) for _ in range(ROUNDS)) / CHANGES * 1e6)
    return found


def beside_spans(count: int) -> tuple[float, float]:
    """Microseconds of a commit that moves one key: alone, and beside so many spans that functions have read."""
    app, items = collection(Item.number)

    @app.computed
    def there(number: int) -> int:
        return items.where(Item.number == number).count()

    with app.open("memory:"):
        insert(items, range(100))
        alone = change_us(items, lambda: None)
        for number in range(count):
            there(1_000 + number)
        return alone, change_us(items, lambda: None)


def restarted(place: Path, count: int, shifts: int) -> tuple[int, float, float]:
    """Functions with spans, after many changes elsewhere while they were closed: runs, seconds to open and to ask."""
    path = place / "restart.db"

    def declared() -> tuple[hw.App, hw.Collection[Item], hw.Computed[[int], int]]:
        app, items = collection(Item.number)

        @app.computed
        def there(number: int) -> int:
            return items.where(Item.number == number).count()

        return app, items, there

    app, items, there = declared()
    with app.open(path, durability="normal"):
        insert(items, range(count))
        for number in range(count):
            there(number)
    app, items = collection(Item.number)
    with app.open(path, durability="normal"):
        insert(items, range(10**6, 10**6 + shifts))
    app, items, there = declared()
    start = time.process_time()
    with app.open(path, durability="normal") as space:
        opened = time.process_time() - start
        asked = cpu(lambda: [there(number) for number in range(count)])
        return sum(space.stats.runs.values()), opened, asked
