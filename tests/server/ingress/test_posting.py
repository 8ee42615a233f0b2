"""What is posted is an event once it is answered, once for each key, or it is refused with what to do instead."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

import headwater as hw
from headwater.server import handshakes, topic_intake
from headwater.server.ingress import Ingress, ingress_app, serve_ingress
from tests.server.ingress.shop import Shop, key

PLACED = "/topics/orders/placed"
TEA = {"item": "tea", "count": 2}


def test_a_post_is_an_event_that_a_consumer_sees(space: hw.Space, shop: Shop, client: httpx.Client) -> None:
    answer = client.post(PLACED, json=TEA, headers=key("evt-1") | {"Title": "Tea for Ann"})
    assert (answer.status_code, answer.json()) == (202, {"id": "evt-1", "new": True})
    space.workflows.drain()
    assert shop.sold == [("evt-1", "tea", 2)]
    told = shop.flow.inputs()[0]
    assert (told.title, told.source, told.external, told.status) == ("Tea for Ann", "http", "evt-1", "done")


def test_the_workflow_may_be_named_with_its_app(shop: Shop, client: httpx.Client) -> None:
    assert client.post("/topics/shop.orders/placed", json=TEA, headers=key("a")).status_code == 202
    assert shop.waiting() == 1


def test_the_same_key_with_another_payload_is_refused(space: hw.Space, shop: Shop, client: httpx.Client) -> None:
    client.post(PLACED, json=TEA, headers=key("evt-1"))
    for _ in range(2):  # while it waits, and when it is consumed
        again = client.post(PLACED, json=TEA | {"count": 3}, headers=key("evt-1"))
        assert (again.status_code, again.json()["code"]) == (422, "HW165")
        assert (
            "'evt-1' to shop.orders.placed: an event with this id was published with another" in again.json()["error"]
        )
        space.workflows.drain()
    assert shop.sold == [("evt-1", "tea", 2)]


def test_the_same_key_with_the_same_payload_written_differently_is_the_same_event(client: httpx.Client) -> None:
    client.post(PLACED, content=b'{"item": "tea", "count": 2}', headers=key("a") | {"Content-Type": "application/json"})
    again = client.post(
        PLACED, content=b'{"count":2,"item":"tea"}', headers=key("a") | {"Content-Type": "application/json"}
    )
    assert (again.status_code, again.json()) == (202, {"id": "a", "new": False})


def test_a_key_that_was_consumed_is_never_new_again(space: hw.Space, shop: Shop, client: httpx.Client) -> None:
    client.post(PLACED, json=TEA, headers=key("evt-1"))
    space.workflows.drain()
    assert client.post(PLACED, json=TEA, headers=key("evt-1")).json()["new"] is False
    assert space.workflows.drain() == 0
    assert len(shop.sold) == 1


def test_a_key_is_the_same_with_and_without_quotes(client: httpx.Client) -> None:
    assert client.post(PLACED, json=TEA, headers=key('"evt-1"')).json() == {"id": "evt-1", "new": True}
    assert client.post(PLACED, json=TEA, headers=key("evt-1")).json() == {"id": "evt-1", "new": False}
    # One quote alone is part of it.
    assert client.post(PLACED, json=TEA, headers=key('"')).json()["id"] == '"'


def test_keys_and_titles_are_utf_8(shop: Shop, client: httpx.Client) -> None:
    headers = {b"Idempotency-Key": "käse".encode(), b"Title": "Grüße".encode()}
    assert client.post(PLACED, json=TEA, headers=headers).json()["id"] == "käse"
    assert shop.flow.inputs()[0].title == "Grüße"
    answer = client.post(PLACED, json=TEA, headers={b"Idempotency-Key": b"k\xe4se"})
    assert answer.status_code == 400
    assert "UTF-8" in answer.json()["error"]


def test_without_a_key_it_is_told_what_to_send(shop: Shop, client: httpx.Client) -> None:
    answer = client.post(PLACED, json=TEA)
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["error"]
    assert "the same one whenever it is sent again" in answer.json()["error"]
    two = client.post(PLACED, json=TEA, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
    assert two.status_code == 400
    assert "there are 2" in two.json()["error"]
    assert shop.waiting() == 0


@pytest.mark.parametrize("bad", ["", "x" * 1001, "a\u2028b"])
def test_what_is_no_id_is_refused(bad: str, shop: Shop, client: httpx.Client) -> None:
    answer = client.post(PLACED, json=TEA, headers={b"Idempotency-Key": bad.encode()})
    assert answer.status_code == 400
    assert "a stable id is expected" in answer.json()["error"]
    assert shop.waiting() == 0


@pytest.mark.parametrize("body", [b"", b"{", b'{"item": "tea"} x', b"NaN", b"\xff", b"[" * 100_000, b"{'item': 1}"])
def test_malformed_json_is_refused(body: bytes, shop: Shop, client: httpx.Client) -> None:
    answer = client.post(PLACED, content=body, headers=key("a") | {"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "is not JSON" in answer.json()["error"]
    assert shop.waiting() == 0


def test_a_payload_that_does_not_fit_is_refused_with_its_place(shop: Shop, client: httpx.Client) -> None:
    answer = client.post(PLACED, json={"item": "tea", "count": "two"}, headers=key("a"))
    assert answer.status_code == 400
    told = "cannot publish to shop.orders.placed/count: expected int, got str 'two'"
    assert answer.json() == {"error": told, "code": "HW108"}
    assert client.post(PLACED, json={"count": 2}, headers=key("a")).status_code == 400
    assert client.post(PLACED, json=[TEA], headers=key("a")).status_code == 400
    assert shop.waiting() == 0


def test_fields_that_the_type_does_not_have_are_left_out(space: hw.Space, shop: Shop, client: httpx.Client) -> None:
    """Whoever sends may know more than we do, and tomorrow more than today."""
    assert client.post(PLACED, json=TEA | {"colour": "green"}, headers=key("a")).status_code == 202
    space.workflows.drain()
    assert shop.sold == [("a", "tea", 2)]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/topics/order/placed", "no workflow 'order' here; did you mean shop.orders?"),
        ("/topics/zzz/placed", "no workflow 'zzz' here; there is shop.letters, shop.orders"),
        ("/topics/orders/place", "workflow shop.orders has no topic 'place'; did you mean placed?"),
        ("/topics/orders/letters", "workflow shop.orders has no topic 'letters'; there is placed, returned"),
        ("/topics/orders", "Not Found"),
        ("/topics/orders/placed/", "Not Found"),
        ("/", "Not Found"),
    ],
)
def test_unknown_places_are_not_found(path: str, told: str, client: httpx.Client) -> None:
    answer = client.post(path, json=TEA, headers=key("a"))
    assert answer.status_code == 404
    assert told in answer.json()["error"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_only_post_is_allowed(method: str, client: httpx.Client) -> None:
    answer = client.request(method, PLACED, headers=key("a"))
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_can_send_is_not_taken(kind: str, shop: Shop, client: httpx.Client) -> None:
    """A page elsewhere can make a browser send these without asking."""
    headers = key("a") | ({"Content-Type": kind} if kind else {})
    answer = client.post(PLACED, content=b'{"item": "tea"}', headers=headers)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]
    assert shop.waiting() == 0


def test_a_charset_behind_the_type_is_no_other_type(client: httpx.Client) -> None:
    headers = key("a") | {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.post(PLACED, content=b'{"item": "tea"}', headers=headers).status_code == 202


# --- limits ---------------------------------------------------------------------------------------------------


def test_a_payload_of_a_mebibyte_is_taken_and_one_more_byte_is_not(shop: Shop, client: httpx.Client) -> None:
    around = len(b'{"item":""}')
    headers = key("a") | {"Content-Type": "application/json"}
    body = b'{"item":"%s"}' % (b"x" * (topic_intake.BODY_MAX - around))
    assert client.post(PLACED, content=body, headers=headers).status_code == 202
    answer = client.post(PLACED, content=body + b" ", headers=headers | key("b"))
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert shop.waiting() == 1


def head(more: str) -> bytes:
    lines = [f"POST {PLACED} HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Idempotency-Key: a", more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def told(server: Ingress, sent: bytes) -> bytes:
    """The first line of the answer to whatever is sent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        raw.sendall(sent)
        return raw.recv(100_000).partition(b"\r\n")[0]


def test_a_payload_that_does_not_say_how_long_it_is_is_cut_off(shop: Shop, server: Ingress) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    sent = head("Transfer-Encoding: chunked") + chunk * 20
    assert told(server, sent + b"0\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    # One that never comes to an end is not listened to for ever.
    assert told(server, sent + chunk * 110).startswith(b"HTTP/1.1 413 ")
    assert shop.waiting() == 0


def test_what_would_be_too_large_is_refused_before_it_is_sent(shop: Shop, server: Ingress) -> None:
    assert told(server, head("Content-Length: 1000000000")).startswith(b"HTTP/1.1 413 ")
    asked = head("Content-Length: 1100000\r\nExpect: 100-continue")
    assert told(server, asked).startswith(b"HTTP/1.1 413 ")
    assert told(server, head("Content-Length: 10\r\nExpect: 100-continue")).startswith(b"HTTP/1.1 100 ")
    assert shop.waiting() == 0


def test_too_much_at_once_is_asked_to_come_again(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_intake, "HELD_MAX", 10)
    assert client.post(PLACED, json=TEA, headers=key("a")).status_code == 503
    monkeypatch.undo()
    assert client.post(PLACED, json=TEA, headers=key("a")).status_code == 202


def test_whoever_does_not_go_on_sending_is_left_behind(
    shop: Shop, server: Ingress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_intake, "BODY_S", 0.01)
    assert told(server, head("Content-Length: 20") + b"{").startswith(b"HTTP/1.1 408 ")
    assert shop.waiting() == 0


def test_a_body_that_stalls_is_cut_off_and_its_connection_closed(
    shop: Shop, server: Ingress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before the time for a whole body is over: a sender that pauses holds no connection."""
    monkeypatch.setattr(topic_intake, "STALL_S", 0.05)
    waiting = [socket.create_connection(("127.0.0.1", server.port), timeout=300) for _ in range(50)]
    for raw in waiting:
        raw.sendall(head("Content-Length: 20") + b"{")
    for raw in waiting:
        with raw, raw.makefile("rb") as answer:  # to the end: the server hangs up
            assert answer.read().startswith(b"HTTP/1.1 408 ")
    assert shop.waiting() == 0


def test_headers_that_never_end_are_cut_off(server: Ingress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "GREETING_S", 0.05)
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as raw:
        raw.sendall(head("X-A: b").removesuffix(b"\r\n"))
        assert raw.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert raw.recv(1000) == b""


def test_whoever_hangs_up_in_the_middle_has_sent_nothing(shop: Shop, server: Ingress, client: httpx.Client) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        raw.sendall(head("Content-Length: 20") + b"{")
    assert client.post(PLACED, json=TEA, headers=key("b")).status_code == 202
    assert shop.waiting() == 1


# --- many -----------------------------------------------------------------------------------------------------


async def post_raw(server: Ingress, name: str) -> bytes:
    """Without a library around it: a thousand of these take less than a second."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    body = b'{"item":"tea","count":2}'
    lines = head(f"Content-Length: {len(body)}\r\nConnection: close").replace(b"Key: a", f"Key: {name}".encode())
    writer.write(lines + body)
    answer = await reader.read()
    writer.close()
    return answer


async def post_all(server: Ingress, keys: list[str]) -> list[bytes]:
    return await asyncio.gather(*(post_raw(server, each) for each in keys))


@pytest.mark.slow
def test_a_thousand_posts_at_once_are_all_in_and_share_their_fsyncs(
    space: hw.Space, shop: Shop, server: Ingress
) -> None:
    before = space.stats.groups
    answers = asyncio.run(post_all(server, [f"evt-{number}" for number in range(1000)]))
    assert all(answer.startswith(b"HTTP/1.1 202 ") and answer.endswith(b'"new":true}') for answer in answers)
    assert shop.waiting() == 1000
    # 64 in a group at most: 16 would be the fewest. How many it is depends on who is how fast.
    assert space.stats.groups - before < 250
    space.workflows.drain()
    assert sorted(shop.sold) == sorted((f"evt-{number}", "tea", 2) for number in range(1000))


def test_of_many_with_the_same_key_exactly_one_is_new(shop: Shop, server: Ingress) -> None:
    answers = asyncio.run(post_all(server, ["evt"] * 50))
    assert sum(answer.endswith(b'"new":true}') for answer in answers) == 1
    assert sum(answer.endswith(b'"new":false}') for answer in answers) == 49
    assert shop.waiting() == 1


def test_one_that_is_refused_by_the_store_does_not_take_others_with_it(
    space: hw.Space, shop: Shop, server: Ingress
) -> None:
    space._opening.flows.do(lambda book: book.execute("delete from flow_topic where name = 'returned'"))

    async def both() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as client:
            paths = ["/topics/orders/returned", PLACED] * 20
            posts = [client.post(path, json=TEA, headers=key(str(n))) for n, path in enumerate(paths)]
            return await asyncio.gather(*posts)

    assert [answer.status_code for answer in asyncio.run(both())] == [404, 202] * 20
    assert shop.waiting() == 20


# --- around it ------------------------------------------------------------------------------------------------


def test_a_host_at_work_takes_up_what_is_posted(space: hw.Space, shop: Shop, client: httpx.Client) -> None:
    space.workflows.start()
    client.post(PLACED, json=TEA, headers=key("a"))
    space.workflows.stop()
    # Whatever it had begun has ended; what it had not is done here.
    space.workflows.drain()
    assert shop.sold == [("a", "tea", 2)]


def test_a_paused_workflow_takes_posts_and_lets_them_wait(space: hw.Space, shop: Shop, client: httpx.Client) -> None:
    shop.flow.pause()
    assert client.post(PLACED, json=TEA, headers=key("a")).status_code == 202
    assert space.workflows.drain() == 1  # the other workflow, which looks once
    assert shop.waiting() == 1
    shop.flow.resume()
    space.workflows.drain()
    assert len(shop.sold) == 1


def test_it_serves_a_space_in_an_event_loop_too(shop: Shop) -> None:
    async def main() -> None:
        async with shop.app.aopen("memory:") as space:
            with serve_ingress(space) as server:
                answers = await post_all(server, ["a", "b"])
            assert all(answer.startswith(b"HTTP/1.1 202 ") for answer in answers)
            assert shop.waiting() == 2

    asyncio.run(main())


def test_a_closed_space_says_that_it_is(shop: Shop) -> None:
    space = shop.app.open("memory:")
    app = ingress_app(space)
    space.close()

    async def post() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.post(PLACED, json=TEA, headers=key("a"))

    answer = asyncio.run(post())
    assert (answer.status_code, answer.json()["code"]) == (503, "HW103")
    assert answer.headers["retry-after"] == "1"
