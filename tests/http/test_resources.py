"""`hw.http.json`, `text` and `bytes`: what a program sees of a server, and what the server sees of the program."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, NotOpen, UsageError
from headwater.host.author_modules import new_fingerprints
from tests.http.desk import Desk, as_json, local
from tests.http.rig import PUBLIC, Names, Server, answer, head, held

SECRET = "sk-very-secret-0123456789"


# --- three verbs ----------------------------------------------------------------------------------------------


def test_json_is_pending_and_then_a_value(server: Server) -> None:
    server["/"] = as_json({"a": [1, None, "x"], "b": 0.5})
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        desk.url.value = server.url()
        await space.settle()

    desk.run(main)
    assert desk.log == ["-", {"a": [1, None, "x"], "b": 0.5}]
    assert server.asked[0].headers["accept"] == "application/json"


def test_what_is_wrapped_asks_as_a_plain_function_does(server: Server) -> None:
    server["/"] = as_json([1])
    verb: Any = local().json
    resource = verb._resource("1m", hw.Retry())
    assert asyncio.run(resource.__wrapped__(*verb._key(server.url(), None))) == [1]
    assert server.asked[0].headers["accept"] == "application/json"


def test_text_is_text_and_bytes_are_bytes(server: Server) -> None:
    server["/"] = answer("grün".encode("latin-1"), content_type="text/plain; charset=latin-1")
    client = local()

    async def main(space: hw.AsyncSpace) -> None:
        assert client.text(server.url()) == client.bytes(server.url()) == hw.Pending()
        await space.settle()
        assert client.text(server.url()) == hw.Ready("grün")
        assert client.bytes(server.url()) == hw.Ready("grün".encode("latin-1"))

    Desk(client.text).run(main)
    assert len(server.asked) == 2


def test_whoever_looks_runs_again_when_the_answer_changes_and_not_otherwise(server: Server) -> None:
    server["/"] = as_json(1, etag='"a"')
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        desk.url.value = server.url()
        await space.settle()
        assert desk.taken() == ["-", 1]
        # The same, under another name.
        server["/"] = as_json(1, etag='"b"', last_modified="Thu, 01 Jan 1970 00:00:00 GMT")
        await desk.later(space, 60)
        assert (desk.taken(), len(server.asked)) == ([], 2)
        server["/"] = as_json(2)
        await desk.later(space, 60)
        assert (desk.taken(), len(server.asked)) == ([2], 3)

    desk.run(main)
    assert server.asked[2].headers["if-none-match"] == '"b"'


def test_in_plain_code_an_answer_comes_while_the_program_waits(server: Server) -> None:
    server["/"] = as_json(7)
    desk = Desk(local().json)
    with desk.open() as space:
        desk.url.value = server.url()
        for _ in range(2000):
            if desk.log == ["-", 7]:
                break
            space.settle()
            threading.Event().wait(0.01)
    assert desk.log == ["-", 7]
    assert len(server.asked) == 1


# --- one request ----------------------------------------------------------------------------------------------


def test_many_readers_share_one_request_however_they_spell_it(server: Server) -> None:
    server["/"] = held(as_json(7))
    client = local()
    desk = Desk(client.json)
    seen: list[object] = []
    for number in range(20):
        url = f"HTTP://{['127.0.0.1', '2130706433', '127.1', '0x7f.1'][number % 4]}:{server.port}#x"
        desk.app.sink(name=f"show{number}")(partial(lambda spelled: seen.append(client.json(spelled)), url))

    async def main(space: hw.AsyncSpace) -> None:
        await server.until(lambda: len(server.asked) == 1)
        server.release(server.asked[0])
        await space.settle()
        assert seen.count(hw.Ready(7)) == 20

    desk.run(main)
    assert server.connections == 1


def test_clients_with_the_same_settings_ask_once(server: Server) -> None:
    server["/"] = as_json(7)
    desk = Desk(lambda url: local(headers={"X-Key": "k"}).json(url))

    async def main(space: hw.AsyncSpace) -> None:
        desk.url.value = server.url()
        desk.app.sink(name="other")(lambda: desk.note(local().json(desk.url.value, headers={"x-key": "k"})))
        await space.settle()

    desk.run(main)
    assert desk.log == ["-", "-", 7, 7]
    assert server.connections == 1


def test_other_settings_and_other_headers_are_asked_for_on_their_own(server: Server) -> None:
    server["/"] = as_json(7)
    url = server.url()

    async def main(space: hw.AsyncSpace) -> None:
        local().json(url)
        local(timeout="20s").json(url)
        local(allow=["127.0.0.1:*"]).json(url)
        local().json(url, fresh_for="2m")
        local().json(url, headers={"X-Key": "a"})
        local().json(url, headers={"X-Key": "b"})
        local().json(url, retry=hw.Retry(0))
        local().json(url, headers={})
        await space.settle()

    Desk(local().json).run(main)
    assert len(server.asked) == 7


def test_the_request_is_stopped_when_nobody_looks_any_more(server: Server) -> None:
    server["/slow"] = held(as_json("late"))
    server["/b"] = as_json("b")
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        desk.url.value = server.url("/slow")
        await server.until(lambda: len(server.asked) == 1)
        desk.url.value = server.url("/b")
        await server.until(lambda: server.asked[0].is_gone)
        await space.settle()

    desk.run(main)
    assert desk.log == ["-", "-", "b"]


def test_a_request_is_stopped_when_the_space_is_closed(server: Server) -> None:
    server["/slow"] = held(as_json("late"))
    desk = Desk(local().json)

    async def main() -> None:
        async with desk.aopen():
            desk.url.value = server.url("/slow")
            await server.until(lambda: len(server.asked) == 1)
        await server.until(lambda: server.asked[0].is_gone)

    asyncio.run(main())
    assert desk.log == ["-"]


def test_there_and_back_again_asks_again_and_ends_with_the_right_answer(server: Server) -> None:
    server["/a"] = held(as_json("a"))
    server["/b"] = as_json("b")
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        desk.url.value = server.url("/a")
        await server.until(lambda: len(server.asked) == 1)
        desk.url.value = server.url("/b")
        await space.settle()
        server["/a"] = as_json("a, anew")
        desk.url.value = server.url("/a")
        await space.settle()

    desk.run(main)
    assert desk.log == ["-", "-", "b", "-", "a, anew"]
    assert server.paths == ["/a", "/b", "/a"]


# --- failures -------------------------------------------------------------------------------------------------


def test_an_error_of_the_server_is_a_failure_with_its_status_and_the_last_answer(server: Server) -> None:
    server["/"] = as_json(7)
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        desk.url.value = server.url()
        await space.settle()
        server["/"] = answer(b"gone for good", 410)
        await desk.later(space, 60)

    desk.run(main)
    assert desk.log == ["-", 7, ("HttpStatusError", 7)]
    error = desk.failures[0].error
    assert error.facts["status"] == 410
    assert error.facts["text"] == f"{server.url()} answered 410 Gone: gone for good"


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        (answer(b"<html>"), "HttpAnswerError"),
        (answer(b"[" * 50_000), "HttpAnswerError"),
        (answer(b'"' + b"x" * 2000 + b'"'), "HttpAnswerError"),
        (answer(b"", 302, location="http://169.254.169.254/"), "HttpRefusedError"),
        (answer(b"", 302, location="/"), "HttpAnswerError"),
        (answer(b"no", 403), "HttpStatusError"),
    ],
)
def test_what_cannot_be_used_is_a_failure_and_asked_once(server: Server, way: Any, kind: str) -> None:
    server["/"] = way
    desk = Desk(local(max_bytes=1000).json)

    async def main(space: hw.AsyncSpace) -> None:
        desk.url.value = server.url()
        await space.settle()
        await desk.later(space, 30)

    desk.run(main)
    assert desk.log == ["-", (kind, None)]
    assert len(server.asked) in (1, 6)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::1]", "0.0.0.0"])
def test_without_a_client_of_ones_own_nothing_inside_is_asked(server: Server, host: str) -> None:
    desk = Desk(hw.http.json)

    async def main(space: hw.AsyncSpace) -> None:
        desk.url.value = server.url(host=host)
        await space.settle()

    desk.run(main)
    assert desk.log == ["-", ("HttpRefusedError", None)]
    assert server.connections == 0


def test_a_public_host_is_asked_without_a_client_of_ones_own(server: Server) -> None:
    server["/a"] = as_json(7)
    desk = Desk(hw.http.Client(network=Names(server, api_example=[PUBLIC])).json)

    async def main(space: hw.AsyncSpace) -> None:
        desk.url.value = "http://api.example/a"
        await space.settle()

    desk.run(main)
    assert desk.log == ["-", 7]


def test_a_url_with_a_password_is_a_failure_that_does_not_tell_it(server: Server, tmp_path: Path) -> None:
    desk = Desk(local().json, str(tmp_path / "desk.db"))

    async def main(space: hw.AsyncSpace) -> str:
        read = local().json
        desk.app.sink(name="look")(lambda: desk.note(read(f"http://ann:{SECRET}@127.0.0.1:{server.port}/")))
        await space.settle()
        return repr((space.graph("json"), space.graph(), space.stats, desk.failures))

    told = desk.run(main)
    assert desk.log == ["-", ("HttpRefusedError", None)]
    assert SECRET not in told
    assert all(SECRET.encode() not in path.read_bytes() for path in tmp_path.iterdir())


# --- secrets --------------------------------------------------------------------------------------------------


def test_headers_are_sent_and_stand_nowhere_else(server: Server, tmp_path: Path) -> None:
    async def quote(asked: Any, out: asyncio.StreamWriter) -> None:
        said = b"wrong: " + asked.headers["authorization"].encode()
        out.write(head(401, content_length=str(len(said))) + said)

    server["/quotes"] = quote
    server["/"] = as_json(7, etag='"a"')
    client = local(headers={"Cookie": f"{SECRET}-cookie"})
    desk = Desk(lambda url: client.json(url, headers={"Authorization": f"Bearer {SECRET}"}), str(tmp_path / "desk.db"))

    async def main(space: hw.AsyncSpace) -> str:
        desk.url.value = server.url()
        await space.settle()
        desk.url.value = server.url("/quotes")
        await space.settle()
        await space.synced()
        return repr((space.graph("json"), space.graph(), space.stats, desk.failures, client, client.json))

    told = desk.run(main)
    assert desk.log == ["-", 7, "-", ("HttpStatusError", None)]
    assert "wrong: ***" in desk.failures[0].error.facts["text"]  # type: ignore[operator]  # it is text
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {SECRET}"}
    assert {asked.headers["cookie"] for asked in server.asked} == {f"{SECRET}-cookie"}
    assert SECRET not in told
    stored = [path.read_bytes() for path in tmp_path.iterdir()]
    assert any(server.url("/quotes").encode() in data for data in stored)
    assert not any(SECRET.encode() in data for data in stored)


# --- where it lives, and misuse -------------------------------------------------------------------------------


def test_it_lives_in_the_space_that_is_open_around_the_call(server: Server) -> None:
    server["/"] = as_json(7)
    client = local()
    one, other = Desk(client.json), Desk(client.json)

    async def main() -> None:
        async with one.aopen() as first:
            one.url.value = server.url()
            await first.settle()
            async with other.aopen() as second:
                other.url.value = server.url()
                await second.settle()

    asyncio.run(main())
    assert one.log == other.log == ["-", 7]
    assert len(server.asked) == 2


def test_where_no_space_is_open_it_says_so() -> None:
    with pytest.raises(NotOpen):
        hw.http.json("https://api.example/")


@pytest.mark.parametrize(
    "options",
    [
        {"max_bytes": 0}, {"max_bytes": True}, {"max_bytes": 1.5}, {"max_bytes": 17 * 1024 * 1024}, {"timeout": 0},
        {"timeout": "soon"}, {"headers": {"Host": "x"}}, {"headers": {"X": SECRET + "\n"}}, {"allow": "api.example"},
        {"allow": ["a b"]},
    ],
)  # fmt: skip
def test_a_client_that_makes_no_sense_is_told_when_it_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError) as caught:
        hw.http.Client(**options)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"headers": {"Host": "x"}}, {"headers": {"X": "a\r\nb"}}, {"fresh_for": 0}, {"retry": 3}]
)
def test_a_call_that_makes_no_sense_is_told_at_once(options: dict[str, Any]) -> None:
    with hw.App("x").open("memory:"), pytest.raises(UsageError):
        hw.http.json("https://api.example/", **options)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("timeout", r"hw\.http\.json\(\) takes no timeout=: .* hw\.http\.Client\(timeout=\.\.\.\)"),
        ("params", "write them into the URL"),
        ("colour", "headers=, fresh_for= and retry= are expected"),
    ],
)
def test_an_option_that_a_call_has_not_is_told_with_where_it_belongs(option: str, told: str) -> None:
    given: dict[str, Any] = {option: "1s"}
    with hw.App("x").open("memory:"):
        for call in (hw.http.json, hw.http.json.refresh):
            with pytest.raises(UsageError, match=told):
                call("https://api.example/", **given)


def test_what_is_no_url_is_named_in_the_failure_without_its_secrets() -> None:
    async def main() -> None:
        async with hw.App("x").aopen("memory:") as space:
            for url, told in (
                ("https://api.example/a b?token=hush", "http.json('https://api.example/a b') failed: "),
                ("https://ann:hush@api.example/", "http.json(a URL that is not shown) failed: "),
            ):
                hw.http.json(url)
                await space.settle()
                assert isinstance(found := hw.http.json(url), hw.Failed)
                assert told in str(found.error)
                assert "hush" not in str(found.error)

    asyncio.run(main())


def test_why_tells_of_a_url_as_of_other_resources(server: Server) -> None:
    server["/"] = as_json(7)
    client = local()

    async def main() -> None:
        async with hw.App("x").aopen("memory:") as space:
            client.json(server.url(), fresh_for="10m")
            await space.settle()
            told = hw.why(client.json, server.url(), fresh_for="10m")
            assert f"http.json({server.url()}) is a resource, not observed; 1 request was sent" in told
            assert "has not been called here" in hw.why(client.json, server.url("/other"))

    asyncio.run(main())


def print_of(client: hw.http.Client) -> bytes:
    """As another process would find it."""
    return new_fingerprints().of(lambda: (client.json("https://api.example/"), client.text))


def test_a_client_that_a_function_names_counts_by_its_settings() -> None:
    one = print_of(local(headers={"X-Key": "a"}))
    assert one == print_of(local(headers={"x-key": "a"}))
    others = [
        print_of(local()),
        print_of(local(headers={"X-Key": "b"})),
        print_of(hw.http.Client(headers={"X-Key": "a"})),
    ]
    assert len({one, *others}) == 4
    assert new_fingerprints().of(lambda: hw.http.json) == new_fingerprints().of(lambda: hw.http.json)
