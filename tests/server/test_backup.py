"""Copies of spaces that are in use: consistent, for owners only, and what becomes of clients when one is put back."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from headwater.cli.main import cli
from headwater.errors import AccessError, SessionLostError
from headwater.host.space_files import file_name, open_space
from headwater.host.storage import Storage
from headwater.server.pages import backup_page
from headwater.server.server import Server
from headwater.store.backend import LogRow
from headwater.store.backends import sqlite_file
from headwater.store.commit import SetDoc
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.sync.client_session import ClientPhase
from headwater.values.address import doc_key
from headwater.values.ids import Seq
from tests.server.running import DEADLINE_S, client, pages, served, settle_in, token_for, until, write

BACKUP = "/spaces/home/backup"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


def run(*args: object, exit: int = 0) -> Result:  # noqa: A002  # as the fixture of the command line's tests
    result = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert result.exit_code == exit, result.output
    return result


def log_of(storage: Storage) -> list[LogRow]:
    return storage.call(lambda engine: list(engine.backend.log(Seq(0), engine.head)))


def leftovers(store: Path) -> list[str]:
    return [path.name for path in store.iterdir() if path.name.startswith(".headwater")]


# --- what is in it --------------------------------------------------------------------------------------------


def test_a_backup_under_load_holds_a_beginning_of_the_log_and_nothing_else(
    server: Server, store: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In as many pieces as there are pages: commits come in between.
    monkeypatch.setattr(sqlite_file, "_COPY_PAGES", 1)
    stop = threading.Event()
    written: list[int] = []

    def load() -> None:
        with client(server.url) as ann:
            while not stop.is_set():
                written.append(write(ann, f"d{len(written) % 50}", len(written)))

    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(written) > 100, "they write")
        before = len(written)
        for round_ in range(3):
            run("backup", copy, "--force", "--url", f"{server.url}/home")
            assert len(written) > before, f"they wrote on, in round {round_}"
            before = len(written)
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE_S)
    server.stop()
    with open_space(str(copy), create=False) as copied, open_space(f"{store}{os.sep}", "home", create=False) as whole:
        assert copied.name == "home"
        assert not copied.call(verify).findings
        rows, all_rows = log_of(copied), log_of(whole)
    assert len(rows) >= 100
    assert rows == all_rows[: len(rows)]
    assert len(all_rows) > len(rows)


def test_nobody_waits_for_a_backup(server: Server, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two pieces commits are decided; each of them is in the copy, wherever it was copied already."""
    monkeypatch.setattr(sqlite_file, "_COPY_PAGES", 1)
    with client(server.url) as ann:
        for number in range(5):
            write(ann, f"d{number}", "x" * 50_000)
        step = Storage.call
        written: list[int] = []

        def slowly(storage: Storage, work: Callable[[Engine], object]) -> object:
            """A commit after each piece, acknowledged before the next."""
            if work.__name__ == "copy" and len(written) < 30:
                written.append(write(ann, "d0", len(written)))
            return step(storage, work)

        monkeypatch.setattr(Storage, "call", slowly)
        run("backup", copy, "--url", f"{server.url}/home")
        monkeypatch.setattr(Storage, "call", step)
    assert len(written) == 30
    with open_space(str(copy), create=False) as copied:
        assert copied.call(lambda engine: engine.head) == written[-1]
        assert not copied.call(verify).findings


def test_what_was_acknowledged_before_it_is_in_it(server: Server, copy: Path) -> None:
    with client(server.url) as ann:
        for number in range(10):
            write(ann, "a", number)
            with pages(server, token_for(server, "home", "own")) as owner:
                answer = owner.get(BACKUP)
            assert int(answer.headers["headwater-seq"]) == number + 1
            assert len(answer.content) == int(answer.headers["content-length"])
            copy.write_bytes(answer.content)
            with open_space(str(copy), create=False) as copied:
                assert copied.call(lambda engine: engine.head) == number + 1


def test_the_command_tells_how_far_it_goes_and_the_result_is_a_space(server: Server, copy: Path) -> None:
    with client(server.url) as ann:
        write(ann, "a", 1)
        write(ann, "b", 2)
    assert '"seq": 2' in run("backup", copy, "--json", "--url", f"{server.url}/home").stdout
    assert copy.stat().st_mode & 0o077 == 0
    assert run("get", "b", "--url", copy).stdout == "2\n"
    run("verify", "--url", copy)
    assert "exists" in run("backup", copy, "--url", f"{server.url}/home", exit=4).stderr
    run("backup", copy, "--force", "--url", f"{server.url}/home")


# --- who gets one ---------------------------------------------------------------------------------------------


def test_only_who_owns_a_space_gets_a_copy(server: Server, copy: Path, tmp_path: Path) -> None:
    with client(server.url) as ann:
        write(ann, "a", 1)
    for can, status in (("read", 403), ("write", 403), ("own", 200)):
        with pages(server, token_for(server, "home", can)) as asking:
            assert asking.get(BACKUP).status_code == status
    with pages(server, token_for(server, "other", "own")) as asking:
        assert asking.get(BACKUP).status_code == 404
    file = tmp_path / "token"
    file.write_text(token_for(server, "home", "write") + "\n")
    told = run("backup", copy, "--url", f"{server.url}/home", "--token-file", file, exit=1).stderr
    assert "the right to own the space is missing" in told
    assert not copy.exists()


def test_that_somebody_took_a_copy_is_written_down(server: Server, store: Path) -> None:
    with client(server.url) as ann:
        write(ann, "a", 1)
    with pages(server, token_for(server, "home", "own")) as owner:
        assert owner.head(BACKUP).status_code == 405
        assert owner.get(BACKUP).status_code == 200
    [grant] = server.access.ls()
    lines = [json.loads(line) for line in (store / "audit.jsonl").read_text().splitlines()]
    [taken] = [line for line in lines if line["event"] == "backup"]
    assert {"space": "home", "id": grant.id, "seq": 1, "peer": "127.0.0.1"}.items() <= taken["facts"].items()


def test_a_space_that_is_not_there_has_none_and_is_not_made(server: Server, store: Path, copy: Path) -> None:
    run("backup", copy, "--url", f"{server.url}/nowhere", exit=1)
    assert not copy.exists()
    assert not list(store.glob("*.db"))


def test_who_loses_the_right_meanwhile_gets_no_more_of_it(
    server: Server, store: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_page, "CHUNK", 1024)
    with client(server.url) as ann:
        write(ann, "a", "x" * 500_000)
    token = token_for(server, "home", "own")
    [grant] = server.access.ls()
    pread = os.pread

    def reading(file: int, size: int, at: int) -> bytes:
        if at == 10 * 1024 and server.access.ls():
            server.access.revoke(grant.id)
        return pread(file, size, at)

    monkeypatch.setattr(os, "pread", reading)
    with pages(server, token) as asking, pytest.raises(httpx.RemoteProtocolError):
        asking.get(BACKUP)
    until(lambda: not leftovers(store), "nothing is left")
    monkeypatch.setenv("HEADWATER_TOKEN", token)
    run("backup", copy, "--url", f"{server.url}/home", exit=1)
    assert not copy.exists()


# --- what is left ---------------------------------------------------------------------------------------------


def test_who_goes_away_leaves_nothing_behind(server: Server, store: Path) -> None:
    with client(server.url) as ann:
        # More than sockets hold.
        for number in range(10):
            write(ann, f"d{number}", os.urandom(500_000).hex())
    token = token_for(server, "home", "own")
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as asking:
        asking.sendall(f"GET {BACKUP} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        assert asking.recv(100).startswith(b"HTTP/1.1 200")
        assert not leftovers(store), "what is sent has no name any more"
    assert server.authenticator is not None
    # Two may be under way: if one of them were not over, the third would be refused.
    for _ in range(3):
        with pages(server, token) as again:
            until(lambda again=again: again.get(BACKUP).status_code == 200, "there is room for another")  # type: ignore[misc]
    traffic = server.authenticator.traffic
    until(lambda: traffic.backups == 3, "these were sent to the end, and the first was not")


def test_only_so_many_are_under_way(server: Server) -> None:
    with client(server.url) as ann:
        for number in range(10):
            write(ann, f"d{number}", os.urandom(500_000).hex())
    token = token_for(server, "home", "own")
    with pages(server, token) as first, pages(server, token) as second, pages(server, token) as third:
        with first.stream("GET", BACKUP) as one, second.stream("GET", BACKUP) as two:
            assert one.status_code == two.status_code == 200
            answer = third.get(BACKUP)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        until(lambda: third.get(BACKUP).status_code == 200, "the others are over")


def test_what_a_killed_server_has_left_is_swept_away(store: Path) -> None:
    store.mkdir()
    for name in (".headwater-backup-1-abc.part", ".headwater-backup-1-abc.part-journal"):
        (store / name).write_bytes(b"half of it")
    with served(store):
        assert not leftovers(store)


def test_a_backup_that_is_broken_off_is_none(
    server: Server, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_page, "CHUNK", 1024)
    with client(server.url) as ann:
        write(ann, "a", "x" * 500_000)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: b"" if at == 10 * 1024 else pread(file, size, at))
    told = run("backup", copy, "--url", f"{server.url}/home", exit=1).stderr
    assert "was broken off after 10,240 of" in told
    assert not copy.exists()
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".headwater")]


# --- putting it back ------------------------------------------------------------------------------------------


def test_clients_that_saw_more_are_told_when_an_older_state_is_put_back(store: Path, copy: Path) -> None:
    with served(store) as first:
        port = first.port
        with client(first.url) as ann:
            write(ann, "a", 1)
            run("backup", copy, "--url", f"{first.url}/home")
            write(ann, "a", 2)
            first.stop()
            run("restore", copy, "--force", "--url", f"{store}{os.sep}", "--space", "home")
            with served(store, port=port):
                check_told(ann)
                with client(f"ws://127.0.0.1:{port}") as bob:
                    assert bob.read(doc_key("a")) == 1


def test_they_are_told_also_if_others_have_written_as_much_meanwhile(store: Path, copy: Path) -> None:
    """Numbers of the log alone would not tell: what she has seen as 3 is something else by now."""
    with served(store) as first:
        port = first.port
        with client(first.url) as ann:
            write(ann, "a", 1)
            run("backup", copy, "--url", f"{first.url}/home")
            write(ann, "a", 2)
            write(ann, "a", 3)
            first.stop()
            run("restore", copy, "--force", "--url", f"{store}{os.sep}", "--space", "home")
            # Somewhere else at first, so that she cannot come before they have.
            with served(store) as elsewhere, client(elsewhere.url) as bob:
                for number in range(10, 15):
                    write(bob, "a", number)
            with served(store, port=port):
                check_told(ann)


def check_told(ann: object) -> None:
    link = ann._storage.link  # type: ignore[attr-defined]  # of a client
    until(lambda: link.phase is ClientPhase.OVER, "she was told")
    assert isinstance(link.session.error, SessionLostError)
    assert link.session.error.code == "HW404"
    with pytest.raises(SessionLostError):
        write(ann, "a", 4)  # type: ignore[arg-type]  # as above


def test_a_space_that_was_only_backed_up_goes_on(store: Path, copy: Path) -> None:
    with served(store) as first:
        port = first.port
        with client(first.url) as ann:
            write(ann, "a", 1)
            run("backup", copy, "--url", f"{first.url}/home")
            first.stop()
            with served(store, port=port):
                assert write(ann, "a", 2) == 2


def test_a_backup_is_put_into_the_folder_of_a_stopped_server_under_any_name(store: Path, copy: Path) -> None:
    with served(store) as server, client(server.url) as ann:
        write(ann, "a", 1)
        run("backup", copy, "--url", f"{server.url}/home")
        # While it is open it is not replaced.
        refused = run("restore", copy, "--force", "--url", f"{store}{os.sep}", "--space", "home", exit=4)
        assert "is open in" in refused.stderr
    run("restore", copy, "--url", f"{store}{os.sep}", "--space", "again")
    assert (store / file_name("again")).exists()
    with served(store) as server, client(server.url, "again") as ann:
        assert ann.read(doc_key("a")) == 1


def test_whoever_may_not_open_a_space_learns_nothing_of_its_past(store: Path) -> None:
    with (
        served(store, create=False) as server,
        pytest.raises(AccessError),
        client(server.url, "home", token=token_for(server, "other", "own")) as ann,
    ):
        ann.commit([SetDoc(doc_key("a"), 1)])


def test_a_space_that_is_closed_just_then_is_opened_again(server: Server, store: Path) -> None:
    with client(server.url) as ann:
        write(ann, "a", 1)
    spaces = server.spaces
    assert spaces is not None
    channel = spaces.channels["home"]
    until(lambda: not channel.connections, "she has left")
    # As when nobody was there for a while, between two steps of whoever wants a copy.
    channel.close()
    opened: list[str] = []

    def forget(space: str, *, create: bool) -> Storage:
        opened.append(space)
        return real(space, create=create)

    real, spaces._opened = spaces._opened, forget  # type: ignore[method-assign]
    spaces._loop.call_soon_threadsafe(spaces._loop.call_later, 0.05, spaces.channels.pop, "home", None)
    with pages(server, token_for(server, "home", "own")) as owner:
        until(lambda: owner.get(BACKUP).status_code == 200, "it is opened again")
    assert opened == ["home"]
    assert not leftovers(store)
