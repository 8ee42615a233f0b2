"""The end of a server: what was received is decided and told, clients come back by themselves, nothing is missing."""

from __future__ import annotations

import os
import signal
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from headwater.access.local_token import find_local
from headwater.client.remote_storage import RemoteStorage
from headwater.client.server_link import Credentials
from headwater.client.server_url import parse_server
from headwater.host.space_files import open_space
from headwater.server import server as server_module
from headwater.server.server_limits import DRAIN_S
from headwater.store.browsing import read
from headwater.store.commit import Committed, SetDoc
from headwater.store.verification import verify
from headwater.sync.frames import SUBPROTOCOL
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId
from tests.server.ingress.shop import Shop
from tests.server.running import DEADLINE_S, ServeProcess, client, pages, served, settle_in, token_for, until, write

WRITERS = 3


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "spaces"


class Writer:
    """A client that writes documents of its own, one after the other, as fast as it can, until it is told to stop."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.storage = RemoteStorage(parse_server(url, "home"), Credentials())
        self.replica = self.storage.attach()
        self.acknowledged: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            batch = [
                (at, self.replica.commit([SetDoc(doc_key(f"{self.name}-{at}"), at)]))
                for at in range(number, number + 5)
            ]
            number += 5
            self.replica.sync()
            self.acknowledged += [at for at, pending in batch if isinstance(pending.verdict, Committed)]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


@contextmanager
def writers(url: str) -> Iterator[list[Writer]]:
    found = [Writer(url, f"w{number}") for number in range(WRITERS)]
    try:
        yield found
    finally:
        for each in found:
            each.storage.close()


def check_all_there(store: Path, found: list[Writer]) -> None:
    """Each acknowledged commit is in the log, once."""
    with open_space(f"{store}{os.sep}", "home", create=False) as storage:
        report = storage.call(verify)
        assert not report.findings
        for writer in found:
            for number in writer.acknowledged:
                doc = doc_key(f"{writer.name}-{number}")
                assert storage.call(lambda engine, doc=doc: read(engine, doc, BranchId(MAIN)).value) == number  # type: ignore[misc]
        # Each commit makes a document: as many in the log as there are.
        assert report.commits == sum(max(writer.acknowledged) + 1 for writer in found)


# --- a process ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sigterm_under_load_loses_nothing_and_clients_go_on_with_the_next_server(store: Path) -> None:
    with ServeProcess(store) as first:
        url, port = first.url, first.port
        with writers(url) as found:
            until(lambda: all(len(writer.acknowledged) > 50 for writer in found), "all of them write")
            first.end()
            assert first.wait() == 0
            assert first.lines[-1] == "the server has ended; everything that was acknowledged is on disk"
            before = [len(writer.acknowledged) for writer in found]
            with ServeProcess(store, port=port) as second:
                until(
                    lambda: all(len(w.acknowledged) > had + 50 for w, had in zip(found, before, strict=True)),
                    "all of them write to the second one",
                )
                for writer in found:
                    writer.stop()
                assert all(writer.storage.connection().state == "live" for writer in found)
                for writer in found:
                    # In order, without a gap: what was under way when the first one ended was sent again.
                    assert writer.acknowledged == list(range(len(writer.acknowledged)))
                second.end()
                assert second.wait() == 0
            check_all_there(store, found)


def test_a_server_that_ends_takes_its_token_with_it(store: Path) -> None:
    with ServeProcess(store) as server:
        assert find_local("127.0.0.1", server.port) is not None
        server.end(signal.SIGINT)
        assert server.wait() == 0
        assert find_local("127.0.0.1", server.port) is None


def raw(port: int, status: str = "101") -> socket.socket:
    """A client that makes a connection, and does nothing more."""
    local = find_local("127.0.0.1", port)
    assert local is not None
    asking = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    lines = [
        "GET / HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
        f"Authorization: Bearer {local.token}",
    ]
    asking.sendall("\r\n".join([*lines, "", ""]).encode())
    assert asking.recv(4096).startswith(f"HTTP/1.1 {status}".encode())
    return asking


def test_clients_that_do_nothing_do_not_hold_up_the_end(store: Path) -> None:
    """One that does not answer, one in the middle of a request, and one that says nothing."""
    with ServeProcess(store) as server:
        silent = raw(server.port)
        half = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        nothing = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
        try:
            server.end()
            assert server.wait() == 0
            told = silent.recv(4096)
            # A close frame: 1012, the server ends.
            assert told[0] == 0x88
            assert int.from_bytes(told[2:4], "big") == 1012
            [ending] = [line for line in server.lines if "server ends" in line]
            assert "connections=" in ending
        finally:
            for each in (silent, half, nothing):
                each.close()


def test_the_second_signal_ends_it_at_once(store: Path) -> None:
    with ServeProcess(store) as server:
        local = find_local("127.0.0.1", server.port)
        assert local is not None
        # Something to wait for: a payload that never comes to its end.
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as posting:
            post_half(posting, server.port, local.token)
            server.end()
            until(lambda: any("server ends" in line for line in server.lines), "it has begun to end")
            server.end()
            assert server.wait() == -signal.SIGTERM
    with ServeProcess(store, port=server.port) as again, client(again.url) as ann:
        assert write(ann, "a", 1) == 1


# --- in this process ------------------------------------------------------------------------------------------


def test_what_was_received_is_told_before_the_connection_ends(store: Path) -> None:
    """Commits that wait for the disk when it is told to end: their clients hear of them from this server."""
    with served(store) as server:
        spaces = server.spaces
        assert spaces is not None
        with client(server.url) as ann:
            write(ann, "first", 0)
            storage = spaces.channels["home"].storage
            with held(storage._lock):
                pending = [ann.commit([SetDoc(doc_key("first"), number)]) for number in range(1, 21)]
                until(lambda: len(spaces.channels["home"].since) == 20, "the server has received them")
                server.end()
                with pages(server) as asking:
                    # It lives, and says that it takes no more; nobody new is let in.
                    assert asking.get("/healthz").status_code == 200
                    assert asking.get("/readyz").status_code == 503
                with raw(server.port, "503"):
                    pass
            link = ann._storage.link  # type: ignore[attr-defined]  # of a client
            until(lambda: link.session.pending == 0, "it was told")
            ann.refresh()
            assert [each.verdict for each in pending] == [Committed(seq) for seq in range(2, 22)]  # type: ignore[arg-type]
        server.stop()


@contextmanager
def held(lock: threading.Lock) -> Iterator[None]:
    with lock:
        yield


def test_waiting_for_the_end_has_an_end(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who posts, and never comes to the end of it, is waited for until DRAIN_S is over."""
    # Service managers kill after 90 s, most containers after 30.
    assert DRAIN_S < 30
    monkeypatch.setattr(server_module, "DRAIN_S", 1.0)
    with served(store) as server, client(server.url) as ann:
        write(ann, "a", 1)
        local = find_local("127.0.0.1", server.port)
        assert local is not None
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as posting:
            post_half(posting, server.port, local.token)
            assert server.spaces is not None
            server.stop()
            assert not server.spaces.channels
            # Cut off, without an answer.
            assert posting.recv(100) == b""


def post_half(posting: socket.socket, port: int, token: str) -> None:
    """Begin to post; the server waits for the rest when this returns."""
    lines = [
        "POST /spaces/home/topics/a/b HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        "Idempotency-Key: a",
        "Content-Length: 1000",
        "Expect: 100-continue",
    ]
    posting.sendall("\r\n".join([*lines, "", ""]).encode())
    assert posting.recv(4096).startswith(b"HTTP/1.1 100")
    posting.sendall(b"{")


def test_a_program_that_comes_before_the_next_servers_token_is_there_comes_again(store: Path) -> None:
    """A server that starts leaves its token a moment before it listens; who looked for it before that has none."""
    with served(store) as first, client(first.url) as ann:
        write(ann, "a", 1)
        port = first.port
        first.stop()
        with socket.create_server(("127.0.0.1", port)) as listener:
            listener.settimeout(DEADLINE_S)
            asking, _ = listener.accept()
            with asking:
                assert b"Authorization" not in asking.recv(4096)
                asking.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
        with served(store, port=port):
            assert write(ann, "a", 2) == 2


def test_what_was_posted_and_answered_is_there_after_sigterm(store: Path) -> None:
    store.mkdir()
    with Shop().app.open(f"{store}{os.sep}", space="home"):
        pass
    token = token_for(store, "home", "write")
    taken: list[str] = []

    def post(url: str, name: str) -> None:
        with httpx.Client(base_url=url, trust_env=False, headers={"Authorization": f"Bearer {token}"}) as posting:
            for number in range(1_000_000):
                key = f"{name}-{number}"
                headers = {"Idempotency-Key": key}
                try:
                    answer = posting.post("/spaces/home/topics/orders/placed", json={"item": "tea"}, headers=headers)
                except httpx.TransportError:
                    return
                if answer.status_code != 202:
                    assert answer.status_code == 503
                    return
                taken.append(key)

    with ServeProcess(store) as server:
        url = server.url.replace("ws", "http", 1)
        threads = [threading.Thread(target=post, args=(url, f"p{number}")) for number in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: len(taken) > 60, "they post")
        server.end()
        assert server.wait() == 0
        for thread in threads:
            thread.join(DEADLINE_S)
    shop = Shop()
    with shop.app.open(f"{store}{os.sep}", space="home") as space:
        space.workflows.drain()
    sold = [event for event, _, _ in shop.sold]
    assert len(sold) == len(set(sold))
    assert set(taken) <= set(sold)
