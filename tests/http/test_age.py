"""Answers grow old, servers want to be left alone, programs are restarted: when is a server asked again?"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import HttpRefusedError, HttpStatusError, HttpUnreachableError
from headwater.http.http_retry import DEFAULT, HttpResourceOptions, ServerRetry
from tests.http.desk import Desk, as_json, local
from tests.http.rig import Server, answer, hang_up, head


def look(desk: Desk, server: Server) -> None:
    desk.url.value = server.url()


# --- fresh, and not ------------------------------------------------------------------------------------------


def test_an_answer_is_asked_for_anew_when_it_is_old_and_somebody_looks(server: Server) -> None:
    server["/"] = as_json(1)
    desk = Desk(lambda url: local().json(url, fresh_for="10m"))

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        await desk.later(space, 599)
        assert len(server.asked) == 1
        await desk.later(space, 1)
        assert len(server.asked) == 2
        desk.url.value = ""
        await desk.later(space, 6000)
        assert len(server.asked) == 2

    desk.run(main)


def test_refresh_asks_although_it_is_fresh(server: Server) -> None:
    server["/"] = as_json(1)
    client = local()
    desk = Desk(client.json)

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        server["/"] = as_json(2)
        client.json.refresh(server.url())
        await space.settle()

    desk.run(main)
    assert desk.log == ["-", 1, 2]


def test_nothing_new_keeps_the_value_and_renews_its_age(server: Server) -> None:
    server["/"] = as_json(1, etag='"a"')
    client = local()
    desk = Desk(client.json)

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        for _ in range(3):
            server["/"] = answer(b"", 304)
            await desk.later(space, 60)
            found = client.json(server.url())
            assert isinstance(found, hw.Ready)
            assert (found.value, found.age) == (1, timedelta(0))
        await desk.later(space, 30)
        assert client.json(server.url()).age == timedelta(seconds=30)  # type: ignore[union-attr]  # it is ready

    desk.run(main)
    assert desk.log == ["-", 1]
    assert [asked.headers.get("if-none-match") for asked in server.asked] == [None, '"a"', '"a"', '"a"']


def test_nothing_new_after_a_failure_is_the_value_again(server: Server) -> None:
    server["/"] = as_json(1, last_modified="Thu, 01 Jan 1970 00:00:00 GMT")
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        server["/"] = answer(b"", 404)
        await desk.later(space, 60)
        server["/"] = answer(b"", 304)
        await desk.later(space, 60)

    desk.run(main)
    assert desk.log == ["-", 1, ("HttpStatusError", 1), 1]
    assert server.asked[2].headers["if-modified-since"] == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_an_answer_that_is_the_same_is_not_written_again_however_large_it_is(server: Server, tmp_path: Path) -> None:
    server["/"] = answer(b"x" * 1_000_000, etag='"a"')
    client = local()
    desk = Desk(client.bytes, str(tmp_path / "desk.db"))

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        for number in range(12):
            # Nothing is new; or it is the same under another name; or it fails in between.
            ways = (answer(b"", 304), answer(b"x" * 1_000_000, etag=f'"{number}"'), answer(b"", 404))
            server["/"] = ways[number % 3]
            await desk.later(space, 60)

    desk.run(main)
    assert len(server.asked) == 13
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3_000_000


# --- restart --------------------------------------------------------------------------------------------------


def test_an_answer_outlives_the_program_with_its_age_and_its_name(server: Server, tmp_path: Path) -> None:
    server["/"] = as_json(1, etag='"a"')
    before = Desk(local().json, str(tmp_path / "desk.db"))

    async def first(space: hw.AsyncSpace) -> None:
        look(before, server)
        await space.settle()

    before.run(first)

    after = Desk(local().json, before.store)
    after.time = 50_000.0
    server["/"] = answer(b"", 304)

    async def second(space: hw.AsyncSpace) -> None:
        await space.settle()
        assert (after.taken(), len(server.asked)) == ([1], 1)
        await after.later(space, 9)
        assert len(server.asked) == 1
        await after.later(space, 1)
        assert len(server.asked) == 2
        assert after.taken() == []

    after.run(second)
    assert server.asked[1].headers["if-none-match"] == '"a"'


def test_an_answer_that_grew_old_meanwhile_is_shown_and_asked_for(server: Server, tmp_path: Path) -> None:
    server["/"] = as_json(1)
    before = Desk(local().json, str(tmp_path / "desk.db"))

    async def first(space: hw.AsyncSpace) -> None:
        look(before, server)
        await space.settle()

    before.run(first)
    server["/"] = as_json(2)
    after = Desk(local().json, before.store)
    after.time = 3_600_000.0

    async def second(space: hw.AsyncSpace) -> None:
        await space.settle()

    after.run(second)
    assert after.log == [1, 2]


# --- again ----------------------------------------------------------------------------------------------------


def test_what_may_pass_is_tried_again_twice(server: Server) -> None:
    server["/"] = answer(b"", 503)
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        # After a second and after two more, less what is left to chance.
        for wait, asked in ((0.49, 1), (0.51, 2), (0.99, 2), (1.01, 3)):
            assert "HttpStatusError" not in str(desk.log)
            await desk.later(space, wait)
            assert len(server.asked) == asked

    desk.run(main)
    assert desk.log == ["-", ("HttpStatusError", None)]
    assert desk.failures[0].error.facts["tries"] == 3


@pytest.mark.parametrize("way", [hang_up, answer(b"", 429), answer(b"", 502), answer(b"", 500)])
def test_what_passed_is_an_answer_and_nobody_was_told_otherwise(server: Server, way: object) -> None:
    server["/"] = way  # type: ignore[assignment]  # one of several
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        server["/"] = as_json(1)
        await desk.later(space, 1)

    desk.run(main)
    assert desk.log == ["-", 1]


def test_an_author_may_say_how_often_and_for_what(server: Server) -> None:
    server["/"] = answer(b"", 404)
    again = hw.Retry(1, backoff="5s", on=hw.http.HttpStatusError)
    desk = Desk(lambda url: local().json(url, retry=again))

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        await desk.later(space, 5)
        assert len(server.asked) == 2

    desk.run(main)
    assert desk.log == ["-", ("HttpStatusError", None)]


def test_a_server_is_left_alone_for_as_long_as_it_asks(server: Server) -> None:
    server["/"] = answer(b"slow down", 429, retry_after="20")
    client = local()
    desk = Desk(client.json)

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        await desk.later(space, 19)
        assert len(server.asked) == 1
        # Nobody who comes meanwhile makes it otherwise; and it counts as one more try, with its own wait.
        client.json.refresh(server.url())
        await space.settle()
        assert (desk.taken(), len(server.asked)) == (["-"], 1)
        server["/"] = as_json(1)
        await desk.later(space, 2)
        assert (desk.taken(), len(server.asked)) == ([1], 2)

    desk.run(main)


def test_a_server_that_asks_for_too_long_a_rest_is_a_failure_until_then(server: Server) -> None:
    server["/"] = answer(b"", 503, retry_after="600")
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        assert desk.taken() == ["-", ("HttpStatusError", None)]
        text = str(desk.failures[0].error.facts["text"])
        assert text.startswith(f"{server.url()} answered 503 Service Unavailable; it wants to be left alone until 20")
        for _ in range(8):
            await desk.later(space, 60)
        # In another place, and back: it is still told, and nothing is sent.
        desk.url.value = ""
        await space.settle()
        look(desk, server)
        await space.settle()
        assert len(server.asked) == 1
        assert desk.taken() == [("HttpStatusError", None)]
        server["/"] = as_json(1)
        await desk.later(space, 120)
        await space.settle()
        assert (desk.taken(), len(server.asked)) == ([1], 2)

    desk.run(main)


def test_whoever_is_told_to_come_back_next_year_asks_again_in_an_hour(server: Server) -> None:
    server["/"] = answer(b"", 429, retry_after="31536000")
    desk = Desk(local().json)

    async def main(space: hw.AsyncSpace) -> None:
        look(desk, server)
        await space.settle()
        for _ in range(59):
            await desk.later(space, 60)
        assert len(server.asked) == 1
        server["/"] = as_json(1)
        await desk.later(space, 60)
        assert len(server.asked) == 2

    desk.run(main)
    assert desk.log == ["-", ("HttpStatusError", None), 1]


def test_rules_of_trying_again() -> None:
    asking = HttpResourceOptions(name="x", retry=ServerRetry(DEFAULT))
    assert asking.is_retried(HttpUnreachableError("no"), 2)
    assert not asking.is_retried(HttpUnreachableError("no"), 3)
    assert not asking.is_retried(HttpRefusedError("no"), 1)
    assert not asking.is_retried(ValueError("no"), 1)
    assert not asking.is_retried(HttpStatusError("no", status=404), 1)
    assert asking.is_retried(HttpStatusError("no", status=503, retry_after_ms=59_000.5), 1)
    assert asking.retry.delay_ms(1) == 59_001
    assert asking.is_retried(HttpStatusError("no", status=500, retry_after_ms=59_000.5), 1)
    assert asking.retry.delay_ms(1) == 1000
    assert not asking.is_retried(HttpStatusError("no", status=503, retry_after_ms=61_000), 1)


def test_the_head_of_an_answer_is_written_as_servers_do() -> None:
    assert head(204, x_y="z") == b"HTTP/1.1 204 X\r\nx-y: z\r\n\r\n"
