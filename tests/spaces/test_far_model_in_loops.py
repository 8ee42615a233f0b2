"""Several spaces in one event loop against an oracle: async functions that read across, and one space that settles.

`await space.settle()` of one space waits for what its live functions depend on, in whichever space that runs. Then each
of its sinks has shown what a fresh computation over all cells gives. `fresh` and handlers get that, too: an event waits
for runs in progress and for functions with a debounce.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.host.together import AppOpening
from headwater.runtime.options import Options
from headwater.testing import simulate
from tests.app.simulated import sim_loop
from tests.support.halves import examples

At = tuple[int, int]
"""A cell or function: its space and number."""

CELLS = 2
FUNCTIONS = 2


@dataclass(frozen=True)
class Fn:
    """A computed that adds up cells and earlier functions."""

    cells: tuple[At, ...]
    calls: tuple[At, ...]
    modulus: int
    pauses: int
    """How often it awaits, after it has read its cells. 0: not async."""
    pause_s: float
    """How long each of these takes."""
    is_delayed: bool
    """Whether it has a debounce."""


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, dict[At, Fn]]:
    spaces = draw(st.integers(2, 3))
    every = [(space, number) for number in range(CELLS) for space in range(spaces)]
    functions: dict[At, Fn] = {}
    for number in range(FUNCTIONS):
        for space in range(spaces):
            earlier = sorted(functions)
            functions[space, number] = Fn(
                tuple(draw(st.lists(st.sampled_from(every), min_size=1, max_size=2, unique=True))),
                tuple(draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True))) if earlier else (),
                draw(st.sampled_from([2, 1000])),
                draw(st.integers(0, 3)),
                draw(st.sampled_from([0, 0, 0.03, 1])),
                draw(st.integers(0, 5)) == 0,
            )
    return spaces, functions


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "fresh", "ask", "send", "settle", "steps", "wait"]),
        st.integers(0, 2),
        st.integers(0, 1),
        st.integers(0, 3),
    ),
    max_size=8,
)


class Program:
    """The functions as real apps, and what their sinks have shown."""

    def __init__(self, spaces: int, functions: dict[At, Fn]) -> None:
        self.functions = functions
        self.apps = [hw.App(f"app{number}") for number in range(spaces)]
        self.cells = {(s, n): self.apps[s].cell(f"c{n}", 0) for s in range(spaces) for n in range(CELLS)}
        self.computed: dict[At, Callable[[], int]] = {}
        self.shown: dict[At, int] = {}
        for at in functions:
            self.computed[at] = self._declare(at)
            self._show(at)
        self.asked: list[tuple[int, int]] = []
        self.asks = [self._asking(app, space) for space, app in enumerate(self.apps)]

    def _declare(self, at: At) -> Callable[[], int]:
        fn = self.functions[at]
        cells, calls = [self.cells[cell] for cell in fn.cells], [self.computed[call] for call in fn.calls]

        def plain() -> int:
            return sum([cell.value for cell in cells] + [call() for call in calls]) % fn.modulus

        async def pausing() -> int:
            total = sum(cell.value for cell in cells)
            for _ in range(fn.pauses):
                await asyncio.sleep(fn.pause_s)
            return (total + sum(call() for call in calls)) % fn.modulus

        declare = self.apps[at[0]].computed(name=f"f{at[1]}", debounce="300ms" if fn.is_delayed else None)
        return declare(pausing) if fn.pauses else declare(plain)  # type: ignore[return-value]  # called alike

    def _show(self, at: At) -> None:
        if at[1] == FUNCTIONS - 1:
            # The others are live only because of these.
            self.apps[at[0]].sink(name="show")(lambda: self.shown.__setitem__(at, self.computed[at]()))

    def _asking(self, app: hw.App, space: int) -> hw.Handler[[int], None]:
        def ask(number: int) -> None:
            self.asked.append((self.computed[space, number](), self.expected((space, number))))

        return app.handler(name="ask")(ask)

    def waits(self, at: At) -> bool:
        """Whether it, or a function that it calls, has a debounce."""
        fn = self.functions[at]
        return fn.is_delayed or any(self.waits(call) for call in fn.calls)

    def expected(self, at: At) -> int:
        fn = self.functions[at]
        values = [self.cells[cell].value for cell in fn.cells] + [self.expected(call) for call in fn.calls]
        return sum(values) % fn.modulus


async def run_all(  # noqa: C901  # one case for each kind of step
    spaces: int, functions: dict[At, Fn], steps: list[tuple[str, int, int, int]]
) -> None:
    program = Program(spaces, functions)
    options = Options(now=sim_loop().now_ms)
    together = hw.together(*(AppOpening(app, "memory:", options) for app in program.apps))
    sent: list[hw.Ticket[None]] = []
    async with together as opened:
        for kind, at, number, value in [*steps, *(("settle", space, 0, 0) for space in range(spaces))]:
            space = at % spaces
            if kind == "write":
                program.cells[space, number].value = value
            elif kind == "wait":
                await asyncio.sleep(0.1 * value)
            elif kind == "steps":
                for _ in range(value):
                    await asyncio.sleep(0)
            elif kind == "fresh" and not program.waits((space, number)):
                found = await opened[space].fresh(program.computed[space, number])
                assert found == program.expected((space, number))
            elif kind == "ask":
                await program.asks[space].send(number)
            elif kind == "send":
                sent.append(program.asks[space].send(number))
            elif kind == "settle":
                await opened[space].settle()
                last = space, FUNCTIONS - 1
                assert program.waits(last) or program.shown[last] == program.expected(last)
        for ticket in sent:
            await ticket
        await asyncio.sleep(20)
        assert program.shown == {at: program.expected(at) for at in program.shown}
    assert all(found == expected for found, expected in program.asked), program.asked


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), STEPS)
def test_sinks_handlers_and_fresh_get_what_follows_from_all_spaces(
    graph: tuple[int, dict[At, Fn]], steps: list[tuple[str, int, int, int]]
) -> None:
    spaces, functions = graph
    event(f"{spaces} spaces, {sum(fn.pauses > 0 for fn in functions.values())} async functions")
    simulate(run_all(spaces, functions, steps))
