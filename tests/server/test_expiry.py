"""A server deletes expired documents by the record in the file, and forgets old sessions: it has no app."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import SessionLostError
from headwater.host.system_clock import SystemClock
from headwater.server.server import Server
from headwater.store.retention import Retention
from headwater.store.verification import verify
from headwater.values.ids import MAIN
from tests.server.running import client, pages, served, settle_in, token_for, until, write


def test_a_session_that_is_older_than_sessions_are_kept_is_lost(server: Server) -> None:
    with client(server.url) as replica:
        session = replica.session
        write(replica, "a", 1)
        write(replica, "a", 2)
        assert server.spaces is not None
        channel = server.spaces.channels["home"]
        kept = Retention(sessions_ms=0)
        later = SystemClock().now_ms() + 1000
        assert channel.storage.drop_sessions(kept, later) == 0, "it is in use"
        assert channel.last_of(MAIN, session) == 2
    until(lambda: not channel.connections, "it has left")
    assert channel.storage.drop_sessions(kept, later) == 1
    with pytest.raises(SessionLostError, match=r"HW404.*is older than sessions are kept; open it again"):
        channel.last_of(MAIN, session)
    assert channel.storage.call(verify).findings == []


class Login(hw.Doc):
    until: datetime


def app_with_logins() -> hw.App:
    app = hw.App("site")
    app.collection(Login, expires=Login.until)
    return app


def test_documents_expire_and_clients_are_notified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    far = datetime(2999, 1, 1, tzinfo=UTC)
    with app_with_logins().open(f"{store}/", space="site") as space:
        due, later = Login(until=far), Login(until=far)
        due_id, later_id = hw.id_of(due), hw.id_of(later)
        space.sync()
    with served(store) as server:
        token = token_for(server, "*", "own")
        with hw.App("page").open(f"{server.url}/site", token=token) as space:
            due, later = space.doc(due_id, Login), space.doc(later_id, Login)
            assert hw.exists(due)
            assert hw.exists(later)
            due.until = datetime(2020, 1, 1, tzinfo=UTC)
            space.sync()
            spaces = server.spaces
            assert spaces is not None
            # A round begins once a minute: the first one is not waited for.
            spaces._loop.call_soon_threadsafe(spaces._expire)

            def is_gone() -> bool:
                space.settle()
                return not hw.exists(due)

            until(is_gone, "the deletion has arrived")
            assert hw.exists(later)
            assert spaces.channels["site"].expired == 1
            with pages(server, token) as web:
                text = web.get("/metrics").text
            assert "headwater_expired_documents 1\n" in text
            assert 'headwater_space_expiry_stopped{space="site"} 0\n' in text
