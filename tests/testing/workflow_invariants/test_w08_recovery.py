"""W8: after a restart, no run is active that nobody executes; each has one successor, or a stop that people see."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.workflow.table_checks import w8_recovery
from tests.testing.workflow_invariants.tampering import copy_run, is_found, rows, set_to, tamper
from tests.workflow.world import HOUR, MINUTE, Behaviour, World

PHASES = ["prepare", "mutate", "after mutate", "next", "after next"]


@pytest.mark.parametrize("dies", PHASES)
def test_run_that_was_under_way_is_crashed_and_gets_one_successor(world: World, dies: str) -> None:
    world.publish("a1")
    world.drain(Behaviour(dies=dies), limit=1)
    assert rows(world, "select status from flow_run") == [("crashed",)]
    world.finish()
    chain = rows(world, "select id, retry_of, attempt, status from flow_run where chain = 1 order by id")
    assert chain == [(1, None, 1, "crashed"), (2, 1, 2, "committed")]


def test_producer_that_was_under_way_runs_again_and_publishes_once(world: World) -> None:
    world.outside.append("a1")
    world.drain(Behaviour(dies="after poll"))
    assert rows(world, "select status from flow_run where kind = 'producer'") == [("crashed",)]
    assert world.status() == {}
    world.finish()
    assert world.status()["a1"] == "consumed"


@pytest.mark.parametrize("dies", PHASES)
@pytest.mark.parametrize("commits", [1, 2, 3])
def test_recovery_that_is_killed_itself_goes_on_from_there(quick: World, dies: str, commits: int) -> None:
    """And again, and again: whatever was done of it is not done twice, and nothing is forgotten."""
    quick.publish("a1")
    quick.drain(Behaviour(dies=dies), limit=1)
    for _ in range(3):
        quick.restart(dies_after=commits)
        quick.check()
    assert rows(quick, "select count(*) from flow_run where status = 'active'") == [(0,)]
    quick.finish()
    assert quick.status()["a1"] == "consumed"


@pytest.mark.parametrize("commits", range(1, 9))
def test_successor_that_is_killed_itself_gets_one_of_its_own(quick: World, commits: int) -> None:
    """`check` looks whether chains are lines."""
    quick.publish("a1")
    for _ in range(4):
        quick.drain(Behaviour(dies="mutate"), limit=1, dies_after=commits)
        quick.clock.advance(MINUTE)
    quick.finish()
    assert quick.status()["a1"] == "consumed"


def test_run_that_ends_its_host_again_and_again_is_stopped_and_people_see_it(world: World) -> None:
    world.publish("a1")
    for _ in range(5):
        world.drain(Behaviour(dies="prepare"), limit=1)
        world.clock.advance(HOUR)
    world.ran.clear()
    world.rest()
    assert world.ran == []
    assert world.view.state == "Needs attention"
    assert "5 times in a row" in world.view.sentence
    world.finish()
    assert world.status()["a1"] == "consumed"


def test_paused_workflow_is_recovered_and_stays_paused(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(dies="mutate", meanwhile=("prepare", "publish")), limit=1)
    world.act("pause")
    world.kill()
    world.ran.clear()
    world.clock.advance(HOUR)
    world.rest()
    assert (world.ran, world.view.intent) == ([], "paused")
    world.finish()
    assert world.status()["a1"] == "consumed"


# --- tampered -------------------------------------------------------------------------------------------------


def stopped(world: World) -> World:
    world.publish("a1")
    world.drain(Behaviour(prepare="passes"), limit=1)
    return world


def test_active_run_that_nobody_executes_is_found(world: World) -> None:
    world.drain(limit=1)
    copy_run(world, 1, chain=2, status="active", phase="preparing")
    world.space._opening.flows.look(w8_recovery)
    is_found(world, lambda tables: w8_recovery(tables, alive=()), "W8: no host executes it, and it is active: RunRow")
    world.space._opening.flows.look(lambda tables: w8_recovery(tables, alive=(2,)))


def test_stopped_run_that_is_forgotten_is_found(world: World) -> None:
    tamper(stopped(world), "update flow set head = null, retry_at = null")
    is_found(
        world, w8_recovery, r"W8: it has no successor, and world\.flow does not know that it has to finish it: RunRow"
    )


@pytest.mark.parametrize("change", ["retry_at = null", "retry_at = null, failures = 9"])
def test_stopped_run_that_nothing_takes_up_is_found(world: World, change: str) -> None:
    set_to(stopped(world), "flow", change)
    is_found(world, w8_recovery, "W8: it has stopped, nothing takes it up again, and it is not reported")


def test_unknown_call_that_nobody_asks_about_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(service="breaks", reconcile="unknown"), limit=1)
    tamper(world, "update flow_call set next_at = null")
    is_found(world, w8_recovery, "W8: it has stopped, nothing takes it up again, and it is not reported")


def test_second_successor_is_found(tmp_path: Path) -> None:
    world = stopped(World("memory", tmp_path))
    world.clock.advance(MINUTE)
    world.drain(limit=1)
    tamper(world, "alter table flow_run rename to kept_run")
    tamper(world, "create table flow_run as select * from kept_run")
    tamper(world, "insert into flow_run select * from kept_run where id = 2")
    tamper(world, "update flow_run set id = 3 where rowid = 3")
    is_found(world, w8_recovery, "W8: it is not what follows run 2 in chain 1: RunRow")
    world.close()


@pytest.mark.parametrize("change", ["attempt = 5", "chain = 7", "retry_of = null"])
def test_run_that_is_out_of_line_is_found(world: World, change: str) -> None:
    stopped(world)
    world.clock.advance(MINUTE)
    world.drain(limit=1)
    set_to(world, "flow_run", change, where="id = 2")
    is_found(world, w8_recovery, "W8: it is not what follows run")


@pytest.mark.parametrize(
    ("change", "text"),
    [("head = 1", "is no end of a chain"), ("head = 99", "is no end of a chain"), ("head = 2", "is finished")],
)
def test_workflow_that_has_to_finish_what_is_finished_is_found(world: World, change: str, text: str) -> None:
    stopped(world)
    world.clock.advance(MINUTE)
    world.drain(limit=1)
    set_to(world, "flow", f"{change}, retry_at = 1")
    is_found(world, w8_recovery, f"W8: what it has to finish {text}.*: FlowRow")


def test_run_that_is_to_be_taken_up_again_and_is_not_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(next="fails"), limit=1)
    assert world.act("abandon")
    world.rest()
    tamper(world, "update flow_run set aside = 'again' where aside is not null")
    is_found(world, world.watch.rest, "W8: it is to be taken up again, and world.flow does nothing")
