"""Functions as data, and what they come to when everything is made anew: the oracle of the machines.

A formula is applied to anything that can be looked at: a transaction of the engine, or plain dicts. Shares no code with
the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

from headwater.core import Depth, Transaction, doc_key
from tests.support.naive import NOTHING, plain

CELLS = ("c0", "c1", "c2")
POINTERS = ("p0", "p1")
LISTS = ("l0",)
MAPS = ("m0",)
WRITTEN = ("w0", "w1")
"""By effects."""
BOARD = "board"
"""By several computations, each under its own name."""
BIG = "big"
"""By materializers, anywhere in it."""
SLOTS = tuple(f"f{number}" for number in range(6))
"""Where results stand."""


class TrialError(Exception):
    """Raised by functions of a trial. One of a few cannot be shown, as an author's may be."""

    def __init__(self, text: str) -> None:
        self.text = "mute" if text == "mute" or text.startswith("4 ") else text

    def __str__(self) -> str:
        if self.text == "mute":
            raise SystemExit
        return self.text


def said(error: Exception | None) -> str:
    """What an error says, to compare."""
    return error.text if isinstance(error, TrialError) else str(error)


class Look(Protocol):
    """What a formula reads."""

    def at(self, name: str, *path: str | int) -> Any: ...

    def shape(self, name: str) -> Any:
        """Only the keys, or the length."""
        ...


class TxLook:
    """Through a transaction, which notes it; after a call to whoever makes it, perhaps."""

    def __init__(self, tx: Transaction, call: Callable[[str], None] | None = None) -> None:
        self._tx = tx
        self._call = call

    def at(self, name: str, *path: str | int) -> Any:
        self._ask(name)
        return plain(self._tx.read(doc_key(name), path))

    def _ask(self, name: str) -> None:
        if self._call is not None:
            try:
                self._call(name)
            except Exception:
                # Whoever was told of an error has to be told of its end.
                self._tx.read(doc_key(name))
                raise

    def shape(self, name: str) -> Any:
        self._ask(name)
        value = plain(self._tx.read(doc_key(name), (), Depth.SHALLOW))
        return shape_of(value)


class PlainLook:
    """In plain values, whoever supplies them."""

    def __init__(self, value: Callable[[str], Any]) -> None:
        self._value = value

    def at(self, name: str, *path: str | int) -> Any:
        value = self._value(name)
        for step in path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step, NOTHING)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return NOTHING
        return value

    def shape(self, name: str) -> Any:
        return shape_of(self._value(name))


def shape_of(value: Any) -> Any:
    return sorted(value) if isinstance(value, dict) else len(value) if isinstance(value, list) else NOTHING


def number(value: Any) -> int:
    """Of anything."""
    if isinstance(value, int):
        return value
    return len(value) if isinstance(value, dict | list) else 0


class Formula(NamedTuple):
    """What is computed from at most three documents."""

    kind: str
    a: str
    b: str
    c: str

    def apply(self, look: Look, own: str = "") -> int:  # noqa: C901, PLR0912  # a table of kinds
        def num(name: str) -> int:
            return number(look.at(name))

        match self.kind:
            case "sum":
                return min(num(self.a) + num(self.b), 9)
            case "parity":
                return num(self.a) % 2
            case "branch":
                return num(self.b) if num(self.a) % 2 else num(self.c)
            case "guard":
                if num(self.a) % 3 == 1:
                    raise TrialError(f"{num(self.a)} in {self.a}")
                return num(self.b)
            case "rescue":
                try:
                    return num(self.a)
                except TrialError:
                    # Made of a failure: that it is over has to be noticed, though no document says so.
                    return 7
            case "follow":
                target = look.at(self.a)
                return num(target) if isinstance(target, str) else -1
            case "items":
                length = look.shape(self.a)
                return sum(number(look.at(self.a, index)) for index in range(number(length)))
            case "first":
                return number(look.at(self.a, 0))
            case "keys":
                return number(look.shape(self.a))
            case "entry":
                return number(look.at(self.a, "k0")) + number(look.at(self.a, self.b))
            case "not":
                return 1 - min(num(self.a), 1)
            case "up":
                return min(num(self.a) + 1, 3)
            case "same":
                # Reads what it writes itself, and does not build on it.
                return num(self.a) + 0 * num(own)
            case _:
                raise AssertionError(self.kind)


@dataclass(frozen=True, repr=False)
class Plan:
    """A node, as data."""

    name: str
    formula: Formula
    effect: bool = False
    eager: bool = False
    declared: bool = False
    # Besides its result, a computation writes: a document of its own, its entry of the board, somewhere in BIG.
    side: bool = False
    board: bool = False
    materializes: bool = False
    # An effect writes there what it has come to.
    writes: str = ""
    # A computation makes a node for each item of a list, and reads them, or does not.
    spawns: str = ""
    # It calls what it reads, as functions of an app do: whoever makes that is run first, or has failed.
    calls: bool = False
    # It waits so often before it is done.
    waits: int = 0
    finishes: bool = False
    # An effect that ends itself when it comes to this.
    ends_at: int = -1
    # An effect that gives up its transaction now and then, as an author's may with tx.abort().
    aborts: bool = False

    def __repr__(self) -> str:
        said = [
            f"{each.name}={value!r}" for each in fields(self)[2:] if (value := getattr(self, each.name)) != each.default
        ]
        return f"Plan({', '.join([repr(self.name), repr(tuple(self.formula)), *said])})"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """How Hypothesis shows it."""
        printer.text(repr(self))

    def sides(self) -> list[str]:
        return [f"{self.name}.side"] * self.side + [BOARD] * self.board


class Write(NamedTuple):
    name: str
    path: tuple[str, ...]
    value: int


def run(
    plan: Plan, look: Look, make: Callable[[list[int]], None] | None = None
) -> Generator[None, None, tuple[int, list[Write]]]:
    """What a node does: waits as often as it does, then comes to a result and writes. Raises TrialError."""
    for name in (plan.formula.b, plan.formula.c)[: plan.waits]:
        look.at(name)
        yield
    value = spawned(plan, look, make) if plan.spawns else plan.formula.apply(look, plan.name)
    writes: list[Write] = []
    if plan.side:
        writes.append(Write(f"{plan.name}.side", (), value + 1))
    if plan.board:
        writes.append(Write(BOARD, (plan.name,), value))
    if plan.materializes:
        writes.append(Write(BIG, (f"k{value % 3}",), value))
    if plan.writes:
        writes.append(Write(plan.writes, (), min(value, 3)))
    return value, writes


def spawned(plan: Plan, look: Look, make: Callable[[list[int]], None] | None) -> int:
    """Of a node that makes others, one for each different item of a list."""
    items = look.at(plan.spawns)
    wanted = sorted({item for item in items if isinstance(item, int)} if isinstance(items, list) else ())
    if make is not None:
        make(wanted)
    if plan.formula.kind == "parity":
        return len(wanted)
    return sum(number(look.at(kid_name(plan.name, item))) for item in wanted)


def kid_name(parent: str, item: int) -> str:
    return f"{parent}.kid{item}"


def kid_plan(parent: str, item: int) -> Plan:
    waits = 1 if item == 3 else 0
    return Plan(kid_name(parent, item), Formula("sum", CELLS[item % len(CELLS)], f"{parent}.side", ""), waits=waits)


def finished(plan: Plan, look: Look) -> tuple[int, list[Write]]:
    """The same without waiting."""
    steps = run(plan, look)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Failed(NamedTuple):
    """What a function comes to that raises."""

    text: str


class Naive:
    """Everything from scratch: a result is what its function comes to on results that are made in the same way.

    Made anew are the results of the plans; whatever else is read is given: cells, and results that cannot be what they
    should be, because their nodes wait for their time, or fail, or go round in a circle.
    """

    def __init__(self, plans: Iterable[Plan], given: Callable[[str], Any], errors: dict[str, str]) -> None:
        self._given = given
        # Who fails: a caller is told.
        self._errors = errors
        # By the document. Of BOARD and BIG only parts are anybody's: those are given.
        self._writers = {name: plan for plan in plans for name in (plan.name, f"{plan.name}.side")}
        self._made: dict[str, tuple[int, list[Write]]] = {}
        self._under_way: set[str] = set()

    def value(self, name: str) -> Any:
        plan = self._writers.get(name)
        if plan is None or (name != plan.name and not plan.side):
            return self._given(name)
        if plan.name not in self._made:
            assert plan.name not in self._under_way, f"{plan.name} reads itself, and nobody has noticed"
            self._under_way.add(plan.name)
            self._made[plan.name] = finished(plan, PlainLook(lambda other: self._for(plan, other)))
            self._under_way.discard(plan.name)
        value, _ = self._made[plan.name]
        return value if name == plan.name else value + 1

    def _for(self, plan: Plan, name: str) -> Any:
        """What it reads of itself is what it has written before."""
        if plan.calls and name in self._errors and name != plan.name:
            raise TrialError(self._errors[name])
        return self._given(name) if name.removesuffix(".side") == plan.name else self.value(name)

    def outcome(self, plan: Plan) -> tuple[int, list[Write]] | Failed:
        try:
            return finished(plan, PlainLook(lambda other: self._for(plan, other)))
        except TrialError as error:
            return Failed(error.text)
