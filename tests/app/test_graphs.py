"""Random graphs of cells, computeds and sinks against a naive model that makes everything anew after each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from hypothesis import event, given
from hypothesis import strategies as st

import headwater as hw
from headwater.core import doc_key
from headwater.errors import UserCodeError
from headwater.runtime.attached_replica import AttachedReplica
from headwater.store.commit import SetDoc

VALUES = st.integers(0, 3)


class Failed(NamedTuple):
    """What a function comes to that raises."""

    text: str


Outcome: TypeAlias = int | Failed


class TrialError(Exception):
    pass


@dataclass(frozen=True)
class Formula:
    """A function of its sources, as data: cells and formulas before it, by number."""

    kind: str
    sources: tuple[int, ...]

    def apply(self, read: Callable[[int], int]) -> int:
        first, second, third = self.sources
        match self.kind:
            case "sum":
                return read(first) + read(second) + read(third)
            case "parity":
                return read(first) % 2
            case "branch":
                return read(second) if read(first) % 2 else read(third)
            case "guard":
                if read(first) == 2:
                    raise TrialError(f"two in {second}")
                return read(second)
            case "rescue":
                try:
                    return read(first)
                except TrialError:
                    return -read(second)
            case _:
                raise AssertionError(self.kind)


@dataclass(frozen=True)
class Graph:
    cells: int
    computeds: list[Formula]
    sinks: list[Formula]

    def outcome(self, number: int | Formula, values: list[int]) -> Outcome:
        """Naively: from the cells, every time."""
        if isinstance(number, int) and number < self.cells:
            return values[number]
        formula = number if isinstance(number, Formula) else self.computeds[number - self.cells]
        try:
            return formula.apply(lambda source: self.raised(self.outcome(source, values)))
        except TrialError as error:
            return Failed(str(error))

    @staticmethod
    def raised(outcome: Outcome) -> int:
        if isinstance(outcome, Failed):
            raise TrialError(outcome.text)
        return outcome


def formulas(sources: int) -> st.SearchStrategy[Formula]:
    one = st.integers(0, sources - 1)
    kinds = st.sampled_from(["sum", "parity", "branch", "branch", "guard", "rescue"])
    return st.builds(Formula, kinds, st.tuples(one, one, one))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    cells = draw(st.integers(1, 4))
    computeds: list[Formula] = []
    for _ in range(draw(st.integers(1, 6))):
        computeds.append(draw(formulas(cells + len(computeds))))  # from those before it
    sinks = draw(st.lists(formulas(cells + len(computeds)), min_size=1, max_size=3))
    return Graph(cells, computeds, sinks)


Writes: TypeAlias = list[tuple[int, int]]
"""Cells, by any number, and what to write there."""
WRITES = st.lists(st.tuples(st.integers(0, 3), VALUES), min_size=1, max_size=4)


class Step(NamedTuple):
    kind: str
    writes: Writes
    more: Writes
    number: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["write", "transaction", "rollback", "partial", "call", "call inside", "others", "sync"]),
        WRITES,
        WRITES,
        st.integers(0, 5),
    ),
    max_size=12,
)


@dataclass
class Run:
    """One run of a node: what it read, and what that was."""

    reads: list[tuple[int, Outcome]] = field(default_factory=list)


class Trial:
    """A graph as an app, open in memory, beside the values that its cells should have."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.app = hw.App("graph")
        self.cells = [self.app.cell(f"c{number}", -1) for number in range(graph.cells)]
        self.values = [-1] * graph.cells
        self.computeds = [
            self.app.computed(name=f"f{number}")(self.function(f"f{number}", formula))
            for number, formula in enumerate(graph.computeds)
        ]
        self.shown: dict[int, Outcome] = {}
        for number, formula in enumerate(graph.sinks):
            self.app.sink(name=f"s{number}")(self.show(number, self.function(f"s{number}", formula)))
        self.last: dict[str, Run] = {}
        self.ran: list[str] = []
        self.counted: dict[str, int] = {}
        self.space: hw.Space | None = None
        self.told: list[UserCodeError] = []
        self.mixed: list[object] = []

    def function(self, name: str, formula: Formula) -> Callable[[], int]:
        def run() -> int:
            record = Run()
            if self.is_counted(name):
                self.last[name] = record
                self.ran.append(name)

            def read(source: int) -> int:
                found = self.look(source)
                record.reads.append((source, found))
                if found != self.graph.outcome(source, self.values):
                    self.mixed.append((name, source, found, list(self.values)))
                return Graph.raised(found)

            return formula.apply(read)

        return run

    def is_counted(self, name: str) -> bool:
        """Whether this is a run of the node; else it is a plain call inside a transaction."""
        if self.space is None:
            return True
        runs = self.space.stats.runs[name]
        before, self.counted[name] = self.counted.get(name, 0), runs
        return runs > before

    def look(self, source: int) -> Outcome:
        count = self.graph.cells
        try:
            return self.cells[source].value if source < count else self.computeds[source - count]()
        except TrialError as error:
            return Failed(str(error))

    def show(self, number: int, function: Callable[[], int]) -> Callable[[], None]:
        def run() -> None:
            try:
                self.shown[number] = function()
            except TrialError as error:
                self.shown[number] = Failed(str(error))
                raise

        return run

    # -- steps ---------------------------------------------------------------------------------------------

    def write(self, writes: Writes, model: list[int]) -> None:
        for number, value in writes:
            # First: whoever runs because of the write is compared with it.
            model[number % len(self.cells)] = value
            self.cells[number % len(self.cells)].value = value

    def take(  # noqa: C901  # one case for each kind
        self, space: hw.Space, other: AttachedReplica, step: Step
    ) -> None:
        match step.kind:
            case "write":
                self.write(step.writes[:1], self.values)
            case "transaction":
                with space.transaction():
                    self.write(step.writes, self.values)
            case "rollback":
                try:
                    with space.transaction():
                        self.write(step.writes, list(self.values))
                        raise KeyError
                except KeyError:
                    pass
            case "partial":
                with space.transaction():
                    self.write(step.writes, self.values)
                    try:
                        with space.transaction():
                            self.write(step.more, list(self.values))
                            raise KeyError
                    except KeyError:
                        pass
            case "call":
                self.call(step.number)
            case "call inside":
                with space.transaction() as tx:
                    self.write(step.writes, self.values)
                    if tx.has_writes:
                        self.call(step.number)
                    self.write(step.more, self.values)
            case "others":
                other.sync()
                for number, value in step.writes:
                    other.commit([SetDoc(doc_key(f"graph.c{number % len(self.cells)}"), value)])
                    self.values[number % len(self.cells)] = value
                other.sync()
                space.settle()
            case _:
                space.sync()
                other.refresh()

    def call(self, number: int) -> None:
        """A caller gets what the model says, as of now."""
        number = self.graph.cells + number % len(self.computeds)
        assert self.look(number) == self.graph.outcome(number, self.values)

    # -- claims --------------------------------------------------------------------------------------------

    def check(self, concerned: dict[str, bool], touched: set[str]) -> None:
        graph, values = self.graph, self.values
        assert len(set(self.ran)) == len(self.ran), "each at most once for each step"
        assert self.mixed == [], "nobody sees something that never was"
        for name in self.ran:
            assert name in touched or name not in concerned, f"{name} ran although nothing it read had changed"
        for number, formula in enumerate(graph.sinks):
            assert self.shown[number] == graph.outcome(formula, values)
            name = f"s{number}"
            assert (name in self.ran) == concerned.get(name, True), "a sink runs exactly when what it read has changed"


def concerned_by(trial: Trial) -> dict[str, bool]:
    """For each that has run: would it find something else now than when it ran last?"""
    return {
        name: any(found != trial.graph.outcome(source, trial.values) for source, found in run.reads)
        for name, run in trial.last.items()
    }


@given(graphs(), STEPS)
def test_sinks_show_what_a_naive_model_says_and_nobody_runs_without_need(graph: Graph, steps: list[Step]) -> None:
    trial = Trial(graph)
    with trial.app.open("memory:") as space:
        trial.space, space.on_error = space, trial.told.append
        other: Any = space._opening._lease.storage.attach()
        trial.counted = dict(space.stats.runs)
        trial.check({}, set())
        # From here on every cell is stored: that one appears which had its default before is a change of its own.
        first = Step("transaction", [(number, 0) for number in range(graph.cells)], [], 0)
        touched: set[str] = set()
        for step in [first, *steps]:
            trial.ran, runs = [], dict(trial.last)
            trial.take(space, other, step)
            ran, trial.last, last = trial.ran, runs, trial.last
            before = concerned_by(trial)
            trial.last = last
            touched |= {name for name, is_so in before.items() if is_so}
            trial.check(before, touched)
            touched -= set(ran)
            event(f"{len(ran)} ran")
        assert all(isinstance(error.__cause__, TrialError) for error in trial.told)
