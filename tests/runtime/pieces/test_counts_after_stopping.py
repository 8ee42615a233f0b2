"""Runs are counted by name for as long as the space is open, whatever becomes of the piece."""

from __future__ import annotations

import pytest

import headwater as hw
from headwater.errors import UsageError
from tests.runtime.pieces.test_counts import counter


@hw.pattern
def button(p: hw.Builder) -> hw.Handler[[], None]:
    presses = p.cell("presses", 0)

    @p.handler
    def press() -> None:
        presses.value += 1

    return press


def test_runs_go_on_counting_when_a_piece_is_stopped_and_started() -> None:
    with hw.App("counts").open("memory:") as space:
        piece = space.start(counter, "a", by=1)
        first = piece.outputs
        assert first() == 2
        piece.stop()
        assert (space.stats.runs, space.runs(first)) == ({"doubled": 1}, 1)
        space.sync()
        assert space.stats.runs == {"doubled": 1}
        space.start(counter, "a", by=1)
        assert (space.stats.runs, space.runs(piece.outputs)) == ({"doubled": 1}, 1)
        space.start(counter, "a", by=1).stop()
        piece = space.start(counter, "a", by=5)
        assert (piece.outputs(), space.runs(piece.outputs), space.stats.runs) == (10, 2, {"doubled": 2})


def test_events_that_a_stopped_piece_has_handled_are_counted() -> None:
    with hw.App("counts").open("memory:") as space:
        piece = space.start(button, "a")
        piece.outputs.send().result()
        piece.stop()
        assert (space.stats.runs, space.runs(piece.outputs)) == ({"press": 1}, 1)
        space.start(button, "a").outputs.send().result()
        assert (space.stats.runs, space.runs(piece.outputs)) == ({"press": 2}, 2)


def test_a_function_of_another_space_cannot_be_asked() -> None:
    app = hw.App("counts")
    with app.open("memory:") as one:
        piece = one.start(counter, "a", by=1)
    with app.open("memory:") as other, pytest.raises(UsageError, match="is not a function of this app"):
        other.runs(piece.outputs)
