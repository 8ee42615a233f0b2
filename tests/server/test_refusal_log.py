"""Who was refused stands in the audit log, and a flood of them pushes nothing out of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path

import pytest

import headwater as hw
from headwater.access.audit_check import examine
from headwater.access.audit_log import AuditEntry, AuditLog
from headwater.access.refusal_log import FIRST_S, KNOWN_MAX, LAST_S, LINE_S, LINES_BURST, SEVERAL, RefusalLog
from headwater.access.rights import Right
from headwater.errors import AccessError
from headwater.testing.sim_clock import SimClock
from tests.server.running import client, pages, served, settle_in, token_for

WRONG = "hw_" + "0" * 43


class SimTimer:
    def __init__(self, at: float, do: Callable[[], object]) -> None:
        self.at, self.do, self.is_off = at, do, False

    def cancel(self) -> None:
        self.is_off = True


class SimTimers:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[SimTimer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[Hashable], object], argument: Hashable, /) -> SimTimer:
        timer = SimTimer(self.now + delay, lambda: callback(argument))
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [each for each in self.timers if each.at <= end and not each.is_off]:
            first = min(due, key=lambda each: each.at)
            self.timers.remove(first)
            self.now = first.at
            first.do()
        self.now = end


@pytest.fixture
def loop() -> SimTimers:
    return SimTimers()


@pytest.fixture
def away(tmp_path: Path, loop: SimTimers) -> RefusalLog:
    return RefusalLog(AuditLog(tmp_path, SimClock()), loop)


def lines(folder: Path) -> list[AuditEntry]:
    report = examine(folder)
    assert report.bad is None
    return list(report.entries)


def counts(folder: Path) -> list[object]:
    return [each.facts.get("more", 0) for each in lines(folder)]


def test_the_first_is_told_at_once_and_then_how_often(tmp_path: Path, away: RefusalLog, loop: SimTimers) -> None:
    for _ in range(500):
        away.tell("refused", ("a", 401), peer="a", why="wrong")
    assert counts(tmp_path) == [0]
    loop.advance(FIRST_S)
    assert counts(tmp_path) == [0, 499]
    assert lines(tmp_path)[1].facts == {"peer": "a", "why": "wrong", "more": 499}
    loop.advance(10 * LAST_S)
    away.tell("refused", ("a", 401), peer="a", why="wrong")
    assert counts(tmp_path) == [0, 499, 0]


def test_each_address_and_each_kind_has_a_line(tmp_path: Path, away: RefusalLog) -> None:
    for kind in (("a", 401), ("a", 403), ("b", 401), ("a", 401)):
        away.tell("refused", kind, peer=kind[0], status=kind[1])
    assert [(each.facts["peer"], each.facts["status"]) for each in lines(tmp_path)] == [
        ("a", 401),
        ("a", 403),
        ("b", 401),
    ]


def test_a_day_of_knocking_is_some_lines_and_every_one_is_counted(
    tmp_path: Path, away: RefusalLog, loop: SimTimers
) -> None:
    for _ in range(86_400):
        away.tell("refused", "a", peer="a")
        loop.advance(1)
    away.finish()
    assert len(counts(tmp_path)) < 40
    assert sum(int(str(each)) for each in counts(tmp_path)) + 1 == 86_400


def test_many_addresses_are_counted_as_one_when_there_are_too_many(
    tmp_path: Path, away: RefusalLog, loop: SimTimers
) -> None:
    for peer in range(KNOWN_MAX * 3):
        away.tell("refused", peer, peer=str(peer))
    found = lines(tmp_path)
    assert len(found) == LINES_BURST + 1
    assert found[-1].facts["peer"] == SEVERAL
    loop.advance(FIRST_S)
    assert lines(tmp_path)[-1].facts["more"] == KNOWN_MAX * 3 - LINES_BURST - 1
    # Later, somebody new has a line again.
    loop.advance(LINE_S)
    away.tell("refused", "late", peer="late")
    assert lines(tmp_path)[-1].facts == {"peer": "late"}


def test_what_was_only_counted_is_told_at_the_end(tmp_path: Path, away: RefusalLog, loop: SimTimers) -> None:
    for _ in range(3):
        away.tell("refused", "a", peer="a")
    away.finish()
    loop.advance(LAST_S)
    assert counts(tmp_path) == [0, 2]


# --- a server ---------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def own_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir(mode=0o700)
    return tmp_path / "store"


def of(folder: Path, event: str) -> list[dict[str, object]]:
    return [each.facts for each in lines(folder) if each.event == event]


def test_wrong_tokens_stand_in_the_audit_log_once_and_counted(store: Path) -> None:
    with served(store) as server:
        for _ in range(5):
            with pytest.raises(AccessError), client(server.url, token=WRONG):
                pass
        first = of(store, "refused")
    assert [(each["status"], each["id"]) for each in first] == [(401, None)]
    assert WRONG not in (store / "audit.jsonl").read_text()
    assert [each.get("more") for each in of(store, "refused")] == [None, 4]


def test_pages_of_other_places_and_tokens_of_pages_stand_there_too(store: Path) -> None:
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "headwater.v1",
    }
    with served(store) as server:
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            with pages(server, **upgrade, **headers) as visitor:
                visitor.get("/")
        with pages(server, WRONG) as visitor:
            assert visitor.get("/spaces/home/backup").status_code == 401
        assert sorted(str(each["status"]) for each in of(store, "refused")) == ["401", "403", "421"]


def test_an_expired_token_is_named_by_its_id(store: Path) -> None:
    with served(store) as server:
        token, grant = server.access.create(space="home", can=Right.OWN, lasts_ms=1)
        with pytest.raises(AccessError), client(server.url, token=token):
            pass
        assert [each["id"] for each in of(store, "refused")] == [grant.id]


def test_whoever_comes_is_told_of_with_the_id_of_the_grant(store: Path) -> None:
    with served(store) as server:
        token, grant = server.access.create(space="home", can=Right.OWN, actor="ann")
        with client(server.url, token=token), client(server.url, actor="bob"):
            pass
        with pytest.raises(AccessError), client(server.url, "other", token=token):
            pass
        with pytest.raises(AccessError), client(server.url, token=token, actor="bob"):
            pass
        assert [(each["id"], each["actor"]) for each in of(store, "opened")] == [(grant.id, "ann"), ("local", "bob")]
        assert [(each["id"], each["space"]) for each in of(store, "refused")] == [
            (grant.id, "other"),
            (grant.id, "home"),
        ]


def test_commands_without_the_right_stand_there_once_for_a_session(store: Path) -> None:
    with served(store) as server:
        app = hw.App("desk")
        note = app.cell("note", "")
        with app.open(f"{server.url}/home"):
            pass
        token = token_for(server, "home", "read", "eve")
        for _ in range(2):
            with app.open(f"{server.url}/home", token=token) as space:
                for number in range(3):
                    note.value = str(number)
                    with pytest.raises(hw.errors.RejectedError):
                        space.sync()
        found = of(store, "denied")
        assert [(each["actor"], each["asked"], each["space"]) for each in found] == [("eve", "transact", "home")] * 2
