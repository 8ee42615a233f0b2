"""What `prepare` is shown: read as far as it looks, and as if everything had been there at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.workflow.workflow_limits import PAGE

ALL = 40


def shown(folder: Path, look: Any, peek: int = 100) -> tuple[Any, int]:
    """What a `prepare` finds in its first look at 40 events, and how many questions it asked for that."""
    app = hw.App("shown")
    flow = app.workflow("post")
    letters = flow.topic("letters", int)
    found: list[Any] = []

    @flow.consumer(letters, peek=peek)
    class Read(hw.Consumer[int, int, None]):
        def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[int]:
            if not pending:
                return hw.Plan.idle()
            asked = space.workflows.hub.looks
            found.append((look(pending), space.workflows.hub.looks - asked))
            return hw.Plan.idle()

    with app.open(folder / f"{peek}.db") as space:
        space.workflows.drain()
        with space.transaction():
            for number in range(ALL):
                letters.publish(number, id=f"{number}")
        space.sync()
        space.workflows.drain()
    [answer] = found
    result: tuple[Any, int] = answer
    return result


LOOKS = {
    "whether there is any": (bool, True, 0),
    "the first": (lambda pending: pending[0].data, 0, 0),
    "the first few": (lambda pending: [pending[index].data for index in range(PAGE)], list(range(PAGE)), 0),
    "one further on": (lambda pending: pending[ALL - 1].data, ALL - 1, 1),
    "the last": (lambda pending: pending[-1].data, ALL - 1, 1),
    "all": (lambda pending: [event.data for event in pending], list(range(ALL)), 1),
    "all, twice": (lambda pending: [len(list(pending)), len(list(pending))], [ALL, ALL], 1),
    "some": (lambda pending: [event.data for event in pending[2:9:3]], [2, 5, 8], 1),
    "how many": (len, ALL, 1),
    "backwards": (lambda pending: next(iter(reversed(pending))).data, ALL - 1, 1),
    "one until it is enough": (lambda pending: next(event.data for event in pending if event.data == 2), 2, 0),
}


@pytest.mark.parametrize("what", LOOKS)
def test_whatever_is_looked_at_is_there_and_the_rest_is_read_at_most_once(what: str, tmp_path: Path) -> None:
    look, expected, questions = LOOKS[what]
    assert shown(tmp_path, look) == (expected, questions)


def test_no_more_is_shown_than_was_asked_for(tmp_path: Path) -> None:
    assert shown(tmp_path, lambda pending: [event.data for event in pending], peek=6) == ([0, 1, 2, 3, 4, 5], 1)
    assert shown(tmp_path, len, peek=2) == (2, 0)


def test_an_index_beyond_the_end_is_an_error_as_in_any_sequence(tmp_path: Path) -> None:
    def look(pending: Sequence[hw.Event[int]]) -> str:
        with pytest.raises(IndexError):
            pending[ALL]
        return "refused"

    assert shown(tmp_path, look) == ("refused", 1)
