"""Rows of table `patterns` that are counts: they are exact, and the same on every machine."""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import headwater as hw
from bench.table import Table

SIZES: Final = (10, 100, 1_000, 10_000)
"""Of lists that grow by one."""
LONG: Final = (100, 10_000, 100_000)
"""Of lists of which one element changes."""
BATCH: Final = 5_000
"""So many elements are made in one transaction."""
CHANGES: Final = 50
"""Of an element, for a mean."""
ROUNDS: Final = 1_000
"""Of starting and stopping."""
READERS: Final = 100
"""Of one resource."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one change has come to."""

    runs: dict[str, int]
    """Of each function that has run."""
    node_writes: int
    """How often it was written down of a node how many look at it."""
    started: int
    """Pieces that were built, be it anew."""
    stopped: int

    def __str__(self) -> str:
        return f"{sum(self.runs.values())} runs, {self.node_writes} node writes"


@dataclass(frozen=True, slots=True)
class Held:
    """What a space holds in memory."""

    nodes: int
    documents: int
    reads: int
    """Entries of the index of readers."""
    writers: int
    pieces: int


class Tally:
    """Which functions have run; and the space that they run in."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self._space: hw.Space | None = None

    @contextmanager
    def open(self, app: hw.App) -> Iterator[hw.Space]:
        with app.open("memory:") as space:
            self._space = space
            yield space

    def cost(self, work: Callable[[], object]) -> Cost:
        """Of a change and all that follows from it."""
        space = self._space
        assert space is not None
        pieces = space._opening.pieces
        started, running, before = pieces.work.started, set(pieces.running), self.runs.copy()
        writes = space.scheduler.get_stats().live_writes
        work()
        return Cost(
            runs=dict(self.runs - before),
            node_writes=space.scheduler.get_stats().live_writes - writes,
            started=pieces.work.started - started,
            stopped=len(running - set(pieces.running)),
        )


def held(space: hw.Space) -> Held:
    """Now, when all that was written is on disk."""
    space.sync()
    return Held(
        nodes=len(space.scheduler.registry.nodes),
        documents=space.stats.documents,
        reads=space.scheduler.get_stats().reads,
        writers=len(space.scheduler.graph.writers),
        pieces=len(space._opening.pieces.running),
    )


def measure(table: Table) -> None:
    """All rows."""
    _children(table)
    _returned(table)
    _lists(table)
    _changes(table)
    _growth(table)
    _resource(table)
    _rounds(table)


# --- children -----------------------------------------------------------------------------------------------------


class Wall:
    """A sink that starts a card for each name; each card has a cell, a computed and a sink."""

    def __init__(self, names: int) -> None:
        self.tally = tally = Tally()
        self.app = app = hw.App("bench")
        self.names = cell = app.cell("names", [f"name {number}" for number in range(names)])

        @hw.pattern
        def card(p: hw.Builder, who: str) -> None:
            clicks = p.cell("clicks", 0)

            @p.computed
            def label() -> str:
                tally.runs["label"] += 1
                return f"{who} {clicks.value}"

            @p.sink
            def watch() -> None:
                tally.runs["watch"] += 1
                label()

        @app.sink(auto_debounce=False)
        def board() -> None:
            tally.runs["board"] += 1
            for name in cell.value:
                hw.start(card, name, who=name)

    def grow(self) -> None:
        """By one, at its end."""
        self.names.value = [*self.names.value, f"name {len(self.names.value)}"]

    def replace(self) -> None:
        """The one in the middle, by another."""
        names = self.names.value
        middle = len(names) // 2
        self.names.value = [*names[:middle], "another", *names[middle + 1 :]]

    def reverse(self) -> None:
        self.names.value = self.names.value[::-1]


def replaced_child(children: int) -> tuple[Cost, Cost]:
    """One of the children is another; then they are the same in another order."""
    wall = Wall(children)
    with wall.tally.open(wall.app):
        return wall.tally.cost(wall.replace), wall.tally.cost(wall.reverse)


def _children(table: Table) -> None:
    for children in (10, 1_000):
        other, same = replaced_child(children)
        title = f"{children:,} children of a sink"
        right = (other.started, other.stopped, other.runs) == (1, 1, {"board": 1, "label": 1, "watch": 1})
        table.add(f"{title}, one is another: started, stopped", f"{other.started}, {other.stopped}", "1, 1", right)
        figure = f"{same.started}, {same.stopped}, {same.runs}"
        right = (same.started, same.stopped, same.runs) == (0, 0, {"board": 1})
        table.add(f"{title}, the same in another order: the same, runs", figure, "0, 0, its own", right)


@dataclass(frozen=True, slots=True)
class Returned:
    """What changes of a function cost that returns a pattern."""

    same: Cost
    inputs: Cost
    other: Cost
    plain: Cost


def returned_pattern() -> Returned:
    """It runs, and returns: the same as before; the same pattern with other inputs; another one; a plain value."""
    tally = Tally()
    app = hw.App("bench")
    kind, who, knob = app.cell("kind", "card"), app.cell("who", "Ann"), app.cell("knob", 0)

    def body(p: hw.Builder, who: str) -> hw.Computed[[], str]:
        @p.computed
        def label() -> str:
            tally.runs["label"] += 1
            return f"{p.name} {who}"

        return label

    card, page = hw.pattern(name="card")(body), hw.pattern(name="page")(body)

    @app.computed
    def view() -> hw.Piece[hw.Computed[[], str]] | str:
        tally.runs["view"] += knob.value >= 0
        made = {"card": card, "page": page}.get(kind.value)
        return kind.value if made is None else made(who.value)

    @app.sink
    def show() -> None:
        tally.runs["show"] += 1
        seen = view()
        _ = seen if isinstance(seen, str) else seen.outputs()

    with tally.open(app):
        return Returned(
            same=tally.cost(lambda: setattr(knob, "value", 1)),
            inputs=tally.cost(lambda: setattr(who, "value", "Bob")),
            other=tally.cost(lambda: setattr(kind, "value", "page")),
            plain=tally.cost(lambda: setattr(kind, "value", "none")),
        )


def _returned(table: Table) -> None:
    cost = returned_pattern()

    def add(what: str, figure: Cost, started: int, stopped: int, runs: dict[str, int]) -> None:
        told = ", ".join(f"{name} {count}" for name, count in figure.runs.items())
        right = (figure.started, figure.stopped, figure.runs) == (started, stopped, runs)
        limit = f"{started}, {stopped}; {', '.join(f'{name} {count}' for name, count in runs.items())}"
        name = f"a pattern is returned, {what}: built, stopped; runs"
        table.add(name, f"{figure.started}, {figure.stopped}; {told}", limit, right)

    add("the same", cost.same, 0, 0, {"view": 1})
    add("with other inputs", cost.inputs, 1, 0, {"view": 1, "label": 1, "show": 1})
    add("another one", cost.other, 1, 1, {"view": 1, "label": 1, "show": 1})
    add("then a plain value", cost.plain, 0, 1, {"view": 1, "show": 1})


# --- lists --------------------------------------------------------------------------------------------------------


class Item(hw.Doc):
    """An element, told by its id."""

    title: str


class Board(hw.Doc):
    """A list of them."""

    items: hw.List[Item] = hw.List()


class Listing:
    """`hw.each` over a list of documents, and a sink that reads all of it."""

    def __init__(self) -> None:
        self.tally = tally = Tally()
        self.app = app = hw.App("bench")
        self.board = app.doc("board", Board)

        def row(item: Item) -> str:
            tally.runs["element"] += 1
            return item.title.upper()

        self.rows = rows = app.each(self.board.items, row, name="rows")

        @app.sink(auto_debounce=False)
        def show() -> None:
            tally.runs["show"] += 1
            rows()

    @contextmanager
    def open(self, size: int) -> Iterator[hw.Space]:
        with self.tally.open(self.app) as space:
            with space.transaction():
                self.board.items.extend([Item(title=f"item {number}") for number in range(size)])
            yield space

    def cost(self, space: hw.Space, work: Callable[[], object]) -> Cost:
        """With the runs of the list itself, as "list"."""
        before = space.runs(self.rows)
        found = self.tally.cost(work)
        return Cost(
            {**found.runs, "list": space.runs(self.rows) - before}, found.node_writes, found.started, found.stopped
        )

    def insert(self) -> None:
        """In the middle."""
        self.board.items.insert(len(self.board.items) // 2, Item(title="another"))

    def append(self) -> None:
        self.board.items.append(Item(title="one more"))

    def reverse(self) -> None:
        self.board.items = list(self.board.items)[::-1]


def list_cost(size: int, work: Callable[[Listing], object]) -> Cost:
    """What one change of a list of so many costs."""
    listing = Listing()
    with listing.open(size) as space:
        return listing.cost(space, lambda: work(listing))


ONE: Final = {"element": 1, "list": 1, "show": 1}
NONE: Final = {"list": 1, "show": 1}


def _lists(table: Table) -> None:
    for size in (10, 1_000):
        for what, work, wanted in (
            ("one comes in the middle", Listing.insert, ONE),
            ("turned round", Listing.reverse, NONE),
        ):
            cost = list_cost(size, work)
            figure = f"{cost.runs.get('element', 0)}, {cost.runs['list']}, {cost.node_writes}"
            limit = f"{wanted.get('element', 0)}, 1, <= 4"
            right = cost.runs == wanted and cost.node_writes <= 4
            table.add(f"list of {size:,}, {what}: element runs, its own; node writes", figure, limit, right)


def grown_list(size: int) -> Cost:
    """Of one more element of a list."""
    return list_cost(size, Listing.append)


def grown_wall(size: int) -> Cost:
    """Of one more child of a sink."""
    wall = Wall(size)
    with wall.tally.open(wall.app):
        return wall.tally.cost(wall.grow)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change of one element costs, while a sink reads all of the list."""

    calls: int
    """Of Python functions, and of others."""
    reads: int
    """Of the sink."""
    ms: float
    """Of processor time, the mean of some."""


def changed_element(size: int) -> Changed:
    """Of the one in the middle, of so many."""
    listing = Listing()
    with listing.tally.open(listing.app) as space:
        for start in range(0, size, BATCH):
            with space.transaction():
                count = min(BATCH, size - start)
                listing.board.items.extend([Item(title=f"item {start + number}") for number in range(count)])
        item, (sink,) = (
            listing.board.items[size // 2],
            [node for node in space.scheduler.registry.nodes if node.name == "show"],
        )
        item.title = "the first change"
        space.sync()
        gc.collect()
        begun = time.process_time()
        for number in range(CHANGES):
            item.title = f"change {number}"
        spent = (time.process_time() - begun) / CHANGES * 1e3
        space.sync()
        reads: list[int] = []
        space.scheduler.runner.before = lambda attempt: reads.append(len(attempt.tx.journal))
        calls: list[int] = []
        for number in range(CHANGES):
            space.sync()
            # The cheapest counts: a sleeping thread of the store is woken by one call more.
            calls.append(_calls_of(partial(setattr, item, "title", f"a last change {number}")))
        space.scheduler.runner.before = None
        assert len(sink.reads) == size + 1
        return Changed(min(calls), reads[-1], spent)


def _calls_of(work: Callable[[], object]) -> int:
    count = 0

    def look(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    gc.disable()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def _changes(table: Table) -> None:
    sizes = ", ".join(f"{size:,}" for size in LONG)
    found = [changed_element(size) for size in LONG]
    title = f"a list of {sizes}, one element changes, a sink reads all"
    calls, reads = [each.calls for each in found], [each.reads for each in found]
    table.add(f"{title}: calls", ", ".join(map(str, calls)), "equal", len(set(calls)) == 1)
    table.add(f"{title}: reads of the sink", ", ".join(map(str, reads)), "2", set(reads) == {2})
    took = ", ".join(f"{each.ms:.2f}" for each in found)
    table.add(f"{title}: processor time", f"{took} ms", "< 2 ms", max(each.ms for each in found) < 2)


def _growth(table: Table) -> None:
    sizes = ", ".join(f"{size:,}" for size in SIZES)
    for what, grown in (("a list of {} documents", grown_list), ("{} children of a sink", grown_wall)):
        costs = [grown(size) for size in SIZES]
        runs = [sum(cost.runs.values()) for cost in costs]
        writes = [cost.node_writes for cost in costs]
        title = f"{what.format(sizes)}, one more"
        table.add(f"{title}: runs", ", ".join(map(str, runs)), "equal, 3", set(runs) == {3})
        right = len(set(writes)) == 1 and writes[0] <= 4
        table.add(f"{title}: node writes", ", ".join(map(str, writes)), "equal, <= 4", right)


# --- resources ----------------------------------------------------------------------------------------------------


def resource_requests(readers: int) -> int:
    """How many leave for one answer that so many look at."""
    app = hw.App("bench")
    seen: list[int] = []

    @app.resource
    async def answer(number: int) -> int:
        return number + 1

    def look() -> None:
        found = answer(41)
        if isinstance(found, hw.Ready):
            seen.append(found.value)

    for number in range(readers):
        app.sink(name=f"look{number}")(look)
    with app.open("memory:") as space:
        for _ in range(3000):
            # It comes by another thread.
            if len(seen) == readers:
                break
            space.wait("10ms")
        assert seen == [42] * readers
        return space.runs(answer)


def _resource(table: Table) -> None:
    requests = resource_requests(READERS)
    table.add(f"a resource that {READERS} sinks look at: requests", f"{requests}", "1", requests == 1)


# --- what stays ---------------------------------------------------------------------------------------------------


@hw.pattern
def small(p: hw.Builder, n: int) -> hw.Computed[[], int]:
    """One cell, one computed, one sink."""
    number = p.cell("number", n)

    @p.computed
    def doubled() -> int:
        return number.value * 2

    @p.sink
    def show() -> None:
        doubled()

    return doubled


def rounds(count: int, *, keys: int) -> tuple[Held, Held, Held]:
    """What is held before, with one piece, and after so many were started and stopped, under so many keys in turn."""
    with hw.App("bench").open("memory:") as space:
        for number in range(min(keys, 10)):
            # What is made once, at first use.
            space.start(small, f"key {number}", n=number).stop()
        before = held(space)
        piece = space.start(small, "one", n=1)
        during = held(space)
        piece.stop()
        for number in range(count):
            piece = space.start(small, f"key {number % keys}", n=number)
            assert piece.outputs() == 2 * number
            piece.stop()
        return before, during, held(space)


def _rounds(table: Table) -> None:
    for keys, told in ((1, "one key"), (ROUNDS, "a key for each")):
        before, during, after = rounds(ROUNDS, keys=keys)
        more = [getattr(after, name) - getattr(before, name) for name in Held.__slots__]
        one = [getattr(during, name) - getattr(before, name) for name in Held.__slots__]
        title = f"{ROUNDS:,} rounds, {told}: {', '.join(Held.__slots__)} more"
        figure = f"{', '.join(map(str, more))} (one piece: {', '.join(map(str, one))})"
        table.add(title, figure, "0 each", not any(more))
