"""Connections that are cut in the middle of it: everything is decided once, and nobody is shown what was never so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.client import server_link as links
from headwater.errors import OfflineError
from headwater.host.plain_space import Space
from headwater.runtime.type_records import PREFIX
from headwater.sync.client_session import ClientSession
from headwater.sync.frames import Docs, read_server
from headwater.values.codec import encode
from headwater.values.tree import ABSENT
from tests.client.world import Behind, Counter, behind, settled, state_is, storage_of
from tests.server.running import settle_in, until

COMMITS = 200


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


def held(space: Space) -> dict[str, bytes]:
    """Every confirmed document of a replica, as bytes; not what an app declares, which only its first client reads."""
    return {
        doc: encode(record.confirmed)
        for doc, record in space._opening.runtime.attached._documents.items()
        if record.confirmed is not ABSENT and PREFIX not in doc
    }


class Ledger:
    """A program in which every write can be told from every other."""

    def __init__(self) -> None:
        app = self.app = hw.App("ledger")
        self.entries = app.cell("entries", list[int]())
        self.total = app.cell("total", 0)
        self.called: list[int] = []
        self.totals: list[int] = []

        @app.sink
        def show() -> None:
            self.totals.append(self.total.value)

        @app.handler
        def book(number: int) -> int:
            self.entries.append(number)
            self.total.value += 1
            hw.after_commit(lambda: self.called.append(number))
            return number

        self.book = book


def test_a_function_that_could_not_read_a_document_runs_again_when_the_server_is_back(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, seen, told = hw.App("far"), list[int](), list[Exception]()
    which = app.cell("which", 0)

    @app.sink
    def show() -> None:
        seen.append(space.cell(f"loose{which.value}", int).value if which.value else 0)

    with hw.App("owner").open(at.straight) as other:
        other.cell("loose1", int).value = 41
    with app.open(at.url, token=at.token, on_error=told.append) as space:
        at.go_away()
        state_is(space, "offline")
        with monkeypatch.context() as patience:
            patience.setattr(links, "PATIENCE_S", 0.2)
            which.value = 1
            space.settle()
        assert seen == [0]
        assert [type(each.__cause__) for each in told] == [OfflineError]
        at.come_back()
        state_is(space, "live")
        space.settle()
        assert seen == [0, 41]
        assert len(told) == 1


@pytest.mark.parametrize("after", [1, 700, 3000, 9000])
@pytest.mark.parametrize("is_local", [True, False])
def test_commits_that_are_cut_in_the_middle_are_decided_once(
    at: Behind, tmp_path: Path, after: int, *, is_local: bool
) -> None:
    mine, theirs = Ledger(), Ledger()
    with (
        mine.app.open(at.url, token=at.token, actor="ann", local=tmp_path / "local" if is_local else None) as space,
        theirs.app.open(at.straight, actor="bob") as beside,
    ):
        at.proxy.cut_after(after)
        for number in range(COMMITS):
            mine.book.send(number)
        until(lambda: space.connection.tries > 1, "it was cut")
        space.sync()
        until(lambda: not space.connection.pending, "all are decided")
        space.settle()
        assert mine.entries.value == list(range(COMMITS))
        assert mine.total.value == COMMITS
        beside.settle()
        until(lambda: settled(beside) and theirs.total.value == COMMITS, "the other has heard")
        assert held(space) == held(beside)
    assert sorted(mine.called) == list(range(COMMITS))
    # Not one value that was never so: each step is one more than the last.
    assert mine.totals == sorted(set(mine.totals))


@pytest.mark.parametrize("cuts", [1, 5])
def test_a_counter_never_shows_a_wrong_value_however_often_it_is_cut(at: Behind, cuts: int) -> None:
    counter = Counter()
    with counter.open(at) as space:
        for number in range(COMMITS):
            counter.count.value += 1
            if number % (COMMITS // cuts) == COMMITS // cuts // 2:
                tries = space.connection.tries
                at.proxy.cut()
                if number % 2:
                    until(lambda tries=tries: space.connection.tries > tries, "it has come again")  # type: ignore[misc]
        space.sync()
    assert counter.shown == list(range(COMMITS + 1))


def test_what_another_writes_meanwhile_is_shown_in_one_step(at: Behind) -> None:
    app = hw.App("pair")
    left, right = app.cell("left", 0), app.cell("right", 0)
    seen: list[tuple[int, int]] = []

    @app.sink
    def show() -> None:
        seen.append((left.value, right.value))

    other = hw.App("pair")
    other_left, other_right = other.cell("left", 0), other.cell("right", 0)
    with app.open(at.url, token=at.token, actor="ann") as space, other.open(at.straight, actor="bob") as beside:
        at.go_away()
        state_is(space, "offline")
        for number in range(1, 6):
            with beside.transaction():
                other_left.value = other_right.value = number
        beside.sync()
        at.come_back()
        until(lambda: settled(space) and left.value == 5, "it has caught up")
        assert seen == [(0, 0), (5, 5)]


def test_after_a_cut_only_what_has_changed_is_sent_again(at: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    app = hw.App("many")
    cells = [app.cell(f"c{number}", 0) for number in range(100)]
    other = hw.App("many")
    others = [other.cell(f"c{number}", 0) for number in range(100)]
    with other.open(at.straight, actor="bob") as beside:
        for cell in others:
            cell.value = 1
        beside.sync()
        sent: list[int] = []
        receive = ClientSession.receive

        def counting(self: ClientSession, data: bytes) -> None:
            frame = read_server(data)
            if isinstance(frame, Docs):
                sent.append(len(frame.docs) + len(frame.newer))
            receive(self, data)

        with app.open(at.url, token=at.token, actor="ann") as space:
            assert sum(cell.value for cell in cells) == 100
            session = storage_of(space).link.session
            monkeypatch.setattr(session, "receive", counting.__get__(session))
            at.go_away()
            state_is(space, "offline")
            for cell in others[:3]:
                cell.value = 2
            beside.sync()
            at.come_back()
            until(lambda: settled(space) and sum(cell.value for cell in cells) == 103, "it has caught up")
            assert sent == [3]


def test_a_connection_that_is_half_open_is_given_up_and_made_anew(at: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.client.client_socket.QUIET_S", 0.2)
    monkeypatch.setattr("headwater.client.client_socket.PONG_S", 0.2)
    counter = Counter()
    with counter.open(at) as space:
        at.proxy.freeze(True)
        counter.count.value = 1
        # Nobody has ended it; but nothing comes.
        until(lambda: space.connection.tries > 1, "it was given up")
        at.proxy.freeze(False)
        space.sync()
        assert counter.shown == [0, 1]


def test_slow_lines_change_nothing_but_the_time_it_takes(at: Behind) -> None:
    counter, other = Counter(), Counter()
    with counter.open(at) as space, other.app.open(at.straight, actor="bob") as beside:
        at.proxy.delay(0.02)
        for _ in range(50):
            counter.count.value += 1
        space.sync()
        until(lambda: settled(beside) and other.count.value == 50, "the other has heard")
        assert counter.shown == list(range(51))
        assert held(space) == held(beside)
