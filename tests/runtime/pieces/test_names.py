"""Functions of pieces are told by their names and those of their pieces, wherever people look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner

import headwater as hw
from headwater.cli.main import cli
from headwater.errors import UserCodeError
from headwater.inspect.function_records import ExplainNode
from headwater.inspect.live_inspector import LiveInspector
from headwater.inspect.opening_inspection import inspection_of
from headwater.scheduler.trace import RunStarted
from tests.runtime.pieces.kit import stored


@hw.pattern
def timer(p: hw.Builder, minutes: int) -> dict[str, Any]:
    left = p.cell("left", minutes)

    @p.computed
    def doubled() -> int:
        return left.value * 2

    @p.sink
    def show() -> None:
        if doubled() > 100:
            raise ValueError("too long")

    @p.handler
    def tick() -> int:
        left.value -= 1
        return left.value

    return {"left": left, "doubled": doubled, "show": doubled, "tick": tick}


def two(space: hw.Space) -> tuple[hw.Piece[dict[str, Any]], hw.Piece[dict[str, Any]]]:
    return space.start(timer, "kitchen", minutes=3), space.start(timer, "hall", minutes=5)


def test_why_names_the_piece_and_what_it_reads() -> None:
    with hw.App("t").open("memory:") as space:
        kitchen, _ = two(space)
        kitchen.outputs["left"].value = 7
        words = hw.why(kitchen.outputs["doubled"])
        assert words.startswith("doubled() of timer kitchen is a computation, clean, live")
        assert "because left of timer kitchen changed" in words
        assert kitchen.id not in words
        assert hw.why(kitchen.outputs["tick"]).startswith("tick() of timer kitchen is a handler")
        kitchen.stop()
        assert hw.why(kitchen.outputs["doubled"]) == "doubled() of timer kitchen does not run: the piece is stopped"
        assert "handles nothing: the piece is stopped" in hw.why(kitchen.outputs["tick"])


def test_a_graph_names_the_pieces() -> None:
    with hw.App("t").open("memory:") as space:
        two(space)
        for form in ("text", "svg", "mermaid"):
            drawn = space.graph(form)  # type: ignore[arg-type]  # each of them
            for name in ("doubled of timer kitchen", "doubled of timer hall", "tick of timer hall"):
                assert name in drawn, form
        assert '"piece":"timer kitchen"' in space.graph("json")


def test_a_door_explains_one_function_of_one_piece() -> None:
    with hw.App("t").open("memory:") as space:
        two(space)

        def asked(name: str) -> list[str]:
            [opening] = LiveInspector([inspection_of(space._opening)]).ask(ExplainNode(node=name))
            return [why.words.partition(" is ")[0] for why in opening.whys]

        assert asked("doubled of timer hall") == ["doubled() of timer hall"]
        assert asked("doubled") == ["doubled() of timer kitchen", "doubled() of timer hall"]
        assert asked("tick of timer kitchen") == ["tick() of timer kitchen"]


def test_an_error_names_the_piece() -> None:
    errors: list[UserCodeError] = []
    with hw.App("t").open("memory:", on_error=errors.append) as space:
        space.start(timer, "long", minutes=60)
        assert str(errors[0]).startswith("HW")
        assert "show() of timer long in space 'main' raised ValueError: too long" in str(errors[0])
        assert errors[0].facts["piece"] == "timer long"


def test_a_trace_leads_to_the_piece() -> None:
    with hw.App("t").open("memory:") as space:
        found: list[RunStarted] = []
        space.scheduler.trace.listen(lambda record: found.append(record) if isinstance(record, RunStarted) else None)
        kitchen, _ = two(space)
        names = {node.id: node.title for node in space.scheduler.registry.nodes}
        assert [names[record.node] for record in found] == [
            "show() of timer kitchen",
            "doubled() of timer kitchen",
            "show() of timer hall",
            "doubled() of timer hall",
        ]
        assert repr(kitchen) == "<piece timer kitchen: running, generation 1>"
        assert stored(space, kitchen)["key"] == "kitchen"


def test_children_are_drawn_with_their_parents() -> None:
    app = hw.App("t")

    @app.sink
    def parent() -> None:
        hw.start(timer, "child", minutes=1)

    with app.open("memory:") as space:
        snapshot = space.scheduler.get_graph_snapshot()
        edges = {(edge.source.partition("#")[0], edge.target.partition("#")[0]) for edge in snapshot.edges}
        assert {("parent", "doubled"), ("parent", "show")} <= edges


def test_the_command_line_names_the_pieces_of_a_space_that_is_closed(tmp_path: Path) -> None:
    with hw.App("t").open(tmp_path / "t.db") as space:
        kitchen, _ = two(space)
        kitchen.outputs["left"].value = 7

    def said(*args: str) -> str:
        result = CliRunner().invoke(cli, [*args, "--url", str(tmp_path / "t.db")])
        assert result.exit_code == 0, result.output
        return result.output

    drawn = said("graph")
    for name in ("show of timer kitchen", "doubled of timer hall", "tick of timer hall"):
        assert name in drawn
    words = said("why", "doubled of timer kitchen")
    assert "doubled() of timer kitchen is a computation" in words
    assert "because left of timer kitchen changed" in words
    assert "timer hall" not in words
