"""One app opened more than once: which opening a cell means, and what openings of one file see of each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import cast

import pytest

import headwater as hw
from headwater.core import doc_key, open_space
from headwater.errors import AmbiguousError, ConflictError, NotOpen, RejectedError, SpaceHeldError, UsageError
from headwater.host import space_files
from headwater.host.space_files import share_space
from headwater.host.storage import Storage
from tests.app.holding import SAFETY_S, disk_held, in_thread

app = hw.App("shop")
count = app.cell("count", 0)
items = app.cell("items", list[int]())


@app.computed
def doubled() -> int:
    return count.value * 2


# --- which one is meant -----------------------------------------------------------------------------------


def test_innermost_opening_is_meant_and_then_the_outer_again(tmp_path: Path) -> None:
    with app.open(str(tmp_path / "outer.db")):
        count.value = 1
        with app.open(str(tmp_path / "inner.db")):
            assert (count.value, doubled()) == (0, 0)
            count.value = 5
            assert doubled() == 10
        assert (count.value, doubled()) == (1, 2)
        with app.open(str(tmp_path / "inner.db")):
            assert (count.value, doubled()) == (5, 10)
    with pytest.raises(NotOpen):
        count.value  # noqa: B018


def test_transaction_of_the_outer_opening_is_not_joined_by_writes_to_the_inner() -> None:
    with app.open("memory:") as outer:
        with pytest.raises(KeyError), outer.transaction():
            count.value = 1
            with app.open("memory:") as inner:
                count.value = 2
                assert inner.cell("shop.count", int).value == 2
                assert outer.cell("shop.count", int, default=0).value == 1
            raise KeyError
        assert count.value == 0


def test_cell_of_a_space_always_means_that_space() -> None:
    with app.open("memory:") as outer, app.open("memory:") as inner:
        count.value = 1
        outer.cell("shop.count", int).value = 2
        assert (count.value, inner.cell("shop.count", int).value, outer.cell("shop.count", int).value) == (1, 1, 2)


def test_transaction_block_of_a_space_says_which_is_meant() -> None:
    with app.open("memory:") as outer, app.open("memory:"):
        with outer.transaction():
            count.value = 7
            assert count.value == 7
        assert (count.value, outer.cell("shop.count", int).value) == (0, 7)


def test_threads_each_mean_their_own_opening(tmp_path: Path) -> None:
    barrier = threading.Barrier(3)

    def work(number: int) -> int:
        with app.open(str(tmp_path / f"{number}.db")):
            barrier.wait(SAFETY_S)
            count.value = number
            barrier.wait(SAFETY_S)
            assert (count.value, doubled()) == (number, number * 2)
            barrier.wait(SAFETY_S)
            return count.value

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [0, 1, 2]


def test_plain_thread_means_the_only_opening_there_is() -> None:
    shown: list[int] = []
    app = hw.App("shop")
    count = app.cell("count", 0)
    app.sink(name="show")(lambda: shown.append(count.value))

    def work() -> None:
        count.value += 1
        assert count.value == 1

    with app.open("memory:"):
        in_thread(work)
        assert (count.value, shown) == (1, [0, 1])


def test_code_without_an_opening_around_it_is_told_when_there_are_several(tmp_path: Path) -> None:
    def use(what: Callable[[], object]) -> None:
        with pytest.raises(AmbiguousError, match="HW109") as caught:
            what()
        assert "('north', 'south')" in caught.value.message
        assert "use it inside the `with` block that is meant" in caught.value.message

    with app.open(f"{tmp_path}/", space="north") as north, app.open(f"{tmp_path}/", space="south"):
        for what in (lambda: count.value, lambda: setattr(count, "value", 1), lambda: items.append(1), doubled):
            in_thread(partial(use, what))
        in_thread(lambda: setattr(north.cell("shop.count", int), "value", 3))

        def inside() -> None:
            with north.transaction():
                assert count.value == 3
                count.value = 4

        in_thread(inside)
        assert (count.value, north.cell("shop.count", int).value) == (0, 4)
    with app.open("memory:"):
        in_thread(lambda: count.value)


def test_opening_without_a_block_is_the_one_that_is_meant_while_it_is_the_only_one() -> None:
    space = app.open("memory:")
    count.value = 3
    other = app.open("memory:")
    with pytest.raises(AmbiguousError):
        count.value  # noqa: B018
    other.close()
    assert count.value == 3
    space.close()
    with pytest.raises(NotOpen):
        count.value  # noqa: B018


# --- one file ---------------------------------------------------------------------------------------------


def test_openings_of_one_file_see_each_others_commits_after_a_sync(tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    with app.open(url) as one, app.open(url) as other:
        one_count, other_count = one.cell("shop.count", int), other.cell("shop.count", int)
        one_count.value = 1
        one.sync()
        assert other_count.value == 1
        other_count.value = 2
        other.sync()
        assert one_count.value == 2
        with one.transaction():
            assert doubled() == 4


def test_transaction_starts_from_what_is_known(tmp_path: Path) -> None:
    """Else it would be rejected for something that has been here all the time."""
    url = str(tmp_path / "shop.db")
    with app.open(url) as one, app.open(url) as other:
        assert count.value == 0
        one.cell("shop.count", int).value = 1
        one.sync()
        with other.transaction():
            count.value += 1
        other.sync()
        assert count.value == 2


def test_computed_sees_what_was_synced_as_soon_as_its_cells_do(tmp_path: Path) -> None:
    """Nobody has read anything since: the call itself has to take in what is new."""
    url = str(tmp_path / "shop.db")
    with app.open(url) as one, app.open(url):
        assert doubled() == 0
        one.cell("shop.count", int).value = 5
        one.sync()
        assert doubled() == 10


def test_sinks_of_one_opening_react_to_commits_of_another(tmp_path: Path) -> None:
    shown: list[int] = []
    app = hw.App("shop")
    count = app.cell("count", 0)
    doubled = app.computed(name="doubled")(lambda: count.value * 2)
    app.sink(name="show")(lambda: shown.append(doubled()))
    url = str(tmp_path / "shop.db")
    with app.open(url) as one, app.open(url) as other:
        shown.clear()
        one.cell("shop.count").value = 4
        assert shown == [8]
        one.sync()
        other.settle()
        assert shown == [8, 8]
        other.sync()
        one.sync()
        assert shown == [8, 8], "equal results of the two do not wake each other"


def test_last_opening_of_a_file_closes_it(tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    one, other = app.open(url), app.open(url)
    assert one._opening._lease.storage is other._opening._lease.storage
    with one.transaction():
        count.value = 1
    one.close()
    with other.transaction():
        assert count.value == 1
        count.value = 2
    with pytest.raises(SpaceHeldError):
        open_space(url)
    other.close()
    with open_space(url) as space:
        assert space.attach().read(doc_key("shop.count")) == 2


def test_different_apps_share_a_file(tmp_path: Path) -> None:
    office = hw.App("office")
    seats = office.cell("seats", 3)
    url = str(tmp_path / "shop.db")
    with app.open(url), office.open(url):
        count.value, seats.value = 1, 2
    with office.open(url), app.open(url):
        assert (count.value, seats.value) == (1, 2)


def test_conflict_between_openings_is_told_by_sync_and_the_winner_is_seen(tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    with app.open(url) as one, app.open(url) as other:
        assert one.cell("shop.count", int, default=0).value == other.cell("shop.count", int, default=0).value == 0
        with disk_held(one._opening):
            for space in (one, other):
                with space.transaction():
                    count.value += 1 if space is one else 10
        one.sync()
        with pytest.raises(ConflictError, match=r"shop\.count") as caught:
            other.sync()
        assert "Run it again on the current values" in caught.value.message
        assert one.cell("shop.count").value == other.cell("shop.count").value == 1
        assert (other.stats.rejected, one.stats.rejected) == (1, 0)
        other.sync()


def test_several_lost_transactions_are_told_together(tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    with app.open(url) as one, app.open(url) as other:
        assert one.cell("shop.count", int, default=0).value == other.cell("shop.count", int, default=0).value == 0
        with disk_held(one._opening):
            one.cell("shop.count", int).value = 1
            for _ in range(3):
                with other.transaction():
                    count.value += 1
        one.sync()
        with pytest.raises(RejectedError) as caught:
            other.sync()
        assert "3 transactions in space 'shop' were rejected. The first: " in str(caught.value)
        assert len(cast("tuple[object, ...]", caught.value.facts["rejected"])) == 3


def test_appends_of_two_openings_are_both_kept(tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    with app.open(url) as one, app.open(url) as other:
        with one.transaction():
            items.value = [0]
        one.sync()
        assert one.cell("shop.items").value == other.cell("shop.items").value == [0]
        with disk_held(one._opening):
            for number, space in enumerate((one, other), 1):
                with space.transaction():
                    items.append(number)
        one.sync()
        other.sync()
        assert sorted(items.value) == [0, 1, 2] == sorted(one.cell("shop.items", list[int]).value)


# --- sharing ----------------------------------------------------------------------------------------------


def test_lease_is_given_back_once(tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    one, other = share_space(url), share_space(url)
    one.release()
    one.release()
    assert other.storage.attach() is not None
    other.release()
    other.release()
    open_space(url).close()


def test_opening_a_file_while_its_last_opening_is_being_closed_waits_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "shop.db")
    closing, go_on, original = threading.Event(), threading.Event(), Storage.close

    def slow(self: Storage) -> None:
        closing.set()
        assert go_on.wait(SAFETY_S)
        original(self)

    space = app.open(url)
    count.value = 3
    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(Storage, "close", slow)
        ends = pool.submit(space.close)
        assert closing.wait(SAFETY_S)
        opens = pool.submit(app.open, url)
        with app.open(str(tmp_path / "other.db")) as elsewhere:
            assert not opens.done() and elsewhere.name == "other", "only that file is waited for"
            go_on.set()
            ends.result(SAFETY_S)
            again = opens.result(SAFETY_S)
    assert again.cell("shop.count").value == 3
    again.close()
    assert not space_files._state().shared


def test_failed_opening_of_a_shared_file_leaves_nothing_behind(tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    for _ in range(2):
        with pytest.raises(UsageError):
            share_space(url, create=False)
    assert not space_files._state().shared
    share_space(url).release()


def test_second_opening_is_not_given_less_durability_than_it_asks_for(tmp_path: Path) -> None:
    url = str(tmp_path / "shop.db")
    with app.open(url, durability="normal"):
        with pytest.raises(UsageError, match="durability='normal'"):
            app.open(url)
        with app.open(url, durability="normal"):
            count.value = 1
    with app.open(url), app.open(url, durability="normal"):
        assert count.value == 1
