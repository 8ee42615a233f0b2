"""A space that is opened again: what was computed before is taken over, unless something it was made of has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from tests.runtime.restore.kit import outcome, reason


class Store(hw.Doc):
    stock: hw.Map[str, dict[str, int]] = hw.Map()


class Shop:
    """Prices and amounts in one document each; a chain of three functions, and one that stands apart."""

    def __init__(self, path: Path) -> None:
        app = self.app = hw.App("shop")
        self.path = path / "shop.db"
        prices = self.prices = app.cell("prices", {"tea": 3, "jam": 5})
        rate = self.rate = app.cell("rate", 2)
        note = self.note = app.cell("note", "open")

        @app.computed
        def tea() -> int:
            return prices.key("tea").value

        @app.computed
        def taxed() -> int:
            return tea() * rate.value

        @app.computed
        def label() -> str:
            return f"{taxed()} euros"

        @app.computed
        def sign() -> str:
            return note.value.upper()

        self.tea, self.taxed, self.label, self.sign = tea, taxed, label, sign

    def open(self) -> hw.Space:
        return self.app.open(self.path)

    def run_once(self) -> None:
        with self.open():
            self.prices.value = {"tea": 3, "jam": 5}
            self.rate.value = 2
            assert self.label() == "6 euros"
            assert self.sign() == "OPEN"

    def ran(self, space: hw.Space) -> dict[str, int]:
        """Who has run in this opening, and how often."""
        return {name: count for name, count in space.stats.runs.items() if count}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    made.run_once()
    return made


# -- clean ---------------------------------------------------------------------------------------------------


def test_clean_restart_runs_nothing_however_often(shop: Shop) -> None:
    for _ in range(3):
        with shop.open() as space:
            assert outcome(space) == (4, 0, 0)
            assert shop.label() == "6 euros"
            assert shop.sign() == "OPEN"
            assert shop.ran(space) == {}


def test_clean_restart_commits_nothing(shop: Shop) -> None:
    with shop.open() as space:
        before = space.stats.seq
        shop.label()
    with shop.open() as space:
        assert space.stats.seq == before
        assert space.stats.commits == 0


def test_restored_functions_hear_of_later_changes_as_if_they_had_run(shop: Shop) -> None:
    with shop.open() as space:
        shop.rate.value = 10
        assert shop.label() == "30 euros"
        assert shop.ran(space) == {"taxed": 1, "label": 1}


def test_what_a_restored_function_runs_to_is_kept_for_the_opening_after(shop: Shop) -> None:
    with shop.open():
        shop.rate.value = 10
        assert shop.label() == "30 euros"
    with shop.open() as space:
        assert outcome(space) == (4, 0, 0)
        assert shop.label() == "30 euros"
        assert shop.ran(space) == {}


def test_functions_that_never_ran_are_fresh_and_run_when_somebody_looks(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with shop.open():
        assert shop.tea() == 3
    with shop.open() as space:
        assert outcome(space) == (1, 0, 3)
        assert shop.ran(space) == {}
        assert shop.label() == "6 euros"
        assert shop.ran(space) == {"taxed": 1, "label": 1}


def test_sink_draws_once_in_each_opening_and_nothing_above_it_runs(shop: Shop) -> None:
    drawn: list[str] = []

    @shop.app.sink
    def show() -> None:
        drawn.append(shop.label())

    for _ in range(2):
        with shop.open() as space:
            assert drawn == ["6 euros"]
            assert shop.ran(space) == {"show": 1}
        drawn.clear()


# -- unrelated writes ----------------------------------------------------------------------------------------


def test_write_to_another_document_leaves_everything_clean(shop: Shop) -> None:
    with shop.open() as space:
        space.cell("elsewhere", int, default=0).value = 7
    with shop.open() as space:
        assert outcome(space) == (4, 0, 0)
        assert shop.label() == "6 euros"
        assert shop.ran(space) == {}


def test_write_to_another_path_of_the_same_document_leaves_everything_clean(shop: Shop) -> None:
    with shop.open() as space:
        shop.prices.key("jam").value = 9
        assert shop.ran(space) == {}
    with shop.open() as space:
        assert outcome(space) == (4, 0, 0)
        assert shop.label() == "6 euros"
        assert shop.ran(space) == {}


def test_write_of_the_same_value_leaves_everything_clean(shop: Shop) -> None:
    with shop.open():
        shop.rate.value = 2
    with shop.open() as space:
        assert outcome(space) == (4, 0, 0)


def test_whole_document_written_anew_with_the_part_read_unchanged_leaves_its_reader_clean(shop: Shop) -> None:
    with shop.open() as space:
        space.cell("shop.prices").value = {"tea": 3, "jam": 1, "rye": 2}
    with shop.open() as space:
        assert "tea" not in [each.node.partition("#")[0] for each in space.explain_resume().missed]


# -- overlapping writes --------------------------------------------------------------------------------------


def test_overlapping_write_makes_dirty_exactly_its_reader_and_runs_exactly_the_chain_when_looked_at(shop: Shop) -> None:
    with shop.open() as space:
        space.cell("shop.rate").value = 3
    # That opening had the function, but nobody looked.
    with shop.open() as space:
        assert outcome(space) == (3, 1, 0)
        assert "shop.rate" in reason(space, "taxed")
        assert shop.ran(space) == {}
        assert shop.label() == "9 euros"
        assert shop.sign() == "OPEN"
        assert shop.ran(space) == {"taxed": 1, "label": 1}


def test_dirty_function_that_comes_to_the_same_wakes_nobody_below(shop: Shop) -> None:
    with shop.open(), shop.app.sole_space("x").transaction():
        shop.prices.value = {"tea": 6, "jam": 5}
        shop.rate.value = 1
    with shop.open() as space:
        assert shop.label() == "6 euros"
        assert shop.ran(space) == {"tea": 1, "taxed": 1}
    with shop.open() as space:
        assert outcome(space) == (4, 0, 0)
        assert shop.label() == "6 euros"
        assert shop.ran(space) == {}


def test_write_and_its_reversal_are_still_a_change(shop: Shop) -> None:
    """A live function would have been told twice. What counts is that the value is right."""
    with shop.open():
        shop.rate.value = 9
        shop.rate.value = 2
    with shop.open() as space:
        assert outcome(space) == (3, 1, 0)
        assert shop.label() == "6 euros"
        assert shop.ran(space) == {"taxed": 1}


def test_dirt_that_nobody_looks_at_stays_over_many_openings(shop: Shop) -> None:
    with shop.open():
        shop.rate.value = 5
    for _ in range(3):
        with shop.open() as space:
            assert outcome(space) == (3, 1, 0)
            assert shop.sign() == "OPEN"
            assert shop.ran(space) == {}
    with shop.open():
        assert shop.label() == "15 euros"


def test_write_that_is_not_decided_yet_is_seen_by_a_function_that_is_restored_only_now(tmp_path: Path) -> None:
    """One with parameters: it is taken over when it is called, and the store does not know of the write yet."""
    app = hw.App("shop")
    rate = app.cell("rate", 2)

    @app.computed
    def times(number: int) -> int:
        return rate.value * number

    with app.open(tmp_path / "shop.db"):
        assert times(3) == 6
    for number in range(3, 20):
        with app.open(tmp_path / "shop.db"):
            rate.value = number
            assert times(3) == number * 3


# -- what a function has read --------------------------------------------------------------------------------


def test_branch_not_taken_is_no_dependency_and_the_one_taken_is(tmp_path: Path) -> None:
    app = hw.App("lamp")
    which, red, blue = app.cell("which", "red"), app.cell("red", 1), app.cell("blue", 2)

    @app.computed
    def light() -> int:
        return red.value if which.value == "red" else blue.value

    path = tmp_path / "lamp.db"
    with app.open(path):
        assert light() == 1
    with app.open(path):
        blue.value = 20
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)
        which.value = "blue"
        assert light() == 20
    with app.open(path):
        red.value = 10
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)
        blue.value = 30
    with app.open(path) as space:
        assert outcome(space) == (0, 1, 0)
        assert light() == 30


def test_run_that_read_other_documents_and_wrote_nothing_is_kept_with_what_it_read_last(tmp_path: Path) -> None:
    app = hw.App("lamp")
    which, red, blue = app.cell("which", "red"), app.cell("red", 1), app.cell("blue", 1)

    @app.computed
    def light() -> int:
        return red.value if which.value == "red" else blue.value

    path = tmp_path / "lamp.db"
    with app.open(path) as space:
        assert light() == 1
        space.sync()
        which.value = "blue"
        assert light() == 1
        assert space.runs(light) == 2
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)
        red.value = 5
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)
        blue.value = 7
    with app.open(path) as space:
        assert outcome(space) == (0, 1, 0)
        assert light() == 7


def test_run_that_wrote_nothing_while_its_last_write_was_not_decided_is_right_in_the_next_opening(
    tmp_path: Path,
) -> None:
    app = hw.App("lamp")
    which, red, blue = app.cell("which", "red"), app.cell("red", 1), app.cell("blue", 1)

    @app.computed
    def light() -> int:
        return red.value if which.value == "red" else blue.value

    path = tmp_path / "lamp.db"
    with app.open(path):
        assert light() == 1
        which.value = "blue"
        assert light() == 1
    with app.open(path) as space:
        assert outcome(space)[2] == 0
        blue.value = 7
        assert light() == 7


def test_shape_that_was_read_is_not_dirty_by_a_change_below_it_and_dirty_by_a_new_key(tmp_path: Path) -> None:
    app = hw.App("lamp")
    store = app.doc("store", Store)

    @app.computed
    def kinds() -> list[str]:
        return sorted(store.stock)

    path = tmp_path / "lamp.db"
    with app.open(path):
        store.stock["tea"] = {"left": 3}
        assert kinds() == ["tea"]
    with app.open(path):
        store.stock["tea"] = {"left": 2}
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 0)
        store.stock["jam"] = {"left": 1}
    with app.open(path) as space:
        assert outcome(space) == (0, 1, 0)
        assert kinds() == ["jam", "tea"]
        # It hears of what comes after that, too.
        store.stock["ale"] = {"left": 1}
        assert kinds() == ["ale", "jam", "tea"]


def test_deep_read_is_dirty_by_a_change_anywhere_below(tmp_path: Path) -> None:
    app = hw.App("lamp")
    tree = app.cell("tree", {"a": {"b": {"c": 1}}})

    @app.computed
    def text() -> str:
        return str(tree.value["a"]["b"]["c"])

    path = tmp_path / "lamp.db"
    with app.open(path):
        tree.value = {"a": {"b": {"c": 1}}}
        assert text() == "1"
    with app.open(path):
        tree.value = {"a": {"b": {"c": 2}}}
    with app.open(path) as space:
        assert outcome(space) == (0, 1, 0)
        assert text() == "2"


def test_cell_that_was_never_written_is_dirty_when_it_is_written_at_last(tmp_path: Path) -> None:
    app = hw.App("lamp")
    level = app.cell("level", 4)

    @app.computed
    def shown() -> int:
        return level.value

    path = tmp_path / "lamp.db"
    with app.open(path):
        assert shown() == 4
    with app.open(path):
        level.value = 5
    with app.open(path) as space:
        assert outcome(space) == (0, 1, 0)
        assert shown() == 5


def test_document_that_was_read_and_is_deleted_makes_its_reader_dirty(tmp_path: Path) -> None:
    app = hw.App("lamp")
    level = app.cell("level", 4)

    @app.computed
    def shown() -> int:
        return level.value

    path = tmp_path / "lamp.db"
    with app.open(path):
        level.value = 5
        assert shown() == 5
    with app.open(path) as space:
        hw.delete(space.doc("lamp.level"))
    with app.open(path) as space:
        assert outcome(space) == (0, 1, 0)
        assert shown() == 4


# -- its result ----------------------------------------------------------------------------------------------


def test_result_that_was_deleted_is_computed_anew(shop: Shop) -> None:
    with shop.open() as space:
        hw.delete(space.doc("shop.taxed"))
    with shop.open() as space:
        assert reason(space, "taxed") == "its result is gone"
        assert shop.label() == "6 euros"
        assert shop.ran(space).keys() >= {"taxed"}


def test_result_that_somebody_has_overwritten_is_computed_anew(shop: Shop) -> None:
    with shop.open() as space:
        space.cell("shop.taxed").value = 99
    with shop.open() as space:
        assert "written after the run that is kept" in reason(space, "taxed")
        assert shop.taxed() == 6
        assert shop.label() == "6 euros"


def test_result_that_another_opening_overwrites_before_a_run_without_a_write_is_kept_is_computed_anew(
    tmp_path: Path,
) -> None:
    """The note of that run is written down last: by then the result that it has found right stands there no more."""
    app = hw.App("lamp")
    which, red, blue = app.cell("which", "red"), app.cell("red", 1), app.cell("blue", 1)

    @app.computed
    def light() -> int:
        return red.value if which.value == "red" else blue.value

    path = tmp_path / "lamp.db"
    space, other = app.open(path), app.open(path)
    try:
        with space:
            assert light() == 1
            space.sync()
            which.value = "blue"
            space.sync()
            result = other.cell("lamp.light")
            assert light() == 1
            result.value = 99
            other.sync()
    finally:
        other.close()
    with app.open(path):
        assert light() == 1


def test_function_that_is_new_code_above_a_restored_one_runs_before_that_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    def made(version: int) -> tuple[hw.App, object, object]:
        app = hw.App("shop")
        rate = app.cell("rate", 2)

        @app.computed(version=version)
        def low() -> int:
            return rate.value * version

        @app.computed
        def high() -> int:
            return low() + 1

        return app, low, high

    app, _, high = made(1)
    with app.open(path):
        assert high() == 3  # type: ignore[operator]
    app, low, high = made(2)
    with app.open(path) as space:
        assert outcome(space) == (1, 0, 1)
        assert high() == 5  # type: ignore[operator]
        assert (space.runs(low), space.runs(high)) == (1, 1)
