"""A server that is reached again counts as reached from the moment that the session is live."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.client import server_link as links
from headwater.client.credentials import Credentials
from headwater.client.server_link import ServerLink
from headwater.client.server_url import ServerUrl
from headwater.errors import OfflineError
from headwater.sync.client_session import ClientPhase
from headwater.sync.frames import Open
from headwater.values.ids import MAIN


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerLink]:
    """A link that has lost its server for longer than a caller waits; its thread is not started."""
    monkeypatch.setattr(links, "PATIENCE_S", -1.0)
    monkeypatch.setattr(links, "LOOK_S", 0.0)
    made = ServerLink(
        ServerUrl("127.0.0.1", 1, "shop", secure=False),
        Open("shop", MAIN, "ann"),
        Credentials(),
        deliver=lambda _: None,
        decided=lambda _: None,
    )
    yield made
    made._loop.close()


def waits(link: ServerLink) -> bool:
    answers = iter([False, True])
    return link.wait_until(lambda: next(answers), None)


def test_a_caller_waits_on_while_a_live_session_still_sends_what_was_queued(link: ServerLink) -> None:
    # As between the server's answer and the end of sending: the listeners are notified after that.
    link.session.phase = ClientPhase.LIVE
    assert link.lost_at is None
    assert waits(link)


@pytest.mark.parametrize("phase", [ClientPhase.CONNECTING, ClientPhase.OFFLINE])
def test_a_caller_gives_up_while_the_server_is_not_reached(link: ServerLink, phase: ClientPhase) -> None:
    link.session.phase = phase
    assert link.lost_at is not None
    with pytest.raises(OfflineError, match="is not reached"):
        waits(link)


def test_the_time_of_the_loss_is_that_of_the_last_connection(link: ServerLink) -> None:
    first = link.lost_at
    assert first is not None
    link.session.phase = ClientPhase.LIVE
    link._lost(0, "")
    assert link.session.phase is ClientPhase.OFFLINE
    second = link.lost_at
    assert second is not None
    assert second > first
    # Attempts that fail later do not move it.
    link._lost(0, "")
    assert link.lost_at == second
