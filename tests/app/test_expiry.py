"""Documents expire while a program has the file open: by the records of the file, at most once a minute."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import DeclarationError, UnavailableError, UsageError
from headwater.runtime.expiry import AGAIN_MS, ROUND_MS, Expiry, expiry_of
from headwater.runtime.options import Options
from headwater.store.expiring import EXPIRED_MAX, EXPIRY_STOPPED, ExpiryRound
from headwater.store.retention import Retention, RetentionRound
from headwater.testing import probe
from headwater.values.ids import MAIN, BranchId

START = datetime(2026, 5, 1, tzinfo=UTC)
MINUTE_MS = 60_000
DAY_MS = 86_400_000


class Login(hw.Doc):
    name: str
    until: datetime | None = None


class Visit(hw.Doc):
    seen: datetime


def app_with_logins() -> tuple[hw.App, hw.Collection[Login]]:
    app = hw.App("site")
    return app, app.collection(Login, unique=[Login.name], expires=Login.until)


class Clocks:
    """A steady clock and a wall clock that a test moves."""

    def __init__(self) -> None:
        self.steady = 0.0
        self.wall = START.timestamp() * 1000

    def advance(self, ms: float) -> None:
        self.steady += ms
        self.wall += ms

    def options(self) -> Options:
        return Options(now=lambda: self.steady, wall=lambda: int(self.wall))  # type: ignore[arg-type, return-value]

    def after(self, **delta: float) -> datetime:
        return datetime.fromtimestamp(self.wall / 1000, UTC) + timedelta(**delta)


def test_a_document_is_there_until_it_is_deleted_and_readers_see_a_deletion() -> None:
    app, logins = app_with_logins()

    @app.computed
    def tokens() -> list[str]:
        return sorted(each.name for each in logins)

    with probe(app, start=START) as t:
        Login(name="a", until=START + timedelta(minutes=5))
        Login(name="b", until=START + timedelta(days=3))
        Login(name="c")
        t.advance("4m")
        assert tokens() == ["a", "b", "c"]
        t.advance("2m")
        assert tokens() == ["b", "c"]
        assert t.runs(tokens) == 2
        t.advance("4d")
        assert tokens() == ["c"]
        assert logins.where(Login.name == "a").first() is None


def test_after_counts_from_the_field() -> None:
    app = hw.App("site")
    visits = app.collection(Visit, expires=Visit.seen, after="30d")
    with probe(app, start=START) as t:
        Visit(seen=START)
        Visit(seen=START + timedelta(days=1))
        t.advance("30d")
        t.advance("1m")
        assert visits.count() == 1
        t.advance("1d")
        assert visits.count() == 0


def test_a_round_begins_once_a_minute_and_its_commits_have_pauses() -> None:
    app, _ = app_with_logins()
    clocks = Clocks()
    with app.open_with("memory:", clocks.options()) as space:
        storage = space._opening._lease.local
        calls: list[int] = []
        real = storage.expire

        def counted(at: ExpiryRound, now_ms: int) -> tuple[int, bool]:
            calls.append(int(clocks.steady))
            return real(at, now_ms)

        storage.expire = counted  # type: ignore[method-assign]
        expiry = expiry_of(storage, MAIN, lambda: clocks.steady, lambda: clocks.wall)
        assert expiry is not None
        with space.transaction():
            for number in range(EXPIRED_MAX + 1):
                Login(name=str(number), until=START)
        space.sync()
        waits: list[float] = []
        clocks.advance(MINUTE_MS)
        for _ in range(6):
            waits.append(expiry.step())
            assert waits[-1] == expiry.step(), "nothing happens before its time"
            clocks.advance(waits[-1])
        assert waits == [AGAIN_MS, AGAIN_MS, ROUND_MS, ROUND_MS, ROUND_MS, ROUND_MS]
        assert len(calls) == 6
        assert expiry.deleted == EXPIRED_MAX + 1


def test_two_programs_of_one_process_share_the_schedule(tmp_path: Path) -> None:
    one, _ = app_with_logins()
    other = hw.App("other")
    clocks = Clocks()
    url = tmp_path / "site.db"
    with one.open_with(url, clocks.options()) as first, other.open_with(url, clocks.options()) as second:
        schedules = {id(each._opening.expiry.schedule) for each in (first, second)}
        assert len(schedules) == 1
        assert first._opening.expiry.schedule is not None


def test_the_record_of_the_file_is_enough(tmp_path: Path) -> None:
    app, _ = app_with_logins()
    url = tmp_path / "site.db"
    with app.open(url):
        Login(name="a", until=START)
        Login(name="b", until=datetime(2999, 1, 1, tzinfo=UTC))
    blank = hw.App("blank")
    with blank.open(url) as space:
        space.settle()
        space.sync()
    app, logins = app_with_logins()
    with app.open(url) as space:
        assert [each.name for each in logins] == ["b"]


def test_false_ends_expiry(tmp_path: Path) -> None:
    url = tmp_path / "site.db"
    app, _ = app_with_logins()
    with app.open(url):
        pass
    app = hw.App("site")
    logins = app.collection(Login, expires=False)
    with app.open(url) as space:
        Login(name="a", until=START)
        assert space._opening.expiry.schedule is None
    with app.open(url) as space:
        space.settle()
        assert logins.count() == 1


def test_a_declaration_without_it_changes_nothing(tmp_path: Path) -> None:
    url = tmp_path / "site.db"
    app, _ = app_with_logins()
    with app.open(url):
        Login(name="a", until=START)
    app = hw.App("site")
    logins = app.collection(Login)
    with app.open(url) as space:
        space.settle()
        assert logins.count() == 0


def test_a_jump_of_the_clock_stops_it_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    app, logins = app_with_logins()
    clocks = Clocks()
    with app.open_with("memory:", clocks.options()) as space:
        expiry = space._opening.expiry.schedule
        assert expiry is not None
        Login(name="a", until=clocks.after(hours=12))
        Login(name="b", until=clocks.after(days=2))
        space.sync()
        clocks.advance(MINUTE_MS)
        space.settle()
        clocks.wall += 3 * DAY_MS
        with caplog.at_level(logging.ERROR, "headwater"):
            for _ in range(3):
                clocks.advance(MINUTE_MS)
                space.settle()
        assert logins.count() == 2
        [record] = caplog.records
        assert record.getMessage() == (
            "space 'main': the clock of this machine has jumped 3 days forward; no documents expire until it is set "
            "back, or until this program is started again"
        )
        assert expiry.is_stopped
        meta = space._opening._lease.local.call(lambda engine: engine.backend.meta(EXPIRY_STOPPED))
        assert meta == "3 days"
        clocks.wall -= 3 * DAY_MS
        clocks.advance(MINUTE_MS)
        space.settle()
        assert not expiry.is_stopped
        assert logins.count() == 2
        clocks.advance(DAY_MS)
        space.settle()
        space.settle()
        assert [each.name for each in logins] == ["b"]
        assert space._opening._lease.local.call(lambda engine: engine.backend.meta(EXPIRY_STOPPED)) == ""


@pytest.mark.parametrize("hours", [-72, -1, 1, 23])
def test_a_smaller_change_of_the_clock_does_not_stop_it(hours: int) -> None:
    app, logins = app_with_logins()
    clocks = Clocks()
    with app.open_with("memory:", clocks.options()) as space:
        Login(name="a", until=clocks.after(hours=max(hours, 0) - 0.5))
        space.sync()
        clocks.wall += hours * 3_600_000
        clocks.advance(MINUTE_MS)
        space.settle()
        space.settle()
        assert logins.count() == (1 if hours < 0 and clocks.after() < START - timedelta(minutes=30) else 0)


def test_a_disk_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    clocks = Clocks()

    class Failing:
        along: dict[str, object] = {}  # noqa: RUF012  # of one test
        name = "site"
        is_full = True

        def needs_retention(self, branch: BranchId, kept: Retention, now_ms: int) -> bool:
            assert (branch, kept, now_ms) == (MAIN, Retention(), int(clocks.wall))
            return False

        def retain(self, at: RetentionRound, kept: Retention, now_ms: int) -> tuple[int, bool]:
            raise AssertionError((at, kept, now_ms))

        def drop_sessions(self, kept: Retention, now_ms: int) -> int:
            raise AssertionError((kept, now_ms))

        def has_expiry(self, branch: BranchId) -> bool:
            return branch == MAIN

        def expire(self, at: ExpiryRound, now_ms: int) -> tuple[int, bool]:
            assert (at.branch, now_ms) == (MAIN, int(clocks.wall))
            if self.is_full:
                raise UnavailableError("the disk is full")
            return 0, True

        def set_property(self, key: str, value: str) -> None:
            assert (key, value) == (EXPIRY_STOPPED, "")

    storage = Failing()
    expiry = Expiry(storage, MAIN, lambda: clocks.steady, lambda: clocks.wall)
    assert expiry.step() == ROUND_MS
    assert "expired documents are not deleted now: HW201: the disk is full" in caplog.text
    storage.is_full = False
    clocks.advance(ROUND_MS)
    assert expiry.step() == ROUND_MS


def test_wrong_declarations_are_refused() -> None:
    app = hw.App("site")
    with pytest.raises(DeclarationError, match=r"HW110.*Login\.name is none; declare it as datetime"):
        app.collection(Login, expires=Login.name)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match=r"after='30d' counts from a field"):
        app.collection(Login, after="30d")
    with pytest.raises(DeclarationError, match=r"expires"):
        app.collection(Login, expires=Visit.seen)
    with pytest.raises(UsageError, match=r"after: 30 is no duration"):
        app.collection(Login, expires=Login.until, after=30)  # type: ignore[arg-type]


def test_in_an_event_loop_documents_expire_without_a_write() -> None:
    app, logins = app_with_logins()

    @app.computed
    async def tokens() -> list[str]:
        return sorted(each.name for each in logins)

    with probe(app, start=START, event_loop=True) as t:
        Login(name="a", until=START + timedelta(minutes=5))
        Login(name="c")
        assert logins.count() == 2
        t.advance("7m")
        assert logins.count() == 1
