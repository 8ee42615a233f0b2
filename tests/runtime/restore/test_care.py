"""What else happens to a file between two openings, and in the middle of one."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.core import open_space
from headwater.errors import ConflictError
from headwater.store.compaction import compact
from headwater.values.ids import Seq
from tests.runtime.restore.kit import outcome


class Shop:
    def __init__(self, folder: Path) -> None:
        app = self.app = hw.App("shop")
        self.path = folder / "shop.db"
        rate, other = app.cell("rate", 2), app.cell("other", 0)

        @app.computed
        def taxed() -> int:
            return rate.value * 10

        @app.sink(resume="quiet")
        def send() -> None:
            taxed()

        self.rate, self.other, self.taxed, self.send = rate, other, taxed, send

    def open(self) -> hw.Space:
        return self.app.open(self.path)

    def compact(self) -> None:
        """Forget everything but the newest state."""
        with open_space(str(self.path)) as storage:
            storage.call(lambda engine: compact(engine, Seq(engine.head)))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    with made.open():
        made.rate.value = 2
        assert made.taxed() == 20
    return made


def test_clean_functions_and_quiet_sinks_stay_clean_when_the_past_is_forgotten(shop: Shop) -> None:
    with shop.open():
        shop.other.value = 5
    shop.compact()
    with shop.open() as space:
        assert outcome(space) == (2, 0, 0)
        assert shop.taxed() == 20
        assert sum(space.stats.runs.values()) == 0


def test_function_whose_input_changed_before_the_past_was_forgotten_is_not_clean(shop: Shop) -> None:
    with hw.App("elsewhere").open(shop.path) as space:
        space.cell("shop.rate").value = 3
        space.cell("shop.rate").value = 2
        space.cell("shop.other").value = 1
    shop.compact()
    with shop.open() as space:
        assert outcome(space)[0] < 2
        assert shop.taxed() == 20
    with hw.App("elsewhere").open(shop.path) as space:
        space.cell("shop.rate").value = 4
    shop.compact()
    with shop.open():
        assert shop.taxed() == 40


def test_transaction_that_was_given_up_leaves_everything_clean(shop: Shop) -> None:
    with shop.open() as space, pytest.raises(ZeroDivisionError), space.transaction():
        shop.rate.value = 9
        raise ZeroDivisionError
    with shop.open() as space:
        assert outcome(space) == (2, 0, 0)
        assert shop.taxed() == 20
        assert sum(space.stats.runs.values()) == 0


def test_transaction_that_was_rejected_leaves_nothing_wrong(shop: Shop) -> None:
    """Both read and write the same cell; what followed from the one that lost is taken back with it."""
    first, second = shop.open(), shop.open()
    try:
        with pytest.raises(ConflictError):
            with first.transaction():
                seen = first.cell("shop.rate", int).value
                second.cell("shop.rate", int).value = 7
                second.sync()
                first.cell("shop.rate", int).value = seen + 1
            first.sync()
    finally:
        first.close()
        second.close()
    with shop.open() as space:
        assert shop.taxed() == 70
        assert outcome(space)[2] == 0
    with shop.open() as space:
        assert outcome(space) == (2, 0, 0)
        assert shop.taxed() == 70


def test_opening_that_fails_leaves_what_is_kept_as_it_was(shop: Shop) -> None:
    broken = hw.App("shop")

    @broken.computed
    async def taxed() -> int:
        return 1

    with pytest.raises(hw.HeadwaterError):
        broken.open(shop.path)
    with shop.open() as space:
        assert outcome(space) == (2, 0, 0)


def test_space_that_is_only_looked_at_by_its_name_keeps_the_rows(shop: Shop) -> None:
    with hw.App("shop").open(shop.path):
        pass
    with shop.open() as space:
        assert outcome(space) == (2, 0, 0)


def test_explanation_counts_and_says_why(shop: Shop) -> None:
    with hw.App("elsewhere").open(shop.path) as space:
        space.cell("shop.rate").value = 5
    with shop.open() as space:
        told = str(space.explain_resume())
    assert told.startswith("1 restored, 1 dirty, 0 fresh")
    assert "taxed#" in told
    assert "shop.rate has changed since" in told
