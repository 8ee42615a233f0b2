"""Who follows a trace at the door of an open space is told what happens, as it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.inspect import followers, socket_service, sockets
from headwater.inspect.function_records import GetTrace
from tests.support.open_spaces import STAYING, Counter, ask_one, call, call_when_ready, end, running, socket_ready, tell


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "GRACE_S", 0.0)


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "counter.db"


def test_what_happens_is_told_to_a_follower_until_the_space_is_closed(file: Path) -> None:
    with running(STAYING, file) as process, call(file) as caller:
        lines_of = caller.follow("started")
        tell(process, 20)
        end(process)
        lines = list(lines_of)
    assert [line.app for line in lines] == ["shop"] * len(lines)
    records = [line.record for line in lines if line.record is not None]
    assert {record["type"] for record in records} == {"started"}
    by_node = {str(record["node"]).partition("#")[0]: record for record in records}
    assert by_node["total"]["causes"] == ["gross(0)", "gross(1)"]
    assert by_node["gross(1)"]["causes"] == ["shop.tax"]
    assert all(float(str(record["at_ms"])) > 1_700_000_000_000 for record in records)


def test_a_follower_hears_of_openings_that_come_later(counter: Counter, file: Path) -> None:
    other = Counter("other")
    with counter.app.open(file), call_when_ready(file) as caller:
        heard = caller.follow("finished")
        with other.app.open(file) as space, call(file) as another:
            while len(space.scheduler.trace._listeners) < 2:  # one for each app, although they share a runtime
                another.ping()
            other.count.value = 3
            while next(heard).app != "other":
                pass


def test_apps_that_share_a_runtime_are_heard_of_once_each(counter: Counter, file: Path) -> None:
    other = Counter("other")
    with counter.app.open(file), other.app.open(file) as space, call_when_ready(file) as caller:
        heard = caller.follow("finished")
        while len(space.scheduler.trace._listeners) < 2:
            caller.ping()
        other.count.value = 3
        counter.count.value = 4
        lines = [next(heard) for _ in range(4)]
    assert [(line.app, str((line.record or {})["node"]).partition("#")[0]) for line in lines] == [
        ("other", "doubled"),
        ("other", "show"),
        (counter.app.name, "doubled"),
        (counter.app.name, "show"),
    ]


def test_nothing_is_recorded_without_a_follower(counter: Counter, file: Path) -> None:
    with counter.app.open(file) as space:
        with call_when_ready(file) as caller:
            caller.follow()
            assert space.scheduler.trace.on
        with call(file) as caller:
            while space.scheduler.trace.on:
                caller.ping()


def test_a_follower_that_does_not_read_misses_records_and_delays_no_other(
    counter: Counter, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_service, "UNREAD_MAX", 1)
    monkeypatch.setattr(followers, "RECORDS_MAX", 10)
    with counter.app.open(file) as space:
        with call_when_ready(file) as caller:
            heard = caller.follow()
            for number in range(3000):
                counter.count.value = number
            assert space.stats.runs["doubled"] > 2999
            missed = 0
            while not missed:
                missed = next(heard).missed
        assert missed > 0


def test_records_that_were_kept_are_told_by_kind(counter: Counter, file: Path) -> None:
    with counter.app.open(file) as space:
        socket_ready(file)
        space.scheduler.set_trace_enabled("finished", True)
        space.scheduler.set_trace_enabled("pass", True)
        counter.count.value = 1
        assert {record["type"] for record in ask_one(file, GetTrace()).trace} == {"finished", "pass"}
        kept = ask_one(file, GetTrace(kind="finished")).trace
        assert [str(record["node"]).partition("#")[0] for record in kept] == ["doubled", "show"]
