"""A server deletes expired documents by the record in the file: it has no app."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import headwater as hw
from tests.server.running import pages, served, settle_in, token_for, until


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
