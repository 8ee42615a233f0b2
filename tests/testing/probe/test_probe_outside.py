"""Requests of an app of which nobody can tell beforehand that it asks outside: they are made in the test's time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import httpx
import pytest

import headwater as hw
from headwater.errors import UsageError
from headwater.testing import probe, simulate


@pytest.fixture
def app() -> hw.App:
    return hw.App("probed")


class Net:
    """A server that answers with how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = 200

    async def resolve(self, host: str, port: int) -> Sequence[IPv4Address | IPv6Address]:
        assert (host, port) == ("wx.example.com", 443)
        return [ip_address("93.184.216.34")]

    def transport(self, tls: object) -> httpx.AsyncBaseTransport:
        assert tls is not None
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        return httpx.Response(self.status, json=len(self.asked))


def test_http_is_asked_in_simulated_time_although_the_app_declares_no_resource(app: hw.App) -> None:
    net = Net()
    api = hw.http.Client(network=net)
    city = app.cell("city", "oslo")
    seen: list[object] = []

    @app.sink
    def show() -> None:
        seen.append(api.json(f"https://wx.example.com/{city.value}", fresh_for="10m"))

    before = threading.active_count()
    with probe(app) as t:
        t.settle()
        assert seen == [hw.Pending(), hw.Ready(1)]
        t.advance("599s")
        assert len(net.asked) == 1
        t.advance("1s")
        assert (net.asked, seen[-1]) == (["/oslo", "/oslo"], hw.Ready(2))
        net.status = 503
        t.advance("11m")
        assert [type(each) for each in seen] == [hw.Pending, hw.Ready, hw.Ready, hw.Failed]
        assert len(net.asked) == 5, "it is tried twice more"
        net.status = 200
        t.restart()
        t.settle()
        assert seen[-1] == hw.Ready(6)
        city.value = "rome"
        t.settle()
        assert net.asked[-1] == "/rome"
        assert seen[6:] == [hw.Pending(), hw.Ready(7)]
        assert threading.active_count() <= before + 1, "beside the one that writes"


def test_the_resource_of_a_pattern_is_asked_in_simulated_time(app: hw.App) -> None:
    log: list[object] = []

    @hw.pattern
    def feed(p: hw.Builder) -> None:
        @p.resource
        async def get(number: int) -> int:
            await asyncio.sleep(3600)
            return number

        @p.sink
        def show() -> None:
            log.append(get(1))

    with probe(app) as t:
        t.space.start(feed, "a")
        t.advance("3599s")
        assert log == [hw.Pending()]
        at = t.now
        t.advance("2s")
        assert log == [hw.Pending(), hw.Ready(1)]
        assert (t.now - at).total_seconds() == 2


def test_what_is_under_way_ends_with_the_opening_and_is_asked_again(app: hw.App) -> None:
    log: list[object] = []

    @hw.pattern
    def feed(p: hw.Builder) -> None:
        @p.resource
        async def get() -> int:
            log.append("asked")
            try:
                await asyncio.sleep(10)
            finally:
                log.append("ended")
            return 1

        @p.sink
        def show() -> None:
            log.append(type(get()).__name__)

    with probe(app) as t:
        t.space.start(feed, "a")
        t.advance("5s")
        assert log == ["Pending", "asked"]
        t.restart(crash=True)
        assert log.count("ended") == 1
        t.space.start(feed, "a")
        t.advance("5s")
        assert log.count("asked") == 2
    assert log.count("ended") == 2


def test_what_is_asked_inside_of_an_event_loop_is_refused(app: hw.App) -> None:
    @hw.pattern
    def feed(p: hw.Builder) -> None:
        @p.resource
        async def get() -> int:
            return 1

        @p.sink
        def show() -> None:
            get()

    async def main() -> None:
        with probe(app) as t:
            t.space.start(feed, "a")

    with pytest.raises(UsageError, match="make the test a plain function"):
        simulate(main())
