"""Servers that are slow, endless, or wrong: each request has an end, and takes no more room than it may."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import HttpAnswerError, HttpError, HttpStatusError, HttpUnreachableError
from tests.http.rig import PUBLIC, Asked, Names, Server, Write, answer, fetch, fetcher, hang_up, head

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
    "way",
    [
        silent,
        forever(b"X", b"HTTP/1.1 200 OK\r\nX-", 0.01),
        forever(b"x", head(content_length="90000"), 0.01),
        forever(b"1\r\nx\r\n", head(transfer_encoding="chunked"), 0.01),
        forever(b"x", head(500, content_length="90000"), 0.01),
    ],
    ids=["nothing", "headers by drops", "body by drops", "chunks by drops", "an error by drops"],
)
def test_the_time_is_for_the_whole_request_however_slowly_it_comes(server: Server, way: Write) -> None:
    server["/"] = way
    with pytest.raises(HttpUnreachableError, match=r"took longer than 0\.15 s, while "):
        fetch(fetcher(timeout_ms=SHORT_MS), server.url())
    server.wait_until(lambda: all(asked.is_gone for asked in server.asked))


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
    assert fetch(fetcher(names, timeout_ms=60_000.0), "http://api.example/").body == b"x"
    assert names.limits_s == [3.0, 3.0, None]
    names.limits_s.clear()
    assert fetch(fetcher(names, timeout_ms=5_000.0), "http://api.example/").body == b"x"
    third, half, rest = names.limits_s
    assert third is not None and half is not None and rest is None
    assert 0 < third <= 5 / 3
    assert 0 < half <= 5 / 2


PIECES = [
    b"HTTP/1.1 ", b"HTTP/1.0 100", b"200", b"301", b"304", b"404", b" OK", b"\r\n", b"\r\n\r\n", b"\n", b":", b" ",
    b"5", b"-1",
    b"Content-Length: ", b"Transfer-Encoding: chunked", b"Content-Encoding: gzip", b"Location: ", b"/", b"http://",
    b"ETag: ", b"Retry-After: ", b"Content-Type: text/html; charset=x", b"hello", b"5\r\nhello", b"0\r\n\r\n",
    b"\x00", b"\xff",
]  # fmt: skip


def test_whatever_a_server_says_is_an_answer_or_an_http_error(server: Server) -> None:
    @given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)), max_size=12), st.booleans())
    def say_anything(said: list[bytes], is_begun: bool) -> None:
        async def say(_asked: Asked, out: asyncio.StreamWriter) -> None:
            out.write((head(200)[:-2] if is_begun else b"") + b"".join(said))

        server["/"] = say
        with suppress(HttpError):
            fetch(fetcher(), server.url())

    say_anything()
