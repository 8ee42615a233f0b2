"""A client whose right ends between a commit and its verdict is told what became of the commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.access.rights import Right
from headwater.errors import AccessError
from headwater.server.server import Server
from headwater.server.spaces.channel import Channel
from headwater.server.spaces.served_spaces import ServedSpaces
from headwater.store.commit import SetDoc
from headwater.values.address import doc_key
from tests.server.running import client, settle_in, until


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


def test_a_client_that_may_only_read_by_now_is_told_of_a_commit_from_before(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, lost = Channel._tell, list[object]()

    def tell(self: Channel, decided: list[Any]) -> None:
        if decided and not lost:
            # It is in the log. The verdict is on its way when the connection breaks and the right is taken away.
            lost.append(decided)
            monkeypatch.setattr(ServedSpaces, "right", lambda *_: Right.READ)
            for connection in list(self.connections.values()):
                connection.talk.turned_away("come again")
        inner(self, decided)

    monkeypatch.setattr(Channel, "_tell", tell)
    with client(server.url) as replica:
        before = replica.commit([SetDoc(doc_key("a"), 1)])

        def is_told() -> bool:
            replica.refresh()
            return before.verdict is not None or before.error is not None

        until(is_told, "the verdict")
        assert before.accepted
        late = replica.commit([SetDoc(doc_key("a"), 2)])

        def is_refused() -> bool:
            replica.refresh()
            return late.error is not None

        until(is_refused, "the refusal")
        assert isinstance(late.error, AccessError)
    assert lost
