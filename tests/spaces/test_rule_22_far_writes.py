"""Rule 22: a write to another space in a run, a handling or a block is refused before it happens."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import CrossSpaceError, HeadwaterError
from tests.support.apart import overtake


class Pair:
    def __init__(self, folder: Path) -> None:
        self.home, self.away = hw.App("home"), hw.App("away")
        self.n, self.m = self.home.cell("n", 0), self.away.cell("m", 0)
        self.urls = str(folder / "home.db"), str(folder / "away.db")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_nothing_of_a_failed_handler_stays_in_another_space(pair: Pair) -> None:
    @pair.home.handler
    def both() -> None:
        pair.n.value += 1
        pair.m.value = 1

    with pair.away.open(pair.urls[1]), pair.home.open(pair.urls[0], on_error="log"):
        ticket = both.send()
        assert "HW112: away.m of app 'away' (space 'away') cannot be written in both()" in ticket.reason
        assert (pair.n.value, pair.m.value) == (0, 0)


def test_the_message_names_the_two_ways_that_work(pair: Pair) -> None:
    with pair.away.open(pair.urls[1]), pair.home.open(pair.urls[0]) as home:
        with pytest.raises(CrossSpaceError) as refused, home.transaction():
            pair.m.value = 50
        assert "Send an event to a handler of that app, or post to the cell" in refused.value.message
        assert pair.m.value == 0


def test_a_computed_function_writes_nothing_anywhere(pair: Pair) -> None:
    @pair.home.computed
    def sly() -> int:
        pair.m.value = 77
        return pair.n.value

    with pair.away.open(pair.urls[1]), pair.home.open(pair.urls[0]):
        with pytest.raises(HeadwaterError, match=r"HW1(04|12)"):
            sly()
        assert pair.m.value == 0


def test_a_handler_that_is_tried_again_has_posted_and_sent_once(pair: Pair) -> None:
    calls: list[int] = []

    @pair.away.handler
    def add(by: int) -> None:
        pair.m.value += by

    @pair.home.handler
    def both() -> None:
        calls.append(pair.n.value)
        pair.m.post.increment()
        add.send(10)
        if len(calls) == 1:
            overtake(other, theirs, 10)
        pair.n.value += 1

    with (
        pair.home.open(pair.urls[0], on_error="log") as other,
        pair.away.open(pair.urls[1]),
        pair.home.open(pair.urls[0]) as home,
    ):
        theirs = other.cell("home.n", int, default=0)
        both.send().result()
        home.delivered()
        assert (calls, pair.n.value, pair.m.value) == ([0, 10], 11, 11)
