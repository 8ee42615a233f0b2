"""Functions that have children run at each opening: only their run starts these again, and each of them is resumed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import headwater as hw


@dataclass
class Card:
    label: hw.Computed[[], str]


@hw.pattern
def card(p: hw.Builder, who: str, times: hw.Cell[int]) -> Card:
    clicks = p.cell("clicks", 1)

    @p.computed
    def label() -> str:
        return f"{who} {clicks.value * times.value}"

    return Card(label)


class Wall:
    """Made anew for each opening, as a program is."""

    def __init__(self, folder: Path) -> None:
        app = self.app = hw.App("wall")
        self.path = folder / "wall.db"
        self.names = names = app.cell("names", ["a", "b"])
        self.times = times = app.cell("times", 1)

        @app.computed
        def labels() -> list[str]:
            return [hw.start(card, name, who=name, times=times).outputs.label() for name in names.value]

        @app.computed
        def first() -> hw.Piece[Card]:
            return card(names.value[0], times)

        @app.computed
        def shouted() -> list[str]:
            return [each.upper() for each in labels()]

        @app.computed
        def title() -> str:
            return first().outputs.label()

        self.labels, self.first, self.shouted, self.title = labels, first, shouted, title


def test_whoever_starts_children_runs_and_these_do_not(tmp_path: Path) -> None:
    for runs in (1, 0):
        wall = Wall(tmp_path)
        with wall.app.open(wall.path) as space:
            assert wall.labels() == ["a 1", "b 1"]
            assert wall.first().outputs.label() == "a 1"
            assert (space.runs(wall.labels), space.runs(wall.first)) == (1, 1)
            assert [space.nodes[piece.outputs.label].runs for piece in space._opening.pieces.running.values()] == [
                runs
            ] * 3


def test_a_change_reaches_children_that_an_opening_has_not_started_by_itself(tmp_path: Path) -> None:
    before = Wall(tmp_path)
    with before.app.open(before.path):
        assert (before.shouted(), before.title()) == (["A 1", "B 1"], "a 1")
    wall = Wall(tmp_path)
    with wall.app.open(wall.path) as space:
        assert (wall.shouted(), wall.title()) == (["A 1", "B 1"], "a 1")
        assert (space.runs(wall.shouted), space.runs(wall.title)) == (0, 0)
        wall.times.value = 2
        assert (wall.shouted(), wall.title()) == (["A 2", "B 2"], "a 2")


def test_a_piece_goes_on_with_the_inputs_it_had(tmp_path: Path) -> None:
    first = Wall(tmp_path)
    with first.app.open(first.path) as space:
        made = space.start(card, "kitchen", who="k", times=first.times)
        assert made.outputs.label() == "k 1"
    again = Wall(tmp_path)
    with again.app.open(again.path) as space:
        resumed = space.start(card, "kitchen")  # type: ignore[call-arg]  # left out: as they were
        assert resumed.outputs.label() == "k 1"
        assert space.nodes[resumed.outputs.label].runs == 0
