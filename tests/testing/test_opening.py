"""An app that is opened at a clock lives by it."""

from __future__ import annotations

from pathlib import Path

import headwater as hw
from headwater.testing import SimClock, open_at


def test_schedules_come_when_the_clock_is_moved_and_outlive_an_opening(tmp_path: Path) -> None:
    app = hw.App("feed")
    flow = app.workflow("feed")
    polled: list[int] = []
    clock = SimClock()

    @flow.producer(every="1h")
    def poll() -> None:
        polled.append(clock.now_ms())

    with open_at(app, clock, tmp_path / "feed.db") as space:
        assert (space.workflows.drain(), space.workflows.drain()) == (1, 0)
        assert space.workflows.wake_at == clock.now_ms() + 3_600_000
    clock.advance(3_600_000)
    with open_at(app, clock, tmp_path / "feed.db") as space:
        assert space.workflows.drain() == 1
    assert polled[1] - polled[0] == 3_600_000
