"""Whoever wrote while a function was not there: what it read has changed, or it has not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import SetDoc, doc_key, freeze, open_space
from tests.runtime.restore.kit import outcome

PROCESS = """
import sys
import headwater as hw

app = hw.App("shop")
rate, note = app.cell("rate", 2), app.cell("note", "")

@app.computed
def taxed() -> int:
    return rate.value * 10

with app.open(sys.argv[1]) as space:
    if len(sys.argv) > 2:
        space.cell(sys.argv[2]).value = int(sys.argv[3])
    else:
        print(taxed(), space.runs(taxed), space.explain_resume().restored)
"""


class Shop:
    """One function that reads one cell; a handler that writes it."""

    def __init__(self, folder: Path) -> None:
        app = self.app = hw.App("shop")
        self.path = folder / "shop.db"
        rate, note = app.cell("rate", 2), app.cell("note", 0)

        @app.computed
        def taxed() -> int:
            return rate.value * 10

        @app.handler
        def raise_to(value: int) -> None:
            rate.value = value

        @app.handler
        def scribble(value: int) -> None:
            note.value = value

        self.rate, self.note, self.taxed, self.raise_to, self.scribble = rate, note, taxed, raise_to, scribble

    def open(self, branch: str = "main") -> hw.Space:
        return self.app.open(self.path, branch=branch)

    def found(self, branch: str = "main") -> tuple[tuple[int, int, int], int, int]:
        """What an opening makes of what is kept; then what the function comes to, and after how many runs."""
        with self.open(branch) as space:
            told = outcome(space)
            return told, self.taxed(), space.runs(self.taxed)


CLEAN, DIRTY, FRESH = (1, 0, 0), (0, 1, 0), (0, 0, 1)


def ran(folder: Path) -> Shop:
    shop = Shop(folder)
    with shop.open() as space:
        shop.rate.value = 2
        space.sync()
        assert shop.taxed() == 20
    return shop


# -- one file ------------------------------------------------------------------------------------------------


def test_handler_that_writes_what_was_read_makes_it_dirty_and_another_does_not(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    with shop.open():
        shop.scribble.send(5).result()
    assert shop.found() == (CLEAN, 20, 0)
    with shop.open():
        shop.raise_to.send(5).result()
    assert shop.found() == (DIRTY, 50, 1)
    assert shop.found() == (CLEAN, 50, 0)


def test_app_that_is_open_while_the_other_is_not_makes_dirty_what_it_writes_and_runs_nothing_of_it(
    tmp_path: Path,
) -> None:
    shop = ran(tmp_path)
    office = hw.App("office")
    budget = office.cell("budget", 1)

    @office.computed
    def plan() -> int:
        return budget.value

    @office.sink
    def order() -> None:
        plan()

    with office.open(shop.path) as space:
        budget.value = 7
        space.sync()
    assert shop.found() == (CLEAN, 20, 0)
    with office.open(shop.path) as space:
        space.cell("shop.rate").value = 7
    with shop.open() as space:
        assert outcome(space) == DIRTY
        assert space.runs(shop.taxed) == 0
    assert shop.found() == (DIRTY, 70, 1)


def test_rows_of_one_app_are_left_alone_by_another(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    for name in ("office", "sho", "shop2"):
        with hw.App(name).open(shop.path):
            pass
    assert shop.found() == (CLEAN, 20, 0)


def test_two_openings_at_once_leave_what_is_true_whichever_of_them_ran_last(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    first, second = shop.open(), shop.open()
    with first:
        shop.rate.value = 3
        first.sync()
        assert shop.taxed() == 30
        first.sync()
    with second:
        shop.rate.value = 4
        second.sync()
        assert shop.taxed() == 40
    first.close()
    told, value, _ = shop.found()
    assert value == 40
    assert told[2] == 0
    assert shop.found() == (CLEAN, 40, 0)


def test_writes_of_another_opening_while_this_one_opens_are_not_lost(tmp_path: Path) -> None:
    """It writes and does not wait: some of that is decided before this opening looks, some after."""
    shop = ran(tmp_path)
    other = hw.App("other").open(shop.path)
    try:
        for number in range(3, 30):
            other.cell("shop.rate").value = number
            with shop.open() as space:
                other._opening.wait_for_disk()
                assert shop.taxed() == number * 10
                space.sync()
    finally:
        other.close()


# -- other processes -----------------------------------------------------------------------------------------


def process(path: Path, *args: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", PROCESS, str(path), *args], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.slow
def test_another_process_takes_over_and_its_writes_are_seen_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    assert process(path) == "20 1 0\n"
    assert process(path) == "20 0 1\n"
    process(path, "shop.note", "4")
    assert process(path) == "20 0 1\n"
    process(path, "shop.rate", "4")
    assert process(path) == "40 1 0\n"
    assert process(path) == "40 0 1\n"


def test_write_without_any_app_makes_dirty(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    with open_space(str(shop.path)) as storage:
        replica = storage.attach()
        replica.commit([SetDoc(doc_key("shop.rate"), freeze(6))])
        replica.sync()
    assert shop.found() == (DIRTY, 60, 1)


# -- branches ------------------------------------------------------------------------------------------------


def fork(path: Path, name: str, at: int | None = None) -> None:
    with open_space(str(path)) as storage:
        storage.fork(name, at=at)


def merge(path: Path, source: str) -> None:
    with open_space(str(path)) as storage:
        storage.merge(source)


def test_fork_starts_from_what_its_parent_knew(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    fork(shop.path, "draft")
    assert shop.found("draft") == (CLEAN, 20, 0)


def test_fork_does_not_hear_of_what_its_parent_wrote_since_nor_the_parent_of_it(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    fork(shop.path, "draft")
    with shop.open():
        shop.rate.value = 3
    assert shop.found("draft") == (CLEAN, 20, 0)
    with shop.open("draft"):
        shop.rate.value = 9
    assert shop.found("draft") == (DIRTY, 90, 1)
    assert shop.found() == (DIRTY, 30, 1)
    assert shop.found("draft") == (CLEAN, 90, 0)
    assert shop.found() == (CLEAN, 30, 0)


def test_fork_of_an_older_place_believes_nothing_that_its_parent_learnt_later(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    with shop.open() as space:
        before = space.stats.seq
        shop.rate.value = 3
        space.sync()
        assert shop.taxed() == 30
    fork(shop.path, "past", before)
    assert shop.found("past") == ((0, 0, 1), 20, 1)
    assert shop.found("past") == (CLEAN, 20, 0)
    assert shop.found() == (CLEAN, 30, 0)


def test_fork_made_between_a_write_and_the_run_that_follows_from_it_is_dirty(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    with shop.open():
        shop.rate.value = 3
    fork(shop.path, "draft")
    assert shop.found() == (DIRTY, 30, 1)
    told, value, runs = shop.found("draft")
    assert (value, runs) == (30, 1)
    assert told[0] == 0


def test_fork_of_a_fork_starts_from_both(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    fork(shop.path, "draft")
    with open_space(str(shop.path)) as storage:
        storage.fork("second", parent="draft")
    assert shop.found("second") == (CLEAN, 20, 0)
    with shop.open("draft"):
        shop.rate.value = 5
    assert shop.found("second") == (CLEAN, 20, 0)
    with shop.open("second"):
        shop.rate.value = 6
    assert shop.found("second") == (DIRTY, 60, 1)


def test_merge_makes_dirty_whoever_read_what_it_brings(tmp_path: Path) -> None:
    shop = ran(tmp_path)
    fork(shop.path, "draft")
    with shop.open("draft"):
        shop.rate.value = 8
    merge(shop.path, "draft")
    assert shop.found() == (DIRTY, 80, 1)
    assert shop.found() == (CLEAN, 80, 0)


def test_result_that_a_merge_brings_is_computed_anew(tmp_path: Path) -> None:
    """What is kept of its run stands on the other branch."""
    shop = ran(tmp_path)
    fork(shop.path, "draft")
    with shop.open("draft") as space:
        shop.rate.value = 9
        space.sync()
        assert shop.taxed() == 90
    merge(shop.path, "draft")
    assert shop.found() == (FRESH, 90, 1)
    assert shop.found() == (CLEAN, 90, 0)
    assert shop.found("draft") == (CLEAN, 90, 0)
