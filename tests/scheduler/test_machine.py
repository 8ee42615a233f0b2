"""Random graphs that change while they run, against a naive engine that makes everything anew after each step.

Cells, pointers that move, lists that grow and shrink; nodes that come, go, make others, fail, wait, go in circles;
gates and time; others who write and whose commits win. Whatever happens, the invariants hold, what is shown is what a
naive engine comes to, and nobody runs without need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headwater.core import RetryImmediately, doc_key
from headwater.errors import UserCodeError
from tests.scheduler.machine import World
from tests.scheduler.naive import BIG, BOARD, CELLS, LISTS, MAPS, POINTERS, SLOTS, WRITTEN, Formula, Plan, TrialError
from tests.support.halves import examples
from tests.support.limits import small_limits
from tests.support.naive import NOTHING

NUMBERS = st.integers(0, 3)
INDEXES = st.integers(0, 7)
LISTED = st.lists(NUMBERS, max_size=4)
MAPPED = st.dictionaries(st.sampled_from(["k0", "k1"]), NUMBERS)

KINDS = [
    *("sum", "parity", "branch", "branch", "guard", "guard", "follow", "follow", "items", "first", "keys", "entry"),
    *("not", "not", "not", "up", "same"),
]


def values_of(name: str) -> st.SearchStrategy[Any]:
    if name in POINTERS:
        return st.sampled_from([*CELLS, *SLOTS[:4]])
    return LISTED if name in LISTS else MAPPED if name in MAPS else NUMBERS


WRITES = st.dictionaries(st.sampled_from([*CELLS, *CELLS, *POINTERS, *LISTS, *MAPS]), st.none(), min_size=1, max_size=3)


@st.composite
def writes(draw: st.DrawFn) -> dict[str, Any]:
    return {name: draw(values_of(name)) for name in draw(WRITES)}


FIRST_SOURCES = {
    "follow": st.sampled_from(POINTERS),
    "items": st.sampled_from(LISTS),
    "first": st.sampled_from(LISTS),
    "keys": st.sampled_from([*MAPS, BOARD, BIG]),
    "entry": st.sampled_from([*MAPS, BOARD, BIG]),
}


@st.composite
def formulas(draw: st.DrawFn, slots: tuple[str, ...]) -> Formula:
    """Mostly of other results: so circles come about."""
    source = st.sampled_from([*CELLS, *WRITTEN, BOARD, BIG, *slots, *slots, *[f"{slot}.side" for slot in slots[:1]]])
    kind = draw(st.sampled_from(KINDS))
    a, b, c = draw(FIRST_SOURCES.get(kind, source)), draw(source), draw(source)
    if kind in ("sum", "branch") and b in SLOTS and sometimes(draw):
        # First what somebody writes beside his result, then the result.
        a = f"{b}.side"
    return Formula(kind, a, b, c)


GATES = st.sampled_from(
    [{}] * 20 + [{"debounce_ms": 50.0}, {"throttle_ms": 50.0}, {"debounce_ms": 30.0, "throttle_ms": 100.0}]
)


def sometimes(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 4)) == 4


@st.composite
def computations(draw: st.DrawFn, slot: str, slots: tuple[str, ...]) -> Plan:
    formula = draw(formulas(slots))
    is_wild = sometimes(draw)
    return Plan(
        slot,
        formula,
        eager=sometimes(draw),
        declared=draw(st.booleans()),
        side=slot == "f0" or sometimes(draw),
        board=sometimes(draw) and BOARD not in formula,
        materializes=slot == SLOTS[-1] and draw(st.booleans()) and BIG not in formula,
        calls=draw(st.booleans()),
        spawns="l0" if is_wild and slot in ("f0", "f1") else "",
        waits=draw(st.integers(1, 2)) if is_wild and slot in ("f2", "f3") else 0,
        finishes=draw(st.booleans()),
    )


@st.composite
def effects(draw: st.DrawFn, name: str) -> Plan:
    is_wild = sometimes(draw)
    return Plan(
        name,
        draw(formulas(SLOTS)),
        effect=True,
        writes=draw(st.sampled_from(["", "", "", *WRITTEN])),
        calls=draw(st.booleans()),
        waits=1 if is_wild else 0,
        finishes=draw(st.booleans()),
        ends_at=draw(st.sampled_from([-1, -1, 3])),
        aborts=draw(st.booleans()),
    )


class Graphs(RuleBasedStateMachine):
    """Which slots a computation may read, and how many effects there may be, say what kind of graphs these are."""

    ACYCLIC = False
    EFFECTS_MAX = 3

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.count = 0
        self.failures = 0
        self.is_broken = False

    @initialize(data=st.data(), count=st.integers(3, 6))
    def begin(self, data: st.DataObject, count: int) -> None:
        for slot in SLOTS[:count]:
            self.world.add(data.draw(self.plan(slot)), **data.draw(GATES))
        for _ in range(self.EFFECTS_MAX):
            self.count += 1
            self.world.add(data.draw(effects(f"e{self.count}")))
        self.step(lambda: None)

    def plan(self, slot: str) -> st.SearchStrategy[Plan]:
        index = SLOTS.index(slot)
        return computations(slot, SLOTS[:index] if self.ACYCLIC else tuple(s for s in SLOTS if s != slot))

    def step(self, act: Callable[[], object]) -> None:
        self.is_broken = True
        act()
        self.world.settle()
        self.world.verify()
        self.is_broken = False

    def pick(self, index: int) -> str:
        names = list(self.world.nodes)
        return names[index % len(names)]

    # -- nodes ---------------------------------------------------------------------------------------------

    @rule(data=st.data(), slot=st.sampled_from(SLOTS), gate=GATES)
    def compute(self, data: st.DataObject, slot: str, gate: dict[str, float]) -> None:
        """Another function in a slot."""
        if slot in self.world.nodes:
            self.world.remove(slot)
        plan = data.draw(self.plan(slot))
        self.step(lambda: self.world.add(plan, **gate))

    @precondition(lambda self: sum(plan.effect for plan in self.world.plans.values()) < self.EFFECTS_MAX)
    @rule(data=st.data(), gate=GATES)
    def observe(self, data: st.DataObject, gate: dict[str, float]) -> None:
        self.count += 1
        plan = data.draw(effects(f"e{self.count}"))
        self.step(lambda: self.world.add(plan, **gate))

    @precondition(lambda self: self.world.nodes)
    @rule(index=INDEXES)
    def remove(self, index: int) -> None:
        self.step(lambda: self.world.remove(self.pick(index)))

    @precondition(lambda self: any(plan.effect for plan in self.world.plans.values()))
    @rule(index=INDEXES)
    def stop_looking(self, index: int) -> None:
        effects = [plan.name for plan in self.world.plans.values() if plan.effect]
        self.step(lambda: self.world.remove(effects[index % len(effects)]))

    # -- documents -----------------------------------------------------------------------------------------

    @rule(values=writes())
    def write(self, values: dict[str, Any]) -> None:
        self.step(lambda: self.world.write(values))

    @rule(values=st.tuples(NUMBERS, NUMBERS, NUMBERS))
    def write_cells(self, values: tuple[int, int, int]) -> None:
        self.step(lambda: self.world.write(dict(zip(CELLS, values, strict=True))))

    @rule(slot=st.sampled_from([*CELLS, *SLOTS]), index=INDEXES)
    def turn(self, slot: str, index: int) -> None:
        """A pointer leads elsewhere."""
        self.step(lambda: self.world.write({POINTERS[index % len(POINTERS)]: slot}))

    @rule(item=NUMBERS)
    def grow(self, item: int) -> None:
        self.step(lambda: self.world.write({LISTS[0]: [*self.world.value(LISTS[0])[-3:], item]}))

    @rule()
    def shrink(self) -> None:
        self.step(lambda: self.world.write({LISTS[0]: self.world.value(LISTS[0])[:-1]}))

    @rule(values=writes(), more=writes())
    def write_twice(self, values: dict[str, Any], more: dict[str, Any]) -> None:
        def act() -> None:
            self.world.write(values)
            self.world.write(more)

        self.step(act)

    @rule(values=writes())
    def write_elsewhere(self, values: dict[str, Any]) -> None:
        """Seen here when it is decided; what is made of the old values until then is taken back."""
        self.step(lambda: self.world.write_elsewhere(values))

    @rule(values=writes(), mine=writes())
    def race(self, values: dict[str, Any], mine: dict[str, Any]) -> None:
        """Others are first, and nobody here knows yet."""
        self.world.write_elsewhere(values)
        self.step(lambda: self.world.write(mine))
        self.step(lambda: self.world.decide(1000))

    @rule(count=st.integers(1, 6))
    def decide(self, count: int) -> None:
        self.step(lambda: self.world.decide(count))

    @rule()
    def decide_all(self) -> None:
        self.step(lambda: self.world.decide(1000))

    @precondition(lambda self: self.failures < 3 and self.world.hub.queue)
    @rule()
    def fail(self) -> None:
        self.failures += 1
        self.step(self.world.fail)

    # -- time ----------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 40, 100, 300, 5000]))
    def wait(self, ms: int) -> None:
        def act() -> None:
            self.world.time += ms

        self.step(act)

    @precondition(lambda self: self.world.nodes)
    @rule(index=INDEXES, ms=st.sampled_from([None, 50.0, 200.0]), is_throttle=st.booleans())
    def gate(self, index: int, ms: float | None, is_throttle: bool) -> None:
        scheduler, node = self.world.scheduler, self.world.nodes[self.pick(index)]

        def act() -> None:
            self.world.regated[node] = len(self.world.watch.records)
            if is_throttle:
                scheduler.clear_throttle(node) if ms is None else scheduler.set_throttle(node, ms)
            else:
                scheduler.clear_debounce(node) if ms is None else scheduler.set_debounce(node, ms)

        self.step(act)

    @precondition(lambda self: self.world.scheduler.outstanding().wake_at)
    @rule()
    def sleep(self) -> None:
        """Until the first of those that wait for their time may run."""

        def act() -> None:
            self.world.time = self.world.scheduler.outstanding().wake_at or self.world.time

        self.step(act)

    @precondition(lambda self: self.world.flights)
    @rule(index=INDEXES, values=writes(), is_in_between=st.booleans())
    def go_on(self, index: int, values: dict[str, Any], is_in_between: bool) -> None:
        """A function that waits goes on; somebody writes before the scheduler hears of it."""

        def act() -> None:
            self.world.go_on_with(index)
            if is_in_between:
                self.world.write(values)

        self.step(act)

    @precondition(lambda self: self.world.flights)
    @rule(values=writes())
    def there_and_back(self, values: dict[str, Any]) -> None:
        """While a function waits."""
        before = {name: self.world.value(name) for name in values}
        self.step(lambda: self.world.write(values))
        self.step(lambda: self.world.write(before))

    # -- callers, and what gets in between -----------------------------------------------------------------

    @precondition(lambda self: any(not plan.effect for plan in self.world.plans.values()))
    @rule(index=INDEXES, values=writes(), is_after_write=st.booleans())
    def pull(self, index: int, values: dict[str, Any], is_after_write: bool) -> None:
        names = [plan.name for plan in self.world.plans.values() if not plan.effect]
        node = self.world.nodes[names[index % len(names)]]

        def act() -> None:
            if is_after_write:
                self.world.write(values)
            try:
                self.world.scheduler.pull(node)
            except (TrialError, UserCodeError):
                pass
            else:
                self.world.verify_pulled(node)

        self.step(act)

    @rule(index=INDEXES, values=writes(), kind=st.sampled_from([RetryImmediately, KeyboardInterrupt]))
    @precondition(lambda self: self.world.nodes)
    def interrupt(self, index: int, values: dict[str, Any], kind: type[BaseException]) -> None:
        def act() -> None:
            self.world.trap = (self.pick(index), kind)
            self.world.write(values)
            try:
                self.world.settle()
            except KeyboardInterrupt:
                self.world.settle()
            self.world.trap = None

        self.step(act)

    def teardown(self) -> None:
        if not self.is_broken:
            self.world.come_to_rest()


class FewEffects(Graphs):
    """Circles that nobody looks at any more are common."""

    EFFECTS_MAX = 1


class Acyclic(Graphs):
    ACYCLIC = True


class Narrow(Graphs):
    """Bounds are hit all the time: of runs in a pass, of calls within calls, of causes that are kept."""

    def __init__(self) -> None:
        self.limits = small_limits(RUNS_MAX=4, NESTED_MAX=2, CAUSES_MAX=2)
        self.limits.__enter__()
        super().__init__()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.limits.__exit__(None, None, None)


@pytest.mark.machine
@pytest.mark.parametrize("machine", [Graphs, FewEffects, Acyclic, Narrow], ids=lambda machine: machine.__name__)
def test_any_graph_shows_what_a_naive_engine_says_and_keeps_the_invariants(machine: type[Graphs]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(200), stateful_step_count=25))  # type: ignore[no-untyped-call]


class Drawn:
    """Values in the place of those that Hypothesis would draw."""

    def __init__(self, *values: object) -> None:
        self._values = list(values)

    def draw(self, _strategy: object) -> object:
        return self._values.pop(0)


def test_a_start_that_made_room_for_a_called_node_does_not_count_against_the_bound_of_a_pass() -> None:
    """Found by the machine: a function without stack for what it calls starts again for each of these, once."""
    plain = Formula("sum", "c0", "c0", "c0")
    computations = [
        Plan("f0", plain, side=True, spawns="l0", calls=True),
        Plan("f1", Formula("sum", "c0", "f0.side", "c0")),
        Plan("f2", Formula("items", "l0", "c0", "c0")),
        Plan("f3", plain),
    ]
    effects = [Plan("e1", plain, effect=True), Plan("e2", plain, effect=True)]
    effects += [Plan("e3", Formula("sum", "f1", "c0", "c0"), effect=True, calls=True)]
    machine = Narrow()
    rule_of_begin: Any = Graphs.begin
    drawn: list[object] = []
    for plan in computations:
        drawn += [plan, {}]
    try:
        rule_of_begin.hypothesis_stateful_initialize_rule.function(machine, data=Drawn(*drawn, *effects), count=4)
    finally:
        machine.teardown()


def test_a_run_in_place_of_one_that_was_taken_back_is_not_needless() -> None:
    """Found by the machine: the result rests on a failed commit, is called for before its verdict, is made again."""
    world = World()
    first = world.add(Plan("f0", Formula("sum", "c1", "c1", "")))
    second = world.add(Plan("f1", Formula("sum", "f0", "f0", ""), declared=True))
    world.scheduler.pull(first)
    world.write({"c1": 3})
    world.scheduler.pull(second)
    world.fail()
    assert (world.value("f0"), world.value("f1")) == (6, NOTHING)
    world.scheduler.pull(second)
    assert (second.runs, world.value("f1")) == (2, 9)
    assert not world.needless
    world.come_to_rest()
    assert (second.runs, world.value("f1")) == (2, 9)


def test_a_run_without_a_change_is_needless_while_its_result_is_there() -> None:
    """What is excused above is nothing but a missing result."""
    world = World()
    node = world.add(Plan("f0", Formula("sum", "c1", "c1", "")))
    world.scheduler.pull(node)
    world.scheduler.invalidation.mark(node, (doc_key("c1"), ()), "for nothing")
    world.scheduler.pull(node)
    assert node.runs == 2
    assert world.needless == [f"{node} ran, and nothing it had read was changed by anybody else"]
