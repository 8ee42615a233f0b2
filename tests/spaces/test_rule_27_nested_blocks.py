"""Rule 27: plain code may nest blocks of two spaces; runs and handlings may not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import ConflictError, CrossSpaceError, NestedTransactionError
from tests.support.apart import overtake


class Pair:
    """Two apps with a cell each, open on two files."""

    def __init__(self, folder: Path) -> None:
        self.home, self.away = hw.App("home"), hw.App("away")
        self.n, self.m = self.home.cell("n", 0), self.away.cell("m", 0)
        self.urls = str(folder / "home.db"), str(folder / "away.db")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_the_inner_block_is_confirmed_at_its_end_and_stays_if_the_outer_one_fails(pair: Pair) -> None:
    with pair.home.open(pair.urls[0]) as home, pair.away.open(pair.urls[1]) as away:
        with pytest.raises(KeyError), home.transaction():
            pair.n.value = 1
            with away.transaction() as inner:
                pair.m.value = 2
            assert (inner.status.value, away.stats.pending) == ("committed", 0)
            raise KeyError
        assert (pair.n.value, pair.m.value) == (0, 2)


def test_the_inner_block_that_fails_is_rolled_back_and_the_outer_one_goes_on(pair: Pair) -> None:
    with pair.home.open(pair.urls[0]) as home, pair.away.open(pair.urls[1]) as away:
        with home.transaction():
            with pytest.raises(KeyError), away.transaction():
                pair.m.value = 2
                raise KeyError
            pair.n.value = 1
        assert (pair.n.value, pair.m.value) == (1, 0)


def test_a_conflict_of_the_inner_block_is_raised_at_its_end(pair: Pair) -> None:
    with (
        pair.home.open(pair.urls[0]) as home,
        pair.away.open(pair.urls[1]) as other,
        pair.away.open(pair.urls[1]) as away,
    ):
        mine, theirs = away.cell("away.m", int, default=0), other.cell("away.m", int, default=0)
        with home.transaction():
            with pytest.raises(ConflictError), away.transaction():
                mine.value += 1
                overtake(other, theirs, 7)
            pair.n.value = 1
        home.sync()
        away.sync()
        assert (pair.n.value, mine.value) == (1, 7)


def test_a_cell_belongs_to_the_innermost_open_block_of_its_own_space(pair: Pair) -> None:
    with pair.home.open(pair.urls[0]) as home, pair.away.open(pair.urls[1]) as away:
        with pytest.raises(KeyError), home.transaction():
            with away.transaction():
                pair.m.value = 2
                pair.n.value = 1
                assert (pair.n.value, pair.m.value) == (1, 2)
                with home.transaction():
                    pair.n.value += 1
            assert pair.n.value == 2
            raise KeyError
        assert (pair.n.value, pair.m.value) == (0, 2)


def test_without_a_block_of_its_own_space_a_write_is_refused(pair: Pair) -> None:
    with pair.home.open(pair.urls[0]) as home, pair.away.open(pair.urls[1]):
        with pytest.raises(CrossSpaceError, match=r"cell\.post\.set"), home.transaction():
            pair.m.value = 2
        assert pair.m.value == 0


def test_handlers_sinks_and_computed_functions_begin_no_block_of_another_space(pair: Pair) -> None:
    met: list[type[BaseException] | None] = []

    def write() -> int:
        with away.transaction():
            pair.m.value += 1
        return pair.m.peek()

    pair.home.handler(name="both")(write)
    pair.home.sink(name="show")(lambda: print(write()))
    mirror = pair.home.computed(name="mirror")(write)
    with (
        pair.away.open(pair.urls[1]) as away,
        pair.home.open(pair.urls[0], on_error=lambda error: met.append(type(error.__cause__))),
    ):
        with pytest.raises(NestedTransactionError):
            mirror()
        assert pair.m.value == 0
    assert set(met) == {NestedTransactionError}


def test_blocks_nest_in_an_event_loop_too(pair: Pair) -> None:
    async def main() -> None:
        async with pair.home.aopen(pair.urls[0]) as home, pair.away.aopen(pair.urls[1]) as away:
            with pytest.raises(KeyError), home.transaction():
                pair.n.value = 1
                with away.transaction() as inner:
                    pair.m.value = 2
                assert inner.status.value == "committed"
                raise KeyError
            assert (pair.n.value, pair.m.value) == (0, 2)

    asyncio.run(main())
