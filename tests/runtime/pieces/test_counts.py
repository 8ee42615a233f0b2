"""What is counted of functions that several pieces have under one name."""

from __future__ import annotations

import pytest

import headwater as hw
from headwater.runtime.pieces import activation


@hw.pattern
def counter(p: hw.Builder, by: int) -> hw.Computed[[], int]:
    number = p.cell("number", by)

    @p.computed
    def doubled() -> int:
        return number.value * 2

    return doubled


def test_runs_of_one_name_are_those_of_all_pieces_together() -> None:
    with hw.App("counts").open("memory:") as space:
        started = [space.start(counter, str(by), by=by) for by in range(3)]
        assert [piece.outputs() for piece in started] == [0, 2, 4]
        assert space.stats.runs == {"doubled": 3}
        assert [space.runs(piece.outputs) for piece in started] == [1, 1, 1]


def test_what_was_not_decided_when_others_were_let_go_of_is_let_go_of_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "LEAVING_MAX", 5)
    with hw.App("counts").open("memory:") as space:
        space.start(counter, "first", by=0).stop()
        space.sync()
        before = space.stats.documents
        for number in range(50):
            piece = space.start(counter, str(number), by=number)
            assert piece.outputs() == 2 * number
            piece.stop()
        space.sync()
        assert space.stats.documents == before
