"""Table `collections`: documents of one class in a file, beside sqlite3, SQLAlchemy and TinyDB in the same run.

Counts come first: visits, runs and statements are the same on every machine. Times are of this process's CPU.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Final
from unittest.mock import patch

import headwater as hw
from bench import collections_costs
from bench.peers.tables import Mapper, Peer, Row, Sqlite, Tiny
from bench.table import Table
from headwater.store.backends.sqlite import SqliteBackend
from headwater.values.ranges import RangeIndex
from headwater.values.sortkey import AFTER, encode_field

FULL: Final = 100_000
QUICK: Final = 10_000
SPANS: Final = 100_000
STATES: Final = ("open", "paid", "sent", "lost", "back", "done")
VISITS_MAX: Final = 20
STATEMENTS_MAX: Final = 2.0
"""Per thousand bodies, after the first thousand: one for the bodies, one for the keys."""
PAGES: Final = 50


class Order(hw.Doc):
    """Three fields, as a row of the others has."""

    number: int
    state: str
    cents: int


def measure(table: Table) -> None:
    """All rows."""
    _measure(table, FULL)


def measure_quickly(table: Table) -> None:
    """A tenth of the documents."""
    _measure(table, QUICK)


def _measure(table: Table, number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        _visits(table)
        _statements(table, place)
        _runs(table)
        _beside(table, place, number)
        _costs(table, place, number)


def _shop(*indexes: object) -> tuple[hw.App, hw.Collection[Order]]:
    app = hw.App("shop")
    return app, app.collection(Order, indexes=list(indexes))


def _rows(number: int) -> list[Row]:
    rng = random.Random(7)
    return [(each, STATES[each % len(STATES)], rng.randrange(10_000)) for each in range(number)]


def _insert(orders: hw.Collection[Order], rows: Sequence[Row]) -> None:
    orders.insert_many({"number": number, "state": state, "cents": cents} for number, state, cents in rows)


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


# --- counts -------------------------------------------------------------------------------------------------------


def _visits(table: Table) -> None:
    """A key against the spans of others: files and hits looked at."""
    for name, width in (("one value each", 1), ("fifty values each", 50)):
        index: RangeIndex[int] = RangeIndex()
        for reader in range(SPANS):
            lo = encode_field(reader * 10)
            index.add(lo, lo + AFTER if width == 1 else encode_field(reader * 10 + width), reader)
        worst = 0
        for value in range(5, SPANS * 10, 9973):
            before = index.visits
            index.match([encode_field(value) + b"end"])
            worst = max(worst, index.visits - before)
        holds = worst <= VISITS_MAX
        table.add(f"visits for a moved key, {SPANS:,} spans: {name}", f"{worst}", f"<= {VISITS_MAX}", holds)


def _statements(table: Table, place: Path) -> None:
    """Statements of a cold pass over the bodies of all documents."""
    asked: list[int] = []
    for number in (1_000, 5_000):
        path = place / f"statements-{number}.db"
        app, orders = _shop(Order.number)
        with app.open(path, durability="normal"):
            _insert(orders, _rows(number))
        app, orders = _shop(Order.number)
        with app.open(path):
            asked.append(_asked(orders.order_by(Order.number).values, Order.number, Order.state))
    more = (asked[1] - asked[0]) / 4
    holds = more <= STATEMENTS_MAX
    table.add("statements per 1,000 documents, cold values()", f"{more:.2f}", f"<= {STATEMENTS_MAX:g}", holds)


def _asked(work: Callable[..., object], *args: object) -> int:
    """The queries that a piece of work asks of the database."""
    original, counted = SqliteBackend._read, count()

    def counting(self: SqliteBackend, query: str, values: Sequence[object] = ()) -> object:
        next(counted)
        return original(self, query, values)

    with patch.object(SqliteBackend, "_read", counting):
        work(*args)
    return next(counted)


def _runs(table: Table) -> None:
    """Runs of functions that read a collection, for one change each."""
    app, orders = _shop((Order.state, Order.cents), Order.number)

    @app.computed
    def worth() -> int:
        return int(orders.where(Order.state == "open").sum(Order.cents))

    @app.computed
    def first() -> list[int]:
        return [order.number for order in orders.order_by(Order.number).limit(50)]

    with app.open("memory:") as space:
        _insert(orders, _rows(3_000))
        worth(), first()

        def runs_of(name: str, change: Callable[[], object], limits: tuple[int, int]) -> None:
            before = space.runs(worth), space.runs(first)
            change()
            worth(), first()
            found = space.runs(worth) - before[0], space.runs(first) - before[1]
            table.add(
                f"runs of sum, page: {name}", f"{found[0]}, {found[1]}", f"{limits[0]}, {limits[1]}", found == limits
            )

        paid = next(iter(orders.where(Order.number == 2_001 - 2_001 % 6 + 1)))
        opened = next(iter(orders.where(Order.number == 2_400)))

        def set_cents(order: Order, cents: int) -> None:
            order.cents = cents

        runs_of("a change outside of both", lambda: set_cents(paid, 3), (0, 0))
        runs_of("a member of the sum changes", lambda: set_cents(opened, 12_345), (1, 0))
        runs_of("an insert behind the page", lambda: _insert(orders, [(9_000, "paid", 1)]), (0, 0))


def _costs(table: Table, place: Path, number: int) -> None:
    """What collections cost besides their answers."""
    without, beside = collections_costs.calls_of_writes()
    table.add("calls for a write of no collection: without collections, with one", f"{without}, {beside}")
    added, taken, runs = collections_costs.deltas_of_a_change(5_000)
    holds = (added, taken, runs) == (1, 1, 1)
    table.add(
        "values in, values out, runs: one change under a sum of 5,000", f"{added}, {taken}, {runs}", "1, 1, 1", holds
    )
    calls = [collections_costs.calls_of_a_page(count) for count in (1_000, 10_000)]
    table.add("calls for a page of 50: of 1,000, of 10,000", f"{calls[0]:,}, {calls[1]:,}")
    small, large = number // 100, number * 10
    pages, changes = zip(*[collections_costs.pages_and_sums(place, count) for count in (small, large)], strict=True)
    ratio = pages[1] / pages[0]
    table.add(
        f"page of 50 in a transaction: of {small:,}, of {large:,}", f"{pages[0]:.0f}, {pages[1]:.0f} us ({ratio:.2f} x)"
    )
    table.add(f"a change under a sum: of {small:,}, of {large:,}", f"{changes[0]:.0f}, {changes[1]:.0f} us")
    found = collections_costs.per_index(place)
    each = (found[-1] - found[0]) / 4
    table.add(
        "commit that moves keys in 0, 1, 2, 4 indexes", f"{', '.join(f'{us:.0f}' for us in found)} us ({each:.1f} each)"
    )
    alone, many = collections_costs.beside_spans(number // 5)
    table.add(f"commit that moves a key: alone, beside {number // 5:,} spans", f"{alone:.0f}, {many:.0f} us")
    runs, opened, asked = collections_costs.restarted(place, number // 10, number)
    name = f"restart of {number // 10:,} functions with spans, {number:,} changes since: runs"
    table.add(name, f"{runs}", "0", runs == 0)
    table.add("the same: opening, asking all of them", f"{opened:.2f}, {asked:.2f} s")


# --- beside others ------------------------------------------------------------------------------------------------


def _beside(table: Table, place: Path, number: int) -> None:
    rows = _rows(number)
    firsts = [random.Random(9).randrange(number - 50) for _ in range(PAGES)]
    peers: list[Peer] = [Sqlite(place), Mapper(place), Tiny(place)]
    app, orders = _shop()
    with app.open(place / "plain.db"):
        _insert(orders, rows)
    app, orders = _shop((Order.state, Order.number), Order.number)

    def filtered() -> int:
        return sum(order.cents for order in orders.where(Order.state == "paid"))

    def page(first: int) -> int:
        found = orders.where(Order.number >= first).order_by(Order.number).limit(50)
        return sum(order.cents for order in found)

    def pages() -> int:
        return sum(page(first) for first in firsts)

    with app.open(place / "orders.db"):
        loaded = _cpu(lambda: _insert(orders, rows))
    bytes_more = (place / "orders.db").stat().st_size / (place / "plain.db").stat().st_size
    with app.open(place / "orders.db"):
        cold = _cpu(filtered)
        warm = _cpu(filtered)
    with app.open(place / "orders.db"):
        read = _cpu(lambda: orders.values(Order.number, Order.state))
        pages()
        paged = _cpu(pages)
    app, orders = _shop((Order.state, Order.number), Order.number)
    # The index is made of the documents of a file that has none.
    with_build = _cpu(lambda: app.open(place / "plain.db").close())

    theirs = [_timed(peer, rows, firsts) for peer in peers]

    def add(name: str, ours: float, verb: str, unit: float = 1.0, mark: str = "s") -> None:
        beside = ", ".join(f"{peer.name} {each[verb] * unit:.3g}" for peer, each in zip(peers, theirs, strict=True))
        table.add(name, f"{ours * unit:.3g} {mark}", beside)

    add(f"insert_many of {number:,}, two indexes, synced", loaded, "load")
    add(f"where a sixth of {number:,}, a handle and a field each, cold", cold, "filtered")
    add("the same again, warm", warm, "filtered")
    add(f"values of two fields of {number:,}, cold", read, "all")
    add("page of 50, one field each, warm", paged / PAGES, "page", 1e6, "us")
    table.add(f"opening that builds two indexes of {number:,}", f"{with_build:.3g} s")
    table.add("bytes of the file beside one without indexes", f"{bytes_more:.2f} x")


def _timed(peer: Peer, rows: Sequence[Row], firsts: Sequence[int]) -> dict[str, float]:
    """The same of another store. TinyDB reads everything for a page: a few are enough."""
    some = firsts[:5] if isinstance(peer, Tiny) else firsts
    return {
        "load": _cpu(lambda: peer.load(rows)),
        "filtered": _cpu(lambda: peer.filtered("paid")),
        "all": _cpu(peer.all),
        "page": _cpu(lambda: [peer.page(first) for first in some]) / len(some),
    }
