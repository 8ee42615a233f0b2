"""What an open space offers besides the app's own cells."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import HeadwaterError, NameRefusedError, SchemaError, UnavailableError, UsageError
from tests.app.holding import SAFETY_S, disk_held


class Person(hw.Doc):
    name: str
    age: int = 30


app = hw.App("shop")
count = app.cell("count", 0)
stock = app.cell("stock", {"tea": {"green": [1, 2, 3]}})
person = app.doc("person", Person)


@app.computed
def doubled() -> int:
    return count.value * 2


# --- transactions -----------------------------------------------------------------------------------------


def test_transaction_is_all_or_nothing_and_nested_ones_can_fail_alone() -> None:
    with app.open("memory:") as space:
        with space.transaction():
            count.value = 1
            with pytest.raises(KeyError), space.transaction():
                count.value = 2
                stock.value = {}
                raise KeyError
            assert count.value == 1
        assert (count.value, stock.exists) == (1, False)


def test_transaction_block_is_used_once() -> None:
    with app.open("memory:") as space:
        block = space.transaction()
        with block:
            pass
        with pytest.raises(UsageError, match="a transaction block is entered once"), block:
            pass


def test_transaction_tells_how_it_ended() -> None:
    ends: list[str] = []
    with app.open("memory:") as space:
        with space.transaction() as tx:
            tx.on_settled(lambda settled: ends.append(settled.status.value))
            count.value = 1
        assert ends == []
        space.sync()
        with pytest.raises(KeyError), space.transaction() as tx:
            tx.on_settled(lambda settled: ends.append(settled.status.value))
            raise KeyError
        assert ends == ["committed", "aborted"]


# --- cells and documents without declarations -------------------------------------------------------------


def test_cell_of_an_address_reads_and_writes_the_place() -> None:
    with app.open("memory:") as space:
        stock.value = {"tea": {"green": [1, 2, 3]}}
        tea = space.cell("shop.stock/tea/green/1", int)
        assert tea.value == 2
        tea.value = 7
        assert stock.value == {"tea": {"green": [1, 7, 3]}}
        assert space.cell(tea.address).value == 7
        assert space.cell("shop.stock").value == stock.value


def test_cell_of_an_address_wakes_sinks_like_any_other() -> None:
    app = hw.App("shop")
    count = app.cell("count", 0)
    shown: list[int] = []
    app.sink(name="show")(lambda: shown.append(count.value))
    with app.open("memory:") as space:
        space.cell("shop.count", int).value = 5
        assert shown == [0, 5]


def test_cell_of_an_address_checks_what_is_written() -> None:
    with app.open("memory:") as space:
        cell = space.cell("shop.count", int, default=3)
        assert cell.value == 3
        with pytest.raises(SchemaError):
            cell.value = "many"  # type: ignore[assignment]


def test_default_of_a_cell_that_does_not_fit_is_refused() -> None:
    with app.open("memory:") as space:
        bad: Any = "many"
        with pytest.raises(HeadwaterError, match=r"the default of shop\.count"):
            space.cell("shop.count", int, default=bad)


@pytest.mark.parametrize("address", ["", "/", "a//b", "a/~2", "user:!a"])
def test_address_that_is_none_is_refused(address: str) -> None:
    with app.open("memory:") as space, pytest.raises(NameRefusedError, match="HW105"):
        space.cell(address)


def test_document_of_an_id_is_the_document() -> None:
    with app.open("memory:") as space:
        ann = Person(name="Ann")
        found = space.doc(hw.id_of(ann), Person)
        assert found == ann and found.name == "Ann"
        loose = space.doc(hw.id_of(ann))
        assert (loose.name, loose.age) == ("Ann", 30)
        found.age = 31
        assert loose.age == 31
        with pytest.raises(AttributeError):
            loose.nothing  # noqa: B018


# --- counts -----------------------------------------------------------------------------------------------


def test_stats_count_what_happened() -> None:
    with app.open("memory:", space="stats") as space:
        assert count.value == 0
        before = space.stats
        assert (before.space, before.commits, before.rejected, before.runs) == ("stats", 0, 0, {"doubled": 0})
        with disk_held(space._opening):
            count.value = 1
            count.value = 2
            assert (space.stats.commits, space.stats.pending) == (2, 2)
        space.sync()
        after = space.stats
        assert (after.commits, after.pending, after.seq - before.seq) == (2, 0, 2)
        assert after.groups > before.groups and after.documents >= 1
        assert doubled() == 4
        assert space.stats.runs == {"doubled": 1}


def test_runs_are_counted_for_each_opening() -> None:
    with app.open("memory:") as outer:
        doubled()
        with app.open("memory:") as inner:
            assert (outer.runs(doubled), inner.runs(doubled)) == (1, 0)


def test_runs_of_something_else_are_refused() -> None:
    other = hw.App("other").computed(name="f")(lambda: 1)
    with app.open("memory:") as space:
        for thing in (other, print, "doubled", None):
            with pytest.raises(UsageError, match=r"is not a function of this app; name one made with @app\.computed"):
                space.runs(thing)


# --- syncing ----------------------------------------------------------------------------------------------


def test_sync_gives_up_after_its_timeout_and_the_commits_are_still_tried() -> None:
    with app.open("memory:") as space:
        assert count.value == 0
        with disk_held(space._opening):
            count.value = 1
            with pytest.raises(UnavailableError, match=r"1 commits of space 'main' are not on disk after 0\.01 s"):
                space.sync(timeout="10ms")
        space.sync(timeout=f"{SAFETY_S}s")
        assert (space.stats.pending, count.value) == (0, 1)


def test_sync_with_nothing_to_wait_for_returns_at_once() -> None:
    with app.open("memory:") as space:
        space.sync()
        space.sync(timeout=0)
