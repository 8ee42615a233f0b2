"""A server in need: no room for a backup or for the audit log, files that are links, memory of clients that left."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import pytest

from headwater.access import audit_check
from headwater.access.audit_log import AuditLog
from headwater.access.local_token import find_local
from headwater.errors import AccessError, HeadwaterError, StoreFullError, UnavailableError
from headwater.host.system_clock import SystemClock
from headwater.machine import File
from headwater.server.pages import backup_page
from headwater.server.server import Server, Serving
from tests.server.running import client, pages, settle_in, until, write


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["session.key", "audit.jsonl", "audit.lock", "access.json"])
@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_server_whose_files_are_links_does_not_start(tmp_path: Path, name: str, *, is_dangling: bool) -> None:
    store, elsewhere = tmp_path / "spaces", tmp_path / "elsewhere"
    store.mkdir(mode=0o700)
    if not is_dangling:
        elsewhere.write_bytes(b"x" * 32)
        elsewhere.chmod(0o600)
    (store / name).symlink_to(elsewhere)
    before = elsewhere.read_bytes() if elsewhere.exists() else None
    with pytest.raises(UnavailableError, match="symbolic link"), Server(Serving(store=store, port=0)):
        pass
    assert (elsewhere.read_bytes() if elsewhere.exists() else None) == before


def own_token(server: Server) -> str:
    local = find_local("127.0.0.1", server.port)
    assert local is not None
    return local.token


def test_a_backup_is_made_elsewhere_if_there_is_no_room_beside_the_spaces(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client(server.url) as replica:
        write(replica, "a", 1)
    asked: list[Path] = []
    copied = backup_page._copied

    async def refuse_first(channel: object, path: Path) -> tuple[File, int]:
        asked.append(path.parent)
        if len(asked) == 1:
            raise StoreFullError("no room")
        return await copied(channel, path)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(backup_page, "_copied", refuse_first)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(elsewhere))
    with pages(server, own_token(server)) as web:
        answer = web.get("/spaces/home/backup")
    assert answer.status_code == 200
    assert answer.content.startswith(b"SQLite format 3")
    assert asked == [server.options.store, elsewhere]
    assert not list(elsewhere.iterdir()), "nothing of it is left"


def test_a_backup_for_which_there_is_no_room_anywhere_says_so(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(server.url) as replica:
        write(replica, "a", 1)

    async def refuse(_room: object, _path: Path) -> tuple[File, int]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup_page, "_copied", refuse)
    with pages(server, own_token(server)) as web:
        answer = web.get("/spaces/home/backup")
    assert (answer.status_code, answer.json()["code"]) == (507, "HW203")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (507, b'{"error": "no room", "code": "HW203"}', StoreFullError),
        (500, b"oh", UnavailableError),
        (502, b"a proxy", UnavailableError),
        (503, b'{"error": "later"}', UnavailableError),
        (404, b'{"error": "there is no such space", "code": "HW403"}', AccessError),
        (403, b"[]", AccessError),
    ],
)
def test_a_backup_that_is_not_given_has_the_error_of_the_server(
    status: int, body: bytes, kind: type[HeadwaterError]
) -> None:
    from headwater.client.server_pages import refusal
    from headwater.client.server_url import parse_server

    class Response:
        reason = "so"

        def __init__(self) -> None:
            self.status = status

        def read(self, _most: int) -> bytes:
            return body

    url = parse_server("ws://somewhere/home")
    assert type(refusal(url, Response(), "no backup")) is kind  # type: ignore[arg-type]  # as much as is read of it


def test_no_session_is_opened_that_is_not_in_the_audit_log(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(server.url) as replica:
        write(replica, "a", 1)
    audit = server.access.audit
    written = audit.write
    refused: list[str] = []

    def fail(event: str, /, **facts: object) -> None:
        if event == "opened" and len(refused) < 3:
            refused.append(event)
            raise UnavailableError("no room")
        written(event, **facts)

    monkeypatch.setattr(audit, "write", fail)
    with client(server.url) as replica:
        write(replica, "a", 2)
    assert len(refused) == 3, "the client has come again until it could be written"
    monkeypatch.undo()
    opened = [each for each in audit_check.examine(server.options.store).entries if each.event == "opened"]
    assert len(opened) == 2


def test_a_line_that_is_owed_comes_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = AuditLog(tmp_path, SystemClock())
    audit.write("refused", peer="first")

    def fail(*_asked: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(File, "write", fail)
        audit.write_or_owe("backup", space="home")
        with pytest.raises(UnavailableError, match="No space left"):
            audit.write("refused", peer="second")
    audit.write("refused", peer="third")
    report = audit_check.examine(tmp_path)
    assert report.bad is None
    assert [(each.event, each.facts.get("peer")) for each in report.entries] == [
        ("refused", "first"),
        ("backup", None),
        ("refused", "third"),
    ]
    assert "happened" in report.entries[1].facts


def test_a_connection_that_has_ended_needs_no_collector(server: Server) -> None:
    assert server.authenticator is not None
    seen: list[weakref.ref[object]] = []
    gc.collect()
    gc.disable()
    try:
        for number in range(5):
            with client(server.url) as replica:
                write(replica, "a", number)
                seen += [weakref.ref(socket) for socket in list(server.authenticator._sockets)]
        assert seen
        until(lambda: not any(ref() for ref in seen), "the connections are gone")
    finally:
        gc.enable()


def test_what_a_killed_server_has_left_elsewhere_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = tmp_path / "spaces"
    folder.mkdir()
    mine = tmp_path / f"{backup_page._MARK}{os.getpid()}-ab.part"
    gone = tmp_path / f"{backup_page._MARK}4194999-ab.part"
    here = folder / f"{backup_page._MARK}{os.getpid()}-ab.part"
    for path in (mine, gone, here):
        path.touch()
    backup_page.sweep(folder)
    assert (mine.exists(), gone.exists(), here.exists()) == (True, False, False)
