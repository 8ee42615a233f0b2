"""URLs, read strictly: what is not plainly one is refused, and what is has one spelling."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import HttpRefusedError, UsageError
from headwater.http.http_limits import URL_MAX
from headwater.http.url_target import follow, read_url


@pytest.mark.parametrize(
    ("url", "one"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://Example.COM:443/A?b=C#d", "https://example.com/A?b=C"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com:8080", "http://example.com:8080/"),
        ("http://example.com:/", "http://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com./", "http://example.com/"),
        ("http://bücher.example/ü?ä=ö", "http://xn--bcher-kva.example/%C3%BC?%C3%A4=%C3%B6"),
        ("http://faß.example/", "http://xn--fa-hia.example/"),
        ("http://example.com?a=b", "http://example.com/?a=b"),
        ("http://example.com/a%20b?c=%2F&d[]=1", "http://example.com/a%20b?c=%2F&d[]=1"),
        ("http://[2606:4700::1]:8080/", "http://[2606:4700::1]:8080/"),
        ("http://[::FFFF:8.8.8.8]/", "http://8.8.8.8/"),
        ("http://my_host/", "http://my_host/"),
        ("http://localhost/", "http://localhost/"),
        ("http://134744072/", "http://8.8.8.8/"),
        ("http://example.com/x/../a", "http://example.com/a"),
        ("http://example.com/x/./a/.", "http://example.com/x/a/"),
        ("http://example.com/../../a/..", "http://example.com/"),
        ("http://example.com/x/%2e%2E/a", "http://example.com/a"),
        ("http://example.com/a//b/../.c/..d?e/../f", "http://example.com/a//.c/..d?e/../f"),
        ("http://example.com/%c3%b8?%c3%b8", "http://example.com/%C3%B8?%C3%B8"),
        ("http://example.com/%61%7e%2f%26?%61=%2b", "http://example.com/a~%2F%26?a=%2B"),
        ("http://example.com/100%?%%361", "http://example.com/100%25?%2561"),
    ],
)  # fmt: skip
def test_url_has_one_spelling(url: str, one: str) -> None:
    assert read_url(url).url == one
    assert read_url(one).url == one


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "//example.com/", "/path", "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)",
        "gopher://x/", "http:/example.com", "http://", "http:///path", "http://:80/", "http://example.com:0/",
        "http://example.com:65536/", "http://example.com:port/", "http://example.com:-1/", "http://example.com:８０/",
        "http://exa mple.com/", "http://example.com/a b", "http://example.com/\r\nX: y", " http://example.com/",
        "http://example.com\t/", "http://good.com\\@evil.com/", "http:\\\\evil.com", "http://example.com/\\..\\x",
        "http://127%2e0.0.1/", "http://%6c%6f/", "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[::1",
        "http://[::1]x/", "http://::1/", "http://[127.0.0.1]/", "http://a..b/", "http://./", "http://.com/",
        "http://..com/", "http://" + "a" * 64 + ".com/", "http://" + "a." * 127 + "com/", "http://a|b/", "http://a,b/",
        "http://*.example.com/", "http://\u202eexample.com/", "http://℀.com/", "http://a\x00b/", "http://[v1.x]/",
        "http://example.com/" + "a" * URL_MAX,
    ],
)  # fmt: skip
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(HttpRefusedError):
        read_url(url)


@pytest.mark.parametrize("url", ["http://ann:pass-word@example.com/", "http://ann@example.com", "http://@example.com/"])
def test_credentials_in_a_url_are_refused_and_not_told(url: str) -> None:
    with pytest.raises(HttpRefusedError) as caught:
        read_url(url)
    assert "pass-word" not in repr((str(caught.value), caught.value.facts))
    assert "headers=" in str(caught.value)


def test_what_is_no_text_is_misuse() -> None:
    with pytest.raises(UsageError, match="a URL is text, not int"):
        read_url(7)  # type: ignore[arg-type]  # that is the mistake


def test_query_is_not_shown() -> None:
    assert read_url("https://example.com/a?token=secret").shown == "https://example.com/a?..."


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"http://{text}/x", f"https://example.com/{text}"):
        try:
            target = read_url(url)
        except HttpRefusedError:
            continue
        assert target.url.isascii()
        assert read_url(target.url) == target
        # The library that makes the connection sees the same.
        parts = urlsplit(target.url)
        assert parts.hostname == target.host
        assert (parts.username, parts.password) == (None, None)


# --- redirects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/b", "http://example.com:8080/b"),
        ("b?c", "http://example.com:8080/a/b?c"),
        ("../b", "http://example.com:8080/b"),
        ("//other.com/b", "http://other.com/b"),
        ("https://other.com", "https://other.com/"),
        ("?c", "http://example.com:8080/a/x?c"),
        ("", "http://example.com:8080/a/x?q"),
    ],
)
def test_redirect_is_read_from_where_it_stands(location: str, leads_to: str) -> None:
    assert follow(read_url("http://example.com:8080/a/x?q"), location).url == leads_to


@pytest.mark.parametrize(
    "location",
    ["ftp://example.com/", "file:///etc/passwd", "http://a b/", "\\\\evil.com", "//ann@other.com/", "http://[::1",
     "data:,x", "javascript:1", "http://x\n/"],
)  # fmt: skip
def test_redirect_to_what_is_no_plain_url_is_refused(location: str) -> None:
    with pytest.raises(HttpRefusedError):
        follow(read_url("http://example.com/"), location)


def test_redirect_from_https_to_http_is_refused() -> None:
    with pytest.raises(HttpRefusedError, match="can be read and changed on the way"):
        follow(read_url("https://example.com/a"), "http://example.com/a")
