"""What is told of resources: by `hw.why`, by whoever looks from another process, and of arguments that do not fit."""

from __future__ import annotations

import pytest

import headwater as hw
from headwater.errors import SchemaError, UsageError
from headwater.inspect.function_records import ExplainNode, GetActivity
from headwater.inspect.live_functions import last_state
from headwater.inspect.live_inspector import LiveInspector
from headwater.inspect.opening_inspection import inspection_of
from headwater.testing import probe
from tests.runtime.resources.outside import World
from tests.runtime.resources.test_resources import Town


@pytest.fixture
def world() -> World:
    return World()


class Page(hw.Doc):
    text: str = ""


def test_another_process_is_told_of_a_resource_what_this_one_is(world: World) -> None:
    town = Town(world)

    async def main(space: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        town.weather.refresh("Oslo")
        await world.says("Oslo", 8)
        [told] = LiveInspector([inspection_of(space._opening)]).ask(ExplainNode(node="weather('Oslo')"))
        assert [why.words for why in told.whys] == [hw.why(town.weather, "Oslo")]
        [done] = LiveInspector([inspection_of(space._opening)]).ask(GetActivity())
        (found,) = (each for each in done.activities if each.name == "weather")
        assert (found.runs, found.never_ran, found.nodes) == (2, 0, 1)
        left = last_state(inspection_of(space._opening))
        assert left is not None
        assert hw.why(town.weather, "Oslo") in [why.words for why in left.whys]

    world.run(main)


def test_why_without_arguments_says_which_there_are(world: World) -> None:
    town = Town(world)

    async def main(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        with pytest.raises(UsageError) as caught:
            hw.why(town.weather)
        assert "why(weather): missing a required argument: 'name'" in caught.value.message
        assert "it was called here as weather('Oslo')" in caught.value.message

    world.run(main)


def test_why_of_a_function_with_parameters_says_which_there_are(world: World) -> None:
    @world.app.computed
    def row(number: int) -> int:
        return number

    @world.app.sink
    def show() -> None:
        for number in range(7):
            row(number)

    with world.open():
        with pytest.raises(UsageError) as caught:
            hw.why(row)
        told = "it was called here as row(6), row(5), row(4), row(3), row(2), ..."
        assert caught.value.message == (
            f"why(row): missing a required argument: 'number'; say with which arguments: {told}"
        )
        with pytest.raises(UsageError, match=r"why\(show\) takes no arguments"):
            hw.why(show, 3)


def test_a_clock_is_named_as_people_write_it(world: World) -> None:
    @world.app.sink
    def show() -> None:
        hw.clock(every="1s")
        hw.clock(every="1h")

    async def main(space: hw.AsyncSpace) -> None:
        graph = space.graph()
        assert "clock(1s)" in graph
        assert "clock(1h)" in graph

    world.run(main)


def test_an_argument_that_does_not_fit_its_type_is_refused_and_nobody_is_asked(world: World) -> None:
    asked: list[object] = []

    @world.app.resource
    async def hits(query: str, most: int = 3, tags: list[str] | None = None) -> int:
        asked.append((query, most, tags))
        return 1

    async def main(space: hw.AsyncSpace) -> None:
        with pytest.raises(SchemaError, match=r"hits\(\) cannot take query: expected str, got int 3"):
            hits(3)  # type: ignore[arg-type]  # that is the mistake
        with pytest.raises(SchemaError, match=r"hits\(\) cannot take most: expected int, got str 'x'"):
            hits("a", "x")  # type: ignore[arg-type]  # likewise
        with pytest.raises(SchemaError, match="cannot take"):
            hits.refresh("a", tags=[1])  # type: ignore[list-item]  # likewise
        await space.settle()
        assert asked == []
        hits("a", tags=["x"])
        await space.settle()
        assert asked == [("a", 3, ["x"])]

    world.run(main)


def test_documents_and_cells_and_what_has_no_type_are_taken_as_they_are(world: World) -> None:
    page = world.app.doc("page", Page)
    text = world.app.cell("text", "a")

    @world.app.resource
    async def length(of: Page, cell: hw.Cell[str], other, *more: str) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
        return len(of.text) + len(cell.value) + len(other) + len(more)

    async def main(space: hw.AsyncSpace) -> None:
        length(page, text, [1], "x")
        await space.settle()
        assert length(page, text, [1], "x") == hw.Ready(3)

    world.run(main)


def test_requests_of_all_openings_are_counted_in_a_test() -> None:
    app = hw.App("counted")

    @app.resource
    async def rate() -> int:
        return 1

    @app.sink
    def show() -> None:
        rate()

    with probe(app) as t:
        rate.refresh()
        t.settle()
        assert t.runs(rate) == 2
        t.restart()
        assert t.runs(rate) == 2
        rate.refresh()
        t.settle()
        assert t.runs(rate) == 3
