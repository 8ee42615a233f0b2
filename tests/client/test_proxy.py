"""The proxy itself: what it does to a connection, told by bytes that come or do not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.proxy import Proxy

SOON_S = 0.2
"""For what must not come."""
DEADLINE_S = 120.0


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """In front of one who says everything again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_echo, args=(listener,), daemon=True).start()
        with Proxy(listener.getsockname()[1]) as made:
            yield made


def _echo(listener: socket.socket) -> None:
    while True:
        try:
            taken, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_say_again, args=(taken,), daemon=True).start()


def _say_again(taken: socket.socket) -> None:
    try:
        with taken:
            while data := taken.recv(4096):
                taken.sendall(data)
    except OSError:
        return


def connected(proxy: Proxy) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", proxy.port), timeout=DEADLINE_S)
    made.sendall(b"hello")
    assert made.recv(5) == b"hello"
    return made


def is_ended(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


def test_what_is_cut_ends_and_others_can_come(proxy: Proxy) -> None:
    with connected(proxy) as line:
        proxy.cut()
        assert is_ended(line)
    connected(proxy).close()
    assert proxy.taken == 2
    assert proxy.to_server == proxy.to_client == 10


def test_who_is_refused_is_sent_away_until_it_is_over(proxy: Proxy) -> None:
    proxy.refuse(True)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=DEADLINE_S) as line:
        assert is_ended(line)
    proxy.refuse(False)
    connected(proxy).close()


def test_what_is_frozen_comes_later_and_nothing_ends(proxy: Proxy) -> None:
    with connected(proxy) as line:
        proxy.freeze(True)
        line.sendall(b"later")
        line.settimeout(SOON_S)
        with pytest.raises(TimeoutError):
            line.recv(5)
        proxy.freeze(False)
        line.settimeout(DEADLINE_S)
        assert line.recv(5) == b"later"


def test_what_is_delayed_comes_in_order(proxy: Proxy) -> None:
    with connected(proxy) as line:
        proxy.delay(SOON_S)
        begun = time.monotonic()
        line.sendall(b"one")
        line.sendall(b"two")
        assert line.recv(3, socket.MSG_WAITALL) == b"one"
        assert line.recv(3, socket.MSG_WAITALL) == b"two"
        # There and back.
        assert time.monotonic() - begun >= 2 * SOON_S


def test_it_is_cut_after_so_many_bytes(proxy: Proxy) -> None:
    with connected(proxy) as line:
        before = proxy.to_server
        proxy.cut_after(3)
        line.sendall(b"abcdef")
        while line.recv(1):
            pass
    assert proxy.to_server == before + 3
