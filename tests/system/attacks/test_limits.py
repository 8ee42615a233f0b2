"""Attacks 44, 45 and 47, and whoever takes more than a share: of memory, of descriptors, of everybody's time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.server.server_limits import OUT_BYTES_MAX
from headwater.store.commit import Committed, Read, SetDoc
from headwater.sync.frame_limits import PARTS_MAX, PENDING_MAX, PREFIXES_MAX, QUESTIONS_MAX, WATCHES_MAX
from headwater.sync.frames import (
    Docs,
    ErrorFrame,
    Judged,
    News,
    Ping,
    Pong,
    Pull,
    Transact,
    Unwatch,
    Watch,
    Written,
    encode_frame,
)
from headwater.values.ids import Seq
from tests.system.attacks.raw import BINARY, PING, ClosedError, Raw, ws_frame
from tests.system.attacks.served import Served, doc


def eventually(is_so: Callable[[], bool], why: str = "") -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end, why
        time.sleep(0.005)


def is_served(served: Served) -> bool:
    with served.enter(served.space()) as other:
        return isinstance(other.write(1, SetDoc(doc("a"), 1)), Committed)


@contextmanager
def standing_still(served: Served, space: str) -> Iterator[None]:
    """Nothing of a space is decided meanwhile: its disk is slow."""
    storage = served.spaces.channels[space].storage
    with storage._lock:
        yield


def gather(raw: Raw, into: list[Any]) -> threading.Thread:
    """Hear everything, until it ends."""

    def listen() -> None:
        try:
            while True:
                into.append(raw.hear())
        except (ClosedError, OSError) as ended:
            into.append(ended)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    return thread


# --- 44 -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_million_watches_in_pieces_are_a_hundred_thousand(served: Served) -> None:
    space, piece = served.space(), 10_000
    served.fill(space, a=1)
    with served.enter(space, "read") as raw:
        answers: list[Any] = []
        for number in range(100):
            docs = tuple((doc(f"{number}.{index}"), 0) for index in range(piece))
            raw.say(Watch(number + 1, docs))
            answers.append(raw.hear())
        refused = [each for each in answers if isinstance(each, ErrorFrame)]
        assert len(refused) == 100 - WATCHES_MAX // piece
        assert {(each.code, each.again) for each in refused} == {("HW406", True)}
        channel = served.spaces.channels[space]
        assert channel.watching == WATCHES_MAX
        # Who lets go of some may watch others.
        raw.say(Unwatch(tuple(doc(f"0.{index}") for index in range(piece))))
        raw.say(Watch(1000, ((doc("a"), 0),)))
        assert isinstance(raw.hear(), Docs)
    eventually(lambda: not channel.watching, "they go with whoever watched")


@pytest.mark.slow
def test_watches_that_are_asked_for_at_once_are_counted_together(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    with served.enter(space, "read") as raw:
        with standing_still(served, space):
            for number in range(6):
                raw.say(Watch(number + 1, tuple((doc(f"{number}.{index}"), 0) for index in range(25_000))))
            for _ in range(2):
                assert raw.expect(ErrorFrame).code == "HW406"
        for _ in range(4):
            raw.expect(Docs)


def test_prefixes_have_a_bound(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    with served.enter(space, "read") as raw:
        for number in range(PREFIXES_MAX):
            raw.say(Watch(number + 1, (), (f"space/{number}",)))
            assert isinstance(raw.hear(), Docs)
        raw.say(Watch(1000, (), ("space/a",)))
        assert raw.expect(ErrorFrame).code == "HW406"
        raw.say(Pull(1001, (), tuple(f"space/{number}" for number in range(PREFIXES_MAX + 1))))
        assert raw.expect(ErrorFrame).code == "HW406"


def test_questions_have_a_bound(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    with served.enter(space, "read") as raw:
        with standing_still(served, space):
            for number in range(QUESTIONS_MAX + 10):
                raw.say(Pull(number + 1, (doc("a"),)))
            assert [raw.expect(ErrorFrame).code for _ in range(10)] == ["HW406"] * 10
        assert {raw.expect(Docs).number for _ in range(QUESTIONS_MAX)} == set(range(1, QUESTIONS_MAX + 1))


def test_asking_for_what_is_not_there_fills_no_memory(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.store.state_cache.CACHE_BYTES", 1 << 20)
    space = served.space()
    served.fill(space, a=1)
    with served.enter(space, "read") as raw:
        states: list[int] = []
        storage = served.spaces.channels[space].storage
        for number in range(20):
            raw.say(Pull(number + 1, tuple(doc(f"{number}.{index}") for index in range(1000))))
            raw.expect(Docs)
            storage.call(lambda engine: states.append(engine.states._bytes))
        assert max(states) <= (1 << 20) + 2 * 1000 * 1000


# --- 45 -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hundred_thousand_commits_at_once_wait_in_the_network_and_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.server.spaces.server_socket.FRAMES_BURST", 1_000_000)
    with Served.running(tmp_path) as served:
        space = served.space()
        with served.enter(space) as raw:
            heard: list[Any] = []
            thread = gather(raw, heard)
            with standing_still(served, space):
                data = b"".join(
                    ws_frame(BINARY, encode_frame(Transact(number, (SetDoc(doc("a"), number),))))
                    for number in range(1, 100_001)
                )
                raw.line.sendall(data)
                eventually(lambda: len(heard) >= 100_000 - PENDING_MAX)
                refused = [each for each in heard if isinstance(each, ErrorFrame)]
                assert len(refused) == 100_000 - PENDING_MAX
                assert {(each.code, each.again) for each in refused} == {("HW406", True)}
                channel = served.spaces.channels[space]
                assert len(channel.since) == PENDING_MAX
            raw.say(Ping(1))
            eventually(lambda: not channel.since)
            judged = [new for each in heard if isinstance(each, News) for new in each.news]
            eventually(lambda: any(isinstance(each, Pong) for each in heard))
            judged = [new for each in heard if isinstance(each, News) for new in each.news if isinstance(new, Judged)]
            assert len(judged) == PENDING_MAX
            raw.line.shutdown(socket.SHUT_RDWR)
            thread.join(120)


def test_commits_that_wait_are_bounded_in_bytes_too(served: Served) -> None:
    space = served.space()
    with served.enter(space) as raw:
        with standing_still(served, space):
            for number in range(1, 15):
                raw.say(Transact(number, (SetDoc(doc(f"{number}"), "x" * (12 << 20)),)))
            assert raw.expect(ErrorFrame).code == "HW406"
        raw.line.close()
    assert is_served(served)


def test_who_writes_faster_than_the_disk_is_not_heard_for_a_while(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.server.spaces.client_connection.BEHIND", 50)
    space = served.space()
    with served.enter(space) as raw:
        channel, authenticator = served.spaces.channels[space], served.server.authenticator
        assert authenticator is not None
        line = next(
            each for each in authenticator._sockets if each.client is not None and each.client.channel is channel
        )
        with standing_still(served, space):
            for number in range(1, 101):
                raw.say(Transact(number, (SetDoc(doc("a"), number),)))
            eventually(lambda: line._is_paused)
            heard = len(channel.since)
            for number in range(101, 201):
                raw.say(Transact(number, (SetDoc(doc("a"), number),)))
            assert 50 < heard <= 100
            assert len(channel.since) == heard
        assert isinstance(raw.verdict(200), Committed)
        assert not line._is_paused or not channel.since


@pytest.mark.slow
def test_a_commit_has_a_bounded_number_of_parts(served: Served) -> None:
    with served.enter(served.space()) as raw:
        reads = (Read(doc("a"), (), Seq(0)),) * (PARTS_MAX + 1)
        found = raw.write(1, SetDoc(doc("a"), 1), reads=reads)
        assert isinstance(found, ErrorFrame)
        assert found.code == "HW406"
        assert isinstance(raw.write(2, SetDoc(doc("a"), 1)), Committed)


@pytest.mark.parametrize("size", [(16 << 20) + 1, 20 << 20])
def test_a_document_that_is_too_large_is_refused(served: Served, size: int) -> None:
    with served.enter(served.space()) as raw:
        raw.say(Transact(1, (SetDoc(doc("a"), "x" * size),)))
        assert raw.closed().code == 4400


def test_an_answer_that_is_larger_than_a_frame_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.spaces.document_gathering.FRAME_BYTES_MAX", 1 << 20)
    space = served.space()
    with served.enter(space) as raw:
        for number in range(1, 6):
            assert isinstance(raw.write(number, SetDoc(doc(f"{number}"), bytes(240 << 10))), Committed)
        raw.say(Pull(9, tuple(doc(f"{number}") for number in range(1, 6))))
        assert raw.expect(ErrorFrame).code == "HW406"
        raw.say(Pull(10, (doc("1"), doc("2"))))
        assert len(raw.expect(Docs).docs) == 2


# --- frames in a second ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ping", "websocket ping", "fragments"])
def test_a_client_that_exceeds_the_frame_rate_is_disconnected(
    served: Served, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("headwater.server.spaces.server_socket.FRAMES_BURST", 1000)
    monkeypatch.setattr("headwater.server.spaces.server_socket.FRAMES_PER_S", 500)
    one = {
        "ping": ws_frame(BINARY, encode_frame(Ping(1))),
        "websocket ping": ws_frame(PING, b""),
        "fragments": ws_frame(BINARY, encode_frame(Ping(1))[:3], fin=False) + ws_frame(0, encode_frame(Ping(1))[3:]),
    }[kind]
    with served.enter(served.space()) as raw:
        heard: list[Any] = []
        thread = gather(raw, heard)
        with suppress(OSError):
            raw.line.sendall(one * 3000)
        thread.join(120)
        assert heard[-1].code == 4429
    assert is_served(served)


@pytest.mark.slow
def test_who_asks_whether_we_are_there_and_does_not_listen_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.server.spaces.server_socket.FRAMES_BURST", 10_000_000)
    with Served.running(tmp_path) as served:
        raw = served.enter(served.space())
        with raw:
            raw.line.settimeout(10)
            sent = 0
            try:
                while sent < 40 * OUT_BYTES_MAX:
                    raw.line.sendall(ws_frame(PING, bytes(125)) * 1000)
                    sent += 125_000
            except OSError:
                pass
            assert sent < 40 * OUT_BYTES_MAX
        assert is_served(served)


# --- slow consumers -------------------------------------------------------------------------------------------


def test_who_does_not_read_is_closed_and_others_are_told_everything(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    assert served.server.authenticator is not None
    traffic = served.server.authenticator.traffic
    with (
        served.enter(space, "read") as slow,
        served.enter(space, "read") as quick,
        served.enter(space) as writer,
    ):
        for raw in (slow, quick):
            raw.say(Watch(1, ((doc("a"), 0),)))
            raw.expect(Docs)
        heard: list[Any] = []
        gather(quick, heard)
        before = traffic.slow
        code: list[int] = []

        def wake_up() -> None:
            eventually(lambda: traffic.slow > before)
            code.append(slow.closed().code)

        waking = threading.Thread(target=wake_up)
        waking.start()
        for number in range(1, 51):
            assert isinstance(writer.write(number, SetDoc(doc("a"), bytes(1 << 20))), Committed)
        waking.join(120)
        assert code == [1013]
        eventually(lambda: sum(isinstance(each, News) for each in heard) == 50)
        seqs = [new.seq for each in heard if isinstance(each, News) for new in each.news if isinstance(new, Written)]
        assert seqs == list(range(2, 52))


@pytest.mark.slow
def test_a_large_answer_does_not_make_a_client_slow(served: Served) -> None:
    """What it has asked for may be larger than what is told it of itself, also while others write."""
    space = served.space()
    with served.enter(space) as writer, served.enter(space) as reader:
        for number in range(1, 4):
            assert isinstance(writer.write(number, SetDoc(doc(f"{number}"), bytes(12 << 20))), Committed)
        reader.say(Watch(1, ((doc("1"), 0), (doc("2"), 0), (doc("3"), 0), (doc("a"), 0))))
        for number in range(4, 24):
            assert isinstance(writer.write(number, SetDoc(doc("a"), number)), Committed)
        # The answer may be as of any of these writes: what is told of itself comes after it.
        reader.expect(Docs)
        assert isinstance(writer.write(24, SetDoc(doc("a"), 24)), Committed)
        assert isinstance(reader.hear(), News)


def test_questions_of_who_does_not_read_the_answers_are_not_answered(served: Served) -> None:
    space = served.space()
    with served.enter(space) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), bytes(8 << 20))), Committed)
        client = next(iter(served.spaces.channels[space].connections.values()))
        for number in range(20):
            raw.say(Pull(number + 2, (doc("a"),)))
        # Not all of them have come when the first answer fills what there is to be filled.
        eventually(lambda: client._is_full and client.talk.questions >= 10)  # type: ignore[attr-defined]  # a client
        assert [raw.expect(Docs).number for _ in range(20)] == list(range(2, 22))


# --- 47 -------------------------------------------------------------------------------------------------------


def test_two_programs_that_answer_each_other_for_ever_are_held_back_and_others_go_on(served: Served) -> None:
    app = hw.App("pingpong")
    left, right = app.cell("left", 0), app.cell("right", 0)
    ran = []

    @app.sink
    def ping() -> None:
        ran.append("ping")
        right.value = left.value + 1

    @app.sink
    def pong() -> None:
        ran.append("pong")
        left.value = right.value + 1

    name = served.space().replace(" ", "")
    with app.open(f"{served.server.url}/{name}", actor="ann", on_error="log") as space:
        # It comes back, though they are not done and never will be.
        space.settle()
        began = len(ran)
        assert 0 < began <= 4 * RUNS_MAX
        assert is_served(served)
        with served.enter(name) as other:
            assert isinstance(other.write(1, SetDoc(doc("else"), 1)), Committed)
        assert len(ran) <= began + 4 * RUNS_MAX
