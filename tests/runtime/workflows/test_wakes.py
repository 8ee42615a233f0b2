"""When a consumer looks again although nothing has come in: at the time it asked for, within bounds, and once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.testing import SimClock
from tests.runtime.workflows.mill import Mill

HOUR = 3600
DAY = 24 * HOUR


def waking(wake: Any, folder: Path | None = None, clock: SimClock | None = None, *, once: bool = True) -> Mill:
    """A consumer that takes nothing, and asks to be woken."""
    mill = Mill(folder, clock)
    wakes = [wake]

    def prepare(consumer: Any, pending: Any) -> hw.Plan[Any]:
        mill.log.append((consumer.run.why, mill.clock.now_ms()))
        asked = wakes.pop() if once and wakes else None if once else wake
        return hw.Plan.idle(wake=asked)

    mill.take(prepare=prepare)
    return mill


def at(mill: Mill, seconds: float, zone: timezone = UTC) -> datetime:
    return datetime.fromtimestamp(mill.clock.now_ms() / 1000 + seconds, zone)


@pytest.mark.parametrize(
    ("wake", "seconds"),
    [
        ("2m", 120),
        (90, 90),
        (timedelta(hours=2), 2 * HOUR),
        (lambda mill: at(mill, 300), 300),
        (lambda mill: at(mill, 300, timezone(timedelta(hours=-5))), 300),
        (lambda mill: at(mill, 300).isoformat(), 300),
        # Not sooner than in half a minute, and not later than in a day.
        ("1s", 30),
        (0, 30),
        (lambda mill: at(mill, -1000), 30),
        ("30d", DAY),
        (lambda mill: at(mill, 1_000_000_000), DAY),
        # What is past is as soon as possible, however it is said.
        (timedelta(seconds=-5), 30),
        (timedelta.min, 30),
        (timedelta.max, DAY),
        ("-5m", 30),
        (-5, 30),
        (-0.5, 30),
        (float("-inf"), 30),
        (float("inf"), DAY),
        (10**400, DAY),
        (datetime.min.replace(tzinfo=UTC), 30),
        (datetime.max.replace(tzinfo=UTC), DAY),
        ("1969-07-20T20:17:00Z", 30),
    ],
    ids=range(23),
)
def test_a_consumer_is_woken_when_it_asked_for(wake: Any, seconds: int) -> None:
    clock = SimClock()
    mill = waking(wake(Mill(clock=clock)) if callable(wake) else wake, clock=clock)
    with mill.open() as space:
        space.workflows.drain()
        assert space.workflows.wake_at == clock.now_ms() + seconds * 1000
        mill.advance(seconds - 1)
        assert space.workflows.drain() == 0
        mill.advance(1)
        assert space.workflows.drain() == 1
        assert [why for why, _ in mill.log] == ["deploy", "wake"]
        # It has to ask again.
        assert space.workflows.wake_at is None


@pytest.mark.parametrize(
    "wake",
    [
        "soon",
        "",
        "-",
        "2024-13-45",
        datetime(2024, 1, 1),  # noqa: DTZ001
        "2024-01-01T09:00",
        object(),
        [],
        float("nan"),
        True,
        "10:99",
    ],
    ids=range(11),
)
def test_what_is_no_time_is_a_mistake_of_the_code_and_told_where_it_is_made(wake: Any) -> None:
    """Left out, the consumer would never be woken."""
    mill = waking(wake)
    with mill.open() as space:
        space.workflows.drain()
        assert mill.statuses == ["failed:logic"]
        assert "hw.Plan: wake=" in str(mill.last.error)
        assert mill.flow.status.state == "Needs attention"
    with pytest.raises(hw.LogicError):
        hw.Plan(None, wake=wake)


def test_a_time_without_a_zone_names_what_to_write() -> None:
    with pytest.raises(hw.LogicError, match=r"has no time zone; write datetime\.now\(UTC\)"):
        hw.Plan.idle(wake=datetime(2024, 1, 1))  # noqa: DTZ001


def test_an_event_wakes_it_before_and_what_it_asked_for_is_void_then(tmp_path: Path) -> None:
    mill = waking("1h")
    with mill.open() as space:
        space.workflows.drain()
        mill.advance(60)
        mill.put("a")
        space.workflows.drain()
        assert [why for why, _ in mill.log] == ["deploy", "event"]
        # The second time it has not asked.
        assert space.workflows.wake_at is None


def test_a_time_is_kept_over_a_restart(tmp_path: Path) -> None:
    mill = waking("1h", tmp_path)
    with mill.open() as space:
        space.workflows.drain()
        due = space.workflows.wake_at
    again = waking(None, tmp_path, mill.clock)
    with again.open() as space:
        assert space.workflows.drain() == 0
        assert space.workflows.wake_at == due
        again.advance(2 * HOUR)
        assert space.workflows.drain() == 1
        assert [why for why, _ in again.log] == ["wake"]


def test_whoever_asks_again_and_again_is_woken_at_most_twice_a_minute() -> None:
    mill = waking(0, once=False)
    with mill.open() as space:
        for _ in range(10):
            space.workflows.drain()
            mill.advance(10)
        assert len(mill.log) == 4


def test_a_plan_that_takes_something_may_ask_as_well() -> None:
    mill = Mill()

    def prepare(consumer: Any, pending: Any) -> hw.Plan[Any]:
        mill.log.append(consumer.run.why)
        return hw.Plan(None, take=pending, wake="1h")

    mill.take(prepare=prepare, mutate=None, next=None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert space.workflows.wake_at == mill.clock.now_ms() + HOUR * 1000
        mill.advance(HOUR)
        space.workflows.drain()
        assert mill.log == ["event", "wake"]
