"""W12: a consumer is woken when it asked to be, within bounds of the host's; whoever does not ask is not woken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headwater.workflow.table_checks import w12_wake_at
from tests.testing.workflow_invariants.tampering import is_found, rows, tamper
from tests.workflow.test_machine import GARBAGE
from tests.workflow.world import DAY, HOUR, MINUTE, SECOND, Behaviour, World


def waits(world: World) -> int | None:
    """How long until Act is woken."""
    [(at,)] = rows(world, "select wake_at from flow_handler where name = 'Act'")
    return None if at is None else at - world.clock.now_ms()


def after(world: World, ms: int) -> datetime:
    return datetime.fromtimestamp((world.clock.now_ms() + ms) / 1000, UTC)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        (0, 30 * SECOND),
        (29 * SECOND, 30 * SECOND),
        (30 * SECOND, 30 * SECOND),
        (31 * SECOND, 31 * SECOND),
        (10 * HOUR, 10 * HOUR),
        (DAY, DAY),
        (DAY + 1, DAY),
        (5000 * DAY, DAY),
        (-5000 * DAY, 30 * SECOND),
    ],
)
@pytest.mark.parametrize("prepare", ["idle", "all", "nothing"])
def test_time_that_is_asked_for_is_kept_within_half_a_minute_and_a_day(
    quick: World, prepare: str, asked: int, kept: int
) -> None:
    """With events or without, as a moment, as the text of one, and as a time from now, also if that is past."""
    ways: list[object] = [after(quick, asked), after(quick, asked).isoformat()]
    ways += [asked / 1000, timedelta(milliseconds=asked)]
    for number, wake in enumerate(ways):
        quick.publish(f"a{number}")
        quick.drain(Behaviour(prepare=prepare, wake=wake), limit=1)
        assert waits(quick) == kept


@pytest.mark.parametrize("wake", GARBAGE)
def test_what_is_no_time_is_a_mistake_that_is_told(quick: World, wake: object) -> None:
    """Left out, no host would be woken, and no error would show it."""
    quick.publish("a1")
    quick.drain(Behaviour(wake=wake), limit=1)
    assert waits(quick) is None
    assert quick.view.state == "Needs attention"
    quick.finish()


def test_who_does_not_ask_again_is_not_woken_again(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="idle", wake="10m"), limit=1)
    assert waits(world) == 10 * MINUTE
    world.publish("a2")
    world.drain(Behaviour(prepare="idle"), limit=1)
    assert waits(world) is None


def test_time_is_used_up_when_the_run_begins_that_it_was_for(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="idle", wake="10m"))
    world.clock.advance(10 * MINUTE)
    seen: list[int | None] = []
    world.drain(Behaviour(meanwhile=("prepare", lambda: seen.append(waits(world)))), limit=1)
    assert seen == [None]
    assert world.status() == {"a1": "consumed"}
    assert rows(world, "select why from flow_run where handler = 'Act' order by id desc") == [("wake",), ("event",)]


def test_time_outlives_the_process(world: World) -> None:
    world.drain(Behaviour(prepare="idle", wake="10m"))
    world.kill()
    assert waits(world) == 10 * MINUTE
    world.ran.clear()
    world.clock.advance(10 * MINUTE)
    world.rest()
    assert "Act.prepare" in world.ran


def test_event_wakes_it_before_its_time(world: World) -> None:
    world.drain(Behaviour(prepare="idle", wake="10m"))
    world.publish("a1")
    world.rest()
    assert world.status() == {"a1": "consumed"}


def test_time_more_than_a_day_ahead_is_found(world: World) -> None:
    world.drain(Behaviour(prepare="idle", wake="10m"), limit=1)
    at = world.clock.now_ms() + DAY
    tamper(world, "update flow_handler set wake_at = ? where wake_at is not null", at)
    world.space._opening.flows.look(w12_wake_at)
    tamper(world, "update flow_handler set wake_at = ? where wake_at is not null", at + 1)
    is_found(world, w12_wake_at, "W12: it is .* that is more than a day ahead: HandlerRow")


@pytest.mark.parametrize("ms", [0, 29 * SECOND, -DAY])
def test_time_that_is_too_soon_is_found_when_it_is_new(world: World, ms: int) -> None:
    """Later than that, how much is left of a wait says nothing."""
    world.drain(Behaviour(prepare="idle", wake="10m"), limit=1)
    tamper(world, "update flow_handler set wake_at = ? where wake_at is not null", world.clock.now_ms() + ms)
    is_found(world, world.watch.look, "W12: between .* and .*, that is too soon, or too late: HandlerRow")
