"""I7, restart equivalence: an opening goes on as if there had been no stop; and never believes what is not so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvariantError
from headwater.scheduler.trace import NodeInvalidated, NodeRegistered, NodeRestored, RunStarted
from headwater.store.backend import ObservationRow
from headwater.testing.invariants.restore_invariants import i7_runs
from headwater.values.address import doc_key
from headwater.values.ids import MAIN
from tests.runtime.restore.lives import Life
from tests.scheduler.naive import CELLS, LISTS, MAPS, POINTERS, SLOTS, Formula, Plan

NUMBERS = st.integers(0, 3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(CELLS, NUMBERS),
    **dict.fromkeys(POINTERS, st.sampled_from(CELLS)),
    **dict.fromkeys(LISTS, st.lists(NUMBERS, max_size=3)),
    **dict.fromkeys(MAPS, st.dictionaries(st.sampled_from(["k0", "k1"]), NUMBERS)),
}
KINDS = (
    *("sum", "parity", "parity", "branch", "branch", "follow", "items", "first", "keys", "entry", "same"),
    # Functions that fail, and functions that catch what they are raised.
    *("guard", "guard", "rescue", "rescue"),
)
FIRST = {"follow": POINTERS, "items": LISTS, "first": LISTS, "keys": MAPS, "entry": MAPS}


@st.composite
def plans(draw: st.DrawFn, *, shared: bool = False) -> list[Plan]:
    """Each reads cells, and results of those before it. `shared`: some write into documents that others write to."""
    found: list[Plan] = []
    for number, slot in enumerate(SLOTS[: draw(st.integers(2, 5))]):
        kind = draw(st.sampled_from(KINDS))
        sides = [f"{plan.name}.side" for plan in found if plan.side]
        source = st.sampled_from([*CELLS, *SLOTS[:number], *SLOTS[:number], *sides])
        first = st.sampled_from(FIRST[kind]) if kind in FIRST else source
        formula = Formula(kind, draw(first), draw(source), draw(source))
        found.append(
            Plan(
                slot,
                formula,
                eager=draw(st.booleans()),
                side=draw(st.integers(0, 3)) == 3,
                board=shared and draw(st.booleans()),
                calls=kind == "rescue" or draw(st.booleans()),
            )
        )
    for number in range(draw(st.integers(0, 1))):
        source = st.sampled_from([*CELLS, *(plan.name for plan in found)])
        found.append(Plan(f"e{number}", Formula("sum", draw(source), draw(source), "c0"), effect=True, calls=True))
    return found


class Step(NamedTuple):
    kind: str
    what: Any = None


@st.composite
def writes(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from([*CELLS, *VALUES]), min_size=1, max_size=2, unique=True))
    return {name: draw(VALUES[name]) for name in names}


PEACEFUL = st.one_of(
    st.builds(lambda what: Step("write", what), writes()),
    st.builds(lambda what: Step("elsewhere", what), writes()),
    st.builds(lambda what: Step("look", what), st.sampled_from(SLOTS)),
)
CONTENDED = st.one_of(
    PEACEFUL,
    st.builds(lambda what: Step("decide", what), st.integers(1, 3)),
    st.sampled_from([Step("hear"), Step("settle"), Step("settle")]),
)


def do(life: Life, step: Step) -> None:
    """One step, and nothing that is not in it."""
    match step.kind:
        case "write":
            life.write(step.what)
        case "elsewhere":
            life.write_elsewhere(step.what)
        case "look":
            life.look(step.what)
        case "decide":
            if life.hub.queue:
                life.hub.decide(step.what)
        case "hear":
            life.here.refresh()
        case _:
            life.settle()


def do_in_peace(life: Life, step: Step) -> None:
    """And everything that follows from it; decided before the next, as if there were time for it."""
    do(life, step)
    life.come_to_rest()


# -- twins ---------------------------------------------------------------------------------------------------


@given(plans(), st.lists(PEACEFUL, min_size=1, max_size=6))
def test_twin_that_is_stopped_at_any_point_runs_the_same_from_then_on(graph: list[Plan], history: list[Step]) -> None:
    for point in range(len(history) + 1):
        lives, stopped = Life(graph), Life(graph)
        for life in (lives, stopped):
            life.come_to_rest()
            for step in history[:point]:
                do_in_peace(life, step)
            life.taken()
        lives.pause()
        failed = [name for name, node in stopped.nodes.items() if node.error is not None]
        stopped.stop()
        for twin in (lives, stopped):
            twin.come_to_rest()
        for step in history[point:]:
            for twin in (lives, stopped):
                do_in_peace(twin, step)
        mine, others = Counter(lives.taken()), Counter(stopped.taken())
        for name in failed:
            # One that failed is tried again. Its readers run only if it comes to something else.
            assert others.pop(name, 0) - mine.pop(name, 0) in (0, 1), f"stopped after {point}"
        assert mine == others, f"stopped after {point}"
        assert lives.values() == stopped.values()
        stopped.verify()


# -- failures ------------------------------------------------------------------------------------------------


@st.composite
def failing_plans(draw: st.DrawFn) -> list[Plan]:
    """One that fails for some values of its cell, one that catches that, and more of both."""
    found = [Plan("f0", Formula("guard", "c0", "c1", ""), eager=draw(st.booleans()))]
    for number, slot in enumerate(SLOTS[1 : draw(st.integers(2, 5))], 1):
        kind = draw(st.sampled_from(["rescue", "rescue", "guard", "sum"]))
        source = st.sampled_from(SLOTS[:number])
        formula = Formula(kind, "f0" if number == 1 else draw(source), draw(st.one_of(source, st.just("c1"))), "")
        found.append(Plan(slot, formula, eager=draw(st.booleans()), calls=True, side=draw(st.integers(0, 4)) == 4))
    return found


# With 1 `guard` fails. So it fails, and comes to what it came to before, observed or not.
FAILING = st.tuples(st.sampled_from(["write", "elsewhere"]), st.sampled_from([0, 1]), st.sampled_from(["", *SLOTS[:3]]))


@given(failing_plans(), st.lists(FAILING, min_size=2, max_size=5), st.sampled_from([Life.stop, Life.kill]))
def test_result_that_was_made_of_a_failure_is_as_good_as_that_failure(
    graph: list[Plan], history: list[tuple[str, int, str]], end: Callable[[Life], None]
) -> None:
    for point in range(1, len(history) + 1):
        life = Life(graph)
        for number, (where, value, looked_at) in enumerate(history):
            if number == point:
                end(life)
            do_in_peace(life, Step(where, {"c0": value}))
            do_in_peace(life, Step("look", looked_at))
        life.verify()


def test_function_that_catches_a_failure_is_run_when_that_is_over_although_no_document_has_changed() -> None:
    graph = [Plan("f0", Formula("guard", "c0", "c1", "")), Plan("f1", Formula("rescue", "f0", "", ""), calls=True)]
    life = Life(graph)
    for value in (0, 1):
        life.write({"c0": value})
        life.look("f1")
        life.come_to_rest()
    assert life.value("f1") == 7
    life.stop()
    assert life.nodes["f1"].restored
    assert life.nodes["f1"].is_clean
    life.taken()
    life.look("f1")
    # It fails as before: that is no news.
    assert life.taken() == ["f0"]
    life.write({"c0": 0})
    life.look("f1")
    assert life.value("f1") == 2
    life.verify()


def at_any_point(graph: list[Plan], history: list[Step], end: Callable[[Life], None]) -> None:
    for point in range(len(history) + 1):
        life = Life(graph)
        for step in history[:point]:
            do(life, step)
        end(life)
        for step in history[point:]:
            do(life, step)
        life.verify()
        # What was taken back may have cost what is kept, too, but not twice.
        life.stop()
        life.verify()
        # Of one that failed nothing is kept. Of a document that several write to, nobody knows whose which part is.
        odd = {plan.name for plan in graph if plan.board or life.nodes[plan.name].error is not None}
        life.stop()
        assert not [node for name, node in life.nodes.items() if not node.is_clean and name not in odd]
        life.verify()


OVERWRITTEN = st.sampled_from(["", "", *SLOTS[:3]])
"""Somebody else writes where a result stands. Who lives is not told of it, so only right before the end."""


def overwrite(life: Life, slot: str) -> None:
    if slot:
        life.write_elsewhere({slot: 77})


@given(plans(shared=True), st.lists(CONTENDED, min_size=1, max_size=7), OVERWRITTEN)
def test_whoever_is_stopped_in_the_middle_of_contention_comes_to_what_is_right(
    graph: list[Plan], history: list[Step], slot: str
) -> None:
    def end(life: Life) -> None:
        overwrite(life, slot)
        life.stop()

    at_any_point(graph, history, end)


@given(plans(shared=True), st.lists(CONTENDED, min_size=1, max_size=7), st.integers(0, 3), OVERWRITTEN)
def test_whoever_is_killed_at_any_point_comes_to_what_is_right(
    graph: list[Plan], history: list[Step], decided: int, slot: str
) -> None:
    def end(life: Life) -> None:
        overwrite(life, slot)
        life.kill(decided)

    at_any_point(graph, history, end)


# -- the checker ---------------------------------------------------------------------------------------------

DOUBLE = Plan("f0", Formula("sum", "c0", "c0", ""))


def test_checker_finds_a_restored_node_whose_input_has_changed_since() -> None:
    life = Life([DOUBLE])
    life.look("f0")
    life.stop()
    assert life.nodes["f0"].restored
    assert life.nodes["f0"].is_clean
    # Decided, and the scheduler is not told.
    life.write_elsewhere({"c0": 3})
    life.hub.decide()
    with pytest.raises(InvariantError, match="I7"):
        life.check()
    life.hub.settle()
    life.settle()
    assert not life.nodes["f0"].is_clean
    life.check()


def test_checker_finds_a_restored_node_whose_result_was_overwritten_since() -> None:
    life = Life([DOUBLE])
    life.look("f0")
    life.stop()
    life.write_elsewhere({"f0": 77})
    life.hub.settle()
    with pytest.raises(InvariantError, match="I7"):
        life.check()


def test_checker_finds_a_restored_node_of_which_nothing_is_kept() -> None:
    life = Life([DOUBLE])
    life.look("f0")
    life.stop()
    life.hub.engine.fold()
    life.hub.engine.backend.drop_observations([(MAIN, doc_key("f0"))])
    with pytest.raises(InvariantError, match="nothing is kept"):
        life.check()


def test_checker_finds_a_restored_node_with_the_row_of_another() -> None:
    life = Life([DOUBLE, Plan("f1", Formula("sum", "c1", "c1", ""))])
    life.look("f0")
    life.look("f1")
    life.stop()
    life.hub.engine.fold()
    backend = life.hub.engine.backend
    row = backend.observation(MAIN, doc_key("f1"))
    assert row is not None
    backend.append((), None, [(MAIN, ObservationRow(doc_key("f0"), row.seq, row.body))])
    with pytest.raises(InvariantError, match="other code"):
        life.check()


def test_checker_of_the_trace_finds_a_restored_node_that_starts_without_a_reason() -> None:
    told = [
        NodeRegistered(1.0, "f0#1", "computation"),
        NodeRestored(1.0, "f0#1", "restored", ""),
        RunStarted(2.0, "f0#1", 1, 1, 1, "live", (), first=True),
    ]
    with pytest.raises(InvariantError, match="I7"):
        i7_runs(told)
    i7_runs([*told[:2], NodeInvalidated(1.5, "f0#1", "c0", "commit", ""), told[2]])
    i7_runs([told[0], NodeRestored(1.0, "f0#1", "fresh", "nothing is kept of it"), told[2]])
