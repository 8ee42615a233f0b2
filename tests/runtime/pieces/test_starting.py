"""Pieces are started, resumed with nothing run, started with other inputs, and stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from tests.runtime.pieces.kit import Held, Told, check_held, held, stored


class Item(hw.Doc):
    title: str
    done: bool = False


@dataclass
class Timer:
    n: hw.Cell[int]
    doubled: hw.Computed[[], int]
    tick: hw.Handler[[], int]


told = Told()


@hw.pattern
def timer(p: hw.Builder, start: int, step: hw.Cell[int]) -> Timer:
    n = p.cell("n", start)

    @p.computed
    def doubled() -> int:
        told("doubled")
        return n.value * 2

    @p.sink
    def show() -> None:
        told("show", doubled())

    @p.sink
    def steps() -> None:
        told("steps", step.value)

    @p.handler
    def tick() -> int:
        n.value += step.value
        return n.value

    return Timer(n, doubled, tick)


@hw.pattern
def noted(p: hw.Builder, item: Item, label: str = "item") -> dict[str, Any]:
    @p.computed
    def title() -> str:
        told("title", label)
        return f"{label} {item.title}"

    @p.computed
    def state() -> bool:
        told("state")
        return item.done

    return {"title": title, "state": state}


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    told.taken()


def opened(path: Path | None = None) -> hw.Space:
    return hw.App("kitchen").open("memory:" if path is None else path)


def test_a_piece_is_started_once_for_a_key() -> None:
    with opened() as space:
        before = held(space)
        first = space.start(timer, "egg", start=3, step=1)
        assert told.taken() == ["doubled", ("show", 6), ("steps", 1)]
        commits = space.stats.commits
        assert space.start(timer, "egg", start=3, step=1) is first
        assert space.start(timer, "egg", 3, 1) is first
        assert told.taken() == []
        assert space.stats.commits == commits
        assert held(space) == Held(before.nodes + 3, 1, 1, 0, 0)
        assert (first.status, first.generation, first.key) == ("running", 1, "egg")
        check_held(space)


def test_its_setup_is_one_commit() -> None:
    with opened() as space:
        milk = Item(title="milk")
        before = space.stats.commits
        piece = space.start(noted, "n", item=milk)
        assert space.stats.commits == before + 1
        document = stored(space, piece)
        assert document["internal"] == {"title": "computed", "state": "computed"}
        assert set(document["outputs"]) == {"title", "state"}
        assert (document["generation"], document["status"], document["key"]) == (1, "running", "n")
        assert set(document["arguments"]) == {"item", "label"}


def test_outputs_are_cells_functions_and_handlers() -> None:
    with opened() as space:
        outputs = space.start(timer, "egg", start=3, step=2).outputs
        assert (outputs.n.value, outputs.doubled()) == (3, 6)
        assert outputs.tick.send().result() == 5
        assert (outputs.n.value, outputs.doubled()) == (5, 10)


def test_pieces_of_one_pattern_have_nothing_in_common() -> None:
    with opened() as space:
        one, two = (space.start(timer, key, start=1, step=1).outputs for key in "ab")
        one.tick.send().result()
        assert (one.n.value, two.n.value) == (2, 1)


def test_a_cell_that_is_given_is_read_and_written_through() -> None:
    app = hw.App("kitchen")
    step = app.cell("step", 5)
    with app.open("memory:") as space:
        piece = space.start(timer, "egg", start=0, step=step)
        told.taken()
        step.value = 7
        assert told.taken() == [("steps", 7)]
        assert piece.outputs.tick.send().result() == 7


def test_a_document_that_is_given_is_the_document_itself() -> None:
    with opened() as space:
        milk = Item(title="milk")
        outputs = space.start(noted, "n", item=milk).outputs
        assert (outputs["title"](), outputs["state"]()) == ("item milk", False)
        told.taken()
        milk.title = "tea"
        assert (outputs["title"](), outputs["state"]()) == ("item tea", False)
        assert told.taken() == [("title", "item")], "of the other nothing has changed"


def test_with_other_inputs_only_what_uses_them_runs() -> None:
    with opened() as space:
        milk = Item(title="milk")
        piece = space.start(noted, "n", item=milk)
        piece.outputs["title"]()
        piece.outputs["state"]()
        nodes = held(space)
        told.taken()
        assert space.start(noted, "n", item=milk, label="drink") is piece
        assert (piece.outputs["title"](), piece.outputs["state"]()) == ("drink milk", False)
        assert told.taken() == [("title", "drink")]
        assert (held(space), piece.generation) == (nodes, 1)
        check_held(space)


def test_sinks_that_do_not_use_what_is_another_do_not_draw_again() -> None:
    with opened() as space:
        space.start(timer, "egg", start=3, step=1)
        told.taken()
        space.start(timer, "egg", start=3, step=2)
        assert told.taken() == [("steps", 2)]
        space.start(timer, "egg", start=4, step=2)
        assert told.taken() == ["doubled", ("show", 8)]


def test_whoever_reads_an_output_is_told_when_the_piece_is_built_anew() -> None:
    app = hw.App("kitchen")
    with app.open("memory:") as space:
        milk = Item(title="milk")
        piece = space.start(noted, "n", item=milk)
        title = piece.outputs["title"]
        seen = []

        @app.sink
        def show() -> None:
            seen.append(piece.outputs["title"]())

        space.start(noted, "n", item=milk, label="drink")
        assert seen == ["item milk", "drink milk"]
        assert title() == "drink milk", "also by whoever holds what was there before"


def test_a_dormant_reader_of_a_piece_that_is_built_anew_is_not_stale() -> None:
    app = hw.App("kitchen")
    pieces: list[hw.Piece[dict[str, hw.Computed[[], str]]]] = []

    @app.computed
    def shouted() -> str:
        return pieces[0].outputs["title"]().upper()

    with app.open("memory:") as space:
        milk = Item(title="milk")
        pieces.append(space.start(noted, "n", item=milk))
        assert shouted() == "ITEM MILK"
        space.start(noted, "n", item=milk, label="drink")
        assert shouted() == "DRINK MILK"
        pieces[0].stop()
        milk.title = "tea"
        space.start(noted, "n")  # type: ignore[call-arg]  # as they were
        assert shouted() == "DRINK TEA"


def test_a_stopped_piece_runs_no_more_and_keeps_what_it_has_made() -> None:
    with opened() as space:
        empty = held(space)
        piece = space.start(timer, "egg", start=3, step=1)
        piece.outputs.tick.send().result()
        piece.stop()
        told.taken()
        assert (piece.status, held(space)) == ("stopped", empty)
        assert stored(space, piece)["status"] == "stopped"
        piece.outputs.n.value = 10
        assert told.taken() == []
        assert piece.outputs.doubled() == 20, "a plain call"
        piece.stop()
        check_held(space)


def test_a_stopped_piece_goes_on_where_it_was_as_the_same_piece() -> None:
    with opened() as space:
        piece = space.start(timer, "egg", start=3, step=1)
        piece.outputs.tick.send().result()
        piece.stop()
        told.taken()
        assert space.start(timer, "egg", start=3, step=1) is piece
        assert (piece.status, piece.generation, piece.outputs.n.value) == ("running", 1, 4)
        assert stored(space, piece)["status"] == "running"
        assert told.taken() == [("show", 8), ("steps", 1)], "sinks draw once; what they read is as it was"


def test_an_input_that_the_piece_has_written_to_is_not_another_input(tmp_path: Path) -> None:
    @hw.pattern
    def counter(p: hw.Builder, count: hw.Cell[int]) -> hw.Handler[[], int]:
        @p.handler
        def more() -> int:
            count.value += 1
            return count.value

        return more

    for expected in (2, 3):
        with opened(tmp_path / "k.db") as space:
            assert space.start(counter, "c", count=1).outputs.send().result() == expected
    with opened(tmp_path / "k.db") as space:
        assert space.start(counter, "c", count=10).outputs.send().result() == 11


def test_a_restart_resumes_with_nothing_run(tmp_path: Path) -> None:
    app = hw.App("kitchen")
    for runs in (1, 0, 0):
        with app.open(tmp_path / "k.db") as space:
            piece = space.start(timer, "egg", start=3, step=1)
            assert told.taken() == [*["doubled"] * runs, ("show", 6), ("steps", 1)]
            assert (space.runs(piece.outputs.doubled), piece.generation) == (runs, 1)
            check_held(space)


def test_after_a_restart_only_what_has_changed_meanwhile_runs(tmp_path: Path) -> None:
    with opened(tmp_path / "k.db") as space:
        piece = space.start(timer, "egg", start=3, step=1)
        address = piece.outputs.n.address
        piece.stop()
    with opened(tmp_path / "k.db") as space:
        space.cell(address, int).value = 8
    told.taken()
    with opened(tmp_path / "k.db") as space:
        piece = space.start(timer, "egg", start=3, step=1)
        assert told.taken() == ["doubled", ("show", 16), ("steps", 1)]
