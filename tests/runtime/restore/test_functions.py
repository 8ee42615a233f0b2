"""What kind of function it is decides what is kept of its runs: all, each for itself, or nothing."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import headwater as hw
from headwater.errors import NotReadyError
from headwater.host.space_facade import opening_of
from headwater.host.storage import storage_of
from headwater.runtime.options import Options
from headwater.testing import simulate
from tests.app.simulated import sim_loop
from tests.runtime.restore.kit import outcome, reason


class Item(hw.Doc):
    title: str
    price: int = 1


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()
    left: int = 0
    right: int = 0


# -- functions with parameters -------------------------------------------------------------------------------


def test_each_set_of_arguments_is_taken_over_for_itself_when_it_is_called(tmp_path: Path) -> None:
    app = hw.App("shop")
    one, two = app.cell("one", 1), app.cell("two", 2)

    @app.computed
    def times(which: str, number: int) -> int:
        return (one if which == "one" else two).value * number

    path = tmp_path / "shop.db"
    with app.open(path):
        assert [times("one", 3), times("two", 3)] == [3, 6]
    with app.open(path) as space:
        two.value = 4
        space.sync()
    with app.open(path) as space:
        assert outcome(space) == (0, 0, 0)
        assert times("one", 3) == 3
        assert (space.runs(times), *outcome(space)) == (0, 1, 0, 0)
        assert times("two", 3) == 12
        assert (space.runs(times), *outcome(space)) == (1, 1, 1, 0)
        assert times("one", 4) == 4
        assert space.runs(times) == 2
    with app.open(path) as space:
        assert [times("one", 3), times("two", 3), times("one", 4)] == [3, 12, 4]
        assert space.runs(times) == 0


def test_instance_that_is_restored_hears_of_later_changes(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 2)

    @app.computed
    def times(number: int) -> int:
        return rate.value * number

    path = tmp_path / "shop.db"
    with app.open(path):
        assert times(3) == 6
    with app.open(path) as space:
        assert times(3) == 6
        rate.value = 3
        assert times(3) == 9
        assert space.runs(times) == 1


def test_coordinator_is_restored_with_the_rows_that_it_called_for(tmp_path: Path) -> None:
    app = hw.App("shop")
    board = app.doc("board", Board)

    @app.computed
    def row(item: Item) -> str:
        return f"{item.title}: {item.price}"

    @app.computed
    def page() -> list[str]:
        return [row(item) for item in board.items]

    path = tmp_path / "shop.db"
    with app.open(path):
        tea, jam = Item(title="tea"), Item(title="jam")
        board.items.append(tea)
        board.items.append(jam)
        assert page() == ["tea: 1", "jam: 1"]
        jam_id = hw.id_of(jam)
    with app.open(path) as space:
        assert page() == ["tea: 1", "jam: 1"]
        assert (space.runs(page), space.runs(row)) == (0, 0)
        assert outcome(space) == (3, 0, 0)
    with app.open(path) as space:
        space.doc(jam_id, Item).price = 7
        space.sync()
    with app.open(path) as space:
        assert outcome(space) == (2, 1, 0)
        assert page() == ["tea: 1", "jam: 7"]
        assert (space.runs(page), space.runs(row)) == (1, 1)


def test_function_above_which_a_coordinator_stands_is_right_although_that_one_is_never_kept(tmp_path: Path) -> None:
    app = hw.App("shop")
    board = app.doc("board", Board)

    @app.computed
    def price(item: Item) -> int:
        return item.price

    @app.computed
    def total() -> int:
        return sum(price(item) for item in board.items)

    @app.computed
    def label() -> str:
        return f"{total()} euros"

    path = tmp_path / "shop.db"
    with app.open(path):
        tea = Item(title="tea")
        board.items.append(tea)
        assert label() == "1 euros"
        tea_id = hw.id_of(tea)
    with app.open(path) as space:
        space.doc(tea_id, Item).price = 5
    with app.open(path) as space:
        assert label() == "5 euros"
        assert space.runs(label) == 1
    with app.open(path) as space:
        assert label() == "5 euros"
        assert (space.runs(label), space.runs(price)) == (0, 0)


# -- functions that write besides their result ---------------------------------------------------------------


def test_function_with_writes_is_kept_with_all_that_it_wrote(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate, log = app.cell("rate", 2), app.cell("log", 0)

    @app.computed(writes=[log])
    def taxed() -> int:
        log.value = rate.value * 100
        return rate.value

    path = tmp_path / "shop.db"
    with app.open(path):
        assert taxed() == 2
    with app.open(path) as space:
        assert (taxed(), log.value, space.runs(taxed)) == (2, 200, 0)
        rate.value = 3
    with app.open(path) as space:
        assert outcome(space) == (0, 1, 0)
        assert (taxed(), log.value, space.runs(taxed)) == (3, 300, 1)
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)


def test_function_whose_result_stays_and_whose_other_write_changes_is_right_in_every_opening(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate, log = app.cell("rate", 2), app.cell("log", 0)

    @app.computed(writes=[log])
    def parity() -> int:
        log.value = rate.value * 100
        return rate.value % 2

    path = tmp_path / "shop.db"
    with app.open(path) as space:
        assert parity() == 0
        space.sync()
        rate.value = 4
        assert (parity(), log.value) == (0, 400)
    for _ in range(2):
        with app.open(path) as space:
            assert (parity(), log.value) == (0, 400)
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)


def test_other_document_of_a_function_that_somebody_has_overwritten_is_written_anew(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate, log = app.cell("rate", 2), app.cell("log", 0)

    @app.computed(writes=[log])
    def taxed() -> int:
        log.value = rate.value * 100
        return rate.value

    path = tmp_path / "shop.db"
    with app.open(path):
        assert taxed() == 2
    with app.open(path) as space:
        space.cell("shop.log").value = -1
    with app.open(path) as space:
        assert "shop.log was written after the run that is kept" in reason(space, "taxed")
        assert (taxed(), log.value) == (2, 200)


def test_field_beside_the_one_that_a_function_writes_costs_one_run_and_then_none(tmp_path: Path) -> None:
    """Which fields it has written is not kept: so the document as a whole has to be as it left it."""
    app = hw.App("shop")
    rate, board = app.cell("rate", 2), app.doc("board", Board)

    @app.computed(writes=[board])
    def left() -> int:
        board.left = rate.value
        return rate.value

    path = tmp_path / "shop.db"
    with app.open(path):
        assert left() == 2
    with app.open(path):
        board.right = 9
    with app.open(path) as space:
        assert (left(), board.left, board.right, space.runs(left)) == (2, 2, 9, 1)
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)


def test_materializer_runs_by_itself_after_a_restart_exactly_if_what_it_read_has_changed(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate, out, other = app.cell("rate", 2), app.cell("out", {"a": 0}), app.cell("other", 0)

    @app.computed(materializes=[out])
    def spread() -> int:
        out.value = {"a": rate.value}
        return rate.value

    @app.computed
    def seen() -> int:
        return out.value["a"]

    path = tmp_path / "shop.db"
    with app.open(path):
        assert seen() == 2
    with app.open(path) as space:
        assert space.stats.runs == {"spread": 0, "seen": 0}
        assert seen() == 2
        assert space.stats.runs == {"spread": 0, "seen": 0}
        other.value = 1
    with app.open(path) as space:
        assert outcome(space) == (2, 0, 0)
    with hw.App("elsewhere").open(path) as space:
        space.cell("shop.rate").value = 7
    with app.open(path) as space:
        assert outcome(space) == (1, 1, 0)
        assert space.runs(spread) == 1
        assert seen() == 7
        assert space.runs(seen) == 1


def test_demand_promotes_a_dirty_materializer_before_its_reader(tmp_path: Path) -> None:
    """A sink is known to have read what it writes: at the opening it sees the new value, and once."""
    app = hw.App("shop")
    rate, out = app.cell("rate", 2), app.cell("out", {"a": 0})

    @app.computed(materializes=[out])
    def spread() -> int:
        out.value = {"a": rate.value}
        return rate.value

    @app.sink(resume="quiet")
    def show() -> None:
        print(out.value["a"])

    path = tmp_path / "shop.db"
    with app.open(path):
        pass
    with hw.App("elsewhere").open(path) as space:
        space.cell("shop.rate").value = 7
    lines: list[str] = []
    with app.open(path, on_console=lambda said: lines.append(said.text)) as space:
        assert (space.runs(spread), space.runs(show)) == (1, 1)
    assert [line.strip() for line in lines] == ["7"]


# -- sinks ---------------------------------------------------------------------------------------------------


def test_quiet_sink_runs_only_if_what_it_read_has_changed(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 2)

    @app.sink(resume="quiet")
    def send() -> None:
        rate.value  # noqa: B018  # read

    path = tmp_path / "shop.db"
    with app.open(path) as space:
        assert space.runs(send) == 1
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)
        assert space.runs(send) == 0
        rate.value = 3
        assert space.runs(send) == 1
    with app.open(path) as space:
        assert space.runs(send) == 0
    with hw.App("elsewhere").open(path) as space:
        space.cell("shop.rate").value = 4
    with app.open(path) as space:
        assert space.runs(send) == 1


def test_quiet_sink_that_appends_and_counts_does_so_again_only_after_a_change(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 2)
    said = app.cell("said", type=list[int], default=[])
    count = app.cell("count", 0)

    @app.sink(resume="quiet")
    def keep() -> None:
        said.append(rate.value)
        count.value += 1

    path = tmp_path / "shop.db"
    for _ in range(3):
        with app.open(path) as space:
            assert (said.value, count.value) == ([2], 1)
    with app.open(path) as space:
        rate.value = 3
        assert (said.value, count.value) == ([2, 3], 2)
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)
        assert (said.value, count.value) == ([2, 3], 2)


def test_quiet_sink_that_writes_twice_before_the_store_decides_is_restored_from_its_last_run(tmp_path: Path) -> None:
    """The observation of its first run was kept instead of that of the second."""
    app = hw.App("shop")
    rate = app.cell("rate", 2)
    double = app.cell("double", 0)

    @app.sink(resume="quiet")
    def keep() -> None:
        double.value = rate.value * 2

    path, decide = tmp_path / "shop.db", threading.Event()
    with app.open(path) as space:
        space.sync()
        storage = storage_of(opening_of(space)._lease)
        holding = threading.Thread(target=storage.call, args=(lambda _: decide.wait(),))
        holding.start()
        rate.value = 3
        rate.value = 4
        decide.set()
        holding.join()
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)
        assert double.value == 8


def test_quiet_sink_hears_of_a_function_above_it_that_has_to_run(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 2)

    @app.computed
    def doubled() -> int:
        return rate.value * 2

    @app.sink(resume="quiet")
    def send() -> None:
        doubled()

    path = tmp_path / "shop.db"
    with app.open(path) as space:
        assert space.runs(send) == 1
    with app.open(path) as space:
        assert (space.runs(doubled), space.runs(send)) == (0, 0)
    with hw.App("elsewhere").open(path) as space:
        space.cell("shop.rate").value = 4
    with app.open(path) as space:
        assert (space.runs(doubled), space.runs(send)) == (1, 1)
    with app.open(path) as space:
        assert (space.runs(doubled), space.runs(send)) == (0, 0)


def test_quiet_sink_that_writes_is_run_by_each_opening(tmp_path: Path) -> None:
    """Of what it writes nobody is the owner: nothing can be said of it later."""
    app = hw.App("shop")
    rate, out = app.cell("rate", 2), app.cell("out", 0)

    @app.sink(resume="quiet")
    def copy() -> None:
        out.value = rate.value

    path = tmp_path / "shop.db"
    for _ in range(2):
        with app.open(path):
            assert out.value == 2
    with hw.App("elsewhere").open(path) as space:
        space.cell("shop.rate").value = 4
    with app.open(path):
        assert out.value == 4


# -- of which nothing is kept --------------------------------------------------------------------------------


def test_function_that_failed_runs_again_and_says_so_again(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 0)

    @app.computed
    def share() -> float:
        return 10 / rate.value

    path = tmp_path / "shop.db"
    for _ in range(2):
        with app.open(path) as space:
            assert outcome(space)[0] == 0
            try:
                share()
            except ZeroDivisionError:
                pass
            else:
                raise AssertionError
            assert space.runs(share) == 1


def test_function_that_came_to_a_result_and_failed_since_is_not_restored(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 5)

    @app.computed
    def share() -> float:
        return 10 / rate.value

    path = tmp_path / "shop.db"
    with app.open(path) as space:
        assert share() == 2
        space.sync()
        rate.value = 0
        with suppress(ZeroDivisionError):
            share()
    with app.open(path) as space:
        assert outcome(space) == (0, 0, 1)
        assert reason(space, "share") == "its last run failed: it is tried again"
        rate.value = 2
        assert share() == 5


def test_result_that_is_one_users_own_is_computed_by_each_opening_for_its_own(tmp_path: Path) -> None:
    app = hw.App("shop")
    draft = app.cell("draft", "nothing", scope="user")
    prefix = app.cell("prefix", "draft")

    @app.computed
    def shown() -> str:
        return f"{prefix.value}: {draft.value}"

    @app.computed
    def louder() -> str:
        return shown().upper()

    path = tmp_path / "shop.db"
    with app.open(path, actor="ann"):
        draft.value = "tea"
        assert louder() == "DRAFT: TEA"
    for _ in range(2):
        with app.open(path, actor="bob") as space:
            assert louder() == "DRAFT: NOTHING"
            assert outcome(space)[0] == 0
        with app.open(path, actor="ann"):
            assert louder() == "DRAFT: TEA"


def test_function_that_turns_to_a_users_own_is_not_restored_from_what_it_read_before(tmp_path: Path) -> None:
    app = hw.App("shop")
    private = app.cell("private", False)
    draft, public = app.cell("draft", "nothing", scope="user"), app.cell("public", "all")

    @app.computed
    def shown() -> str:
        return draft.value if private.value else public.value

    path = tmp_path / "shop.db"
    with app.open(path, actor="ann"):
        assert shown() == "all"
        draft.value = "tea"
        private.value = True
        assert shown() == "tea"
    with app.open(path, actor="bob"):
        assert shown() == "nothing"
    with app.open(path, actor="ann"):
        assert shown() == "tea"
        private.value = False
        assert shown() == "all"
    with app.open(path, actor="bob") as space:
        assert shown() == "all"
        assert outcome(space)[1:] == (0, 0)


def test_function_that_peeks_into_another_space_always_runs(tmp_path: Path) -> None:
    near, far = hw.App("near"), hw.App("far")
    here, there = near.cell("here", 1), far.cell("there", 10)

    @near.computed
    def both() -> int:
        return here.value + there.peek()

    @near.computed
    def below() -> int:
        return both() * 2

    with far.open(tmp_path / "far.db"), near.open(tmp_path / "near.db") as space:
        assert below() == 22
    with far.open(tmp_path / "far.db"):
        there.value = 20
    with far.open(tmp_path / "far.db"), near.open(tmp_path / "near.db") as space:
        assert below() == 42
        assert space.runs(both) == 1
    with far.open(tmp_path / "far.db"), near.open(tmp_path / "near.db") as space:
        # What it came to is the same: below it, nobody runs.
        assert below() == 42
        assert (space.runs(both), space.runs(below)) == (1, 0)


# -- async functions -----------------------------------------------------------------------------------------


def test_async_function_is_restored_and_runs_again_when_what_it_read_changes(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 2)

    @app.computed
    async def slow() -> int:
        found = rate.value
        await asyncio.sleep(1)
        return found * 10

    @app.sink
    def show() -> None:
        with suppress(NotReadyError):
            slow()

    async def opened(change: int | None = None) -> tuple[int, int]:
        async with app.aopen_with(tmp_path / "shop.db", Options(now=sim_loop().now_ms)) as space:
            before = space.runs(slow)
            if change is not None:
                rate.value = change
                await space.settle()
            return before, slow()

    assert simulate(opened()) == (1, 20)
    assert simulate(opened()) == (0, 20)
    assert simulate(opened(3)) == (0, 30)
    assert simulate(opened()) == (0, 30)
    with hw.App("elsewhere").open(tmp_path / "shop.db") as space:
        space.cell("shop.rate").value = 4
    assert simulate(opened()) == (1, 40)


def test_async_function_that_is_stopped_under_way_runs_in_the_next_opening(tmp_path: Path) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 2)

    @app.computed
    async def slow() -> int:
        found = rate.value
        await asyncio.sleep(1)
        return found * 10

    async def left() -> None:
        async with app.aopen_with(tmp_path / "shop.db", Options(now=sim_loop().now_ms)):
            with suppress(NotReadyError):
                slow()

    async def taken() -> int:
        async with app.aopen_with(tmp_path / "shop.db", Options(now=sim_loop().now_ms)) as space:
            with suppress(NotReadyError):
                slow()
            await space.settle()
            assert space.runs(slow) == 1
            return slow()

    simulate(left())
    assert simulate(taken()) == 20
