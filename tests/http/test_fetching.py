"""One request to a real server: what is sent, what comes back, and what it is told as when it fails."""

from __future__ import annotations

import asyncio
import gzip
import socket

import pytest

from headwater._version import __version__
from headwater.errors import HttpAnswerError, HttpRefusedError, HttpStatusError, HttpUnreachableError
from headwater.http.http_headers import check_headers
from headwater.http.http_limits import REQUESTS_MAX
from headwater.http.http_request import Validators
from headwater.http.url_policy import UrlPolicy
from tests.http.rig import PUBLIC, Asked, Names, Server, answer, fetch, fetcher, head, held


def test_an_answer_comes_as_it_was_given(server: Server) -> None:
    server["/a"] = answer(b"hello", content_type="text/plain; charset=iso-8859-1", etag='"v1"')
    found = fetch(fetcher(), server.url("/a?b=c#d"))
    assert (found.body, found.charset, found.is_unchanged) == (b"hello", "iso-8859-1", False)
    assert found.validators == Validators(server.url("/a?b=c"), '"v1"', "")
    [asked] = server.asked
    assert asked.path == "/a?b=c"
    assert asked.headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept": "*/*",
        "accept-encoding": "gzip",
        "connection": "close",
        "user-agent": f"headwater/{__version__}",
    }


def test_headers_that_are_given_are_sent(server: Server) -> None:
    server["/"] = answer()
    given = check_headers({"Authorization": "Bearer sk-1", "User-Agent": "me", "Accept": "a/b"}, "")
    fetch(fetcher(), server.url(), given, accept="application/json")
    sent = server.asked[0].headers
    assert (sent["authorization"], sent["user-agent"], sent["accept"]) == ("Bearer sk-1", "me", "a/b")


def test_a_name_is_asked_at_its_address_and_under_its_name(server: Server) -> None:
    server["/"] = answer(b"x")
    names = Names(server, api_example_com=[PUBLIC])
    assert fetch(fetcher(names), "http://API.example.com./").body == b"x"
    assert names.asked == ["api.example.com"]
    assert names.connected == [(PUBLIC, 80)]
    assert server.asked[0].headers["host"] == "api.example.com"


def test_a_port_is_part_of_the_name_that_a_server_is_told(server: Server) -> None:
    server["/"] = answer()
    fetch(
        fetcher(Names(server, bücher_example=[PUBLIC], **{"xn--bcher-kva_example": [PUBLIC]})),
        "http://bücher.example:81/",
    )
    assert server.asked[0].headers["host"] == "xn--bcher-kva.example:81"


def test_the_environment_names_no_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server["/"] = answer(b"x")
    assert fetch(fetcher(), server.url()).body == b"x"


def test_names_of_this_machine_are_looked_up_by_the_system(server: Server) -> None:
    server["/"] = answer(b"x")
    assert fetch(fetcher(), server.url(host="localhost")).body == b"x"


# --- names and addresses --------------------------------------------------------------------------------------


def test_nothing_is_sent_to_an_address_inside(server: Server) -> None:
    for url in (server.url(), server.url(host="localhost"), server.url(host="2130706433"), server.url(host="[::1]")):
        with pytest.raises(HttpRefusedError, match="loopback"):
            fetch(fetcher(policy=UrlPolicy()), url)
    assert server.connections == 0


def test_a_name_that_leads_inside_is_refused_before_anything_is_sent(server: Server) -> None:
    names = Names(
        server, evil_example=["169.254.169.254"], half_example=[PUBLIC, "10.0.0.1"], six_example=["::ffff:7f00:1"]
    )
    for host in ("evil.example", "half.example", "six.example"):
        with pytest.raises(HttpRefusedError, match="leads to"):
            fetch(fetcher(names), f"http://{host}/")
    assert names.connected == []


def test_a_name_that_leads_elsewhere_a_moment_later_changes_nothing(server: Server) -> None:
    """Rebinding: the first answer is checked, and the connection goes there; the second is never asked for."""
    server["/"] = answer(b"x")
    names = Names(server, evil_example=[[PUBLIC], ["127.0.0.1"]])
    fetch(fetcher(names), "http://evil.example/")
    assert names.asked == ["evil.example"]
    assert names.connected == [(PUBLIC, 80)]
    # And the next request is checked anew.
    with pytest.raises(HttpRefusedError, match=r"leads to 127\.0\.0\.1"):
        fetch(fetcher(names), "http://evil.example/")
    assert names.connected == [(PUBLIC, 80)]


def test_the_next_address_is_tried_if_one_does_not_answer(server: Server) -> None:
    server["/"] = answer(b"x")
    names = Names(server, api_example=["2606:4700::1", PUBLIC])
    names.dead.add("2606:4700::1")
    assert fetch(fetcher(names), "http://api.example/").body == b"x"
    assert names.connected == [("2606:4700::1", 80), (PUBLIC, 80)]


def test_a_host_at_which_nobody_answers_is_told_with_all_that_was_tried(server: Server) -> None:
    names = Names(server, api_example=["8.8.8.8", "8.8.4.4"])
    names.dead |= {"8.8.8.8", "8.8.4.4"}
    with pytest.raises(HttpUnreachableError, match=r"8\.8\.8\.8: nobody is there; 8\.8\.4\.4: nobody is there"):
        fetch(fetcher(names), "http://api.example/a?token=secret")


def test_a_port_at_which_nobody_listens_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(HttpUnreachableError, match="cannot be reached: 127"):
            fetch(fetcher(), f"http://127.0.0.1:{taken.getsockname()[1]}/")


def test_a_name_that_does_not_exist_is_told(server: Server) -> None:
    with pytest.raises(HttpUnreachableError, match=r"no\.example has no address"):
        fetch(fetcher(Names(server)), "http://no.example/")


def test_a_host_that_is_not_on_the_list_is_not_looked_up(server: Server) -> None:
    names = Names(server, other_example=[PUBLIC])
    with pytest.raises(HttpRefusedError, match=r"allow= has api\.example"):
        fetch(fetcher(names, policy=UrlPolicy(["api.example"])), "http://other.example/")
    assert names.asked == []


# --- answers that are none ------------------------------------------------------------------------------------


def test_an_error_of_the_server_is_told_with_its_status_and_the_start_of_what_it_says(server: Server) -> None:
    server["/"] = answer(b"no such\nthing: " + b"x" * 5000, 404)
    with pytest.raises(HttpStatusError) as caught:
        fetch(fetcher(), server.url("/?token=secret"))
    assert caught.value.facts["status"] == 404
    assert str(caught.value).startswith(f"HW603: {server.url()}?... answered 404 Not Found: no such thing: xxx")
    assert len(str(caught.value)) < 500
    assert "secret" not in str(caught.value)


def test_an_error_that_is_packed_is_unpacked_and_one_that_is_broken_is_told_without_it(server: Server) -> None:
    server["/gzip"] = answer(gzip.compress(b"too bad" + b" " * 100_000), 500, content_encoding="gzip")
    server["/broken"] = answer(b"\xff\xfe", 500, content_encoding="br")
    server["/odd"] = answer(b"", 599)
    for path, said in (("/gzip", "500 Internal Server Error: too bad"), ("/broken", "500 Internal"), ("/odd", "599")):
        with pytest.raises(HttpStatusError, match=said):
            fetch(fetcher(), server.url(path))


def test_a_secret_that_a_server_quotes_is_not_told(server: Server) -> None:
    server["/"] = answer(b"the key sk-0123456789 is wrong", 401)
    with pytest.raises(HttpStatusError) as caught:
        fetch(fetcher(), server.url(), check_headers({"Authorization": "Bearer sk-0123456789"}, ""))
    assert "the key *** is wrong" in str(caught.value)
    assert "0123456789" not in repr(caught.value.facts)


@pytest.mark.parametrize("status", [206, 300, 304, 305])
def test_a_status_that_was_not_asked_for_is_told(server: Server, status: int) -> None:
    server["/"] = answer(b"" if status == 304 else b"x", status)
    with pytest.raises(HttpAnswerError, match=f"answered {status}"):
        fetch(fetcher(), server.url())


def test_retry_after_is_handed_on(server: Server) -> None:
    server["/"] = answer(b"", 429, retry_after="7")
    server["/date"] = answer(b"", 503, retry_after="Thu, 01 Jan 1970 00:01:00 GMT")
    for path, wait_ms in (("/", 7_000), ("/date", 50_000)):
        with pytest.raises(HttpStatusError) as caught:
            fetch(fetcher(now_ms=lambda: 10_000.0), server.url(path))
        assert caught.value.facts["retry_after_ms"] == wait_ms


# --- conditions -----------------------------------------------------------------------------------------------


def test_a_server_is_asked_whether_anything_is_new(server: Server) -> None:
    server["/"] = answer(b"", 304, etag='"v2"')
    since = Validators(server.url(), '"v1"', "Thu, 01 Jan 1970 00:00:00 GMT")
    found = fetch(fetcher(), server.url(), validators=since)
    assert (found.is_unchanged, found.body) == (True, b"")
    assert found.validators.etag == '"v2"'
    assert server.asked[0].headers["if-none-match"] == '"v1"'
    assert server.asked[0].headers["if-modified-since"] == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_a_server_that_names_nothing_anew_means_what_it_named_before(server: Server) -> None:
    server["/"] = answer(b"", 304)
    since = Validators(server.url(), '"v1"', "")
    assert fetch(fetcher(), server.url(), validators=since).validators == since


def test_only_the_hop_that_gave_it_is_asked_whether_it_is_new(server: Server) -> None:
    server["/a"] = answer(b"", 302, location="/b")
    server["/b"] = answer(b"", 304)
    found = fetch(fetcher(), server.url("/a"), validators=Validators(server.url("/b"), '"v1"', ""))
    assert found.is_unchanged
    assert ["if-none-match" in asked.headers for asked in server.asked] == [False, True]
    # Another place gives it now: nothing is known of that.
    server["/a"] = answer(b"new")
    found = fetch(fetcher(), server.url("/a"), validators=Validators(server.url("/b"), '"v1"', ""))
    assert (found.is_unchanged, found.body) == (False, b"new")


def test_names_that_cannot_be_sent_back_are_not_kept(server: Server) -> None:
    server["/"] = answer(b"x", etag='"\xff"', last_modified="x" * 10_000)
    assert not fetch(fetcher(), server.url()).validators


# --- many, and none -------------------------------------------------------------------------------------------


def test_only_so_many_are_asked_at_once(server: Server) -> None:
    server["/"] = held(answer(b"x"))
    one = fetcher()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.fetch(server.url(), ())) for _ in range(REQUESTS_MAX + 3)]
            await server.until(lambda: len(server.asked) == REQUESTS_MAX)
            for asked in list(server.asked):
                server.release(asked)
            await server.until(lambda: len(server.asked) == REQUESTS_MAX + 3)
            for asked in server.asked[REQUESTS_MAX:]:
                server.release(asked)
        assert {task.result().body for task in tasks} == {b"x"}

    asyncio.run(main())


def test_one_fetcher_serves_one_loop_after_another(server: Server) -> None:
    server["/"] = answer(b"x")
    one = fetcher()
    assert [fetch(one, server.url()).body for _ in range(3)] == [b"x"] * 3


@pytest.mark.parametrize("has_begun", [False, True])
def test_the_server_sees_that_a_caller_has_given_up(server: Server, has_begun: bool) -> None:
    async def begin(asked: Asked, out: asyncio.StreamWriter) -> None:
        if has_begun:
            out.write(head(content_length="100") + b"x")
        await asked.released.wait()
        out.write(b"never")

    server["/"] = begin

    async def main() -> None:
        task = asyncio.create_task(fetcher().fetch(server.url(), ()))
        await server.until(lambda: len(server.asked) == 1)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until(lambda: server.asked[0].is_gone)

    asyncio.run(main())
