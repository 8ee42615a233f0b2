"""A real server on a real socket that does as it is told, badly if asked; and a network in which names lead to it.

The server runs in a thread with an event loop of its own, reads one request from each connection, and has the function
for its path write whatever it likes. It remembers what was asked and which callers have hung up.

Must never know: what is tested.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Self, TypeAlias

import httpx

from headwater.http.http_headers import Given
from headwater.http.http_request import HttpFetcher, HttpResponse
from headwater.http.ip_addresses import Address
from headwater.http.network import Network, SystemNetwork
from headwater.http.url_policy import UrlPolicy
from headwater.http.url_target import PORTS

PUBLIC = "93.184.216.34"
"""An address that stands for the public internet; nothing is ever sent there."""

SAFETY_S = 120.0
"""No test waits this long unless it fails."""


@dataclass(slots=True)
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    server: Server
    # The caller has hung up.
    is_gone: bool = False
    # Set by a test that lets a held answer go.
    released: asyncio.Event = field(default_factory=asyncio.Event)


Write: TypeAlias = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes = b"", status: int = 200, **headers: str) -> Write:
    """A plain answer; `_` in the names of headers stands for `-`."""

    async def write(_asked: Asked, out: asyncio.StreamWriter) -> None:
        out.write(head(status, content_length=str(len(body)), **headers) + body)

    return write


def head(status: int = 200, **headers: str) -> bytes:
    """The first lines of an answer."""
    lines = [f"HTTP/1.1 {status} X", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def hang_up(_asked: Asked, _out: asyncio.StreamWriter) -> None:
    """No answer at all."""


def held(then: Write) -> Write:
    """An answer that waits until the test lets it go."""

    async def write(asked: Asked, out: asyncio.StreamWriter) -> None:
        await asked.released.wait()
        await then(asked, out)

    return write


class Server:
    """While a test needs it: `server["/x"] = answer(b"...")`, and `server.asked`."""

    def __init__(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self._tls = tls
        self._host = host
        self._ways: dict[str, Write] = {}
        self.asked: list[Asked] = []
        # How many came; and how many of them left before they had asked for anything.
        self.connections = 0
        self.hung_up = 0
        # Said to everybody, before they say anything.
        self.greets = b""
        self.port = 0
        self.loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._changed = threading.Condition()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(SAFETY_S)
        return self

    def __exit__(self, *_error: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SAFETY_S)

    def __setitem__(self, path: str, way: Write) -> None:
        self._ways[path] = way

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """Of something on it."""
        return f"http://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [asked.path for asked in self.asked]

    def release(self, asked: Asked) -> None:
        """Let a held answer go."""
        self.loop.call_soon_threadsafe(asked.released.set)

    def wait_until(self, claim: Callable[[], bool]) -> None:
        """Until the record shows it."""
        end = time.monotonic() + SAFETY_S
        with self._changed:
            while not claim():
                left = end - time.monotonic()
                assert left > 0, f"not within {SAFETY_S} s: asked for {self.paths}"
                self._changed.wait(left)

    async def until(self, claim: Callable[[], bool]) -> None:
        """The same, for code in a loop."""
        await asyncio.to_thread(self.wait_until, claim)

    # -- in its thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        served: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            served.add(task)
            try:
                with suppress(ConnectionError, ssl.SSLError):
                    await self._one(reader, out)
            except asyncio.IncompleteReadError:
                self.hung_up += 1
                self._tell()
            finally:
                served.discard(task)
                out.close()

        server = await asyncio.start_server(serve, self._host, 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        server.close()
        for task in served:
            task.cancel()
        if served:
            await asyncio.wait(served)

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _one(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._tell()
        out.write(self.greets)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = [line.partition(": ") for line in lines[1:] if line]
        asked = Asked(lines[0].split(" ")[1], {name.lower(): value for name, _, value in pairs}, self)
        self.asked.append(asked)
        self._tell()
        way = self._ways.get(asked.path.partition("?")[0], answer(b"there is nothing here", 404))
        writing = asyncio.ensure_future(way(asked, out))
        hearing = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait([writing, hearing], return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                # Nobody sends anything behind a request: this is the end of the caller.
                asked.is_gone = True
                self._tell()
                return
            writing.result()
            await out.drain()
        except ConnectionError:
            asked.is_gone = True
            self._tell()
        finally:
            writing.cancel()
            hearing.cancel()


class _Detour(httpx.AsyncBaseTransport):
    """Connects to the server whatever address was meant, and remembers that."""

    def __init__(self, network: Names, tls: ssl.SSLContext) -> None:
        self._network = network
        self._inner = SystemNetwork().transport(tls)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        port = request.url.port or PORTS[request.url.scheme]
        self._network.connected.append((request.url.host, port))
        self._network.limits_s.append(request.extensions["timeout"]["connect"])
        if request.url.host in self._network.dead:
            raise httpx.ConnectError("nobody is there", request=request)
        host, port = self._network.leads_to[request.url.scheme]
        request.url = request.url.copy_with(host=host, port=port)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Names:
    """A network with its own names, in which every address leads to one server.

    A name has one list of addresses, or several: then each question is answered with the next one, the last for ever.
    """

    def __init__(self, leads_to: Server, **names: Sequence[str] | Sequence[Sequence[str]]) -> None:
        self.leads_to = dict.fromkeys(PORTS, ("127.0.0.1", leads_to.port))
        self.names: dict[str, list[Sequence[str]]] = {}
        for name, found in names.items():
            self.put(name.replace("_", "."), found)
        self.asked: list[str] = []
        # Addresses and ports that were connected to; and addresses at which nobody answers.
        self.connected: list[tuple[str, int]] = []
        self.dead: set[str] = set()
        # How long each was given to connect.
        self.limits_s: list[float | None] = []

    def put(self, name: str, found: Sequence[str] | Sequence[Sequence[str]]) -> None:
        """What a name leads to."""
        lists = [[each] if isinstance(each, str) else each for each in found]
        self.names[name] = [[each for each in found if isinstance(each, str)]] if isinstance(found[0], str) else lists

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        assert port
        self.asked.append(host)
        lists = self.names.get(host)
        if lists is None:
            raise OSError(-2, "Name or service not known")
        return [ip_address(each) for each in (lists.pop(0) if len(lists) > 1 else lists[0])]

    def transport(self, tls: ssl.SSLContext) -> httpx.AsyncBaseTransport:
        return _Detour(self, tls)


def fetcher(network: Network | None = None, *, policy: UrlPolicy | None = None, **options: Any) -> HttpFetcher:
    """For these names, or for this machine."""
    settings: dict[str, Any] = {"bytes_max": 100_000, "timeout_ms": 10_000.0, **options}
    return HttpFetcher(policy or UrlPolicy(private=network is None), network or SystemNetwork(), **settings)


def fetch(fetcher: HttpFetcher, url: str, headers: Given = (), **options: Any) -> HttpResponse:
    """In a loop of its own."""
    return asyncio.run(fetcher.fetch(url, headers, **options))
