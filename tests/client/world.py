"""A server behind a proxy, and a program that is opened there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.client.remote_storage import RemoteStorage
from headwater.host.plain_space import Space
from headwater.server.server import Server
from tests.server.running import DEADLINE_S, served, token_for, until
from tests.support.proxy import Proxy

SPACE = "shop"


@dataclass
class Behind:
    """A server in a thread, and the proxy that its clients come through."""

    server: Server
    proxy: Proxy
    token: str

    @property
    def url(self) -> str:
        """Of the space, through the proxy."""
        return f"ws://127.0.0.1:{self.proxy.port}/{SPACE}"

    @property
    def straight(self) -> str:
        """The same, past it."""
        return f"{self.server.url}/{SPACE}"

    def go_away(self) -> None:
        """Nobody reaches the server through the proxy any more."""
        self.proxy.refuse(True)
        self.proxy.cut()

    def come_back(self) -> None:
        """They do again."""
        self.proxy.refuse(False)


@contextmanager
def behind(store: Path) -> Iterator[Behind]:
    """A server behind a proxy."""
    # By its name, whatever the port: else nobody would sign for it who comes through the proxy.
    with served(store, hosts=("127.0.0.1",)) as server, Proxy(server.port) as proxy:
        # Only who owns a space makes it.
        hw.App("owner").open(f"{server.url}/{SPACE}").close()
        yield Behind(server, proxy, token_for(server, SPACE, "own"))


@dataclass
class Counter:
    """A program that counts, and shows every value that it sees."""

    app: hw.App = field(default_factory=lambda: hw.App("counter"))
    shown: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = self.count = self.app.cell("count", 0)

        @self.app.sink
        def show() -> None:
            self.shown.append(count.value)

        @self.app.handler
        def add(by: int) -> int:
            count.value += by
            return count.value

        self.add = add

    def open(self, at: Behind, **options: Any) -> Space:
        """Through the proxy."""
        return self.app.open(at.url, token=at.token, actor="ann", **options)


def storage_of(space: Space) -> RemoteStorage:
    """Its end of the connection."""
    storage = space._opening._lease.storage
    assert isinstance(storage, RemoteStorage)
    return storage


def settled(space: Space) -> bool:
    """It has taken in what there is."""
    space.settle()
    return True


def state_is(space: Space, state: str) -> None:
    """Wait until the connection stands so."""
    until(lambda: space.connection.state == state, f"the connection is {state}")


class Program:
    """Code in a process of its own, that says lines and can be killed."""

    def __init__(self, code: str, *args: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )

    def say(self, line: str = "") -> None:
        """Say a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def line(self) -> str:
        """The next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, trouble = self._process.communicate(timeout=DEADLINE_S)
            raise AssertionError(f"the program has ended: {trouble}")
        return line.rstrip("\n")

    def kill(self) -> None:
        """As a power cut would, but for the disk."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=DEADLINE_S)

    def rest(self) -> str:
        """What it says until it ends."""
        said, trouble = self._process.communicate(timeout=DEADLINE_S)
        assert self._process.returncode == 0, trouble
        return said
