"""Random graphs of async and plain functions, written to while they are under way: in the end all is current."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tests.app.simulated import Lab, pause

CELLS = 3


class Part(NamedTuple):
    """A function of sources before it; if it is async, it waits so long before each of them."""

    sources: tuple[int, int]
    branch: bool
    delay: int | None
    finishes: bool


def parts(index: int) -> st.SearchStrategy[Part]:
    source = st.integers(0, CELLS + index - 1)
    delay = st.none() | st.integers(0, 30)
    return st.builds(Part, st.tuples(source, source), st.booleans(), delay, st.booleans())


GRAPHS = st.tuples(*(parts(index) for index in range(5)))
WRITES = st.lists(st.tuples(st.integers(0, CELLS - 1), st.integers(0, 3), st.integers(0, 40)), max_size=12)


def naive(graph: tuple[Part, ...], values: list[int], number: int) -> int:
    if number < CELLS:
        return values[number]
    part = graph[number - CELLS]
    first = naive(graph, values, part.sources[0])
    if part.branch and first % 2:
        return -first
    return first + naive(graph, values, part.sources[1])


class Trial:
    def __init__(self, graph: tuple[Part, ...]) -> None:
        self.lab = Lab()
        self.cells = [self.lab.app.cell(f"c{index}", 0) for index in range(CELLS)]
        self.functions: list[Callable[[], Any]] = []
        for index, part in enumerate(graph):
            options: dict[str, Any] = {"on_invalid": "finish" if part.finishes else "restart"}
            made = self.plain(part) if part.delay is None else self.delayed(part, part.delay)
            self.functions.append(self.lab.app.computed(name=f"f{index}", **options)(made))
        self.shown: list[int] = []
        self.lab.app.sink(name="show")(lambda: self.shown.append(self.look(CELLS + len(graph) - 1)))

    def look(self, number: int) -> int:
        found: int = self.cells[number].value if number < CELLS else self.functions[number - CELLS]()
        return found

    def plain(self, part: Part) -> Callable[[], int]:
        def run() -> int:
            first = self.look(part.sources[0])
            return -first if part.branch and first % 2 else first + self.look(part.sources[1])

        return run

    def delayed(self, part: Part, delay: int) -> Callable[[], Any]:
        async def run() -> int:
            await pause(delay)
            first = self.look(part.sources[0])
            await pause(delay)
            return -first if part.branch and first % 2 else first + self.look(part.sources[1])

        return run


@given(GRAPHS, WRITES)
def test_everything_is_current_when_it_has_settled(graph: tuple[Part, ...], writes: list[tuple[int, int, int]]) -> None:
    trial = Trial(graph)
    values = [0] * CELLS

    async def main() -> None:
        async with trial.lab.open() as space:
            for cell, value, wait in writes:
                trial.cells[cell].value = values[cell] = value
                await pause(wait)
            await space.settle()
            assert trial.shown[-1] == naive(graph, values, CELLS + len(graph) - 1)
            for number in range(CELLS, CELLS + len(graph)):
                found = await space.fresh(trial.functions[number - CELLS])
                assert found == naive(graph, values, number)
            assert space.scheduler.outstanding().is_idle

    trial.lab.run(main)
    assert trial.lab.errors == []
