"""Children of a computed that nobody looks at: asleep, with everything below them, until somebody does."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import NotFoundError
from tests.app.simulated import Lab
from tests.runtime.pieces.kit import Told, check_held, held

told = Told()


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    told.taken()


@hw.pattern
def inner(p: hw.Builder, who: str, beat: hw.Cell[int]) -> None:
    @p.sink
    def deep() -> None:
        told("deep", who, beat.value)


@hw.pattern
def card(p: hw.Builder, who: str, beat: hw.Cell[int]) -> dict[str, Any]:
    clicks = p.cell("clicks", 0)
    p.start(inner, "in", who=who, beat=beat)

    @p.computed
    def label() -> str:
        told("label", who)
        return f"{who} {clicks.value}"

    @p.sink
    def show() -> None:
        told("show", who, beat.value)

    @p.handler
    def click() -> None:
        clicks.value += 1

    return {"label": label, "click": click, "clicks": clicks}


class Desk:
    def __init__(self) -> None:
        app = self.app = hw.App("desk")
        self.on = on = app.cell("on", True)
        self.which = which = app.cell("which", "A")
        self.beat = beat = app.cell("beat", 0)

        @app.computed
        def view() -> hw.Piece[dict[str, Any]]:
            told("view")
            return card(who=which.value, beat=beat)

        @app.sink
        def screen() -> None:
            told("screen", view().outputs["label"]() if on.value else "off")

        @app.computed
        def kids() -> int:
            hw.start(card, which.value, who=which.value, beat=beat)
            return 1

        self.view, self.kids = view, kids


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_children_of_a_computed_that_nobody_looks_at_do_nothing(desk: Desk) -> None:
    with desk.app.open("memory:") as space:
        before = held(space)
        piece = desk.view()
        told.taken()
        desk.on.value = False
        assert told.taken() == [("screen", "off")]
        assert held(space).handlers == 0
        check_held(space)
        desk.which.value = "B"
        desk.beat.value = 1
        space.sync()
        desk.beat.value = 2
        assert told.taken() == []
        with pytest.raises(NotFoundError, match=r"click\(\) .* is dormant while nothing observes view\(\)"):
            piece.outputs["click"].send()
        assert "handles nothing: the piece is dormant while nothing observes view()" in hw.why(piece.outputs["click"])
        shows = next(each for each in space.nodes if isinstance(each, hw.Sink) and each.name == "show")
        assert hw.why(shows).startswith("show() of card is an effect, invalid, asleep: view() is not observed")
        desk.on.value = True
        log = told.taken()
        assert ("show", "B", 2) in log
        assert ("deep", "B", 2) in log
        assert not [each for each in log if "A" in each]
        assert held(space) == before
        check_held(space)
    assert told.taken() == []


@pytest.mark.parametrize("synced", [False, True])
def test_a_child_that_is_looked_at_again_goes_on_with_what_it_knows(desk: Desk, synced: bool) -> None:
    with desk.app.open("memory:") as space:
        before = held(space)
        desk.on.value = False
        if synced:
            space.sync()
        told.taken()
        desk.on.value = True
        assert told.taken() == [("screen", "A 0")]
        assert held(space) == before
        check_held(space)
        desk.view().outputs["click"].send()
        assert told.taken() == [("label", "A"), ("screen", "A 1")]


def test_a_plain_call_has_the_child_at_work_only_for_that_call(desk: Desk) -> None:
    with desk.app.open("memory:") as space:
        desk.on.value = False
        told.taken()
        before = held(space)
        assert desk.kids() == 1
        assert sorted(told.taken()) == [("deep", "A", 0), ("show", "A", 0)]
        check_held(space)
        desk.which.value = "B"
        desk.beat.value = 1
        assert told.taken() == []
        assert desk.kids() == 1
        assert sorted(told.taken()) == [("deep", "B", 1), ("show", "B", 1)]
        assert held(space).handlers == before.handlers
        check_held(space)


def test_children_of_a_plain_call_that_fails_do_not_stay_at_work() -> None:
    app = hw.App("sour")
    beat = app.cell("beat", 0)
    bad = app.cell("bad", False)

    @app.computed
    def kids() -> int:
        hw.start(card, "a", who="a", beat=beat)
        if bad.value:
            raise ValueError("sour")
        return 1

    with app.open("memory:", on_error=lambda _error: None) as space:
        assert kids() == 1
        bad.value = True
        with pytest.raises(ValueError, match="sour"):
            kids()
        check_held(space)
        told.taken()
        beat.value = 1
        assert told.taken() == []


def test_a_sleeping_child_can_be_asked_by_plain_code(desk: Desk) -> None:
    with desk.app.open("memory:"):
        piece = desk.view()
        desk.on.value = False
        piece.outputs["clicks"].value = 3
        assert piece.outputs["label"]() == "A 3"
        assert desk.view() is piece


def test_children_of_a_sink_never_sleep() -> None:
    app = hw.App("sinks")
    beat = app.cell("beat", 0)

    @app.sink
    def board() -> None:
        hw.start(card, "a", who="a", beat=beat)

    with app.open("memory:") as space:
        told.taken()
        beat.value = 1
        assert sorted(told.taken()) == [("deep", "a", 1), ("show", "a", 1)]
        check_held(space)


def test_a_reader_that_fails_does_not_keep_a_child_awake(desk: Desk) -> None:
    bad = desk.app.cell("bad", "")

    @desk.app.sink
    def other() -> None:
        if bad.value:
            desk.view()
            raise ValueError(bad.value)

    with desk.app.open("memory:", on_error=lambda _error: None) as space:
        desk.on.value = False
        asleep = held(space)
        bad.value = "x"
        check_held(space)
        bad.value = ""
        assert held(space) == asleep
        check_held(space)


def test_children_sleep_under_an_event_loop_too(desk: Desk) -> None:
    lab = Lab()

    async def program() -> None:
        async with desk.app.aopen("memory:") as space:
            await space.settle()
            before = held(space)
            desk.on.value = False
            await space.settle()
            told.taken()
            desk.beat.value = 1
            await space.settle()
            assert told.taken() == []
            check_held(space)
            desk.on.value = True
            await space.settle()
            assert sorted(told.taken()) == [("deep", "A", 1), ("screen", "A 0"), ("show", "A", 1)]
            assert held(space) == before
            check_held(space)

    lab.run(program)


def test_what_sleeping_children_have_started_sleeps_with_them() -> None:
    @hw.pattern
    def leaf(p: hw.Builder, beat: hw.Cell[int]) -> None:
        @p.sink
        def flutter() -> None:
            told("leaf", beat.value)

    @hw.pattern
    def twig(p: hw.Builder, beat: hw.Cell[int]) -> None:
        @p.computed
        def leaves() -> int:
            hw.start(leaf, "computed", beat=beat)
            return 1

        @p.sink
        def more() -> None:
            leaves()
            hw.start(leaf, "sink", beat=beat)

        @p.computed(eager=True)
        def always() -> int:
            told("eager", beat.value)
            return beat.value

    app = hw.App("tree")
    on = app.cell("on", True)
    beat = app.cell("beat", 0)

    @app.computed
    def branch() -> int:
        hw.start(twig, "t", beat=beat)
        return 1

    @app.sink
    def trunk() -> None:
        if on.value:
            branch()

    with app.open("memory:") as space:
        assert sorted(told.taken()) == [("eager", 0), ("leaf", 0), ("leaf", 0)]
        before = held(space)
        on.value = False
        check_held(space)
        on.value = True
        assert told.taken() == []
        check_held(space)
        on.value = False
        beat.value = 1
        assert told.taken() == []
        on.value = True
        assert sorted(told.taken()) == [("eager", 1), ("leaf", 1), ("leaf", 1)]
        assert held(space) == before
        check_held(space)


def test_what_a_sleeping_child_computes_is_never_old(desk: Desk) -> None:
    @desk.app.computed
    def title() -> str:
        return str(desk.view().outputs["label"]())

    with desk.app.open("memory:"):
        desk.on.value = False
        assert title() == "A 0"
        desk.view().outputs["clicks"].value = 1
        assert title() == "A 1"


def test_a_caller_gets_what_children_that_are_built_anew_come_to() -> None:
    @hw.pattern
    def leaf(p: hw.Builder, name: str) -> hw.Computed[[], str]:
        @p.computed
        def label() -> str:
            return name

        return label

    @hw.pattern
    def twig(p: hw.Builder, name: str) -> hw.Computed[[], hw.Piece[hw.Computed[[], str]]]:
        @p.computed
        def child() -> hw.Piece[hw.Computed[[], str]]:
            return leaf(name=name)

        return child

    app = hw.App("tree")
    name = app.cell("name", "a")

    @app.computed
    def view() -> hw.Piece[hw.Computed[[], hw.Piece[hw.Computed[[], str]]]]:
        return twig(name=name.value)

    @app.computed
    def title() -> str:
        return view().outputs().outputs()

    with app.open("memory:") as space:
        for each in "abca":
            # Nothing that it reads of the first two changes: links to the same pieces.
            name.value = each
            assert title() == each
            check_held(space)
