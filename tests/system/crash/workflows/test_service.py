"""The service that hosts are judged by: it counts what was done twice, and denies nothing that is on its way."""

from __future__ import annotations

import json
import socket
import threading
from urllib.parse import urlsplit

import pytest

import headwater as hw
from tests.support.service import SAFETY_S, Account, Service, Way
from tests.system.crash.workflows.post import Client


def begin_call(account: Account, key: str, *, cut: int = 0) -> socket.socket:
    """A call whose last bytes are not sent."""
    place = urlsplit(account.url)
    body = json.dumps({"key": key, "events": [key]}).encode()
    head = f"POST {place.path}/effects HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    connection = socket.create_connection((place.hostname or "", place.port or 0), SAFETY_S)
    connection.sendall((head + body)[: len(head) + len(body) - cut])
    return connection


def test_call_that_comes_twice_is_counted_twice(service: Service) -> None:
    account = service.account()
    client = Client(account.url, SAFETY_S)
    assert [client.post("k", ["ann", "bob"]), client.post("k", ["ann"])] == [1, 2]
    assert account.per_event == {"ann": 2, "bob": 1}
    assert account.per_key == {"k": 2}
    assert account.called == ["k", "k"]


def test_who_asks_is_told_after_all_that_came_before(service: Service) -> None:
    """Its caller may be dead, and what it has sent not read yet."""
    account = service.account()
    answers: list[object] = []
    with begin_call(account, "k", cut=1) as unfinished:
        asking = threading.Thread(target=lambda: answers.append(Client(account.url, SAFETY_S).look("k")))
        asking.start()
        asking.join(0.05)
        assert not answers
        unfinished.sendall(b"}")
        asking.join(SAFETY_S)
    assert isinstance(answers[0], hw.Applied)


def test_call_that_was_cut_off_has_no_effect(service: Service) -> None:
    account = service.account()
    begin_call(account, "k", cut=1).close()
    assert isinstance(Client(account.url, SAFETY_S).look("k"), hw.NotApplied)
    assert account.called == []


@pytest.mark.parametrize(
    ("way", "error", "effects"),
    [
        (Way.DROPPED, OSError, 1),
        (Way.FAILED_AFTER, OSError, 1),
        (Way.FAILED_BEFORE, OSError, 0),
        (Way.HELD_AFTER, TimeoutError, 1),
        (Way.HELD_BEFORE, TimeoutError, 0),
        (Way.SIGNED_OUT, hw.ApprovalError, 0),
        (Way.FORBIDDEN, hw.ApprovalError, 0),
        (Way.BUSY, hw.TransientError, 0),
    ],
)
def test_each_way_to_fail_is_what_it_says(service: Service, way: Way, error: type[Exception], effects: int) -> None:
    account = service.account()
    account.behave(way)
    # Short only where no answer comes: on a busy machine an answer may take longer.
    client = Client(account.url, 0.05 if error is TimeoutError else SAFETY_S)
    with pytest.raises(error):
        client.post("k", ["ann"])
    assert account.per_event.get("ann", 0) == effects
    if way is Way.HELD_BEFORE:
        assert isinstance(client.look("k"), hw.Unknown), "it may happen yet"
        account.let_go()
        account.wait_until(lambda it: it.applied == ["k"])
    assert Client(account.url, SAFETY_S).post("other", ["bob"]) == account.receipt("other")
