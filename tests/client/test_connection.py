"""`space.connection`: how it stands, through everything that happens to a connection; and what programs see of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

import headwater as hw
from headwater.access.keys import generate, public_of, write_private_key
from headwater.access.rights import Right
from headwater.client import server_link as links
from headwater.client.client_folder import ClientFolder
from headwater.errors import (
    AccessError,
    ConflictError,
    EventTimeoutError,
    HeadwaterError,
    OfflineError,
    SessionLostError,
    UsageError,
)
from headwater.sync.client_session import ClientPhase
from tests.client.world import SPACE, Behind, Counter, behind, state_is, storage_of
from tests.server.running import ServeProcess, settle_in, token_for, until


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


def test_a_space_in_this_process_is_local_for_ever() -> None:
    counter = Counter()
    with counter.app.open("memory:") as space:
        assert space.connection.state == "local"
        assert space.connection
        space.on_connection(pytest.fail)()
        counter.count.value = 1


def test_every_change_of_the_connection_is_told(at: Behind) -> None:
    counter = Counter()
    with counter.open(at) as space:
        told: list[hw.Connection] = []
        end = space.on_connection(told.append)
        found = space.connection
        assert (found.state, found.actor, found.can, found.pending) == ("live", "ann", "own", 0)
        at.go_away()
        state_is(space, "offline")
        assert not space.connection
        assert space.connection.trouble
        counter.count.value = 1
        assert space.connection.pending == 1
        at.come_back()
        state_is(space, "live")
        space.sync()
        assert space.connection.pending == 0
        # Each try that fails is told as well; how it stands is what counts.
        states = [each.state for each in told]
        assert states[0] == "offline"
        assert states[-1] == "live"
        assert set(states) == {"offline", "live"}
        end()
        at.proxy.cut()
        until(lambda: space.connection.tries > told[-1].tries and space.connection.state == "live", "it is back")
        assert len(told) == len(states)


def test_a_function_that_is_told_and_raises_stops_nothing(at: Behind, caplog: pytest.LogCaptureFixture) -> None:
    counter = Counter()
    with counter.open(at) as space:

        def bad(_: hw.Connection) -> None:
            raise ValueError("mine")

        space.on_connection(bad)
        with pytest.raises(UsageError):
            space.on_connection("no function")  # type: ignore[arg-type]
        at.proxy.cut()
        until(lambda: space.connection.tries > 1 and space.connection.state == "live", "it is back")
        counter.count.value = 1
        space.sync()
    assert "on_connection" in caplog.text


def test_a_server_that_was_killed_and_started_again_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(tmp_path, monkeypatch)
    counter = Counter()
    (tmp_path / "store").mkdir()
    token = token_for(tmp_path / "store", SPACE, "own")
    with ServeProcess(tmp_path / "store") as server:
        space = counter.app.open(f"{server.url}/{SPACE}", token=token, actor="ann")
        counter.count.value = 1
        space.sync()
        port = server.port
        server.end(9)
        server.wait()
    state_is(space, "offline")
    counter.count.value = 2
    with ServeProcess(tmp_path / "store", port=port):
        state_is(space, "live")
        space.sync()
        assert space.connection.pending == 0
        assert counter.shown == [0, 1, 2]
        space.close()


def test_who_is_revoked_is_over_and_what_was_written_is_taken_back(at: Behind) -> None:
    token, grant = at.server.access.create(space=SPACE, can=Right.WRITE, any_actor=True)
    counter = Counter()
    space = counter.app.open(at.url, token=token, actor="eve")
    counter.count.value = 1
    space.sync()
    at.server.access.revoke(grant.id)
    is_taken = False
    with suppress(SessionLostError):  # on a busy machine it may be known before the write
        counter.count.value = 2
        is_taken = True
    until(lambda: space.connection.state == "over", "it is over")
    assert space.connection.trouble
    with pytest.raises(HeadwaterError) if is_taken else nullcontext():
        space.close()
    # The other value may have been shown, or was taken back before anybody looked.
    assert [each for each in counter.shown if each != 2][:2] == [0, 1]
    assert counter.shown[-1] == 1


def test_who_is_taken_over_is_over(at: Behind, tmp_path: Path) -> None:
    counter = Counter()
    space = counter.open(at, local=tmp_path / "local")
    opened = storage_of(space).link.session.opened
    copy = ClientFolder(tmp_path / "copy", SPACE, f"ws://127.0.0.1:{at.proxy.port}", "main", "counter", "ann")
    for _ in range(3):
        # It has been opened more often than the other: it is the one that goes on.
        copy.load()
    copy.keep_session(opened, space.branch, ())
    copy.flush()
    copy.close()
    other = Counter()
    with other.open(at, local=tmp_path / "copy"):
        state_is(space, "over")
        with pytest.raises(HeadwaterError, match="another connection"):
            counter.count.value = 1
        # Nobody could ever decide it: it never was.
        assert counter.count.value == 0
    space.close()


def test_a_wrong_token_is_told_at_once(at: Behind) -> None:
    with pytest.raises(AccessError):
        Counter().app.open(at.url, token="hw_" + "x" * 43, actor="ann")


def test_the_token_of_the_environment_is_shown(at: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_TOKEN", token_for(at.server, SPACE, "read", actor="cid"))
    with Counter().app.open(at.url) as space:
        assert (space.connection.actor, space.connection.can) == ("cid", "read")


def test_a_private_key_in_a_file_lets_in_and_again_after_a_cut(at: Behind, tmp_path: Path) -> None:
    private = generate()
    write_private_key(tmp_path / "ann.key", private)
    at.server.access.add_key(public_of(private), space=SPACE, can=Right.WRITE, actor="ann")
    counter = Counter()
    with counter.app.open(at.url, key=tmp_path / "ann.key") as space:
        assert (space.connection.actor, space.connection.can) == ("ann", "write")
        at.proxy.cut()
        counter.count.value = 1
        space.sync()
        assert space.connection.tries == 2
    with pytest.raises(UsageError, match="give one"):
        counter.app.open(at.url, key=tmp_path / "ann.key", token=at.token)
    with pytest.raises(UsageError, match="keygen"):
        counter.app.open(at.url, key=tmp_path / "none.key")
    other = generate()
    write_private_key(tmp_path / "other.key", other)
    with pytest.raises(AccessError):
        counter.app.open(at.url, key=tmp_path / "other.key")


def test_what_is_for_servers_is_refused_elsewhere(tmp_path: Path) -> None:
    for options in ({"key": tmp_path / "k"}, {"local": tmp_path / "l"}, {"token": "hw_x"}):
        with pytest.raises(UsageError, match="for servers"):
            Counter().app.open("memory:", **options)  # type: ignore[arg-type]


def test_a_conflict_takes_back_a_transaction_and_runs_a_handler_again(at: Behind) -> None:
    counter, other = Counter(), Counter()
    with counter.open(at) as space, other.app.open(at.straight, actor="bob") as beside:
        at.proxy.freeze(True)
        with space.transaction():
            counter.count.value += 1
        assert counter.shown == [0, 1]
        other.count.value = 10
        beside.sync()
        at.proxy.freeze(False)
        with pytest.raises(ConflictError):
            space.sync()
        assert counter.shown == [0, 1, 10]
        at.proxy.freeze(True)
        ticket = counter.add.send(5)
        space.settle()
        assert counter.shown == [0, 1, 10, 15]
        other.count.value = 20
        beside.sync()
        at.proxy.freeze(False)
        assert ticket.result("20s") == 25
        assert counter.shown == [0, 1, 10, 15, 20, 25]
        assert space.runs(counter.add) == 2


def test_an_event_outlives_a_result_that_was_not_waited_for_to_the_end(at: Behind) -> None:
    counter = Counter()
    with counter.open(at) as space:
        at.go_away()
        state_is(space, "offline")
        ticket = counter.add.send(3)
        begun = time.monotonic()
        with pytest.raises(EventTimeoutError):
            ticket.result("100ms")
        assert time.monotonic() - begun < 5
        assert counter.count.value == 3
        at.come_back()
        assert ticket.result("20s") == 3
        space.sync()
    other = Counter()
    with other.app.open(at.straight, actor="bob"):
        assert other.count.value == 3


@pytest.mark.parametrize("is_kept", [True, False])
def test_closing_while_the_server_is_away_says_how_much_is_lost_unless_it_is_kept(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> None:
    monkeypatch.setattr(links, "PATIENCE_S", 0.3)
    counter = Counter()
    space = counter.open(at, local=tmp_path / "local" if is_kept else None)
    at.go_away()
    state_is(space, "offline")
    for _ in range(4):
        counter.count.value += 1
    if is_kept:
        # Nothing is lost, and nobody is waited for.
        monkeypatch.setattr(links, "PATIENCE_S", 600)
        space.close()
    else:
        with pytest.raises(OfflineError, match="4 commits wait for it, and are lost"):
            space.close()
    assert space.closed
    at.come_back()
    again = Counter()
    with again.open(at, local=tmp_path / "local" if is_kept else None):
        assert again.shown == [4 if is_kept else 0]


def test_closing_does_not_wait_for_ever_for_a_server_that_has_stopped_answering(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "STALL_S", 0.3)
    counter = Counter()
    space = counter.open(at)
    at.proxy.freeze(True)
    counter.count.value = 1
    assert storage_of(space).link.phase is ClientPhase.LIVE
    with pytest.raises(OfflineError, match="said nothing"):
        space.close()
    at.proxy.freeze(False)
