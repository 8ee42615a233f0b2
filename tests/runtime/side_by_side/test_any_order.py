"""Whatever runtimes write, run, send and hear, in whatever order: in the end all of them show what is right."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from headwater.cells.transaction import Transaction
from headwater.core import doc_key
from tests.runtime.side_by_side.exchange import Exchange, Runtime, number
from tests.support.halves import seeds
from tests.support.naive import NOTHING

CELLS = ("c0", "c1", "c2")
FUNCTIONS = ("f0", "f1", "f2", "f3", "f4")


class Formula(NamedTuple):
    """What one function makes of three documents; which of them it reads depends on what is in the first."""

    kind: str
    a: str
    b: str
    c: str

    def apply(self, look: Any) -> int:
        match self.kind:
            case "sum":
                return int(look(self.a) + look(self.b)) % 7
            case "pick":
                return int(look(self.b) if look(self.a) % 2 else look(self.c))
            case "half":
                return int(look(self.a)) // 2
            case _:
                return min(int(look(self.a)), 1) if look(self.b) else int(look(self.c))

    def run(self, tx: Transaction) -> int:
        return self.apply(lambda name: number(tx, name))


class Truth:
    """Everything made anew from the cells, and what each function has read on the way."""

    def __init__(self, formulas: list[Formula], cells: dict[str, int]) -> None:
        self._formulas = dict(zip(FUNCTIONS, formulas, strict=False))
        self._cells = cells
        self.reads: dict[str, set[str]] = {}

    def value(self, name: str) -> int:
        if name in self._cells or name not in self._formulas:
            return self._cells.get(name, 0)
        read = self.reads[name] = set()

        def look(other: str) -> int:
            read.add(other)
            return self.value(other)

        return self._formulas[name].apply(look)


@st.composite
def formulas(draw: st.DrawFn) -> list[Formula]:
    found: list[Formula] = []
    for index in range(draw(st.integers(1, len(FUNCTIONS)))):
        names = st.sampled_from((*CELLS, *FUNCTIONS[:index]))
        kind = draw(st.sampled_from(("sum", "pick", "half", "flag")))
        found.append(Formula(kind, draw(names), draw(names), draw(names)))
    return found


steps = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from(CELLS), st.integers(0, 4)),
            st.tuples(st.just("run")),
            st.tuples(st.just("send")),
            st.tuples(st.just("change"), st.sampled_from(CELLS), st.integers(0, 4)),
            st.tuples(st.just("hear"), st.integers(1, 4)),
            st.tuples(st.just("hear"), st.none()),
        ),
    ),
    max_size=40,
)


def perform(runtime: Runtime, step: tuple[Any, ...]) -> None:
    match step:
        case ("put", cell, value):
            runtime.put(**{cell: value})
        case ("change", cell, value):
            runtime.put(**{cell: value})
            runtime.run()
            runtime.send()
        case ("run",):
            runtime.run()
        case ("send",):
            runtime.send()
        case ("hear", count):
            runtime.hear(count)
        case _:
            raise AssertionError(step)


def start(exchange: Exchange, made: list[Formula], looked_at: list[str]) -> Runtime:
    runtime = exchange.runtime()
    for name, formula in zip(FUNCTIONS, made, strict=False):
        runtime.computed(name, formula.run, repr(formula).encode())
    runtime.show("show", *looked_at)
    return runtime


def right(runtime: Runtime, made: list[Formula]) -> None:
    """What it shows is what everything made anew comes to; and whoever is clean has read what a run would read."""
    seen = {cell: runtime.see(cell) for cell in CELLS}
    truth = Truth(made, {cell: 0 if value is NOTHING else value for cell, value in seen.items()})
    for name, _ in zip(FUNCTIONS, made, strict=False):
        node, value = runtime.nodes[name], truth.value(name)
        if node.is_live:
            assert node.is_clean
            assert runtime.see(name) == value, name
            assert {doc for doc, _, _ in node.reads} == {doc_key(other) for other in truth.reads[name]}
    runtime.check()


@given(
    made=formulas(),
    looked_at=st.lists(st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=4), min_size=2, max_size=4),
    happens=steps,
    is_warm=st.booleans(),
)
def test_all_runtimes_come_to_what_a_fresh_run_of_everything_comes_to(
    made: list[Formula], looked_at: list[list[str]], happens: list[tuple[int, tuple[Any, ...]]], *, is_warm: bool
) -> None:
    exchange = Exchange()
    runtimes = [start(exchange, made, names) for names in looked_at]
    if is_warm:
        # All have run once, and hold what they read.
        runtimes[0].put(c0=1, c1=2, c2=3)
        exchange.settle()
    for who, step in happens:
        perform(runtimes[who % len(runtimes)], step)
    exchange.settle()
    for runtime in runtimes:
        right(runtime, made)
    assert len({tuple(str(runtime.see(cell)) for cell in CELLS) for runtime in runtimes}) == 1
    event(f"adopted: {any(node.rare.adopted for runtime in runtimes for node in runtime.nodes.values())}")
    # What is kept of all that is good for whoever comes next.
    late = start(exchange, made, list(FUNCTIONS[: len(made)]))
    late.restore()
    exchange.settle()
    right(late, made)
    for runtime in runtimes:
        right(runtime, made)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_many_changes_by_all_of_them_in_turn_cost_no_more_commits_than_by_one(count: int) -> None:
    made = [Formula("sum", "c0", "c1", "c0"), Formula("pick", "c2", "f0", "c0"), Formula("sum", "f0", "f1", "f1")]
    exchange = Exchange()
    runtimes = [start(exchange, made, ["f2"]) for _ in range(count)]
    exchange.settle()
    for round_ in range(12):
        before = exchange.commits
        runtimes[round_ % count].put(**{CELLS[round_ % 3]: round_ + 1})
        exchange.settle()
        assert exchange.commits - before <= 1 + len(made)
        for runtime in runtimes:
            right(runtime, made)


@pytest.mark.parametrize("seed", seeds(20))
def test_long_histories_in_which_much_is_adopted_come_to_what_is_right(seed: int) -> None:
    chance = Random(seed)
    made = [
        Formula(chance.choice(("sum", "pick", "half", "flag")), *chance.choices((*CELLS, *FUNCTIONS[:index]), k=3))
        for index in range(len(FUNCTIONS))
    ]
    exchange = Exchange()
    runtimes = [start(exchange, made, chance.choices(FUNCTIONS, k=3)) for _ in range(chance.randint(2, 4))]
    runtimes[0].put(c0=1, c1=2, c2=3)
    exchange.settle()
    for _ in range(20):
        for _ in range(chance.randint(1, 8)):
            step = chance.choice(("put", "change", "change", "run", "send", "hear", "hear", "hear"))
            arguments: tuple[Any, ...] = ()
            if step in {"put", "change"}:
                arguments = (chance.choice(CELLS), chance.randint(0, 5))
            elif step == "hear":
                arguments = (chance.choice((1, 2, None)),)
            perform(chance.choice(runtimes), (step, *arguments))
        if chance.random() < 0.5:
            exchange.settle()
            for runtime in runtimes:
                right(runtime, made)
    exchange.settle()
    for runtime in runtimes:
        right(runtime, made)
    assert any(node.rare.adopted for runtime in runtimes for node in runtime.nodes.values())
