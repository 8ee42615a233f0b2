"""`sink.stop()`: it does not run any more in this opening, and nothing stays of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import NotOpen, UsageError


def test_the_runs_of_a_stopped_sink_are_counted() -> None:
    app = hw.App("a")
    x = app.cell("x", 0)

    @app.sink
    def show() -> None:
        _ = x.value

    @hw.App("b").sink
    def foreign() -> None:
        pass

    with app.open("memory:") as space:
        x.value = 1
        show.stop()
        x.value = 2
        assert space.runs(show) == 2
        assert space.stats.runs == {"show": 2}
        with pytest.raises(UsageError, match="is not a function of this app"):
            space.runs(foreign)


def test_a_stopped_sink_does_not_run_and_what_it_read_is_dormant() -> None:
    app = hw.App("a")
    x = app.cell("x", 0)
    seen: list[int] = []
    runs: list[int] = []

    @app.computed
    def double() -> int:
        runs.append(x.value)
        return 2 * x.value

    @app.sink
    def show() -> None:
        seen.append(double())

    @app.sink
    def other() -> None:
        seen.append(-x.value)

    with app.open("memory:"):
        show.stop()
        x.value = 1
        assert (seen, runs) == ([0, 0, -1], [0])
        show.stop()
        show()
        assert seen[-1] == 2, "by hand it can be called"
    with pytest.raises(NotOpen):
        show.stop()


def test_it_may_stop_itself_or_another_in_the_middle_of_a_pass() -> None:
    app = hw.App("a")
    x = app.cell("x", 0)
    seen: list[str] = []

    @app.sink
    def first() -> None:
        seen.append(f"first {x.value}")
        if x.value == 1:
            first.stop()
            second.stop()

    @app.sink
    def second() -> None:
        seen.append(f"second {x.value}")

    with app.open("memory:"):
        for value in (1, 2):
            x.value = value
    assert seen == ["first 0", "second 0", "first 1"]


def test_the_next_opening_starts_it_again(tmp_path: Path) -> None:
    app = hw.App("a")
    x = app.cell("x", 0)
    seen: list[int] = []

    @app.sink
    def show() -> None:
        seen.append(x.value)

    for value in (1, 2):
        with app.open(str(tmp_path / "a.db")):
            show.stop()
            x.value = value
    assert seen == [0, 1]


def test_an_async_one_that_is_under_way_is_cancelled() -> None:
    app = hw.App("a")
    x = app.cell("x", 0)
    ended: list[str] = []
    under_way = asyncio.Event()

    @app.sink
    async def waits() -> None:
        if x.value == 0:
            return
        under_way.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        async with app.aopen("memory:") as space:
            x.value = 1
            await under_way.wait()
            waits.stop()
            await space.settle()
            x.value = 2
            await space.settle()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert ended == ["cancelled"]


def test_one_of_a_piece_stops_with_it() -> None:
    app = hw.App("a")
    found: list[hw.Sink] = []

    @hw.pattern
    def card(p: hw.Builder) -> None:
        @p.sink
        def show() -> None:
            """Nothing to do."""

        found.append(show)

    with app.open("memory:") as space:
        space.start(card, "one")
        with pytest.raises(UsageError, match="stop the piece"):
            found[0].stop()


def test_why_says_that_it_is_not_there() -> None:
    app = hw.App("a")

    @app.sink
    def show() -> None:
        """Nothing to do."""

    with app.open("memory:"):
        show.stop()
        assert "it was stopped with stop()" in hw.why(show)
