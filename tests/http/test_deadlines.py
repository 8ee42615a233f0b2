"""The deadline in simulated time: it is for everything together, and the message says how far it came."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import httpx
import pytest

from headwater.errors import HttpUnreachableError
from headwater.http.http_request import HttpFetcher
from headwater.http.ip_addresses import Address
from headwater.http.url_policy import UrlPolicy
from headwater.testing.sim_loop import simulate
from tests.http.rig import PUBLIC

FOREVER = 1e6


class Drops(httpx.AsyncByteStream):
    """A body of which a byte comes every second."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(1)
            yield b"x"


@dataclass
class Slow(httpx.AsyncBaseTransport):
    """A network in which everything takes as long as it is told to, in seconds."""

    naming: float = 0.0
    connecting: float = 0.0
    answering: float = 0.0
    answer: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(200, stream=Drops())
    asked: int = 0

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        assert host and port
        await asyncio.sleep(self.naming)
        return [ip_address(PUBLIC)]

    def transport(self, tls: ssl.SSLContext) -> httpx.AsyncBaseTransport:
        assert tls.check_hostname
        return self

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        await asyncio.sleep(self.connecting)
        await request.extensions["trace"]("http11.send_request_headers.complete", {})
        await asyncio.sleep(self.answering)
        return self.answer(request)


def late(network: Slow) -> tuple[str, float]:
    """What is told, and after how many seconds."""
    told = ""

    async def main() -> float:
        nonlocal told
        one = HttpFetcher(UrlPolicy(), network, bytes_max=1000, timeout_ms=5_000.0)
        with pytest.raises(HttpUnreachableError) as caught:
            await one.fetch("http://api.example/a", ())
        told = caught.value.message
        return asyncio.get_running_loop().time()

    seconds = simulate(main())
    return told, seconds


@pytest.mark.parametrize(
    ("network", "doing"),
    [
        (Slow(naming=FOREVER), "looking up the name"),
        (Slow(naming=2, connecting=FOREVER), f"connecting to {PUBLIC}"),
        (Slow(naming=2, connecting=2, answering=FOREVER), f"waiting for the answer of {PUBLIC}"),
        (Slow(naming=2, connecting=1.5), "reading the answer, of which 1 bytes had come"),
        (Slow(answering=0.5), "reading the answer, of which 4 bytes had come"),
    ],
)
def test_the_message_says_how_far_it_came(network: Slow, doing: str) -> None:
    told, seconds = late(network)
    assert told.startswith(f"http://api.example/a took longer than 5 s, while {doing}; ")
    assert seconds == pytest.approx(5.0)


def test_the_time_is_for_all_hops_together() -> None:
    network = Slow(naming=1, answering=1.2, answer=lambda _: httpx.Response(302, headers={"location": "/b"}))
    told, seconds = late(network)
    assert told.startswith("http://api.example/b (redirected from http://api.example/a) took longer than 5 s")
    assert seconds == pytest.approx(5.0)
    assert network.asked == 2


def test_a_request_that_waits_for_its_turn_has_all_its_time_then() -> None:
    network = Slow(answering=4, answer=lambda _: httpx.Response(200, content=b"x"))

    async def main() -> float:
        one = HttpFetcher(UrlPolicy(), network, bytes_max=1000, timeout_ms=5_000.0)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.fetch("http://api.example/", ())) for _ in range(33)]
        assert [task.result().body for task in tasks] == [b"x"] * 33
        return asyncio.get_running_loop().time()

    assert simulate(main()) == pytest.approx(8.0)
