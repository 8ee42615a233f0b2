"""Servers for tests: in a thread of this process, or as users run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx
import pytest

from headwater.access.access_control import AccessControl
from headwater.access.rights import Right
from headwater.client.remote_replica import RemoteReplica
from headwater.client.remote_storage import RemoteStorage
from headwater.client.server_link import Credentials
from headwater.client.server_url import parse_server
from headwater.host.system_clock import SystemClock
from headwater.server.server import Server, Serving
from headwater.store.commit import Committed, SetDoc
from headwater.values.address import doc_key
from headwater.values.ids import Seq
from tests.support.power import POWER_CUT

COMMAND = [sys.executable, "-P", "-m", "headwater"]
DEADLINE_S = 120.0
"""For what other threads and processes do: only reached if they do not."""


def settle_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of one's own: nothing is left in anybody's home."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for what somebody else does."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not in {DEADLINE_S} s: {what}"
        time.sleep(0.01)


@contextmanager
def served(
    store: Path, *, hosts: tuple[str, ...] = (), create: bool = True, port: int = 0, origins: tuple[str, ...] = ()
) -> Iterator[Server]:
    """In a thread."""
    options = Serving(store=store, port=port, hosts=hosts, origins=origins, create=create)
    with Server(options) as server:
        yield server


def pages(server: Server, token: str | None = None, **headers: str) -> httpx.Client:
    """Somebody who asks for pages."""
    shown = {"Authorization": f"Bearer {token}"} if token is not None else {}
    url = server.url.replace("ws", "http", 1)
    return httpx.Client(base_url=url, trust_env=False, timeout=30, headers=shown | headers)


def token_for(place: Server | Path, space: str, can: str, actor: str | None = None) -> str:
    """As `headwater token create` makes one. A server that runs knows it at once; else it is for the next one."""
    access = place.access if isinstance(place, Server) else AccessControl(place, SystemClock())
    token, _ = access.create(space=space, can=Right[can.upper()], actor=actor, any_actor=actor is None)
    return token


class ServeProcess:
    """`headwater serve`, in a process of its own."""

    def __init__(
        self,
        store: Path,
        *options: str,
        port: int = 0,
        env: Mapping[str, str] | None = None,
        loses_power: bool = False,
    ) -> None:
        """`loses_power`: when it is killed, what it has not synced is lost."""
        begin = [*POWER_CUT, "-m", "headwater"] if loses_power else COMMAND
        command = [*begin, "serve", "--store", str(store), "--listen", f"127.0.0.1:{port}", *options]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.lines: list[str] = []
        self._said = threading.Event()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        assert self._said.wait(DEADLINE_S), self.lines
        self.url = next(url for line in self.lines if (url := _url_in(line)))
        self.port = int(self.url.rpartition(":")[2])
        self.pid = self._process.pid
        until(self._is_ready, "the server is ready")

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line.rstrip("\n"))
            if _url_in(line):
                self._said.set()
        self._said.set()

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self.lines
        try:
            # Whoever has a certificate of its own is ready when it takes connections at all.
            url = self.url.replace("ws", "http", 1)
            return httpx.get(f"{url}/readyz", trust_env=False, verify=False).status_code == 200  # noqa: S501
        except httpx.TransportError:
            return False

    def end(self, number: int = signal.SIGTERM) -> None:
        """Tell it to."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        code = self._process.wait(DEADLINE_S)
        self._reading.join(DEADLINE_S)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()


def _url_in(line: str) -> str:
    """Where it is served, if this is the line that says so."""
    if line.startswith("serving "):
        return line.rpartition(" at ")[2].partition(";")[0]
    return str(json.loads(line)["url"]) if '"server started"' in line else ""


@contextmanager
def client(url: str, space: str = "home", *, actor: str = "", token: str | None = None) -> Iterator[RemoteReplica]:
    """A session without an app: `commit`, then `sync`."""
    storage = RemoteStorage(parse_server(url, space), Credentials(token=token), actor=actor)
    try:
        yield storage.attach()
    finally:
        storage.close()


def write(replica: RemoteReplica, doc: str, value: int | str) -> Seq:
    """One document; where it is in the log, once it is on disk."""
    pending = replica.commit([SetDoc(doc_key(doc), value)])
    replica.sync()
    assert isinstance(pending.verdict, Committed), pending
    return pending.verdict.seq
