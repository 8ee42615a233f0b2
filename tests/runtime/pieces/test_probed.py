"""Pieces in a probe: runs that are repeated to be compared start and stop nothing, and a crash is a restart."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.testing import probe
from headwater.testing.probe import ProbeError
from tests.runtime.pieces.kit import Told, check_held

told = Told()


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    told.taken()


@hw.pattern
def card(p: hw.Builder, who: str) -> dict[str, Any]:
    clicks = p.cell("clicks", 0)

    @p.computed
    def label() -> str:
        return f"{who} {clicks.value}"

    @p.sink
    def watch() -> None:
        told(label())

    @p.handler
    def click() -> int:
        clicks.value += 1
        return clicks.value

    return {"label": label, "click": click}


def wall() -> tuple[hw.App, hw.Cell[list[str]]]:
    app = hw.App("wall")
    names = app.cell("names", ["a", "b"])

    @app.computed(eager=True)
    def labels() -> list[str]:
        return [hw.start(card, name, who=name).outputs["label"]() for name in names.value]

    @app.computed(eager=True)
    def first() -> hw.Piece[dict[str, Any]] | str:
        return card(who=names.value[0]) if names.value else "none"

    return app, names


def test_children_are_the_same_whether_runs_are_repeated_or_not() -> None:
    found = []
    for idempotency in (True, False):
        app, names = wall()
        with probe(app, idempotency=idempotency) as t:
            keys = []
            for each in (["a", "b"], ["b", "c"], [], ["a"]):
                names.value = each
                keys.append(sorted(piece.key for piece in t.space._opening.pieces.running.values()))
                check_held(t.space)  # type: ignore[arg-type]  # it is one for plain code
            assert keys == [["()", "a", "b"], ["()", "b", "c"], [], ["()", "a"]]
            found.append((told.taken(), t.space._opening.pieces.work.started))
    assert found[0] == found[1]


def test_what_comes_out_differently_in_a_piece_is_told_with_its_name() -> None:
    count = [0]

    @hw.pattern
    def moody(p: hw.Builder) -> hw.Computed[[], int]:
        @p.computed
        def value() -> int:
            count[0] += 1
            return count[0]

        return value

    with pytest.raises(ProbeError, match=r"value\(\) of moody m"), probe(hw.App("t")) as t:
        t.space.start(moody, "m").outputs()


@pytest.mark.parametrize("crash", [False, True])
def test_a_restart_in_memory_resumes_with_nothing_run(crash: bool) -> None:
    app, names = wall()
    with probe(app) as t:
        piece = t.space.start(card, "k", who="k")
        piece.outputs["click"].send().result()
        names.value = ["a"]
        t.space.sync()  # type: ignore[union-attr]  # it is one for plain code
        told.taken()
        t.restart(crash=crash)
        assert told.taken() == ["a 0", "a 0"], "each child draws once"
        again = t.space.start(card, "k", who="k")
        assert (again.outputs["label"](), told.taken()) == ("k 1", ["k 1"])
        runs = {node.title: node.runs for node in t.space.nodes.values() if node.piece and node.outputs}
        assert set(runs.values()) == {0}, runs
        check_held(t.space)  # type: ignore[arg-type]  # it is one for plain code
