"""What table `sync` counts with: light clients that lose nothing, and programs that say what came of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.sync_kinds import headwater, load, started
from bench.sync_load import Inbox, framed
from bench.sync_programs import Program, free_port, node_folder, served
from bench.sync_speech import BOARD, HeadwaterSpeech, RelaySpeech, YSpeech
from headwater.store.commit import Committed, PatchDoc
from headwater.sync.frames import Judged, News, Transact, Written, encode_frame, read_client
from headwater.values.ids import LocalSeq, Seq, SessionId
from headwater.values.patch import Replace


def sent_by_a_server(payload: bytes) -> bytes:
    """The same frame as a client's, without the mask."""
    frame = bytearray(framed(payload))
    frame[1] &= 0x7F
    del frame[len(frame) - len(payload) - 4 : len(frame) - len(payload)]
    return bytes(frame)


def test_messages_are_found_wherever_the_bytes_are_cut() -> None:
    payloads = [b"", b"a" * 125, b"b" * 126, b"c" * 70_000, b"d"]
    stream = b"".join(map(sent_by_a_server, payloads))
    edges = [0, 1, 2, 3, 127, 129, 130, 131, 132, 258, 259, 262, 266, 267, 270, 40_000, len(stream) - 1, len(stream)]
    for first in edges:
        for second in edges:
            if first <= second:
                inbox = Inbox()
                parts = stream[:first], stream[first:second], stream[second:]
                assert [each for part in parts for each in inbox.take(part)] == payloads
                assert (inbox.frames, inbox.bytes, inbox.rest) == (5, len(stream), b"")


def test_a_ping_is_no_message_and_a_good_bye_is_an_error() -> None:
    assert Inbox().take(b"\x89\x01x" + sent_by_a_server(b"y")) == [b"y"]
    with pytest.raises(RuntimeError, match="good-bye"):
        Inbox().take(b"\x88\x02\x03\xe8")


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    with served([sys.executable, "-m", "bench.sync_peers.relay", str(port)], port, tmp_path / "relay.log"):
        yield f"ws://127.0.0.1:{port}/room"


def results(tmp_path: Path, url: str, *roles: Sequence[object]) -> list[dict[str, float]]:
    with ExitStack() as stack:
        programs = []
        for role, *numbers in roles:
            command = [sys.executable, "-m", "bench.sync_load", str(role), "relay", url, *map(str, numbers)]
            programs.append(stack.enter_context(Program(command, log=tmp_path / "clients.log")))
        for each in programs:
            each.ready()
        for each in programs:
            each.go()
        return [each.result() for each in programs]


def test_each_reader_of_the_relay_gets_each_message_once(relay: str, tmp_path: Path) -> None:
    readers, _writer = results(tmp_path, relay, ("readers", 5, 40), ("writer", 40, 8))
    assert readers["frames"] == readers["deliveries"] == 200
    # Two bytes before each message.
    assert readers["bytes"] == 5 * sum(2 + len(each) for each in RelaySpeech().messages(0, 40))


def test_a_server_tells_each_reader_of_each_commit_once_with_one_fsync_at_most(tmp_path: Path) -> None:
    peer = headwater(tmp_path)
    with peer.start() as (_, url), ExitStack() as stack:
        commands = [load("readers", peer.kind, url, 4, 30), load("writer", peer.kind, url, 30, 1)]
        readers, writer = started(stack, tmp_path, peer, commands)
        with peer.counting("one at a time", 5, url):
            readers.go()
            writer.go()
            writer.result()
            told = readers.result()
    [counted] = peer.work["one at a time", 5]
    assert told["deliveries"] == 120
    assert counted.commits == 30
    assert counted.groups <= 30
    assert counted.frames == told["frames"] + 30, "and the writer what became of its own"


def test_writers_in_two_programs_wait_for_their_own_and_hear_the_others(relay: str, tmp_path: Path) -> None:
    found = results(tmp_path, relay, ("writers", 0, 2, 20), ("writers", 2, 3, 20))
    assert [(each["ops"], each["conflicts"]) for each in found] == [(40, 0), (60, 0)]


def test_stamps_are_one_for_each_write(relay: str, tmp_path: Path) -> None:
    reader, _ = results(tmp_path, relay, ("stamps", 10), ("stamping", 10, 1))
    times = reader["times"]
    assert isinstance(times, list)
    assert len(times) == 10
    assert min(times) > 0


def test_a_program_that_ends_too_early_is_told_with_what_it_said(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such thing')"]
    with Program(command, log=tmp_path / "log") as program, pytest.raises(RuntimeError, match="no such thing"):
        program.ready()


def test_commits_of_a_light_writer_are_numbered_from_one_and_write_its_key() -> None:
    frames = [read_client(each) for each in HeadwaterSpeech().messages(3, 2)]
    assert frames == [
        Transact(1, (PatchDoc(BOARD, (Replace(("w3",), 0),)),)),
        Transact(2, (PatchDoc(BOARD, (Replace(("w3",), 1),)),)),
    ]


def test_news_count_as_often_as_they_tell_of_a_commit() -> None:
    speech = HeadwaterSpeech()
    written = tuple(Written(Seq(each), SessionId("s"), ()) for each in (1, 2, 3))
    assert speech.count(encode_frame(News(Seq(3), written))) == 3
    assert speech.answer(encode_frame(News(Seq(3), written)), b"") is None
    judged = Judged(LocalSeq(1), Committed(Seq(4)))
    assert speech.answer(encode_frame(News(Seq(4), (*written, judged))), b"") is True


def test_only_updates_of_yjs_count() -> None:
    assert [YSpeech().count(each) for each in (b"\x00\x02abc", b"\x00\x00abc", b"\x01abc")] == [1, 0, 0]


def test_without_node_its_rows_are_left_out_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert node_folder() is None
    assert "node or npm is not there" in capsys.readouterr().err


def test_without_the_network_its_rows_are_left_out_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, text in (("node", "exit 0"), ("npm", "echo 'npm error network' >&2; exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert node_folder() is None
    assert "npm error network" in capsys.readouterr().err
