"""Redirects are followed by hand: each hop is checked as the first one was, and secrets stay with whom they are for."""

from __future__ import annotations

import pytest

from headwater.errors import HttpAnswerError, HttpRefusedError
from headwater.http.http_headers import check_headers
from headwater.http.http_limits import REDIRECTS_MAX
from headwater.http.url_policy import UrlPolicy
from tests.http.rig import PUBLIC, Names, Server, answer, fetch, fetcher

SECRETS = {"Authorization": "Bearer sk-0123456789", "Cookie": "a=b", "X-Api-Key": "key", "Accept": "text/x"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(server: Server, status: int) -> None:
    server["/a"] = answer(b"gone", status, location="b?c")
    server["/b"] = answer(b"x")
    found = fetch(fetcher(), server.url("/a"))
    assert (found.body, found.validators.url) == (b"x", server.url("/b?c"))
    assert server.paths == ["/a", "/b?c"]


def test_as_many_as_are_allowed_are_followed_and_no_more(server: Server) -> None:
    for hop in range(10):
        server[f"/{hop}"] = answer(b"", 302, location=f"/{hop + 1}")
    server[f"/{REDIRECTS_MAX}"] = answer(b"x")
    assert fetch(fetcher(), server.url("/0")).body == b"x"
    server[f"/{REDIRECTS_MAX}"] = answer(b"", 302, location="/0")
    server.asked.clear()
    with pytest.raises(HttpAnswerError, match=r"more than 5 redirects: .*/0 -> .*/1 -> .* -> .*/0"):
        fetch(fetcher(), server.url("/0"))
    assert len(server.asked) == REDIRECTS_MAX + 1


def test_a_redirect_without_a_place_is_no_answer(server: Server) -> None:
    server["/"] = answer(b"x", 302)
    with pytest.raises(HttpAnswerError, match="answered 302"):
        fetch(fetcher(), server.url())


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/", "http://localhost.example/", "http://169.254.169.254/latest/meta-data", "http://[::1]/",
        "http://2130706433/", "http://0/", "http://[::ffff:10.0.0.1]/", "http://inside.example/", "//10.0.0.1/",
        "http://０x7f.1/", "file:///etc/passwd", "ftp://public.example/", "http://ann:pw@public.example/",
    ],
)  # fmt: skip
def test_a_redirect_inside_is_refused_before_anything_is_sent_there(server: Server, location: str) -> None:
    server["/"] = answer(b"", 302, location=location.encode().decode("latin-1"))
    names = Names(server, public_example=[PUBLIC], inside_example=["10.0.0.1"], localhost_example=["127.0.0.1"])
    with pytest.raises(HttpRefusedError):
        fetch(fetcher(names), "http://public.example/")
    assert names.connected == [(PUBLIC, 80)]


def test_a_redirect_to_its_own_name_is_looked_up_and_checked_anew(server: Server) -> None:
    """Rebinding between two hops."""
    server["/"] = answer(b"", 302, location="/next")
    server["/next"] = answer(b"inside")
    names = Names(server, evil_example=[[PUBLIC], ["127.0.0.1"]])
    with pytest.raises(HttpRefusedError, match=r"leads to 127\.0\.0\.1"):
        fetch(fetcher(names), "http://evil.example/")
    assert server.paths == ["/"]


def test_a_redirect_to_a_host_that_is_not_on_the_list_is_refused(server: Server) -> None:
    server["/"] = answer(b"", 302, location="http://other.example/")
    names = Names(server, api_example=[PUBLIC], other_example=[PUBLIC])
    with pytest.raises(HttpRefusedError, match=r"http://other\.example/ is not allowed"):
        fetch(fetcher(names, policy=UrlPolicy(["api.example"])), "http://api.example/")
    assert names.asked == ["api.example"]


# --- secrets --------------------------------------------------------------------------------------------------


def sent_secrets(server: Server) -> list[set[str]]:
    return [{"authorization", "cookie", "x-api-key"} & asked.headers.keys() for asked in server.asked]


ALL = {"authorization", "cookie", "x-api-key"}


def test_secrets_go_along_on_the_same_origin(server: Server) -> None:
    server["/"] = answer(b"", 302, location="/next")
    server["/next"] = answer(b"x")
    fetch(fetcher(), server.url(), check_headers(SECRETS, ""))
    assert sent_secrets(server) == [ALL, ALL]


@pytest.mark.parametrize(
    "location", ["http://other.example/next", "http://api.example:81/next", "http://b.api.example/next"]
)
def test_secrets_stay_behind_when_the_origin_changes(server: Server, location: str) -> None:
    server["/"] = answer(b"", 302, location=location)
    server["/next"] = answer(b"x")
    names = Names(server, api_example=[PUBLIC], other_example=[PUBLIC], b_api_example=[PUBLIC])
    fetch(fetcher(names), "http://api.example/", check_headers(SECRETS, ""))
    assert sent_secrets(server) == [ALL, set()]
    assert server.asked[1].headers["accept"] == "text/x"


def test_secrets_that_stayed_behind_do_not_come_back(server: Server) -> None:
    server["/"] = answer(b"", 302, location="http://other.example/away")
    server["/away"] = answer(b"", 302, location="http://api.example/back")
    server["/back"] = answer(b"x")
    names = Names(server, api_example=[PUBLIC], other_example=[PUBLIC])
    fetch(fetcher(names), "http://api.example/", check_headers(SECRETS, ""))
    assert sent_secrets(server) == [ALL, set(), set()]
