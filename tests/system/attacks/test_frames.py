"""Attacks 14 to 18 and 26 to 29: what is no frame, comes too early or too slowly, or is larger than it may be."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headwater.store.commit import SetDoc
from headwater.sync.frame_limits import FRAME_BYTES_MAX, GREETING_BYTES_MAX
from headwater.sync.frames import VERSION, Ack, FromClient, Hello, Open, Ping, Pong, Transact, Watch, encode_frame
from tests.system.attacks.raw import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    Raw,
    ask,
    connect,
    read_answer,
    upgrade_lines,
    ws_frame,
)
from tests.system.attacks.served import Served, doc

TLS = Path(__file__).parents[2] / "server" / "data"
pack = msgspec.msgpack.encode


def is_alive(served: Served) -> bool:
    with served.enter(served.space()) as other:
        other.say(Ping(7))
        return other.expect(Pong) == Pong(7)


# --- 14 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame", [Open("home"), Ping(1), Ack(0), Transact(1, ()), Watch(1)], ids=lambda frame: type(frame).__name__
)
def test_whatever_comes_before_hello_ends_the_connection(served: Served, frame: FromClient) -> None:
    with Raw.upgrade(served.port, served.token("*")) as raw:
        raw.say(frame)
        closed = raw.closed()
        assert (closed.code, closed.troubles[0].code) == (4400, "HW402")


@pytest.mark.parametrize("frame", [Hello((VERSION,)), Ping(1), Transact(1, ())], ids=lambda frame: type(frame).__name__)
def test_whatever_comes_between_hello_and_open_ends_the_connection(served: Served, frame: FromClient) -> None:
    with Raw.upgrade(served.port, served.token("*")) as raw:
        raw.greet()
        raw.say(frame)
        assert raw.closed().code == 4400


@pytest.mark.parametrize("frame", [Hello((VERSION,)), Open("home")], ids=lambda frame: type(frame).__name__)
def test_hello_and_open_come_once(served: Served, frame: FromClient) -> None:
    with served.enter(served.space()) as raw:
        raw.say(frame)
        assert raw.closed().code == 4400


def test_a_frame_that_does_not_wait_for_the_space_to_be_open_ends_the_connection(served: Served) -> None:
    with Raw.upgrade(served.port, served.token("*")) as raw:
        raw.greet()
        raw.line.sendall(ws_frame(BINARY, encode_frame(Open(served.space()))) + ws_frame(BINARY, encode_frame(Ping(1))))
        assert raw.closed().code == 4400


@pytest.mark.parametrize("versions", [(), (0,), (2,), (2**63,), (-1,)], ids=str)
def test_a_version_that_nobody_speaks_is_refused(served: Served, versions: tuple[int, ...]) -> None:
    with Raw.upgrade(served.port, served.token("*")) as raw:
        raw.say(Hello(versions))
        assert raw.closed().code == 4400


# --- 15 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"{}", b"", b"\xff\xfe", encode_frame(Hello((VERSION,)))], ids=repr)
def test_text_is_not_spoken_here(served: Served, text: bytes) -> None:
    with Raw.upgrade(served.port, served.token("*")) as raw:
        raw.frame(TEXT, text)
        assert raw.closed().code in (1003, 1007)


def test_text_that_is_not_utf_8_is_refused_wherever_it_stands(served: Served) -> None:
    bad = encode_frame(Transact(1, (SetDoc(doc("a"), "caf\xe9"),))).replace("caf\xe9".encode(), b"caf\xff\xff")
    for at, frame in [("value", bad), ("kind", b"\x81\xa1t\xa1\xff"), ("key", b"\x81\xa1\xff\x01")]:
        with served.enter(served.space()) as raw:
            raw.say(frame)
            assert raw.closed().code == 4400, at


# --- 16, 17, 18 -----------------------------------------------------------------------------------------------

NO_FRAMES = {
    "nothing": b"",
    "half a map": b"\x81",
    "an empty map": pack({}),
    "a list": pack([]),
    "nil": pack(None),
    "a number": pack(1),
    "text": pack("ping"),
    "an unused byte": b"\xc1",
    "another kind": pack({"t": "pong", "number": 1}),
    "no kind": pack({"number": 1}),
    "a kind that is no text": pack({"t": 1}),
    "a kind that is a list": pack({"t": ["ping"]}),
    "two frames in one": pack({"t": "ping", "number": 1}) * 2,
    "json": b'{"t":"ping","number":1}',
    "a number that is text": pack({"t": "ping", "number": "1"}),
    "a number below zero": pack({"t": "ping", "number": -1}),
    "a number that is a float": pack({"t": "ping", "number": 1.5}),
    "a number beyond 63 bits": pack({"t": "ping", "number": 2**63}),
    "a field that is missing": pack({"t": "ping"}),
    "an operation of no kind": pack({"t": "transact", "number": 1, "operations": [["do", "space/a", 1]]}),
    "operations that are a map": pack({"t": "transact", "number": 1, "operations": {}}),
    "a list that is longer than the frame": b"\x81\xa1t\xdd\xff\xff\xff\xff",
    "a map that is longer than the frame": b"\xdf\xff\xff\xff\xff\xa1t",
    "bytes that are longer than the frame": b"\x81\xa1t\xc6\xff\xff\xff\xff",
    "a map as a key": b"\x81\x80\x01",
    "a time": b"\x82\xa1t\xa4ping\xa6number\xd6\xff\x00\x00\x00\x01",
    "a time that no calendar has": b"\x82\xa1t\xa4ping\xa6number\xc7\x0c\xff" + b"\x7f" * 12,
}


@pytest.mark.parametrize("data", NO_FRAMES.values(), ids=NO_FRAMES.keys())
def test_what_is_no_frame_ends_the_connection_and_says_why(served: Served, data: bytes) -> None:
    with served.enter(served.space()) as raw:
        raw.say(data)
        closed = raw.closed()
        assert (closed.code, closed.troubles[-1].code) == (4400, "HW402")


@pytest.mark.parametrize("head", [b"\x91", b"\x81\xa1a", b"\xdd\x00\x00\x00\x01"], ids=["list", "map", "long list"])
def test_a_hundred_thousand_levels_are_rejected_without_a_stack_overflow(served: Served, head: bytes) -> None:
    deep = head * 100_000 + b"\x01"
    with served.enter(served.space()) as raw:
        raw.say(b"\x83\xa1t\xa8transact\xa6number\x01\xaaoperations\x91\x93\xa3set\xa7space/a" + deep)
        closed = raw.closed()
        assert (closed.code, closed.troubles[-1].code) == (4400, "HW402")
    assert is_alive(served)


TWICE = {
    "the kind": b"\x83\xa1t\xa4ping\xa1t\xa4ping\xa6number\x01",
    "a field": b"\x83\xa1t\xa4ping\xa6number\x01\xa6number\x02",
    "a field, the same": b"\x83\xa1t\xa4ping\xa6number\x01\xa6number\x01",
    "an unknown field": b"\x84\xa1t\xa4ping\xa6number\x01\xa1x\x01\xa1x\x02",
    "in a value": b"\x83\xa1t\xa8transact\xa6number\x01\xaaoperations\x91\x93\xa3set\xa7space/a\x82\xa1k\x01\xa1k\x02",
    "deep in a value": b"\x83\xa1t\xa8transact\xa6number\x01\xaaoperations\x91\x93\xa3set\xa7space/a"
    b"\x81\xa1k\x91\x82\xa1k\x01\xa1k\x02",
    # As many bytes less for the key as there are more for the float: lengths alone do not tell.
    "hidden behind a short float": b"\x83\xa1t\xa8transact\xa6number\x01\xaaoperations\x91\x93\xa3set\xa7space/a"
    b"\x83\xa1f\xca\x3f\x80\x00\x00\xa2ab\xc0\xa2ab\xc0",
}


@pytest.mark.parametrize("data", TWICE.values(), ids=TWICE.keys())
def test_a_key_that_is_there_twice_means_nothing(served: Served, data: bytes) -> None:
    space = served.space()
    with served.enter(space) as raw:
        raw.say(data)
        closed = raw.closed()
        assert closed.code == 4400
        assert "one spelling" in closed.troubles[-1].message
    with served.enter(space) as raw:
        assert raw.opened is not None
        assert raw.opened.seq == 0


LONGER = {
    "a number": b"\x82\xa1t\xa4ping\xa6number\xcd\x00\x01",
    "a text": b"\x82\xa1t\xd9\x04ping\xa6number\x01",
    "a map": b"\xde\x00\x02\xa1t\xa4ping\xa6number\x01",
}


@pytest.mark.parametrize("data", LONGER.values(), ids=LONGER.keys())
def test_what_could_be_said_shorter_is_not_said_longer(served: Served, data: bytes) -> None:
    with served.enter(served.space()) as raw:
        raw.say(data)
        assert raw.closed().code == 4400


def test_a_field_that_nobody_knows_yet_is_passed_over(served: Served) -> None:
    with served.enter(served.space()) as raw:
        raw.say(pack({"t": "ping", "number": 5, "colour": "red"}))
        assert raw.expect(Pong) == Pong(5)


# --- 26, 27, 28 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [GREETING_BYTES_MAX + 1, 1 << 30, (1 << 63) - 1], ids=str)
def test_a_stranger_cannot_announce_more_than_a_greeting(served: Served, size: int) -> None:
    """Only the head is sent, so nothing can have been waited or allocated for."""
    with Raw.upgrade(served.port, served.token("*")) as raw:
        raw.frame(BINARY, size=size)
        assert raw.closed().code == 1009


@pytest.mark.parametrize("size", [FRAME_BYTES_MAX + 1, 1 << 30, (1 << 63) - 1, 1 << 63], ids=str)
def test_a_frame_that_is_announced_too_large_is_refused_before_it_comes(served: Served, size: int) -> None:
    with served.enter(served.space()) as raw:
        raw.frame(BINARY, size=size)
        assert raw.closed().code in (1002, 1009)


def test_a_message_in_fragments_may_not_be_larger_either(served: Served) -> None:
    with Raw.upgrade(served.port, served.token("*")) as raw:
        raw.frame(BINARY, bytes(GREETING_BYTES_MAX), fin=False)
        raw.frame(0, b"1", fin=True)
        assert raw.closed().code == 1009


def test_fragments_without_end_are_counted(served: Served) -> None:
    with served.enter(served.space()) as raw:
        raw.line.sendall(ws_frame(BINARY, b"\x81", fin=False) + ws_frame(0, b"", fin=False) * 10_000)
        assert raw.closed().code == 1009


def test_a_message_in_fragments_is_one_message(served: Served) -> None:
    data = encode_frame(Ping(9))
    with served.enter(served.space()) as raw:
        raw.frame(BINARY, data[:3], fin=False)
        raw.frame(PING, b"in between")
        raw.frame(0, data[3:5], fin=False)
        raw.frame(0, data[5:])
        assert raw.expect(Pong) == Pong(9)


def test_compression_is_not_spoken(served: Served) -> None:
    offered = ["Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"]
    assert b"permessage-deflate" not in Raw.upgrade(served.port, served.token("*"), more=offered).quit().answer.body
    with served.enter(served.space()) as raw:
        raw.frame(BINARY, bytes(100), rsv=4)
        assert raw.closed().code == 1002


BROKEN: dict[str, Callable[[], bytes]] = {
    "not masked": lambda: b"\x82\x01\x00",
    "an unused opcode": lambda: ws_frame(3, b"x"),
    "an unused control frame": lambda: ws_frame(11, b"x"),
    "a ping in fragments": lambda: ws_frame(PING, b"x", fin=False),
    "a ping that is too long": lambda: ws_frame(PING, bytes(126)),
    "a continuation of nothing": lambda: ws_frame(0, b"x"),
    "a message within a message": lambda: ws_frame(BINARY, b"x", fin=False) + ws_frame(BINARY, b"x"),
    "a close with half a code": lambda: ws_frame(CLOSE, b"\x03"),
    "a close with a code that is none": lambda: ws_frame(CLOSE, b"\x00\x01"),
    "a close with words that are none": lambda: ws_frame(CLOSE, b"\x03\xe8\xff\xff"),
    "http": lambda: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_websocket_ends_the_connection(served: Served, data: Callable[[], bytes]) -> None:
    with served.enter(served.space()) as raw:
        raw.line.sendall(data())
        assert raw.closed().code in (1002, 1003, 1007)
    assert is_alive(served)


def test_an_answer_to_a_question_that_nobody_asked_is_no_harm(served: Served) -> None:
    with served.enter(served.space()) as raw:
        raw.frame(PONG, b"hello")
        raw.say(Ping(1))
        raw.expect(Pong)


# --- 29 -------------------------------------------------------------------------------------------------------


def gone_after(line: socket.socket) -> bytes:
    """What is heard until the end."""
    heard = b""
    try:
        while more := line.recv(4096):
            heard += more
    except ConnectionResetError:
        pass
    return heard


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.handshakes.GREETING_S", 0.2)
    monkeypatch.setattr("headwater.server.handshakes.BODY_S", 0.4)
    monkeypatch.setattr("headwater.server.handshakes.HALF_OPEN_MAX", 50)
    monkeypatch.setattr("headwater.server.spaces.server_socket.GREETING_S", 0.2)


SLOW = {
    "nothing": b"",
    "half a line": b"GET /heal",
    "no end of headers": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "half a body": b"POST /spaces/a/topics/b/c HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n12345",
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("said", SLOW.values(), ids=SLOW.keys())
def test_who_does_not_come_to_the_end_of_a_request_is_cut_off(tmp_path: Path, said: bytes) -> None:
    with Served.running(tmp_path) as served, connect(served.port) as line:
        line.sendall(said)
        gone_after(line)


@pytest.mark.usefixtures("impatient")
def test_who_does_not_come_to_the_end_of_a_second_request_is_cut_off(tmp_path: Path) -> None:
    with Served.running(tmp_path) as served, connect(served.port) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert read_answer(line).status == 200
        line.sendall(b"GET /heal")
        assert gone_after(line).startswith(b"HTTP/1.1 408")


@pytest.mark.usefixtures("impatient")
def test_who_says_one_byte_at_a_time_is_cut_off(tmp_path: Path) -> None:
    with Served.running(tmp_path) as served, connect(served.port) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\n")
        end = time.monotonic() + 20
        with pytest.raises(OSError):  # noqa: PT011  # reset or broken, as it comes
            while time.monotonic() < end:
                line.sendall(b"x: y\r\n")
                time.sleep(0.02)
        assert time.monotonic() < end


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("says_hello", [False, True])
def test_who_is_let_in_and_opens_nothing_is_cut_off(tmp_path: Path, says_hello: bool) -> None:  # a case
    with Served.running(tmp_path) as served, Raw.upgrade(served.port, served.token("*")) as raw:
        if says_hello:
            raw.greet()
        assert raw.closed().code == 4408


def test_half_open_connections_are_no_more_than_a_bound_and_the_oldest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.server.handshakes.HALF_OPEN_MAX", 50)
    with Served.running(tmp_path) as served:
        lines = [connect(served.port) for _ in range(200)]
        try:
            for line in lines:
                line.sendall(b"GET / HTTP/1.1\r\n")
            # Somebody honest is answered meanwhile.
            asked = ["GET /healthz HTTP/1.1", "Host: 127.0.0.1"]
            assert ask(served.port, asked).status == 200
            assert all(not gone_after(line) for line in lines[:100])
            lines[-1].sendall(b"Host: 127.0.0.1\r\n\r\n")
            assert read_answer(lines[-1]).status
        finally:
            for line in lines:
                line.close()


def test_who_does_not_come_to_an_end_with_tls_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.server.GREETING_S", 0.2)
    with Served.running(tmp_path, certificate=TLS / "localhost.pem", key=TLS / "localhost.key") as served:
        for said in (b"", b"\x16\x03\x01\x02", b"GET /healthz HTTP/1.1\r\n"):
            with connect(served.port) as line:
                line.sendall(said)
                gone_after(line)


def test_headers_without_end_are_refused(served: Served) -> None:
    with connect(served.port) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nx: ")
        try:
            for _ in range(100):
                line.sendall(b"y" * 10_000)
        except OSError:
            return
        assert read_answer(line).status in (0, 400, 431)


def test_a_refused_upgrade_is_hung_up_on(served: Served) -> None:
    with connect(served.port) as line:
        line.sendall("\r\n".join([*upgrade_lines(served.port), "", ""]).encode())
        assert gone_after(line).startswith(b"HTTP/1.1 401")
