"""Headers: which may be given, which go along, and that none is ever told."""

from __future__ import annotations

import pytest

from headwater.errors import UsageError
from headwater.http.http_headers import check_headers, digest, for_other_origin, merged, told
from headwater.http.http_limits import HEADER_MAX, TOLD_MAX
from headwater.workflow.retry_after import retry_after_ms

SECRET = "Bearer sk-0123456789"


@pytest.mark.parametrize(
    "name",
    ["Host", "Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect",
     "Proxy-Authorization", "Proxy-Connection", "Accept-Encoding", "If-None-Match", "If-Modified-Since", "Range"],
)  # fmt: skip
def test_what_is_ours_may_not_be_given(name: str) -> None:
    for spelled in (name, name.lower(), name.upper()):
        with pytest.raises(UsageError, match="may not be given") as caught:
            check_headers({spelled: SECRET}, "hw.http.json")
        assert "0123456789" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "a\n", "(x)", 7])
def test_a_name_has_to_be_one(name: str) -> None:
    with pytest.raises(UsageError, match="no name of a header"):
        check_headers({name: SECRET}, "hw.http.json")


@pytest.mark.parametrize(
    "value", ["sk-123\r\nX: y", "sk-123\n", "sk-123\x00", "sk-123é", " sk-123", "", "x" * (HEADER_MAX + 1), 7]
)
def test_a_value_that_cannot_be_sent_is_refused_and_not_told(value: str) -> None:
    with pytest.raises(UsageError, match="the value of X-Key cannot be sent") as caught:
        check_headers({"X-Key": value}, "hw.http.json")
    assert "sk-123" not in repr((str(caught.value), caught.value.facts))


def test_a_header_is_given_once() -> None:
    with pytest.raises(UsageError, match="twice"):
        check_headers({"X-Key": "a", "x-key": "b"}, "hw.http.json")


def test_headers_are_the_same_in_any_order_and_case() -> None:
    one = check_headers({"X-Key": "a", "Accept": "b"}, "")
    assert one == check_headers({"accept": "b", "x-KEY": "a"}, "") == (("accept", "b"), ("x-key", "a"))
    assert check_headers(None, "") == ()
    assert merged(one, (("x-key", "c"),)) == (("accept", "b"), ("x-key", "c"))


def test_another_origin_is_sent_nothing_that_could_be_a_secret() -> None:
    given = check_headers(
        {"Authorization": SECRET, "Cookie": "a=b", "X-Api-Key": "k", "Accept": "a/b", "User-Agent": "me"}, ""
    )
    assert for_other_origin(given) == (("accept", "a/b"), ("user-agent", "me"))


def test_digest_tells_headers_apart_and_holds_none_of_them() -> None:
    given = check_headers({"Authorization": SECRET}, "")
    assert digest(given) == digest(check_headers({"authorization": SECRET}, ""))
    assert digest(given) != digest(check_headers({"Authorization": SECRET + "1"}, ""))
    assert digest(given) != digest(check_headers({"X-Authorization": SECRET}, ""))
    assert len(digest(given)) == 24
    assert digest(()) == ""


def test_what_a_server_quotes_of_a_secret_is_not_told() -> None:
    given = check_headers({"Authorization": SECRET, "User-Agent": "headwater"}, "")
    said = told(f"bad key sk-0123456789\n for {SECRET}, headwater", given)
    assert said == "bad key *** for ***, headwater"
    assert len(told("x" * 1000, given)) == TOLD_MAX


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        (None, None),
        ("5", 5_000),
        (" 0 ", 0),
        ("-5", None),
        ("soon", None),
        ("1.5", None),
        ("", None),
        ("9" * 400, 999_999_999_999_000),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 9_000),
        ("Thu, 01 Jan 1970 00:00:10 -0000", 9_000),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 41 Jan 1970 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, wait_ms: float | None) -> None:
    assert retry_after_ms(value, 1_000) == wait_ms
