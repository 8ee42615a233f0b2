"""An answer of the server that arrives at the moment at which its caller gives up."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.client import server_link
from headwater.client.server_link import ServerLink
from headwater.errors import OfflineError
from headwater.machine import Future
from headwater.sync.client_session import ClientPhase
from headwater.sync.frames import Ping


class Racing(Future[Any]):
    """The thread of the connection looks before the caller gives up, and answers after that."""

    def done(self) -> bool:
        return False


def test_answer_for_a_caller_that_gives_up_does_not_break_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """What raises in the thread of the connection would end that."""
    answered: list[Any] = []
    machine = SimpleNamespace(future=Racing)
    monkeypatch.setattr(server_link, "machine", lambda: machine)
    link = SimpleNamespace(
        phase=ClientPhase.LIVE,
        lost_at=None,
        url="http://127.0.0.1:1/",
        trouble="",
        check_not_over=lambda: None,
        _loop=SimpleNamespace(time=lambda: 0.0),
        ask_soon=lambda _, done: answered.append(done),
    )
    link.ask_many = partial(ServerLink.ask_many, cast("ServerLink", link))
    link._asked = partial(ServerLink._asked, cast("ServerLink", link))
    with pytest.raises(OfflineError, match="has not answered"):
        ServerLink.ask(cast("ServerLink", link), Ping(1), timeout=0.0)
    (done,) = answered
    done(None)
