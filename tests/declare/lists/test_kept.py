"""A run that reads a whole list reuses what has not changed since its last run: exact, and at the same cost."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater import testing
from headwater.cells.context import CONTEXT
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.values.ids import DocKey
from tests.declare.lists.kit import Desk, Item

Edit: TypeAlias = tuple[str, int, int]

EDITS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "insert", "remove", "move", "again", "change", "change", "break", "own", "leave", "greet"]
        ),
        st.integers(0, 12),
        st.integers(0, 5),
    ),
    max_size=25,
)

TRIES = 12
"""Changes of which the cheapest counts: a sleeping thread of the store is woken by one call more."""

BATCH = 5_000
"""So many elements are made in one transaction."""


# --- counts -------------------------------------------------------------------------------------------------------


def calls_of(work: Callable[[], object]) -> int:
    """The number of calls, of Python functions and of others, without the collector's."""
    count = 0

    def look(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    gc.collect()
    gc.disable()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def cost_of_a_change(size: int) -> tuple[int, int, int]:
    """Of one element of so many, while a sink reads the whole list: calls, documents that the sink reads, commits."""
    desk = Desk()
    rows = hw.each(desk.board.items, lambda item: item.title.upper(), name="rows")
    seen: list[int] = []
    reads: list[int] = []

    @desk.app.sink(auto_debounce=False)
    def look() -> None:
        seen.append(len(rows()))
        frame = CONTEXT.get()
        assert frame is not None
        assert frame.tx is not None
        reads.append(len(frame.tx.journal))

    with desk.open() as space:
        for start in range(0, size, BATCH):
            with space.transaction():
                desk.board.items.extend([Item(title=f"t{number}") for number in range(start, min(start + BATCH, size))])
        items = [desk.board.items[place] for place in (0, size // 2, size - 1)]
        for number, item in enumerate(items):
            item.title = f"before {number}"
        space.sync()
        desk.runs()
        desk.commits()
        found: list[int] = []
        for number in range(TRIES):
            space.sync()
            found.append(calls_of(lambda: setattr(items[1], "title", f"after {number}")))  # noqa: B023  # called at once
        assert seen[-1] == size
        assert desk.runs() == {"rows.element": TRIES}
        return min(found), reads[-1], desk.commits() // TRIES


def assert_same_costs(*lengths: int) -> None:
    """The same reads, and the same calls but for a few: the tree of a long list has more levels."""
    calls, *reads = zip(*map(cost_of_a_change, lengths), strict=True)
    assert max(calls) - min(calls) <= 5, calls
    assert all(len(set(each)) == 1 for each in reads), reads


def test_a_change_of_one_element_costs_the_same_at_every_length() -> None:
    assert_same_costs(100, 1_000)


@pytest.mark.slow
def test_a_change_of_one_element_costs_the_same_up_to_ten_thousand() -> None:
    assert_same_costs(100, 10_000)


def costs_of_edits(size: int) -> dict[str, int]:
    """Of elements that come and go in a list of so many, while a sink reads all of it: the calls of each."""
    desk = Desk()
    rows = hw.each(desk.board.items, lambda item: item.title.upper(), name="rows")
    seen: list[list[str]] = []
    desk.app.sink(auto_debounce=False, name="look")(lambda: seen.append(rows()))
    items = desk.board.items
    edits: dict[str, Callable[[], object]] = {
        "insert": lambda: items.insert(len(items) // 2, Item(title="in the middle")),
        "append": lambda: items.append(Item(title="at the end")),
        "remove": lambda: items.pop(len(items) // 2),
        "replace": lambda: items.__setitem__(len(items) // 2, Item(title="in its place")),
    }
    with desk.open() as space:
        for start in range(0, size, BATCH):
            with space.transaction():
                items.extend([Item(title=f"t{number}") for number in range(start, min(start + BATCH, size))])
        found: dict[str, int] = {}
        for name, work in edits.items():
            tries: list[int] = []
            for _ in range(TRIES):
                space.sync()
                tries.append(calls_of(work))
            found[name] = min(tries)
            assert seen[-1] == [item.title.upper() for item in items]
        return found


def assert_same_costs_of_edits(*lengths: int) -> None:
    """The same calls but for a few: one or two for each chunk of a long list, and not one for each element."""
    few, many = map(costs_of_edits, lengths)
    assert {name: many[name] - few[name] for name in few if many[name] - few[name] > 200} == {}


def test_elements_come_and_go_at_the_same_cost_at_every_length() -> None:
    assert_same_costs_of_edits(100, 1_000)


@pytest.mark.slow
def test_elements_come_and_go_at_the_same_cost_up_to_ten_thousand() -> None:
    assert_same_costs_of_edits(100, 10_000)


# --- what is read -------------------------------------------------------------------------------------------------


def edit(desk: Desk, what: Edit) -> None:
    verb, place, number = what
    items = desk.board.items
    at = place % len(items) if len(items) else 0
    if verb == "append" or not len(items):
        items.append(Item(title=f"a{number}"))
    elif verb == "insert":
        items.insert(at, Item(title=f"i{number}"))
    elif verb == "remove":
        del items[at]
    elif verb == "move":
        items.insert(number, items.pop(at))
    elif verb == "again":
        items.insert(number, items[at])
    elif verb == "change":
        items[at].title = f"c{number}"
    elif verb == "break":
        items[at].title = f"bad {number}" if number % 2 else f"mended {number}"
    elif verb == "own":
        items[at].done = not items[at].done


class Look:
    """A list whose function fails for some elements, and reads a user's own cell for others; and its readers."""

    def __init__(self) -> None:
        self.desk = desk = Desk()
        self.greeting = desk.app.cell("greeting", "hi", scope="user")
        self.is_away = desk.app.cell("away", default=False)
        self.echo = desk.app.cell("echo", "")
        self.rows = rows = hw.each(desk.board.items, self.shout, name="rows")
        self.shown: list[object] = []

        def joined() -> str:
            return str(seen_of(rows))

        self.joined = desk.app.computed(joined)

        @desk.app.sink(auto_debounce=False)
        def whole() -> None:
            self.shown.append("away" if self.is_away.value else seen_of(rows))

        @desk.app.sink(auto_debounce=False)
        def parts() -> None:
            """What was read of the list stays what it was, in one run."""
            found = seen_of(rows)
            if isinstance(found, list):
                assert len(rows) == len(found)
                assert list(rows) == found == rows()
                found.append("of the caller")
            self.joined()

        @desk.app.sink(auto_debounce=False)
        def writes() -> None:
            self.echo.value = str(seen_of(rows))

    def shout(self, item: Item) -> str:
        if item.title.startswith("bad"):
            raise ValueError(item.title)
        return self.greeting.value + item.title if item.done else item.title.upper()

    @property
    def wanted(self) -> object:
        """What a comprehension has."""
        try:
            return [self.shout(item) for item in self.desk.board.items]
        except ValueError as error:
            return str(error)

    def edit(self, what: Edit) -> None:
        verb, _, number = what
        if verb == "leave":
            self.is_away.value = not self.is_away.value
        elif verb == "greet":
            self.greeting.value = f"hi{number}"
        else:
            edit(self.desk, what)


def seen_of(rows: Callable[[], object]) -> object:
    try:
        return rows()
    except ValueError as error:
        return str(error)


@given(EDITS)
def test_every_reader_of_a_whole_list_has_what_a_comprehension_has(edits: list[Edit]) -> None:
    look = Look()
    with look.desk.app.open("memory:", actor="ann", on_error=look.desk.errors.append) as space:
        for each in edits:
            with space.transaction():
                look.edit(each)
            wanted = look.wanted
            assert look.shown[-1] == ("away" if look.is_away.value else wanted)
            assert look.echo.value == look.joined() == str(wanted)
            assert seen_of(look.rows) == wanted


@given(st.lists(EDITS, max_size=6))
def test_a_reader_that_runs_after_several_edits_has_what_a_comprehension_has(batches: list[list[Edit]]) -> None:
    """Elements that leave and come back in between are computed again: no reader has a result of before."""
    look = Look()
    late: list[object] = []

    @look.desk.app.sink(debounce="1s")
    def slow() -> None:
        late.append(seen_of(look.rows))

    with testing.probe(look.desk.app, actor="ann") as probe:
        for batch in batches:
            for each in batch:
                look.edit(each)
            probe.advance("2s")
            assert late[-1] == look.wanted


def test_an_element_that_left_and_came_back_unseen_is_still_kept_current() -> None:
    desk = Desk()
    rows = hw.each(desk.board.items, lambda item: item.title.upper(), name="rows")
    seen: list[object] = []

    @desk.app.sink(debounce="1s")
    def look() -> None:
        seen.append(rows())

    with testing.probe(desk.app) as probe:
        first, second = Item(title="a"), Item(title="b")
        desk.board.items.extend([first, second])
        probe.advance("2s")
        desk.board.items.remove(first)
        probe.settle()
        # Its node is gone. The sink has not run since.
        len(rows)
        desk.board.items.insert(0, first)
        len(rows)
        probe.advance("2s")
        first.title = "c"
        probe.advance("2s")
        assert seen[-1] == ["C", "B"]


def test_a_run_that_ends_its_transaction_itself_names_what_it_has_reused() -> None:
    desk = Desk()
    rows = hw.each(desk.board.items, lambda item: item.title.upper(), name="rows")
    echo = desk.app.cell("echo", "")
    named: list[int] = []

    @desk.app.sink(auto_debounce=False)
    def look() -> None:
        found = "".join(rows())
        frame = CONTEXT.get()
        assert frame is not None
        assert frame.tx is not None
        echo.value = found
        frame.tx.commit()
        named.append(len(frame.tx.ended_with[0].conflicts()) if frame.tx.ended_with is not None else 0)

    with desk.open():
        desk.fill(5)
        for number in range(3):
            desk.board.items[number].title = f"u{number}"
            # Five elements, and the list.
            assert named[-1] == 6
        assert echo.value == "U0U1U2T3T4"


def test_a_run_during_which_a_result_changes_that_it_has_reused_is_repeated() -> None:
    desk = Desk()
    rows = hw.each(desk.board.items, lambda item: item.title.upper(), name="rows")
    seen: list[list[str]] = []
    meanwhile: list[tuple[Replica, DocKey]] = []

    @desk.app.sink(auto_debounce=False)
    def look() -> None:
        seen.append(rows())
        for replica, doc in meanwhile:
            # As another session would.
            other = Transaction(replica, "other")
            other.set(doc, (), "OTHER")
            other.commit()
        meanwhile.clear()

    with desk.open() as space:
        desk.fill(5)
        items = list(desk.board.items)
        items[0].title = "u0"
        (sink,) = (node for node in space.scheduler.registry.nodes if node.name == "look")
        docs = [read[0] for read in sink.reads if ":instance:" in read[0]]
        meanwhile.append((space._opening.replica, docs[3]))
        count = len(seen)
        items[1].title = "u1"
        assert len(seen) == count + 2
        assert seen[-2:] == [["U0", "U1", "T2", "T3", "T4"], ["U0", "U1", "T2", "OTHER", "T4"]]
