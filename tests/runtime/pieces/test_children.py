"""Functions that start pieces: these are their children, for as long as they ask for them."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import EventFailedError, UsageError
from headwater.scheduler.trace import RunStarted
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch
from tests.runtime.pieces.kit import Told, check_held, held, stored

told = Told()


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    told.taken()


@hw.pattern
def card(p: hw.Builder, who: str) -> dict[str, Any]:
    clicks = p.cell("clicks", 0)

    @p.computed
    def label() -> str:
        told("label", who)
        return f"{who} {clicks.value}"

    @p.sink
    def watch() -> None:
        told("watch", label())

    return {"label": label, "clicks": clicks}


class Wall:
    """A list of names with a card for each, and one card or a text in the place of a value."""

    def __init__(self) -> None:
        app = self.app = hw.App("wall")
        self.names = names = app.cell("names", ["a", "b"])
        self.mode = mode = app.cell("mode", "")

        @app.sink
        def board() -> None:
            told("board", [hw.start(card, name, who=name).outputs["label"]() for name in names.value])

        @app.computed
        def view() -> hw.Piece[dict[str, Any]] | str:
            told("view")
            if mode.value.islower():
                return mode.value
            return card(who=mode.value)

        @app.sink
        def show() -> None:
            found = view()
            told("show", found if isinstance(found, str) else found.outputs["label"]())

        self.board, self.view, self.show = board, view, show


@pytest.fixture
def wall() -> Wall:
    return Wall()


def keys(space: hw.Space) -> list[str]:
    return sorted(piece.key for piece in space._opening.pieces.running.values())


def test_a_child_that_is_asked_for_again_goes_on(wall: Wall) -> None:
    with wall.app.open("memory:") as space:
        told.taken()
        wall.names.value = ["b", "a", "c"]
        assert told.taken() == [("label", "c"), ("board", ["b 0", "a 0", "c 0"]), ("watch", "c 0")]
        assert keys(space) == ["()", "a", "b", "c"]
        wall.names.value = ["c", "c", "c"]
        assert told.taken() == [("board", ["c 0"] * 3)]
        assert keys(space) == ["()", "c"]
        check_held(space)


def test_a_child_that_is_dropped_is_stopped_in_the_same_pass(wall: Wall) -> None:
    with wall.app.open("memory:") as space:
        b = next(piece for piece in space._opening.pieces.running.values() if piece.key == "b")
        told.taken()
        with space.transaction():
            b.outputs["clicks"].value = 1
            wall.names.value = ["a"]
        assert told.taken() == [("label", "b"), ("board", ["a 0"])], "who writes what it reads goes before the parent"
        assert (b.status, stored(space, b)["status"]) == ("stopped", "stopped")
        wall.names.value = ["a", "b"]
        assert b.is_running
        assert told.taken() == [("board", ["a 0", "b 1"]), ("watch", "b 1")]


def test_value_and_pattern_results_alternate(wall: Wall) -> None:
    with wall.app.open("memory:") as space:
        wall.names.value = []
        told.taken()
        empty = held(space)
        wall.mode.value = "text"
        assert told.taken() == ["view", ("show", "text")]
        nodes = held(space)
        for _ in range(3):
            wall.mode.value = "X"
            assert told.taken()[-2:] == [("show", "X 0"), ("watch", "X 0")]
            assert held(space).running == 1
            wall.mode.value = "Y"
            assert told.taken() == ["view", ("label", "Y"), ("show", "Y 0"), ("watch", "Y 0")]
            wall.mode.value = "text"
            told.taken()
            assert held(space) == nodes
        assert empty.nodes == nodes.nodes + 2, "the card that it began with"
        check_held(space)


def test_returning_the_same_structure_does_not_restart_the_child(wall: Wall) -> None:
    other = wall.app.cell("other", 0)

    @wall.app.computed
    def again() -> hw.Piece[dict[str, Any]]:
        told("again", other.value)
        return card(who="same")

    with wall.app.open("memory:") as space:
        first = again()
        told.taken()
        started, commits = space._opening.pieces.work.started, space.stats.commits
        other.value = 1
        assert again() is first
        assert told.taken() == [("again", 1)]
        assert space._opening.pieces.work.started == started
        assert space.stats.commits == commits + 1, "of the cell"


def test_a_parent_runs_before_its_children_in_a_pass_that_concerns_both() -> None:
    app = hw.App("order")
    tick = app.cell("tick", 0)

    @hw.pattern
    def child(p: hw.Builder) -> None:
        @p.sink
        def inner() -> None:
            told("inner", tick.value)

    @app.sink
    def outer() -> None:
        told("outer", tick.value)
        if tick.value < 2:
            hw.start(child, "c")

    with app.open("memory:") as space:
        watch = SchedulerWatch(space.scheduler)
        tick.value = 1
        tick.value = 2
        assert told.taken() == [("outer", 0), ("inner", 0), ("outer", 1), ("inner", 1), ("outer", 2)]
        names = [record.node.partition("#")[0] for record in watch.records if isinstance(record, RunStarted)]
        assert names == ["outer", "inner", "outer"]
        watch.check()
        watch.end()


def test_a_child_that_is_dropped_does_not_run_once_more_for_what_its_parent_does_not_read() -> None:
    app = hw.App("drops")
    names = app.cell("names", ["a", "b"])
    deep = app.cell("deep", 0)

    @hw.pattern
    def shown(p: hw.Builder, index: int) -> None:
        @p.computed
        def name() -> str:
            told("name", index)
            return names.value[index]

        @p.sink
        def show() -> None:
            name()

    @app.computed
    def count() -> int:
        return deep.value + len(names.value)

    @app.computed(eager=True)
    def parent() -> int:
        for index in range(count()):
            hw.start(shown, str(index), index=index)
        return count()

    errors: list[Exception] = []
    with app.open("memory:", on_error=errors.append) as space:
        told.taken()
        names.value = ["c"]
        assert told.taken() == [("name", 0)]
        assert (errors, keys(space)) == ([], ["0"])


def test_grandchildren_go_with_their_parents() -> None:
    app = hw.App("tree")
    on = app.cell("on", 1)

    @hw.pattern
    def leaf(p: hw.Builder, name: str) -> dict[str, Any]:
        @p.computed
        def say() -> str:
            return name

        return {"say": say}

    @hw.pattern
    def branch(p: hw.Builder, name: str) -> dict[str, Any]:
        part = p.start(leaf, "part", name=f"{name}.part")

        @p.sink
        def grow() -> None:
            for number in range(on.value):
                told(hw.start(leaf, str(number), name=f"{name}.{number}").outputs["say"]())

        return {"part": part}

    @app.sink
    def root() -> None:
        if on.value:
            hw.start(branch, "b", name="b")

    with app.open("memory:") as space:
        assert keys(space) == ["0", "b", "part"]
        on.value = 3
        assert keys(space) == ["0", "1", "2", "b", "part"]
        before = space.stats.commits
        on.value = 0
        assert (keys(space), held(space).children, held(space).nodes) == ([], 0, 1)
        assert space.stats.commits - before <= 3, "the cell, and what was stopped"
        check_held(space)
        on.value = 2
        assert keys(space) == ["0", "1", "b", "part"]


def test_the_same_key_under_two_parents_is_two_pieces() -> None:
    app = hw.App("two")

    @app.computed
    def one() -> str:
        return hw.start(card, "k", who="one").id

    @app.computed
    def two() -> str:
        return hw.start(card, "k", who="two").id

    with app.open("memory:") as space:
        root = space.start(card, "k", who="root").id
        assert len({one(), two(), root}) == 3
        assert keys(space) == ["k"] * 3
        labels = sorted(piece.outputs["label"]() for piece in space._opening.pieces.running.values())
        assert labels == ["one 0", "root 0", "two 0"]


def test_a_child_cannot_be_stopped_from_outside_while_it_is_asked_for(wall: Wall) -> None:
    with wall.app.open("memory:") as space:
        a = next(piece for piece in space._opening.pieces.running.values() if piece.key == "a")
        with pytest.raises(UsageError, match=r"card a cannot be stopped: board\(\) has it as a child"):
            a.stop()
        assert a.is_running


def test_children_of_a_function_that_is_declared_anew_are_stopped(wall: Wall) -> None:
    with wall.app.open("memory:") as space:
        assert keys(space) == ["()", "a", "b"]
        space._opening.drop(wall.board)
        assert keys(space) == ["()"]
        check_held(space)


def test_children_of_an_instance_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.declare.functions.instances.UNREAD_MAX", 3)
    app = hw.App("rows")

    @app.computed
    def row(number: int) -> str:
        return hw.start(card, "c", who=str(number)).key

    with app.open("memory:") as space:
        for number in range(40):
            assert row(number) == "c"
        assert held(space).instances == held(space).running == held(space).children <= 8
        check_held(space)


def test_a_run_that_fails_leaves_its_children_as_they_were(wall: Wall) -> None:
    fails = wall.app.cell("fails", 0)

    @wall.app.sink
    def fragile() -> None:
        hw.start(card, "old", who="f")
        if fails.value:
            hw.start(card, "new", who="f")
            raise ValueError("no")
        hw.start(card, "last", who="f")

    errors: list[Exception] = []
    with wall.app.open("memory:", on_error=errors.append) as space:
        wall.names.value = []
        assert keys(space) == ["()", "last", "old"]
        before = held(space)
        fails.value = 1
        assert len(errors) == 1
        assert (keys(space), held(space)) == (["()", "last", "old"], before)
        check_held(space)
        fails.value = 0
        assert keys(space) == ["()", "last", "old"]


def test_a_first_run_that_fails_leaves_no_child_and_no_document(wall: Wall) -> None:
    ids: list[str] = []

    @wall.app.sink
    def fragile() -> None:
        ids.append(hw.start(card, "new", who="f").id)
        raise ValueError("no")

    with wall.app.open("memory:", on_error=lambda _: None) as space:
        assert keys(space) == ["()", "a", "b"]
        assert stored(space, ids[0]) == {}
        check_held(space)


def test_a_child_of_a_computed_that_is_called_in_a_transaction_that_has_written_is_not_to_be_had(wall: Wall) -> None:
    @wall.app.handler
    def ask() -> None:
        wall.names.value = ["z"]
        wall.view()

    with wall.app.open("memory:", on_error=lambda _: None) as space:
        before = held(space)
        with pytest.raises(EventFailedError, match="only its own run starts children"):
            ask.send().result()
        assert held(space) == before


def test_a_child_whose_inputs_are_others_is_built_anew_and_not_replaced(wall: Wall) -> None:
    who = wall.app.cell("who", "x")

    @wall.app.sink
    def one() -> None:
        hw.start(card, "k", who=who.value)

    with wall.app.open("memory:") as space:
        piece = next(piece for piece in space._opening.pieces.running.values() if piece.key == "k")
        piece.outputs["clicks"].value = 5
        told.taken()
        who.value = "y"
        assert told.taken() == [("label", "y"), ("watch", "y 5")]
        assert piece.outputs["label"]() == "y 5"
        check_held(space)
