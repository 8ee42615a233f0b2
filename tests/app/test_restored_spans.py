"""Functions with arguments that have read spans: restored one by one, each asks what has changed in its own span."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

import headwater as hw
from headwater.store.collections import Collections

FUNCTIONS = 30
ELSEWHERE = 300


class Item(hw.Doc):
    number: int
    note: int = 0
    other: int = 0


class Declared:
    """The same declarations again, as at each start of a program."""

    def __init__(self, path: Path) -> None:
        app = hw.App("shop")
        self.items = items = app.collection(Item, indexes=[Item.number])
        self.app, self.path = app, path

        @app.computed
        def there(number: int) -> int:
            return items.where(Item.number == number).count()

        @app.computed
        def noted(number: int) -> list[int]:
            return items.where(Item.number == number).values(Item.note)

        self.there, self.noted = there, noted

    @contextmanager
    def open(self) -> Iterator[hw.Space]:
        with self.app.open(self.path) as space:
            yield space

    def ask(self) -> list[object]:
        return [answer for number in range(FUNCTIONS) for answer in (self.there(number), self.noted(number))]


@pytest.fixture
def again(tmp_path: Path) -> Callable[[], Declared]:
    """After a first opening, in which all functions have run."""
    declared = Declared(tmp_path / "shop.db")
    with declared.open():
        declared.items.insert_many({"number": number} for number in range(FUNCTIONS))
        declared.ask()
    return lambda: Declared(tmp_path / "shop.db")


def item(declared: Declared, number: int) -> Item:
    return declared.items.where(Item.number == number).one()


def test_changes_elsewhere_run_nothing_and_are_looked_at_once(again: Callable[[], Declared]) -> None:
    declared = again()
    with declared.open():
        declared.items.insert_many({"number": 1000 + number} for number in range(ELSEWHERE))
    looked: list[int] = []
    original = Collections.shifts_after

    def counting(self: Collections, *args: object) -> object:
        found = original(self, *args)  # type: ignore[arg-type]  # as they are given
        looked.append(len(found or ()))
        return found

    declared = again()
    with declared.open() as space, patch.object(Collections, "shifts_after", counting):
        declared.ask()
        assert sum(space.stats.runs.values()) == 0
    # Once to find out how far back they are known, once to take them, and a few that the first opening has made.
    assert sum(looked) <= 2 * ELSEWHERE + 4 * FUNCTIONS


def test_a_changed_span_or_field_runs_its_functions_alone(again: Callable[[], Declared]) -> None:
    declared = again()
    with declared.open():
        declared.items.insert_many([{"number": 3}])
        item(declared, 5).note = 7
        item(declared, 7).other = 7
        item(declared, 9).number = 10
    declared = again()
    with declared.open() as space:
        assert [declared.there(number) for number in (3, 5, 7, 9, 10)] == [2, 1, 1, 0, 2]
        assert space.runs(declared.there) == 3
        assert [declared.noted(number) for number in (3, 5, 7, 9, 10)] == [[0, 0], [7], [0], [], [0, 0]]
        assert space.runs(declared.noted) == 4


def test_a_change_between_two_restored_functions_is_found(again: Callable[[], Declared]) -> None:
    declared = again()
    with declared.open() as space:
        assert declared.there(1) == 1
        declared.items.insert_many([{"number": 2}])
        item(declared, 4).note = 1
        space.sync()
        assert (declared.there(2), declared.there(3), declared.noted(4)) == (2, 1, [1])
        assert (space.runs(declared.there), space.runs(declared.noted)) == (1, 1)
        declared.items.insert_many([{"number": 6}])
        space.sync()
        assert (declared.there(6), declared.there(8)) == (2, 1)
        assert space.runs(declared.there) == 2
