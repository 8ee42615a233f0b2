"""Instances that nobody asks for any more go: their nodes, what is registered for them, what the store keeps of them.

Counted: after a thousand different arguments have come and gone, all is as it was at the start.
"""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import SetDoc, doc_key
from headwater.declare.functions import instances
from headwater.runtime import restore
from headwater.runtime.opening import Opening
from headwater.scheduler.graph.node import Node
from headwater.store.engine import Engine
from headwater.testing import probe


class Item(hw.Doc):
    title: str = ""
    done: bool = False


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()


@pytest.fixture
def app() -> hw.App:
    return hw.App("rows")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """As if not many were kept."""
    for module in (instances, restore):
        monkeypatch.setattr(module, "UNREAD_MAX", 10)
    return 10


def rows(space: Opening) -> int:
    """What the store keeps of runs."""

    def counted(engine: Engine) -> int:
        engine.fold()
        return len(engine.backend.observations("main"))

    return space.ask_store(counted)


def counts(space: Opening) -> tuple[int, int, int, int]:
    """Nodes, registered reads, documents in memory, and rows: when everything is decided."""
    space.wait_for_disk()
    space.catch_up()
    space.store_observations()
    stats = space.scheduler.get_stats()
    return stats.computations, stats.reads, space.stats.documents, rows(space)


# --- read by functions ------------------------------------------------------------------------------------


def test_counts_are_as_at_the_start_after_a_thousand_arguments(app: hw.App) -> None:
    which, factor = app.cell("which", 0), app.cell("factor", 1)

    @app.computed
    def times(number: int) -> int:
        return number * factor.value

    @app.sink
    def show() -> None:
        times(which.value)

    with probe(app, idempotency=False) as t:
        which.value = 1
        start = counts(t.space._opening)
        for number in range(2, 1002):
            which.value = number
        assert counts(t.space._opening) == start
        assert t.runs(times) == 1002, "that they ran is not forgotten"
        assert start[0] == start[3] == 1


def test_records_of_those_that_went_are_gone_from_memory(app: hw.App) -> None:
    which = app.cell("which", 0)

    @app.computed
    def times(number: int) -> int:
        return number

    app.sink(name="show")(lambda: times(which.value))

    def records() -> int:
        gc.collect()
        return sum(type(each) is Node for each in gc.get_objects())

    with probe(app, idempotency=False) as t:
        which.value = 1
        counts(t.space._opening)
        start = records()
        for number in range(2, 302):
            which.value = number
        counts(t.space._opening)
        assert records() == start


def test_arguments_that_come_and_go_by_hundreds(app: hw.App) -> None:
    upto = app.cell("upto", 0)

    @app.computed
    def times(number: int) -> int:
        return number

    app.sink(name="show")(lambda: sum(times(number) for number in range(upto.value)))
    with probe(app, idempotency=False) as t:
        upto.value = 1
        start = counts(t.space._opening)
        for _ in range(3):
            upto.value = 500
            assert counts(t.space._opening)[0] == 500
            upto.value = 1
            assert counts(t.space._opening) == start


def test_row_of_an_item_that_is_taken_out_goes_and_the_others_stay(app: hw.App) -> None:
    board = app.doc("board", Board)

    @app.computed
    def row(item: Item) -> str:
        return item.title

    shown: list[list[str]] = []
    app.sink(name="show")(lambda: shown.append([row(item) for item in board.items if not item.done]))
    with probe(app, idempotency=False) as t:
        for title in ("a", "b", "c"):
            board.items.append(Item(title=title))
        assert (counts(t.space._opening)[0], t.runs(row)) == (3, 3)
        board.items[1].done = True
        assert (shown[-1], counts(t.space._opening)[0]) == (["a", "c"], 2)
        board.items[1].title = "bb"
        assert t.runs(row) == 3
        board.items[1].done = False
        assert (shown[-1], t.runs(row), counts(t.space._opening)[0]) == (["a", "bb", "c"], 4, 3)


def test_those_that_only_it_has_read_go_with_it(app: hw.App) -> None:
    top, step = app.cell("top", 10), app.cell("step", 1)

    @app.computed
    def below(number: int) -> int:
        return step.value if number == 0 else below(number - 1) + 1

    app.sink(name="show")(lambda: below(top.value) if top.value else None)
    with probe(app, idempotency=False) as t:
        assert counts(t.space._opening)[0] == 11
        top.value = 5
        assert counts(t.space._opening)[0] == 6, "the lower half is still read"
        top.value = 0
        assert counts(t.space._opening)[0] == counts(t.space._opening)[3] == 0
        top.value = 600
        assert counts(t.space._opening)[0] == 601
        top.value = 0
        assert counts(t.space._opening)[0] == 0


def test_what_a_computed_reads_that_nobody_looks_at_is_kept_for_it(app: hw.App) -> None:
    values, looked = app.cell("values", {f"k{index}": 1 for index in range(20)}), app.cell("looked", True)

    @app.computed
    def entry(key: str) -> int:
        return values.key(key).value

    @app.computed
    def total() -> int:
        return sum(entry(f"k{index}") for index in range(20))

    app.sink(name="show")(lambda: total() if looked.value else None)
    with probe(app, idempotency=False) as t:
        values.value = dict(values.value)
        looked.value = False
        assert counts(t.space._opening)[0] == 21
        before = t.runs(entry)
        values.key("k7").value = 5
        assert (total(), t.runs(entry) - before) == (24, 1)


def test_two_readers_of_one_let_it_go_with_the_last(app: hw.App) -> None:
    one, two = app.cell("one", 5), app.cell("two", 5)

    @app.computed
    def times(number: int) -> int:
        return number

    app.sink(name="first")(lambda: times(one.value))
    app.sink(name="second")(lambda: times(two.value))
    with probe(app, idempotency=False) as t:
        assert counts(t.space._opening)[0] == 1
        one.value = 6
        assert (counts(t.space._opening)[0], t.runs(times)) == (2, 2)
        two.value = 6
        assert (counts(t.space._opening)[0], t.runs(times)) == (1, 2)


def test_reader_that_fails_keeps_what_it_has_read_until_then(app: hw.App) -> None:
    which, bad = app.cell("which", 1), app.cell("bad", 0)

    @app.computed
    def times(number: int) -> int:
        return number

    @app.sink
    def show() -> None:
        times(which.value)
        if bad.value:
            raise ValueError("bad")
        times(100)

    with probe(app, idempotency=False) as t:
        assert counts(t.space._opening)[0] == 2
        bad.value = 1
        assert (counts(t.space._opening)[0], len(t.errors)) == (1, 1)
        bad.value = 0
        assert counts(t.space._opening)[0] == 2


def test_argument_that_comes_back_runs_again_and_is_kept_again(app: hw.App) -> None:
    which, factor = app.cell("which", 1), app.cell("factor", 2)
    seen: list[int] = []

    @app.computed
    def times(number: int) -> int:
        return number * factor.value

    app.sink(name="show")(lambda: seen.append(times(which.value)))
    with probe(app, idempotency=False) as t:
        which.value = 2
        factor.value = 3
        which.value = 1
        assert (seen, t.runs(times)) == ([2, 4, 6, 3], 4)
        t.restart()
        assert (seen[-1], t.runs(times), counts(t.space._opening)[3]) == (3, 4, 1)


def test_plain_call_of_one_that_is_let_go_meanwhile_is_right(app: hw.App) -> None:
    """It is found, then comes the pass in which nobody reads it any more, then it is asked for its value."""
    which, factor = app.cell("which", 1), app.cell("factor", 2)

    @app.computed
    def times(number: int) -> int:
        return number * factor.value

    app.sink(name="show")(lambda: times(which.value))
    with app.open("memory:") as space:
        other = space._opening._lease.storage.attach()
        other.commit([SetDoc(doc_key("rows.which"), 2), SetDoc(doc_key("rows.factor"), 5)])
        other.sync()
        assert space._opening.inbox
        assert (times(1), times(2)) == (5, 10)


# --- called by plain code ---------------------------------------------------------------------------------


def test_of_those_that_plain_code_called_the_last_are_kept_and_the_rows_of_the_others_go(app: hw.App, few: int) -> None:
    factor = app.cell("factor", 1)

    @app.computed
    def times(number: int) -> int:
        return number * factor.value

    with probe(app, idempotency=False) as t:
        for number in range(few * 10):
            times(number)
        nodes, _, _, kept = counts(t.space._opening)
        assert nodes == kept <= few * 2 + 1
        assert t.runs(times) == few * 10
        t.restart()
        assert [times(number) for number in range(few * 9, few * 10)] == list(range(few * 9, few * 10))
        assert t.runs(times) == few * 10, "each was taken over when it was called"


def test_what_only_those_have_read_goes_with_them(app: hw.App, few: int) -> None:
    factor = app.cell("factor", 1)

    @app.computed
    def part(number: int, index: int) -> int:
        return number * index * factor.value

    @app.computed
    def whole(number: int) -> int:
        return sum(part(number, index) for index in range(5))

    with probe(app, idempotency=False) as t:
        for number in range(few * 10):
            whole(number)
        assert counts(t.space._opening)[0] <= (few * 2 + 1) * 6


def test_what_a_computed_reads_no_more_that_only_plain_code_calls_goes_at_once(app: hw.App) -> None:
    """Nobody looks, so there is no pass at whose end it could go."""
    which = app.cell("which", 0)

    @app.computed
    def times(number: int) -> int:
        return number

    @app.computed
    def chosen() -> int:
        return times(which.value)

    with probe(app, idempotency=False) as t:
        for number in range(100):
            which.value = number
            assert chosen() == number
        assert counts(t.space._opening)[0] == 2


# --- in the store -----------------------------------------------------------------------------------------


def test_rows_go_from_a_file_too_and_stay_away(app: hw.App, tmp_path: Path) -> None:
    which = app.cell("which", 0)

    @app.computed
    def times(number: int) -> int:
        return number + 1

    app.sink(name="show")(lambda: times(which.value))
    path = tmp_path / "rows.db"
    with app.open(path) as space:
        for number in range(600):
            which.value = number
        assert counts(space._opening)[3] == 1
    with app.open(path) as space:
        assert (rows(space._opening), space.runs(times)) == (1, 0)
        which.value = 1000
    with app.open(path) as space:
        assert (rows(space._opening), space.runs(times)) == (1, 0)


def test_rows_are_dropped_while_a_program_runs_that_never_waits_for_the_disk(
    app: hw.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "GONE_MAX", 20)
    which = app.cell("which", 0)

    @app.computed
    def times(number: int) -> int:
        return number

    app.sink(name="show")(lambda: times(which.value))
    with probe(app, idempotency=False) as t:
        for number in range(200):
            which.value = number
            t.space._opening.wait_for_disk()
        assert rows(t.space._opening) <= 25


def test_rows_that_no_opening_asks_for_any_more_do_not_pile_up(app: hw.App, few: int, tmp_path: Path) -> None:
    """As after a crash, or if somebody has emptied a list while the program was not running."""
    upto = app.cell("upto", few * 5)

    @app.computed
    def times(number: int) -> int:
        return number

    app.sink(name="show")(lambda: [times(number) for number in range(upto.value)])
    path = tmp_path / "rows.db"
    with app.open(path) as space:
        assert counts(space._opening)[3] == few * 5
    script = hw.App("rows")
    emptied = script.cell("upto", 0)
    with script.open(path) as space:
        emptied.value = 0
        assert rows(space._opening) == few * 5, "of functions that it does not declare it drops nothing"
    with app.open(path) as space:
        assert (rows(space._opening), space.runs(times)) == (few * 5, 0)
    with app.open(path) as space:
        assert rows(space._opening) == few
        assert [times(number) for number in range(few * 5 - few, few * 5)] == list(range(few * 5 - few, few * 5))
        assert space.runs(times) == 0, "the newest are kept"
        assert (times(0), space.runs(times)) == (0, 1)


def test_notes_of_runs_that_wrote_nothing_are_not_kept_of_those_that_went(app: hw.App) -> None:
    """The same result as in an opening before: only what was read would be kept, with the next commit."""
    which, noise = app.cell("which", 1), app.cell("noise", 0)

    @app.computed
    def steady(number: int) -> int:
        return number + noise.value * 0

    app.sink(name="show")(lambda: steady(which.value))
    with probe(app, idempotency=False) as t:
        noise.value = 1
        with t.space.transaction():
            noise.value = 2
            which.value = 2
        noise.value = 3
        assert counts(t.space._opening)[3] == 1
        t.restart()
        assert counts(t.space._opening)[3] == 1


# --- async ------------------------------------------------------------------------------------------------


def test_async_instance_goes_when_it_has_come_to_its_end(app: hw.App) -> None:
    which = app.cell("which", 1)

    @app.computed
    async def slow(number: int) -> int:
        await asyncio.sleep(1)
        return number

    @app.sink
    def show() -> None:
        slow(which.value)

    with probe(app) as t:
        t.advance("1s")
        for number in range(2, 20):
            which.value = number
        t.advance("2s")
        assert (slow(19), t.space.scheduler.get_stats().computations) == (19, 1)
        assert t.errors == []
