"""Several spaces in one program against an oracle: functions that read across, writes, restarts.

Every step ends quiet. At quiet, what each sink has shown last is what a fresh computation over all cells gives, and a
function has run at most once, and only if something that it reads has changed since its last run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import headwater as hw
from tests.support.halves import examples
from tests.support.together import open_together

CELLS = 2
FUNCTIONS = 3


@dataclass(frozen=True)
class Fn:
    """A computed: the cells and earlier functions that it adds up, each as (space, number)."""

    cells: tuple[tuple[int, int], ...]
    calls: tuple[tuple[int, int], ...]
    modulus: int


@dataclass
class World:
    """The declared functions, and what an oracle knows."""

    functions: dict[tuple[int, int], Fn]
    # None: nothing is stored, and the default is read.
    cells: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def value(self, at: tuple[int, int]) -> int:
        fn = self.functions[at]
        total = sum(self.cells[cell] or 0 for cell in fn.cells) + sum(self.value(call) for call in fn.calls)
        return total % fn.modulus

    def reads(self, at: tuple[int, int]) -> tuple[int | None, ...]:
        fn = self.functions[at]
        return (*(self.cells[cell] for cell in fn.cells), *(self.value(call) for call in fn.calls))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[int, World]:
    spaces = draw(st.integers(1, 4))
    every = [(space, number) for number in range(CELLS) for space in range(spaces)]
    functions: dict[tuple[int, int], Fn] = {}
    for number in range(FUNCTIONS):
        for space in range(spaces):
            earlier = [at for at in functions if at != (space, number)]
            functions[space, number] = Fn(
                tuple(draw(st.lists(st.sampled_from(every), min_size=1, max_size=3, unique=True))),
                tuple(draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True))) if earlier else (),
                draw(st.sampled_from([2, 3, 1000])),
            )
    return spaces, World(functions, dict.fromkeys(every))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(0, CELLS - 1), st.integers(0, 3)),
        st.tuples(st.just("call"), st.integers(0, 3), st.integers(0, FUNCTIONS - 1), st.just(0)),
        st.tuples(st.just("restart"), st.integers(0, 3), st.just(0), st.just(0)),
        st.tuples(st.just("alone"), st.integers(0, 3), st.integers(0, CELLS - 1), st.integers(0, 3)),
    ),
    max_size=12,
)


class Program:
    """The same as real apps, each on a file of its own."""

    def __init__(self, spaces: int, world: World, folder: Path, sinks: set[tuple[int, int]]) -> None:
        self.world, self.folder = world, folder
        self.apps = [hw.App(f"app{number}") for number in range(spaces)]
        self.cells = {(s, n): self.apps[s].cell(f"c{n}", 0) for s, n in world.cells}
        self.computed: dict[tuple[int, int], Callable[[], int]] = {}
        self.ran: dict[tuple[int, int], int] = dict.fromkeys(world.functions, 0)
        self.shown: dict[tuple[int, int], int] = {}
        for at in world.functions:
            self.computed[at] = self._declare(at)
        for at in sinks:
            self._show(at)

    def _declare(self, at: tuple[int, int]) -> Callable[[], int]:
        fn, (space, number) = self.world.functions[at], at
        cells, calls = [self.cells[cell] for cell in fn.cells], [self.computed[call] for call in fn.calls]
        ran = self.ran

        def body() -> int:
            ran[at] += 1
            return sum([cell.value for cell in cells] + [call() for call in calls]) % fn.modulus

        return self.apps[space].computed(name=f"f{number}", version=1)(body)

    def _show(self, at: tuple[int, int]) -> None:
        space, number = at
        self.apps[space].sink(name=f"show{number}")(lambda: self.shown.__setitem__(at, self.computed[at]()))

    def open(self, stack: ExitStack, first: int) -> None:
        count = len(self.apps)
        order = [(first + step) % count for step in range(count)]
        open_together(stack, [(self.apps[at], self.folder / f"{at}.db") for at in order])


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(worlds(), STEPS, st.data())
def test_at_quiet_everything_is_as_if_computed_anew_and_nothing_ran_in_vain(
    found: tuple[int, World], steps: list[tuple[str, int, int, int]], data: st.DataObject
) -> None:
    spaces, world = found
    sinks = data.draw(st.sets(st.sampled_from(sorted(world.functions))))
    event(f"{spaces} spaces")
    with TemporaryDirectory() as folder:
        run_all(spaces, world, sinks, steps, Path(folder))


class Oracle:
    """What every function would read now, and which of them have reason to run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.due = set(world.functions)
        self._reads = self._now()

    def _now(self) -> dict[tuple[int, int], tuple[int | None, ...]]:
        return {at: self.world.reads(at) for at in self.world.functions}

    def write(self, at: tuple[int, int], value: int) -> None:
        self.world.cells[at] = value
        now = self._now()
        self.due |= {each for each, reads in now.items() if reads != self._reads[each]}
        self._reads = now

    def check(self, program: Program, sinks: set[tuple[int, int]]) -> None:
        assert program.shown == {at: self.world.value(at) for at in sinks}
        for at, ran in program.ran.items():
            assert ran <= (at in self.due), f"f{at} ran {ran} times"
            if ran:
                self.due.remove(at)
            program.ran[at] = 0


def run_all(
    spaces: int, world: World, sinks: set[tuple[int, int]], steps: list[tuple[str, int, int, int]], folder: Path
) -> None:
    oracle, rest, first = Oracle(world), list(steps), 0
    while True:
        program = Program(spaces, world, folder, sinks)
        with ExitStack() as stack:
            program.open(stack, first)
            oracle.check(program, sinks)
            while rest and rest[0][0] in {"write", "call"}:
                kind, where, number, value = rest.pop(0)
                at = (where % spaces, number)
                if kind == "write":
                    oracle.write(at, value)
                    program.cells[at].value = value
                else:
                    assert program.computed[at]() == world.value(at)
                oracle.check(program, sinks)
        if not rest:
            return
        kind, first, number, value = rest.pop(0)
        first %= spaces
        if kind == "alone":
            # Written while the other spaces are closed.
            oracle.write((first, number), value)
            app = hw.App(f"app{first}")
            cell = app.cell(f"c{number}", 0)
            with app.open(folder / f"{first}.db"):
                cell.value = value
