"""What a thread has published before it drains is due: also if it is not on disk yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import headwater as hw

app = hw.App("post")
flow = app.workflow("box")
letters = flow.topic("letters", int)


@flow.consumer(letters)
class Take(hw.Consumer[int, int, int]):
    def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[int]:
        return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

    def mutate(self, run: hw.Run, data: int) -> int:
        assert run.attempt == 1
        return data


def test_each_event_is_consumed_by_the_drain_that_follows_its_publication(tmp_path: Path) -> None:
    with app.open(str(tmp_path / "post.db")) as space:
        space.workflows.drain()
        done: list[int] = []
        for number in range(50):
            letters.publish(number, id=str(number))
            done.append(space.workflows.drain())
    assert done == [1] * 50
