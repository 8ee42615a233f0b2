"""The apps of a program with several spaces: functions of a plan, and handlers that pass units on to other spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import headwater as hw
from headwater.errors import ClosedError, ConflictError, NotOpen
from headwater.values.address import doc_key
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe
from sim.spaces.parts import CELLS, DEBOUNCE_S, Function, Functions

At = tuple[int, int]
"""A cell: its space and number."""

LEDGER: Final = ("out", "units", "in", "taken", "posted", "disorder")
"""Cells of each space for each other one: sent there, with how many units; arrived from there, in the same way."""


def url_of(space: int) -> str:
    """The file of a space."""
    return f"/s{space}.db"


def cell_name(number: int) -> str:
    """The name of a cell that functions read."""
    return f"c{number}" if number < CELLS else "sum"


def document(space: int, name: str) -> DocKey:
    """The document of a cell."""
    return doc_key(f"app{space}.{name}")


class Market:
    """The code as one process imports it, and what its functions have done since."""

    def __init__(self, count: int, functions: Functions) -> None:
        self.count = count
        self.functions = {each.name: each for each in functions.parts}
        self.apps = [hw.App(f"app{space}") for space in range(count)]
        self.cells = {
            (space, number): self.apps[space].cell(cell_name(number), 0)
            for space in range(count)
            for number in range(CELLS + 1)
        }
        self.ledger = {
            (name, space, other): self.apps[space].cell(f"{name}{other}", 0)
            for name in LEDGER
            for space in range(count)
            for other in range(count)
            if other != space
        }
        self.ran: dict[str, int] = dict.fromkeys(self.functions, 0)
        self.shown: dict[str, int] = {}
        # A handler compares what it has read with what it should have read.
        self.compare: Callable[[str, int], None] = lambda _name, _found: None
        self.computed: dict[str, Callable[[], int]] = {}
        for each in functions.parts:
            self.computed[each.name] = self._declare(each)
        self.takes = [self._taking(space) for space in range(count)]
        self.deals = [self._dealing(space) for space in range(count)]
        self.asks = [self._asking(space) for space in range(count)]

    def _declare(self, function: Function) -> Callable[[], int]:
        # Nothing that changes: a function that uses it would not be restored.
        cells = tuple(self.cells[at] for at in function.cells)
        calls = tuple(self.computed[name] for name in function.calls)
        name, modulus, app, ran = function.name, function.modulus, self.apps[function.space], self.ran

        def body() -> int:
            ran[name] += 1
            return sum([cell.value for cell in cells] + [call() for call in calls]) % modulus

        if function.is_delayed:
            found = app.computed(name=name, version=1, debounce=f"{int(DEBOUNCE_S * 1000)}ms")(body)
        else:
            found = app.computed(name=name, version=1)(body)
        if function.is_shown:
            app.sink(name=f"show_{name}")(lambda: self.shown.__setitem__(name, found()))
        return found

    def _taking(self, space: int) -> hw.Handler[..., None]:
        def take(sender: int, number: int, units: int, hops: int) -> None:
            arrived = self.ledger["in", space, sender]
            if number != arrived.value + 1:
                self.ledger["disorder", space, sender].value += 1
            arrived.value += 1
            self.ledger["taken", space, sender].value += units
            self.cells[space, CELLS].value += units
            if hops:
                self.pass_on(space, (space + 1) % self.count, units, hops - 1)

        return self.apps[space].handler(name="take")(take)

    def pass_on(self, space: int, to: int, units: int, hops: int) -> None:
        """Send units to another space, with the transaction around, if it is open."""
        number = self.ledger["out", space, to].value + 1
        try:
            self.takes[to].send(space, number, units, hops)
        except (NotOpen, ClosedError):
            return
        self.ledger["posted", to, space].post.increment(units)
        self.ledger["out", space, to].value = number
        self.ledger["units", space, to].value += units

    def _dealing(self, space: int) -> hw.Handler[..., None]:
        def deal(to: int, units: int, hops: int, *, fails: bool) -> None:
            self.pass_on(space, to, units, hops)
            if fails:
                raise hw.Reject("not now")

        return self.apps[space].handler(name="deal")(deal)

    def _asking(self, space: int) -> hw.Handler[..., int]:
        def ask(name: str) -> int:
            found = self.computed[name]()
            self.compare(name, found)
            return found

        return self.apps[space].handler(name="ask")(ask)

    def block(self, home: hw.Space, space: int, to: int, units: int, *, fails: bool) -> None:
        """Send units in a block of plain code, which may be rolled back."""
        try:
            with home.transaction():
                self.pass_on(space, to, units, 0)
                if fails:
                    raise _RollBackError
        except (_RollBackError, ConflictError):
            return


class _RollBackError(Exception):
    pass


class Model:
    """What functions and the ledger should have, from the documents alone."""

    def __init__(self, functions: Functions, read: Callable[[int, DocKey], Maybe]) -> None:
        self._functions = {each.name: each for each in functions.parts}
        self._read = read

    def cell(self, at: At) -> int | None:
        """A cell, None if nothing is stored."""
        return self._number(at[0], cell_name(at[1]))

    def _number(self, space: int, name: str) -> int | None:
        found = self._read(space, document(space, name))
        return found if isinstance(found, int) else None

    def value(self, name: str) -> int:
        """The result of a function."""
        function = self._functions[name]
        total = sum(self.cell(at) or 0 for at in function.cells) + sum(self.value(call) for call in function.calls)
        return total % function.modulus

    def reads(self) -> dict[str, tuple[int | None, ...]]:
        """What each function would read."""
        return {
            name: (*(self.cell(at) for at in each.cells), *(self.value(call) for call in each.calls))
            for name, each in self._functions.items()
        }

    def fed(self) -> frozenset[str]:
        """The functions above something that arrives by events."""
        found: set[str] = set()
        for name, each in self._functions.items():
            if any(number == CELLS for _, number in each.cells) or found.intersection(each.calls):
                found.add(name)
        return frozenset(found)

    def entry(self, name: str, space: int, other: int) -> int:
        """A cell of the ledger."""
        return self._number(space, f"{name}{other}") or 0
