"""Table `cells`: what reading and writing through cells costs, over an attribute and over the store's local apply."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

import headwater as hw
from bench.counting import calls_of
from bench.store import RECORD, Nowhere, apply_us, forget
from bench.table import Table, best_us, is_compiled
from headwater.cells.cell import Cell
from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.cells.document_class import open_doc
from headwater.cells.replica import Replica
from headwater.cells.space_port import SpacePort
from headwater.machine import machine
from headwater.values.address import doc_key
from headwater.values.hints import schema_of
from headwater.values.ids import SessionId
from headwater.values.link import link_to
from headwater.values.tree import ABSENT, Value, array_of, freeze

READS: Final = 20_000
CELLS: Final = 1_000


class Item(hw.Doc):
    """The fields of the record that are written."""

    title: str
    count: int = 0


class Plain:
    """An object with an attribute."""

    def __init__(self) -> None:
        self.value = 1


def measure(table: Table) -> None:
    """All rows."""
    _reads(table)
    _first_reads(table)
    _writes(table)
    _one_field(table)
    _appends(table)
    _parts(table)


def _home(value: Value) -> SpacePort:
    """An open space whose store takes everything and answers nothing: what is measured is this side."""
    home = SpacePort(Replica(Nowhere(value), SessionId("bench")), "bench", None, machine(), None)
    home.replica.listen(_told, {})
    return home


def _told(_notification: object) -> None:
    raise AssertionError("nobody reads")


# --- reading ----------------------------------------------------------------------------------------------------


def _reads(table: Table) -> None:
    home = _home(1)
    cell = Cell[int](home, "n", schema=schema_of(int))
    plain = Plain()

    def attribute() -> None:
        for _ in range(READS):
            plain.value  # noqa: B018

    def nothing() -> None:
        for _ in range(READS):
            pass

    def read() -> None:
        for _ in range(READS):
            cell.value  # noqa: B018

    floor = best_us(attribute, READS, rounds=15) * 1000
    loop = best_us(nothing, READS, rounds=15) * 1000
    with home.transaction():
        ours = best_us(read, READS, rounds=15) * 1000
    table.add(
        "cell.value of a scalar in a transaction, over an attribute",
        f"{ours:.0f} ns, attribute {floor:.0f} ns: {ours / floor:.1f}x",
        "<= 15x",
        ours / floor <= 15,
    )
    table.add("the same without the loop around both", f"{(ours - loop) / max(floor - loop, 0.1):.0f}x")


def _first_reads(table: Table) -> None:
    home = _home(1)
    cells = [Cell[int](home, f"n{number}", schema=schema_of(int)) for number in range(CELLS)]

    def first() -> None:
        with home.transaction():
            for each in cells:
                each.value  # noqa: B018

    def outside() -> None:
        for each in cells:
            each.value  # noqa: B018

    table.add("first read of a cell in a transaction (found, noted, loaded)", f"{best_us(first, CELLS):.2f} us")
    table.add("read outside a transaction", f"{best_us(outside, CELLS):.2f} us")


# --- writing ----------------------------------------------------------------------------------------------------


def _write_us(home: SpacePort, write: Callable[[int], None]) -> float:
    best = float("inf")
    number = 1000
    for _ in range(60):
        start = time.perf_counter()
        for _ in range(100):
            number += 1
            write(number)
        best = min(best, (time.perf_counter() - start) / 100 * 1e6)
        forget(home.replica)
    return best


def _writes(table: Table) -> None:
    record = freeze(RECORD)
    home = _home(record)
    CONTEXT.set(ContextFrame(home, None, None))
    item = open_doc(Item, home, "item:0000000", doc_key("item:0000000"))

    def field(number: int) -> None:
        item.count = number

    def block(number: int) -> None:
        with home.transaction():
            item.count = number

    def read_too(number: int) -> None:
        with home.transaction():
            item.count = item.count + number

    whole = _home(1)
    cell = Cell[int](whole, "n", schema=schema_of(int))

    def scalar(number: int) -> None:
        cell.value = number

    try:
        floor = apply_us(record)
        rows = [
            ("item.count = n: written and committed, no reader", _write_us(home, field), True),
            ("cell.value = n, the whole of a document", _write_us(whole, scalar), True),
            ("with space.transaction(): item.count = n", _write_us(home, block), False),
            ("with space.transaction(): item.count = item.count + n", _write_us(home, read_too), False),
        ]
    finally:
        CONTEXT.set(None)
    for name, ours, held in rows:
        ratio = ours / floor
        figure = f"{ours:.2f} us, local apply {floor:.2f} us: {ratio:.2f}x"
        table.add(name, figure, "<= 1.5x" if held else "", ratio <= 1.5 if held else None)


# --- size -------------------------------------------------------------------------------------------------------


def _one_field(table: Table) -> None:
    us: list[float] = []
    entries = 0
    for size in (10, 10_000):
        home = _home(freeze({f"k{number:05}": number for number in range(size)}))
        whole = Cell[dict[str, int]](home, "wide", schema=schema_of(dict[str, int]))
        part = whole.key("k00005")

        def read(home: SpacePort = home, part: Cell[int] = part) -> None:
            for _ in range(200):
                with home.transaction():
                    part.value  # noqa: B018

        us.append(best_us(read, 200))
        with home.transaction() as tx:
            part.value  # noqa: B018
            entries = len(tx.journal)
    ratio = us[1] / us[0]
    table.add("places noted when one field of 10,000 is read", f"{entries}", "1", entries == 1)
    table.add(
        "one field of a document of 10, of 10,000 keys",
        f"{us[0]:.2f} us, {us[1]:.2f} us: {ratio:.1f}x",
        "<= 2x",
        ratio <= 2,
    )


def _appends(table: Table) -> None:
    us: list[float] = []
    for size in (0, 100_000):
        best = float("inf")
        for _ in range(5):
            home = _home(freeze(list(range(size))))
            cell = Cell[list[int]](home, "list", schema=schema_of(list[int]))
            home.replica.read(doc_key("list"))
            start = time.perf_counter()
            for number in range(1000):
                cell.append(number)
                if not number % 100:
                    forget(home.replica)
            best = min(best, (time.perf_counter() - start) / 1000 * 1e6)
        us.append(best)
    ratio = us[1] / us[0]
    figure = f"{us[0]:.2f} us, {us[1]:.2f} us: {ratio:.1f}x"
    table.add("1,000 appends to an empty list, to one of 100,000", figure, "<= 2x", ratio <= 2)


def _parts(table: Table) -> None:
    lists = [_linked(size) for size in (100, 100_000)]
    last = [open_doc(Item, home, name, doc_key(name)) for home, _, name in lists]
    looks: dict[str, Callable[[int], object]] = {
        "a slice of 50": lambda number: lists[number][1][50:100],
        "the last 50": lambda number: lists[number][1][-50:],
        "a loop that is left after 10": lambda number: list(islice(lists[number][1], 10)),
        "in, with the last document": lambda number: last[number] in lists[number][1],
    }
    for name, look in looks.items():
        us: list[float] = []
        counts: list[tuple[int, int]] = []
        for number, (home, _, _) in enumerate(lists):

            def read(number: int = number, home: SpacePort = home, look: Callable[[int], object] = look) -> None:
                with home.transaction():
                    look(number)

            us.append(best_us(read, 1, rounds=15))
            with home.transaction() as tx:
                calls = 0 if is_compiled() else calls_of(partial(look, number), 3)
                counts.append((len(tx.journal), calls))
        (entries, calls), (more_entries, more_calls) = counts
        figure = f"{us[0] / 1000:.2f} ms, {us[1] / 1000:.2f} ms"
        table.add(
            f"list of 100, of 100,000 documents, {name}: places noted, Python calls",
            f"{entries}, {more_entries}; {calls:,}, {more_calls:,}",
            "equal; <= 1.25x",
            entries == more_entries and more_calls <= calls * 1.25,
        )
        held = name.startswith(("a slice", "the last"))
        table.add("the same, time", figure, "<= 1.5 ms" if held else "", us[1] <= 1500 if held else None)


def _linked(size: int) -> tuple[SpacePort, hw.List[Item], str]:
    """A list of so many documents, of which only the links are stored, and the id of the last."""
    names = [f"item:{number:032d}" for number in range(size)]
    home = _home(array_of([link_to(doc_key(name)).to_value() for name in names]))
    key = doc_key("n")
    rows: hw.List[Item] = hw.List.bound(
        home, "n", (), schema=schema_of(list[Item]), default=ABSENT, scope="space", key=key
    )
    return home, rows, names[-1]
