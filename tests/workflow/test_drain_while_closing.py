"""`drain` in a space that is closed, also by other code between two of its runs, raises HW103."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import ClosedError

app = hw.App("post")
done = app.cell("done", 0)
first, second = app.workflow("first"), app.workflow("second")
letters = first.topic("letters", int)
parcels = second.topic("parcels", int)
on_one: list[hw.Space] = []


class Take(hw.Consumer[int, int, int]):
    """Counts an event."""

    def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[int]:
        return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

    def next(self, _run: hw.Run, data: int, _result: object) -> None:
        done.value += data


@first.consumer(letters)
class Letter(Take):
    """Of the first workflow."""


@second.consumer(parcels)
class Parcel(Take):
    """Of the second one."""


@app.sink
def closes() -> None:
    if done.value == 1 and on_one:
        on_one.pop().close()


def test_drain_raises_closed_error_if_the_space_is_closed_between_two_runs(tmp_path: Path) -> None:
    url = str(tmp_path / "post.db")
    with app.open(url) as space:
        workflows = space.workflows
        letters.publish(1, id="a")
        parcels.publish(1, id="b")
        on_one.append(space)
        with pytest.raises(ClosedError):
            workflows.drain()
        assert space.closed
    with app.open(url) as space:
        assert space.workflows.drain() == 1
        assert done.value == 2


def test_drain_of_a_closed_space_raises_closed_error(tmp_path: Path) -> None:
    with app.open(str(tmp_path / "post.db")) as space:
        workflows = space.workflows
    with pytest.raises(ClosedError):
        workflows.drain()
