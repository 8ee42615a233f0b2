"""Workflows by the clock, end to end: simulated days and years through real producers and consumers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import headwater as hw
from headwater.host import workflow_threads
from headwater.runtime.options import Options
from headwater.testing import SimClock
from tests.support.spaces import EITHER
from tests.workflow.world import DAY, HOUR, MINUTE, SECOND, Behaviour, World

WAIT_S = 120
"""For what happens at once: only a machine that is stuck takes so long."""


def clock_at(text: str, zone: str = "UTC") -> SimClock:
    return SimClock(int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000))


class Town:
    """An app whose clock stands still until `until` lets time pass: from one thing that is due to the next."""

    def __init__(self, start: str = "2024-01-01T00:00", zone: str = "UTC", url: str = "memory:") -> None:
        self.zone = ZoneInfo(zone)
        self.clock = clock_at(start, zone)
        self.url = url
        # What happened, with the time of the clock on the wall.
        self.log: list[str] = []
        self.app = hw.App("town")
        self.flow = self.app.workflow("flow")
        self.space: hw.Space | None = None

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, self.zone)

    def note(self, text: str = "") -> None:
        self.log.append(f"{self.now:%d.%m. %H:%M%z} {text}".rstrip())

    def poll(self, takes_ms: int = 0, **schedule: str) -> None:
        """A producer that notes when it runs, and publishes that; and somebody who consumes it."""
        topic = self.flow.topic("polled", str)

        @self.flow.producer(**schedule)  # type: ignore[arg-type]  # as given
        def poll() -> None:
            self.note()
            self.clock.advance(takes_ms)
            topic.publish("", id=str(self.clock.now_ms()))

        @self.flow.consumer(topic)
        class Take(hw.Consumer[str, None, None]):
            def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[None]:
                return hw.Plan(None, take=pending) if pending else hw.Plan.idle()

    def open(self) -> hw.Space:
        options = Options(wall=self.clock.now_ms, durability="normal")
        self.space = self.app.open_with(self.url, options)
        return self.space

    def until(self, text: str) -> list[str]:
        """Let time pass until then; what was noted."""
        end = int(datetime.fromisoformat(text).replace(tzinfo=self.zone).timestamp() * 1000)
        space = self.space or self.open()
        while True:
            space.workflows.drain()
            at = space.workflows.wake_at
            if at is None or at > end:
                break
            self.clock.advance(at - self.clock.now_ms())
        self.clock.advance(end - self.clock.now_ms())
        found, self.log = self.log, []
        return found

    def close(self) -> None:
        if self.space is not None:
            self.space.close()
            self.space = None


@pytest.fixture
def towns() -> Iterator[Callable[..., Town]]:
    made: list[Town] = []

    def make(*given: str, **named: str) -> Town:
        made.append(Town(*given, **named))
        return made[-1]

    yield make
    for town in made:
        town.close()


# --- schedules ------------------------------------------------------------------------------------------------


def test_interval_is_counted_from_the_end_of_a_run(towns: Callable[..., Town]) -> None:
    """So one that takes long drifts, and never overtakes itself."""
    town = towns()
    town.poll(every="10m", takes_ms=3 * MINUTE)
    assert town.until("2024-01-01T00:45") == [
        "01.01. 00:00+0000",
        "01.01. 00:13+0000",
        "01.01. 00:26+0000",
        "01.01. 00:39+0000",
    ]


def test_cron_does_not_drift(towns: Callable[..., Town]) -> None:
    town = towns("2024-01-01T00:01")
    town.poll(cron="*/15 * * * *", takes_ms=3 * MINUTE)
    assert town.until("2024-01-01T00:50") == [
        "01.01. 00:01+0000",
        "01.01. 00:15+0000",
        "01.01. 00:30+0000",
        "01.01. 00:45+0000",
    ]


def test_run_that_takes_longer_than_its_schedule_leaves_out_what_it_has_missed(towns: Callable[..., Town]) -> None:
    town = towns("2024-01-01T00:00")
    town.poll(cron="0 * * * *", takes_ms=150 * MINUTE)
    assert town.until("2024-01-01T09:30") == [
        "01.01. 00:00+0000",
        "01.01. 03:00+0000",
        "01.01. 06:00+0000",
        "01.01. 09:00+0000",
    ]


CLOCK_CHANGES = [
    # Berlin puts the clock forward on 31.03. from 2 to 3, and back on 27.10. from 3 to 2.
    ("Europe/Berlin", "30 2 * * *", "2024-03-30", "2024-04-02", "30. 02:30+0100, 31. 03:00+0200, 01. 02:30+0200"),
    ("Europe/Berlin", "30 2 * * *", "2024-10-26", "2024-10-29", "26. 02:30+0200, 27. 02:30+0200, 28. 02:30+0100"),
    ("Europe/Berlin", "0 9 * * *", "2024-03-30", "2024-04-02", "30. 09:00+0100, 31. 09:00+0200, 01. 09:00+0200"),
    # New York on 10.03. and on 03.11., each from or to 2.
    ("America/New_York", "15 1 * * *", "2024-11-02", "2024-11-05", "02. 01:15-0400, 03. 01:15-0400, 04. 01:15-0500"),
    ("America/New_York", "0 2 * * *", "2024-03-09", "2024-03-12", "09. 02:00-0500, 10. 03:00-0400, 11. 02:00-0400"),
    # An hour that comes twice is twice as long for whoever runs every hour, and a gap is no reason to wait.
    ("Europe/Berlin", "0 * * * *", "2024-10-27T01", "2024-10-27T03", "27. 02:00+0200, 27. 02:00+0100, 27. 03:00+0100"),
    ("Europe/Berlin", "0 * * * *", "2024-03-31T00", "2024-03-31T04", "31. 01:00+0100, 31. 03:00+0200, 31. 04:00+0200"),
    # Lord Howe changes by half an hour, and Kathmandu is always off by a quarter.
    ("Australia/Lord_Howe", "45 1 * * *", "2024-10-05", "2024-10-08", "05. 01:45+1030, 06. 01:45+1030, 07. 01:45+1100"),
    ("Asia/Kathmandu", "0 9 * * 1", "2024-01-01", "2024-01-16", "01. 09:00+0545, 08. 09:00+0545, 15. 09:00+0545"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "cron", "start", "end", "fires"), CLOCK_CHANGES)
def test_cron_in_a_zone_runs_by_the_clock_on_the_wall_through_the_nights_on_which_it_is_changed(
    towns: Callable[..., Town], zone: str, cron: str, start: str, end: str, fires: str
) -> None:
    town = towns(start, zone=zone)
    town.poll(cron=cron, zone=zone)
    [deployed, *found] = town.until(end)
    assert deployed.startswith(datetime.fromisoformat(start).strftime("%d.%m. %H:%M")), "at once when it is deployed"
    assert ", ".join(f"{each[:3]} {each[7:]}" for each in found) == fires


def test_year_of_a_daily_cron_is_a_year_of_days(towns: Callable[..., Town]) -> None:
    town = towns("2024-01-01T12:00", zone="Europe/Berlin")
    town.poll(cron="30 2 * * *", zone="Europe/Berlin")
    fires = town.until("2025-01-01T12:00")[1:]
    days = [each[:6] for each in fires]
    assert len(days) == len(set(days)) == 366, "of a leap year"


@pytest.mark.parametrize("schedule", [{"every": "5m"}, {"cron": "0 * * * *"}, {"cron": "30 2 * * *"}])
def test_week_off_is_made_up_for_once(tmp_path: Path, schedule: dict[str, str]) -> None:
    """The process was not there: one run when it comes back, and then as planned."""
    town = Town("2024-01-01T00:00", url=str(tmp_path / "town.db"))
    town.poll(**schedule)
    before = town.until("2024-01-01T06:00")
    assert len(before) == {"5m": 73, "0 * * * *": 7, "30 2 * * *": 2}[next(iter(schedule.values()))]
    town.close()
    town.clock.advance(7 * DAY + MINUTE)
    assert town.until("2024-01-08T06:01") == ["08.01. 06:01+0000"]
    [following, *_] = town.until("2024-01-09T06:00")
    assert (
        following
        == {
            "5m": "08.01. 06:06+0000",
            "0 * * * *": "08.01. 07:00+0000",
            "30 2 * * *": "09.01. 02:30+0000",
        }[next(iter(schedule.values()))]
    )
    town.close()


def test_deployment_of_a_new_version_runs_everything_once_and_a_restart_nothing(tmp_path: Path) -> None:
    for version, expected in [("1", 1), ("1", 0), ("2", 1), ("2", 0)]:
        town = Town("2024-01-01T00:00", url=str(tmp_path / "town.db"))
        town.flow.version = version
        town.poll(every="5m")
        assert len(town.until("2024-01-01T00:01")) == expected
        town.close()


# --- clocks that are wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["prepare", "mutate", "next"])
@pytest.mark.parametrize("jump", [-HOUR, 30 * DAY, -30 * DAY])
def test_clock_that_jumps_in_the_middle_of_a_run_doubles_nothing_and_starves_nobody(
    tmp_path: Path, phase: str, jump: int
) -> None:
    world = World("memory", tmp_path)
    world.rest()
    world.publish("a1")
    world.drain(Behaviour(meanwhile=(phase, lambda: world.clock.advance(jump))), limit=1)
    assert world.service.effects == {"a1": 1}
    world.ran.clear()
    world.rest()
    world.clock.advance(5 * MINUTE)
    world.rest()
    assert world.ran.count("poll") == (2 if jump > 0 else 1)
    world.finish()
    world.close()


@pytest.mark.parametrize("jump", [-HOUR, 30 * DAY])
def test_clock_that_jumps_while_a_producer_runs_leaves_it_on_its_schedule(
    towns: Callable[..., Town], jump: int
) -> None:
    town = towns()
    town.poll(every="10m", takes_ms=jump)
    start = town.clock.now_ms()
    space = town.open()
    space.workflows.drain()
    assert len(town.log) == 1
    assert space.workflows.wake_at == start + jump + 10 * MINUTE


# --- consumers by the clock -----------------------------------------------------------------------------------


def test_daily_digest(towns: Callable[..., Town]) -> None:
    """Events wake it, and it goes back to sleep until nine; then all of them at once, and on a quiet day nothing."""
    town = towns("2024-03-29T08:00", zone="Europe/Berlin")
    topic = town.flow.topic("notes", str)

    def next_nine() -> datetime:
        nine = town.now.replace(hour=9, minute=0)
        return nine if nine > town.now else nine + timedelta(days=1)

    @town.flow.consumer(topic)
    class Digest(hw.Consumer[str, list[str], None]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[list[str]]:
            is_time = town.now.hour == 9
            if not is_time or not pending:
                town.note("looks")
                return hw.Plan.idle(wake=next_nine())
            return hw.Plan([e.id for e in pending], take=pending, wake=next_nine())

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[None]) -> None:  # noqa: ARG002  # as it is called
            town.note(f"sends {' '.join(data)}")

    town.open()
    assert town.until("2024-03-29T08:30") == ["29.03. 08:00+0100 looks"]
    topic.publish("", id="a")
    assert town.until("2024-03-29T10:00") == ["29.03. 08:30+0100 looks", "29.03. 09:00+0100 sends a"]
    topic.publish("", id="b")
    topic.publish("", id="c")
    assert town.until("2024-03-30T10:00") == ["29.03. 10:00+0100 looks", "30.03. 09:00+0100 sends b c"]
    assert town.until("2024-04-01T10:00") == ["31.03. 09:00+0200 looks", "01.04. 09:00+0200 looks"], (
        "by the clock on the wall"
    )


def test_batch_or_timeout_whichever_comes_first(towns: Callable[..., Town]) -> None:
    town = towns()
    topic = town.flow.topic("items", str)

    @town.flow.consumer(topic)
    class Batch(hw.Consumer[str, list[str], None]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[list[str]]:
            if not pending:
                return hw.Plan.idle()
            due = pending[0].at + timedelta(hours=1)
            if len(pending) < 3 and town.now < due:
                return hw.Plan.idle(wake=due)
            return hw.Plan([e.id for e in pending[:3]], take=pending[:3])

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[None]) -> None:  # noqa: ARG002  # as it is called
            town.note(" ".join(data))

    space = town.open()

    def publish(*ids: str) -> None:
        for one in ids:
            topic.publish("", id=one)

    publish("a")
    assert town.until("2024-01-01T00:30") == []
    publish("b")
    assert town.until("2024-01-01T02:00") == ["01.01. 01:00+0000 a b"], "an hour after the oldest"
    publish("c", "d", "e", "f")
    assert town.until("2024-01-01T02:30") == ["01.01. 02:00+0000 c d e"], "as soon as there are three"
    assert town.until("2024-01-01T09:00") == ["01.01. 03:00+0000 f"]
    assert space.workflows.wake_at is None


def test_weekly_digest_is_woken_once_a_day_and_asks_again(towns: Callable[..., Town]) -> None:
    """A day is the longest that can be asked for: the others are looked at and slept through."""
    town = towns("2024-01-01T09:00")
    topic = town.flow.topic("notes", str)
    monday = town.now + timedelta(days=7)

    @town.flow.consumer(topic)
    class Digest(hw.Consumer[str, None, None]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[None]:
            if town.now < monday:
                town.note("looks")
                return hw.Plan.idle(wake=monday)
            return hw.Plan(None, take=pending) if pending else hw.Plan.idle()

        def next(self, run: hw.Run, data: None, outcome: hw.Outcome[None]) -> None:  # noqa: ARG002  # as it is called
            town.note("sends")

    town.open()
    topic.publish("", id="a")
    found = town.until("2024-01-10T00:00")
    assert found == [f"0{day}.01. 09:00+0000 looks" for day in range(1, 8)] + ["08.01. 09:00+0000 sends"]


def test_consumer_that_always_asks_for_now_is_woken_twice_a_minute(towns: Callable[..., Town]) -> None:
    town = towns()
    topic = town.flow.topic("notes", str)

    @town.flow.consumer(topic)
    class Restless(hw.Consumer[str, None, None]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[None]:  # noqa: ARG002  # as it is called
            town.note()
            return hw.Plan.idle(wake=0)

    assert len(town.until("2024-01-01T00:10")) == 21


# --- waits that outlive the process ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EITHER)
def test_backoff_neither_hammers_nor_forgets_after_a_restart(tmp_path: Path, kind: str) -> None:
    """Killed after every failure: the waits double all the same, and after the last one a person is told."""
    world = World(kind, tmp_path, retry=hw.Retry(4, backoff="10s"))
    world.publish("a1")
    waits = []
    for _ in range(5):
        world.drain(Behaviour(prepare="passes"))
        world.kill()
        world.rest()
        at = world.space.workflows.wake_at
        waits.append(None if at is None else at - world.clock.now_ms())
        world.clock.advance(waits[-1] or 0)
    assert waits == [10 * SECOND, 20 * SECOND, 40 * SECOND, 80 * SECOND, None]
    assert world.view.state == "Needs attention"
    assert world.ran.count("Act.prepare") == 5
    world.finish()
    world.close()


@pytest.mark.parametrize("kind", EITHER)
def test_questions_about_a_call_neither_hammer_nor_forget_after_a_restart(tmp_path: Path, kind: str) -> None:
    world = World(kind, tmp_path)
    world.publish("a1")
    world.drain(Behaviour(service="applies, then breaks", reconcile="unknown"), limit=1)
    waits = []
    for _ in range(6):
        world.kill()
        at = world.space.workflows.wake_at
        waits.append(None if at is None else at - world.clock.now_ms())
        world.clock.advance(waits[-1] or 0)
        world.drain(Behaviour(reconcile="unknown"), limit=1)
    assert waits == [10 * SECOND, 10 * SECOND, 20 * SECOND, 40 * SECOND, 80 * SECOND, None]
    assert world.view.state == "Needs attention"
    world.finish()
    world.close()


# --- nothing to do --------------------------------------------------------------------------------------------


def test_idle_hour_has_no_time_at_which_something_is_due(towns: Callable[..., Town]) -> None:
    town = towns()
    topic = town.flow.topic("notes", str)

    @town.flow.consumer(topic)
    class Take(hw.Consumer[str, None, None]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[None]:
            town.note()
            return hw.Plan(None, take=pending) if pending else hw.Plan.idle()

    space = town.open()
    town.until("2024-01-01T00:01")
    transactions = space._opening.flows.transactions
    for _ in range(60):
        town.clock.advance(MINUTE)
        assert space.workflows.wake_at is None
        assert space.workflows.drain() == 0
    assert town.log == []
    assert space._opening.flows.transactions == transactions + 60, "one look for each drain, and no other transaction"


def resting(space: hw.Space) -> None:
    """Wait until the host has nothing to do."""
    host = space.workflows._host
    assert host is not None
    with host._changed:
        assert host._changed.wait_for(lambda: not host._line and not host._busy, WAIT_S)


class Clockwork:
    """A workflow in a host with threads, whose clock stands still unless it is told to move."""

    def __init__(self, **schedule: str) -> None:
        self.clock = clock_at("2024-01-01T00:00")
        self.app = hw.App("clockwork")
        self.flow = self.app.workflow("flow")
        self.topic = self.flow.topic("ticks", str)
        self.noise = self.app.cell("noise", 0)
        self.ran = threading.Semaphore(0)

        @self.flow.consumer(self.topic)
        class Take(hw.Consumer[str, None, None]):
            def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[None]:
                return hw.Plan(None, take=pending) if pending else hw.Plan.idle()

        if schedule:

            @self.flow.producer(**schedule)  # type: ignore[arg-type]  # as given
            def poll() -> None:
                self.ran.release()

        self.space = self.app.open_with("memory:", Options(wall=self.clock.now_ms))
        self.space.workflows.start()
        if schedule:
            assert self.ran.acquire(timeout=WAIT_S), "at once when it is deployed"
        resting(self.space)

    def __enter__(self) -> Clockwork:  # noqa: PYI034  # nobody derives from it
        return self

    def __exit__(self, *_: object) -> None:
        self.space.close()


@pytest.mark.parametrize("schedule", [{}, {"every": "5m"}, {"cron": "0 9 * * *"}])
def test_idle_host_does_not_look_at_workflows_whatever_else_is_done_in_the_space(schedule: dict[str, str]) -> None:
    with Clockwork(**schedule) as clockwork:
        wakeups = clockwork.space.workflows.wakeups
        for _ in range(200):
            clockwork.noise.value += 1
        clockwork.space.sync()
        resting(clockwork.space)
        assert clockwork.space.workflows.wakeups == wakeups
        clockwork.topic.publish("", id="a")
        clockwork.space.sync()
        resting(clockwork.space)
        assert clockwork.space.workflows.wakeups > wakeups


def test_host_notices_that_the_clock_was_put_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a machine was asleep: what is due by the clock on the wall runs then, not so many hours later."""
    monkeypatch.setattr(workflow_threads, "CLOCK_MS", 20)
    with Clockwork(cron="0 9 * * *") as clockwork:
        clockwork.clock.advance(DAY)
        assert clockwork.ran.acquire(timeout=WAIT_S)


def test_host_notices_that_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_threads, "CLOCK_MS", 20)
    with Clockwork(every="5m") as clockwork:
        clockwork.clock.advance(-DAY)
        latest = clockwork.clock.now_ms() + 5 * MINUTE
        host = clockwork.space.workflows._host
        assert host is not None
        with host._changed:
            assert host._changed.wait_for(lambda: set(host._times.values()) == {latest}, WAIT_S)
        clockwork.clock.advance(5 * MINUTE)
        assert clockwork.ran.acquire(timeout=WAIT_S)


def test_host_does_not_look_at_a_workflow_in_the_last_millisecond_before_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing could begin yet: it would look again and again until the clock has moved."""
    monkeypatch.setattr(workflow_threads, "CLOCK_MS", 20)
    with Clockwork(every="5m") as clockwork:
        host = clockwork.space.workflows._host
        assert host is not None
        with host._changed:
            (due,) = host._times.values()
            wakeups = host.wakeups
        clockwork.clock.advance(due - 1 - clockwork.clock.now_ms())
        with host._changed:
            while host._seen != due - 1:
                # Until its thread has looked at the clock.
                host._changed.wait(0.01)
            assert (list(host._line), host._busy, host.wakeups) == ([], {}, wakeups)
        clockwork.clock.advance(1)
        assert clockwork.ran.acquire(timeout=WAIT_S)
