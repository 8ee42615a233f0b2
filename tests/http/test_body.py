"""Bodies: unpacked no further than allowed, and taken for what they are."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import HttpAnswerError
from headwater.http.response_body import ResponseBody, as_json, as_text


def read(data: bytes, encoding: str = "", bytes_max: int = 1000, step: int = 64) -> bytes:
    body = ResponseBody(encoding, bytes_max, "http://x/")
    for start in range(0, len(data), step):
        body.take(data[start : start + step])
    return body.end()


@given(st.binary(max_size=3000), st.integers(1, 500), st.sampled_from(["", "identity", "gzip", "X-GZIP "]))
def test_a_body_comes_out_as_it_went_in_or_is_too_large(data: bytes, step: int, encoding: str) -> None:
    sent = gzip.compress(data, mtime=0) if "gzip" in encoding.lower() else data
    if len(data) > 1000:
        with pytest.raises(HttpAnswerError, match="more than 1,000 bytes"):
            read(sent, encoding, step=step)
    else:
        assert read(sent, encoding, step=step) == data


def test_a_bomb_is_unpacked_no_further_than_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 200_000_000, mtime=0)
    tracemalloc.start()
    try:
        with pytest.raises(HttpAnswerError, match="more than 1,000,000 bytes"):
            read(bomb, "gzip", bytes_max=1_000_000, step=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_bomb_within_a_bomb_is_not_unpacked_twice() -> None:
    with pytest.raises(HttpAnswerError, match="packed as 'gzip, gzip'"):
        read(gzip.compress(gzip.compress(b"\0" * 1000), mtime=0), "gzip, gzip")


def test_parts_that_unpack_to_nothing_for_ever_are_too_much() -> None:
    with pytest.raises(HttpAnswerError, match="more than 1,000 bytes"):
        read(gzip.compress(b"", mtime=0) * 200, "gzip")


def test_several_parts_are_one_body_and_zeros_behind_them_are_nothing() -> None:
    assert read(gzip.compress(b"a", mtime=0) + gzip.compress(b"b") + b"\0" * 100, "gzip", step=3) == b"ab"


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "compress", "gzip, br", "x"])
def test_what_was_not_asked_for_is_not_unpacked(encoding: str) -> None:
    with pytest.raises(HttpAnswerError, match="gzip is expected"):
        read(b"x", encoding)


@pytest.mark.parametrize(
    "data",
    [
        b"plain",
        gzip.compress(b"a" * 500, mtime=0)[:-9],
        gzip.compress(b"a", mtime=0)[:3],
        zlib.compress(b"a"),
        gzip.compress(b"a", mtime=0) + b"x",
    ],
)
def test_broken_gzip_is_told(data: bytes) -> None:
    with pytest.raises(HttpAnswerError, match="answered gzip that"):
        read(data, "gzip")


def test_an_empty_body_is_empty_however_it_is_packed() -> None:
    assert read(b"", "gzip") == b""


def test_what_is_announced_too_large_is_not_read() -> None:
    body = ResponseBody("", 1000, "http://x/")
    body.expect("1000")
    body.expect("many")
    with pytest.raises(HttpAnswerError):
        body.expect("1001")
    ResponseBody("gzip", 1000, "http://x/").expect("1001")


# --- what it means --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("grün".encode(), "", "grün"),
        ("grün".encode(), "UTF-8", "grün"),
        ("grün".encode("latin-1"), "iso-8859-1", "grün"),
        ("grün".encode("latin-1"), '"ISO-8859-1"', "grün"),
        ("grün".encode("cp1252"), "windows-1252", "grün"),
        ("grün".encode("utf-16"), "utf-16", "grün"),
        ("\ufeffgrün".encode(), "utf-8", "grün"),
        ("grün".encode(), "no-such", "grün"),
        ("grün".encode(), "iso-8859-99", "grün"),
        (b"\xff", "utf-8", "\ufffd"),
        (b"a+AGE-", "utf-7", "a+AGE-"),
        (b"abc", "rot13", "abc"),
        (b"abc", "unicode_escape", "abc"),
    ],
)
def test_text_is_read_in_its_charset(data: bytes, charset: str, text: str) -> None:
    assert as_text(data, charset) == text


@pytest.mark.parametrize(
    ("data", "value"), [(b'{"a": [1, null]}', {"a": [1, None]}), (b"\xef\xbb\xbf1", 1), (b'"x"', "x")]
)
def test_json_is_a_value(data: bytes, value: Any) -> None:
    assert as_json(data, "http://x/") == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"{",
        b"NaN",
        b'{"a": 1}x',
        b"\xff",
        b'"\xff"',
        b"[" * 100_000,
        b"[" * 600 + b"]" * 600,
        b"1" * 40,
    ],
)
def test_what_is_no_json_or_cannot_be_kept_is_told(data: bytes) -> None:
    with pytest.raises(HttpAnswerError, match="http://x/ answered"):
        as_json(data, "http://x/")


def test_message_shows_the_start_of_what_is_no_json() -> None:
    with pytest.raises(HttpAnswerError, match=r"answered '<html>x+', which is no JSON: .*hw.http.text"):
        as_json(b"<html>" + b"x" * 1000, "http://x/")
