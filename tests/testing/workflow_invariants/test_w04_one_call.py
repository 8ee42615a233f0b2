"""W4: a run makes one call to the outside at most, under a key that is its own."""

from __future__ import annotations

import pytest

from headwater.workflow.table_checks import w4_one_call
from tests.testing.workflow_invariants.tampering import is_found, rows, tamper
from tests.workflow.outside import MODES
from tests.workflow.world import MINUTE, Behaviour, World

UNIQUE_NO_MORE = "alter table flow_call rename to kept_call"


@pytest.mark.parametrize("service", MODES)
@pytest.mark.parametrize("dies", ["", "mutate", "after mutate", "next"])
def test_service_is_called_once_in_a_run_whatever_becomes_of_it(quick: World, service: str, dies: str) -> None:
    """The service says if a key comes twice, and `check` asks it."""
    quick.publish("a1")
    quick.drain(Behaviour(service=service, reconcile="unknown", dies=dies), limit=1)
    quick.finish()
    keys = [key for (key,) in rows(quick, "select key from flow_call")]
    assert set(quick.service.calls) <= set(keys)
    assert len(keys) == len(set(keys))


def test_each_attempt_has_a_key_of_its_own(world: World) -> None:
    """So a refused attempt is not taken for the next one; and a successor that only goes on has the first one's."""
    world.publish("a1")
    world.drain(Behaviour(service="refuses"), limit=1)
    world.clock.advance(MINUTE)
    world.drain(Behaviour(next="fails"), limit=1)
    world.act("resume")
    world.rest()
    assert len(world.service.calls) == 2
    runs = rows(world, "select id, effect_of from flow_run where handler = 'Act' order by id")
    assert runs == [(1, None), (2, None), (3, 2)]


def test_second_call_of_a_run_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(limit=1)
    tamper(world, UNIQUE_NO_MORE)
    tamper(world, "create table flow_call as select * from kept_call union all select * from kept_call")
    is_found(world, w4_one_call, "W4: it has made 2 calls: RunRow")


def test_call_under_another_key_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(limit=1)
    tamper(world, "update flow_call set key = 'x'")
    is_found(world, w4_one_call, r"W4: it has a call that is not its own \(CallRow.*: RunRow")


def test_call_of_a_run_that_goes_on_from_another_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(next="fails"), limit=1)
    world.act("resume")
    world.drain(limit=1)
    tamper(
        world,
        "insert into flow_call(run, operation, params, key, status, at) values (2, 'x', x'', 'k', 'in_flight', 1)",
    )
    is_found(world, w4_one_call, "W4: it has a call that is not its own")
