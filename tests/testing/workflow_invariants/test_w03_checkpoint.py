"""W3: what was prepared, and what came of the call, is kept with the phase that says so, once."""

from __future__ import annotations

import pytest

from headwater.workflow.table_checks import w3_checkpoint
from tests.testing.workflow_invariants.tampering import is_found, rows, set_to, tamper
from tests.workflow.world import Behaviour, World


@pytest.mark.parametrize("commits", range(1, 9))
def test_run_that_is_cut_off_after_any_commit_has_all_of_a_phase_or_nothing_of_it(world: World, commits: int) -> None:
    """`check` looks at what was on disk then."""
    world.publish("a1")
    world.drain(limit=1, dies_after=commits)
    world.finish()
    assert world.status()["a1"] == "consumed"


def test_plan_is_kept_before_the_call_and_its_result_with_the_outcome(world: World) -> None:
    seen: list[object] = []
    query = "select phase, prepare_result is not null, mutation_result, outcome from flow_run"

    def look() -> None:
        seen.append(rows(world, query)[0])

    world.publish("a1")
    world.drain(Behaviour(meanwhile=("prepare", look)), limit=1)
    world.publish("a2")
    world.drain(Behaviour(meanwhile=("mutate", lambda: seen.append(rows(world, f"{query} where id = 3")[0]))), limit=2)
    assert seen == [("preparing", 0, None, "none"), ("mutating", 1, None, "unknown")]
    assert rows(world, f"{query} where id = 1") == [("committed", 1, b"\x01", "applied")]


def test_plan_that_is_gone_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(limit=1)
    tamper(world, "update flow_run set prepare_result = null")
    is_found(world, w3_checkpoint, "W3: it is prepared, and its plan is not stored: RunRow")


@pytest.mark.parametrize(
    "query",
    [
        "update flow_run set mutation_result = null",
        "update flow_run set mutation_result = x'02'",
        "update flow_call set status = 'failed'",
        "update flow_call set result = x'02'",
        "delete from flow_call",
        "update flow_run set outcome = 'none'",
    ],
)
def test_outcome_result_and_call_that_do_not_agree_are_found(world: World, query: str) -> None:
    world.publish("a1")
    world.drain(limit=1)
    tamper(world, query)
    is_found(world, w3_checkpoint, "W3: its outcome, its result and its call do not say the same")


def test_call_that_happened_and_a_run_that_does_not_know_are_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(service="breaks", reconcile="unknown"), limit=1)
    tamper(world, "update flow_call set status = 'applied', result = x'01'")
    is_found(world, w3_checkpoint, "W3: its call is known to have happened")


@pytest.mark.parametrize(("column", "value"), [("prepare_result", b"other"), ("title", "other"), ("offered", 7)])
def test_plan_that_is_another_now_is_found(world: World, column: str, value: object) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="asks"), limit=1)
    set_to(world, "flow_run", f"{column} = ?", value)
    is_found(world, world.watch.look, "W3: its plan has changed")


def test_result_that_is_another_now_is_found(world: World) -> None:
    """In the run and in its call, so that these agree."""
    world.publish("a1")
    world.drain(Behaviour(next="fails"), limit=1)
    tamper(world, "update flow_run set mutation_result = x'07'")
    tamper(world, "update flow_call set result = x'07'")
    is_found(world, world.watch.look, "W3: the result of its call has changed")
