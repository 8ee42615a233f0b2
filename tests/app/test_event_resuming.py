"""Events that were sent and not handled are taken up by the opening that handles them, whoever else is there."""

from pathlib import Path

import pytest

import headwater as hw
from headwater.core import doc_key, open_space
from headwater.host import plain_opening


class Shop:
    """An app whose first handler sends to the second, which reads a cell."""

    def __init__(self, name: str) -> None:
        self.app = app = hw.App(name)
        one = app.cell("one", 1)
        self.done = done = app.cell("done", list[int]())

        @app.handler
        def first(number: int) -> None:
            _ = second.send(number)

        @app.handler
        def second(number: int) -> None:
            done.value = [*done.value, number + one.value]

        self.first = first


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with an event of app b that was sent in a transaction, and waited for a document until the end."""
    monkeypatch.setattr(plain_opening, "CLOSE_MS", 0.0)
    shop = Shop("b")
    with shop.app.open(tmp_path / "left.db") as space:
        space.scheduler.loading([doc_key("b.one")])
        _ = shop.first.send(10)
        assert shop.done.value == []
    return tmp_path / "left.db"


def test_events_of_one_app_are_taken_up_although_another_is_open_on_the_file(left: Path) -> None:
    a, b = Shop("a"), Shop("b")
    with a.app.open(left), b.app.open(left):
        assert b.done.value == [11]


def test_events_are_taken_up_by_one_of_two_openings_of_an_app(left: Path) -> None:
    """The second one leaves them to the first."""
    shop = Shop("b")
    with shop.app.open(left) as one, shop.app.open(left) as two:
        assert [space.scheduler.streams.handlers["b.second"].sent for space in (one, two)] == [1, 0]
        one.sync()
        assert one.cell("b.done").value == [11]


def test_events_are_taken_up_on_the_branch_where_they_were_sent(left: Path) -> None:
    with open_space(str(left)) as storage:
        storage.fork("other")
    shop = Shop("b")
    with shop.app.open(left), shop.app.open(left, branch="other") as other:
        assert other.cell("b.done").value == [11]


def test_events_are_taken_up_by_a_handler_that_is_declared_when_the_app_is_open(left: Path) -> None:
    """As in a notebook."""
    app = hw.App("b")
    done = app.cell("done", list[int]())
    with app.open(left):

        @app.handler
        def second(number: int) -> None:
            done.value = [number]

        assert second.stream == "b.second"
        assert done.value == [10]
