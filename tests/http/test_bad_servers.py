"""Servers that are slow, endless, or wrong: each request has an end, and takes no more room than it may."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from headwater.errors import HttpAnswerError, HttpStatusError, HttpUnreachableError
from headwater.host.http.fetching import Fetcher
from headwater.host.http.policy import Policy
from headwater.testing.loop import simulate
from tests.http.rig import PUBLIC, Asked, Names, Server, Write, answer, fetch, fetcher, head

SHORT_MS = 150.0
"""Long enough for a request on this machine; every test that waits for it waits no longer."""


def forever(chunk: bytes, start: bytes = b"", pause_s: float = 0.0) -> Write:
    async def write(_asked: Asked, out: asyncio.StreamWriter) -> None:
        out.write(start)
        while True:
            out.write(chunk)
            await out.drain()
            await asyncio.sleep(pause_s)

    return write


async def silent(asked: Asked, _out: asyncio.StreamWriter) -> None:
    await asked.released.wait()


@pytest.mark.parametrize(
    ("way", "doing"),
    [
        (silent, r"waiting for the answer of 127\.0\.0\.1;"),
        (forever(b"X", b"HTTP/1.1 200 OK\r\nX-", 0.01), "waiting for the answer"),
        (forever(b"x", head(content_length="90000"), 0.01), r"reading the answer, of which [\d,]+ bytes had come"),
        (forever(b"1\r\nx\r\n", head(transfer_encoding="chunked"), 0.01), "reading the answer, of which"),
    ],
    ids=["nothing", "headers by drops", "body by drops", "chunks by drops"],
)
def test_the_time_is_for_the_whole_request_however_slowly_it_comes(server: Server, way: Write, doing: str) -> None:
    server["/"] = way
    with pytest.raises(HttpUnreachableError, match=rf"took longer than 0\.15 s, while {doing}"):
        fetch(fetcher(timeout_ms=SHORT_MS), server.url())
    server.wait_until(lambda: server.asked[0].is_gone)


def test_the_time_is_for_all_hops_together(server: Server) -> None:
    async def slowly(asked: Asked, out: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.06)
        out.write(head(302, location=f"{asked.path}x", content_length="0"))

    for hops in range(6):
        server["/" + "x" * hops] = slowly
    with pytest.raises(HttpUnreachableError, match=r"redirected from .* took longer than 0\.15 s"):
        fetch(fetcher(timeout_ms=SHORT_MS), server.url("/"))
    assert len(server.asked) <= 4


def test_the_time_is_also_for_the_name() -> None:
    class Deaf(Names):
        async def resolve(self, host: str, port: int) -> list[object]:  # type: ignore[override]  # it never answers
            await asyncio.sleep(3600)
            return [host, port]

    async def main() -> None:
        with Server() as server:
            one = Fetcher(Policy(), Deaf(server), bytes_max=1, timeout_ms=5_000.0)
        with pytest.raises(HttpUnreachableError, match="took longer than 5 s, while looking up the name"):
            await one.fetch("http://slow.example/", ())
        assert asyncio.get_running_loop().time() == pytest.approx(5.0)

    simulate(main())


def test_an_endless_body_is_cut_off(server: Server) -> None:
    server["/"] = forever(b"x" * 10_000, head(connection="close"))
    with pytest.raises(HttpAnswerError, match="more than 100,000 bytes"):
        fetch(fetcher(), server.url())
    server.wait_until(lambda: server.asked[0].is_gone)


def test_an_endless_error_is_cut_off(server: Server) -> None:
    server["/"] = forever(b"no! " * 1000, head(500, connection="close"))
    with pytest.raises(HttpStatusError, match="500 Internal Server Error: no! no!"):
        fetch(fetcher(), server.url())
    server.wait_until(lambda: server.asked[0].is_gone)


def test_what_announces_too_much_is_not_read(server: Server) -> None:
    server["/"] = forever(b"x", head(content_length="100001"), 0.01)
    with pytest.raises(HttpAnswerError, match="more than 100,000 bytes"):
        fetch(fetcher(), server.url())


def test_a_bomb_does_not_go_off(server: Server) -> None:
    server["/"] = answer(gzip.compress(b"\0" * 50_000_000), content_encoding="gzip")
    server["/chunks"] = forever(
        b"%x\r\n%b\r\n" % (len(bomb := gzip.compress(b"\0" * 1_000_000)), bomb),
        head(content_encoding="gzip", transfer_encoding="chunked"),
    )
    for path in ("/", "/chunks"):
        with pytest.raises(HttpAnswerError, match="more than 100,000 bytes"):
            fetch(fetcher(), server.url(path))


def test_endless_headers_are_cut_off(server: Server) -> None:
    server["/"] = forever(b"X-A: " + b"x" * 1000 + b"\r\n", b"HTTP/1.1 200 OK\r\n")
    with pytest.raises(HttpUnreachableError, match="broke off"):
        fetch(fetcher(), server.url())


def test_what_is_packed_arrives_unpacked(server: Server) -> None:
    server["/"] = answer(gzip.compress(b"hello"), content_encoding="gzip")
    assert fetch(fetcher(), server.url()).body == b"hello"


async def nonsense(_asked: Asked, out: asyncio.StreamWriter) -> None:
    out.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


async def hang_up(_asked: Asked, _out: asyncio.StreamWriter) -> None:
    pass


async def half(_asked: Asked, out: asyncio.StreamWriter) -> None:
    out.write(head(content_length="10") + b"half")


async def half_chunk(_asked: Asked, out: asyncio.StreamWriter) -> None:
    out.write(head(transfer_encoding="chunked") + b"5\r\nhel")


async def two_lengths(_asked: Asked, out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx")


@pytest.mark.parametrize("way", [nonsense, hang_up, half, half_chunk, two_lengths])
def test_an_answer_that_breaks_off_or_is_none_is_told(server: Server, way: Write) -> None:
    server["/"] = way
    with pytest.raises(HttpUnreachableError, match="broke off"):
        fetch(fetcher(), server.url())


def test_what_lies_about_how_it_is_packed_is_told(server: Server) -> None:
    server["/"] = answer(b"plain", content_encoding="gzip")
    server["/zlib"] = answer(zlib.compress(b"x"), content_encoding="deflate")
    with pytest.raises(HttpAnswerError, match="gzip that is broken"):
        fetch(fetcher(), server.url())
    with pytest.raises(HttpAnswerError, match="packed as 'deflate'"):
        fetch(fetcher(), server.url("/zlib"))


def test_cookies_that_are_set_are_not_sent_on(server: Server) -> None:
    server["/"] = answer(b"", 302, location="/next", set_cookie="tracked=1; Path=/")
    server["/next"] = answer(b"x")
    fetch(fetcher(), server.url())
    assert "cookie" not in server.asked[1].headers


def test_an_address_at_which_nobody_answers_leaves_time_for_the_next(server: Server) -> None:
    server["/"] = answer(b"x")
    names = Names(server, api_example=["8.8.8.8", "8.8.4.4", PUBLIC])
    names.dead |= {"8.8.8.8", "8.8.4.4"}
    names.dead_s = 1000.0

    async def main() -> bytes:
        return (await fetcher(names, timeout_ms=600.0).fetch("http://api.example/", ())).body

    assert asyncio.run(main()) == b"x"
    assert [address for address, _ in names.connected] == ["8.8.8.8", "8.8.4.4", PUBLIC]
