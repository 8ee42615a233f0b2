"""W9: what a run takes is its own until it ends; it is consumed with its commit, or never."""

from __future__ import annotations

import pytest

from headwater.workflow.table_checks import check_all, w9_reserve
from tests.testing.workflow_invariants.tampering import is_found, rows, tamper
from tests.workflow.world import MINUTE, Behaviour, World


@pytest.mark.parametrize("dies", ["", "prepare", "mutate", "after mutate", "next", "after next"])
def test_event_is_consumed_with_the_commit_of_its_run_and_so_is_what_follows_from_it(world: World, dies: str) -> None:
    """`check` compares events with runs at each kill; what `next` publishes is there if and only if it is consumed."""
    world.publish("a1")
    world.drain(Behaviour(dies=dies), limit=1)
    is_consumed = world.status() == {"a1": "consumed"}
    assert (world.status("done") != {}) is is_consumed is (not dies)
    world.finish()


@pytest.mark.parametrize("next_", ["fails", "passes", "overtaken"])
def test_what_next_wrote_and_published_is_there_once_although_it_was_called_twice(world: World, next_: str) -> None:
    world.publish("a1")
    world.drain(Behaviour(next=next_), limit=4)
    world.finish()
    assert world.total.value == len(world.published)


def test_event_that_a_run_holds_does_not_change_although_it_is_published_again(world: World) -> None:
    """While it waits, it does; and its id is never taken for a new one."""
    payload = "select payload, status from flow_event where message = 'a1'"
    world.publish("a1")
    world.incoming.publish("a1, again", id="a1")
    world.space.sync()
    assert rows(world, payload) == [(b"\xa9a1, again", "pending")]
    world.drain(Behaviour(prepare="asks"), limit=1)
    world.incoming.publish("a1, once more", id="a1")
    world.space.sync()
    assert rows(world, payload) == [(b"\xa9a1, again", "reserved")]
    world.finish()
    world.incoming.publish("a1, for ever", id="a1")
    world.space.sync()
    world.rest()
    assert rows(world, payload) == [(b"\xa9a1, again", "consumed")]
    world.check()


def test_event_that_was_given_back_says_so(world: World) -> None:
    world.publish("a1")
    for _ in range(2):
        world.drain(Behaviour(service="refuses"), limit=1)
        world.clock.advance(MINUTE)
    assert rows(world, "select attempt, status from flow_event") == [(3, "pending")]
    assert rows(world, "select run, attempt, disposition from flow_take") == [(1, 1, "released"), (2, 2, "released")]


def test_event_that_is_skipped_while_prepare_looks_at_it_is_no_fault_of_the_handler(world: World) -> None:
    """It is prepared anew, without that one, at once."""
    world.publish("a1")
    world.publish("a2")
    world.drain(Behaviour(meanwhile=("prepare", "skip")), limit=2)
    assert world.status() == {"a1": "skipped", "a2": "consumed"}
    assert world.service.effects == {"a2": 1}
    assert [run.status for run in reversed(world.flow.runs())] == ["paused:transient", "committed"]


# --- tampered -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "query", "text"),
    [
        (Behaviour(), "update flow_event set status = 'pending'", "does not fit"),
        (Behaviour(), "update flow_take set disposition = 'released'", "does not fit"),
        (Behaviour(), "update flow_take set disposition = 'moved'", "does not fit"),
        (Behaviour(), "update flow_run set status = 'crashed'", "does not fit"),
        (Behaviour(), "update flow_run set outcome = 'skipped'", "does not fit"),
        (Behaviour(), "delete from flow_take", "its runs do not say so"),
        (Behaviour(), "update flow_run set taken = 2", "it took 1 events"),
        (Behaviour(prepare="asks"), "update flow_event set status = 'consumed', reserved_by = null", "does not fit"),
        (Behaviour(prepare="asks"), "update flow_event set reserved_by = null", "does not fit"),
        (Behaviour(prepare="asks"), "delete from flow_take", "its reservation is inconsistent"),
        (Behaviour(prepare="asks"), "update flow set head = null", "does not fit"),
        (Behaviour(prepare="asks"), "update flow_run set status = 'failed:logic'", "does not fit"),
        (Behaviour(prepare="fails"), "update flow_event set status = 'consumed'", "its runs do not say so"),
        (Behaviour(prepare="fails"), "update flow_event set status = 'reserved'", "its reservation is inconsistent"),
        (Behaviour(prepare="fails"), "update flow_topic set pending = 2", "1 wait and 0 are parked"),
        (Behaviour(prepare="fails"), "update flow_event set status = 'parked'", "0 wait and 1 are parked"),
    ],
)
def test_events_and_runs_that_tell_different_stories_are_found(
    quick: World, behaviour: Behaviour, query: str, text: str
) -> None:
    quick.publish("a1")
    quick.drain(behaviour, limit=1)
    tamper(quick, query)
    is_found(quick, w9_reserve, f"W9: .*{text}")


@pytest.mark.parametrize(
    "query",
    [
        "update flow_run set aside = null",
        "update flow_event set status = 'consumed'",
        "update flow_take set disposition = 'released'",
    ],
)
def test_what_does_not_fit_a_run_that_was_put_aside_is_found(world: World, query: str) -> None:
    world.publish("a1")
    world.drain(Behaviour(next="fails"), limit=1)
    assert world.act("abandon")
    world.check()
    tamper(world, query)
    # What was given back after its effect is told by W5, too.
    is_found(world, check_all, "W[59]: ")


def test_event_that_is_not_what_a_run_was_given_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="asks"), limit=1)
    tamper(world, "update flow_event set payload = x'a162'")
    is_found(world, world.watch.look, "W9: it was reserved, and what it says has changed: StoredEvent")


def test_event_that_is_gone_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="idle"), limit=1)
    tamper(world, "delete from flow_event")
    tamper(world, "update flow_topic set pending = 0")
    is_found(world, world.watch.look, "W9: it is gone: StoredEvent")


def test_event_that_was_consumed_and_waits_again_is_found(world: World) -> None:
    """By what was seen before: of runs that were let go, nothing else tells it."""
    world.publish("a1")
    world.drain(limit=1)
    for query in (
        "update flow_event set status = 'pending', attempt = 2",
        "update flow_topic set pending = 1 where name = 'incoming'",
        "delete from flow_take",
        "delete from flow_call",
        "delete from flow_run",
    ):
        tamper(world, query)
    is_found(world, world.watch.look, "W9: it was consumed: StoredEvent")
