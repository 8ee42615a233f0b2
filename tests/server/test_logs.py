"""What a server says: one line for each thing, who and where, and never what was shown or written."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import AccessError
from headwater.server import server_log
from headwater.server.server import Server
from headwater.server.server_log import KNOWN_MAX, SPARING_S, JsonLines, RepeatLimiter, TextLines, set_up
from headwater.server.spaces import server_socket
from headwater.store.commit import SetDoc
from headwater.values.address import doc_key
from tests.server.running import ServeProcess, client, pages, served, settle_in, token_for, until, write


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "spaces"


# --- lines ----------------------------------------------------------------------------------------------------


def record(message: str, **besides: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelname": "INFO", "created": 1_700_000_000.5, **besides})


def test_a_line_for_people_says_when_what_and_who() -> None:
    line = TextLines().format(record("session opened", peer="127.0.0.1", actor="ann", space="home"))
    assert line == "2023-11-14T22:13:20.500+00:00 info session opened peer=127.0.0.1 actor=ann space=home"


@pytest.mark.parametrize(
    "name",
    [
        "two words",
        "a=b",
        'quo"te',
        "new\nline",
        "\x1b[31mred",
        "tab\there",
        "Jürgen",
        "line\u2028separator",
        "back\\slash",
    ],
)
def test_no_name_breaks_a_line_or_looks_like_something_else(name: str) -> None:
    line = TextLines().format(record("session opened", actor=name, space="home"))
    assert line.isascii()
    assert line.isprintable()
    quoted = line.partition("actor=")[2].removesuffix(" space=home")
    assert json.loads(quoted) == name
    told = json.loads(JsonLines().format(record("session opened", actor=name)))
    assert told["actor"] == name


def test_a_line_for_programs_is_one_object_also_with_an_error() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        failed = record("it failed", exc_info=(type(error), error, error.__traceback__))
    line = JsonLines().format(failed)
    assert "\n" not in line
    assert "ValueError: two" in json.loads(line)["error"]


def test_what_happens_all_the_time_is_said_now_and_then_with_how_often_it_was_not() -> None:
    said = RepeatLimiter()
    assert said.left_out("a", 0.0) == 0
    assert [said.left_out("a", SPARING_S * 0.9) for _ in range(5)] == [None] * 5
    assert said.left_out("b", SPARING_S * 0.9) == 0
    assert said.left_out("a", SPARING_S) == 5
    for number in range(KNOWN_MAX + 10):
        said.left_out(number, SPARING_S)
    assert len(said._said) == KNOWN_MAX


# --- a server's -----------------------------------------------------------------------------------------------


@pytest.fixture
def heard() -> Iterator[io.StringIO]:
    """What the server says, for programs, down to which pages are asked for."""
    logger = logging.getLogger("headwater")
    before = logger.level, list(logger.handlers)
    stream = io.StringIO()
    set_up(logger, stream, json=True, verbose=True)
    try:
        yield stream
    finally:
        logger.setLevel(before[0])
        logger.handlers[:] = before[1]


@pytest.fixture
def server(store: Path, heard: io.StringIO) -> Iterator[Server]:
    del heard  # first of all
    with served(store) as server:
        yield server


def told(heard: io.StringIO, event: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in heard.getvalue().splitlines()]
    return [each for each in found if each["event"] == event]


def test_who_came_and_went_is_told_with_peer_actor_space_and_session(server: Server, heard: io.StringIO) -> None:
    with client(server.url, actor="ann") as ann:
        session = ann._session
    until(lambda: bool(told(heard, "session closed")), "it is told")
    [opened], [closed] = told(heard, "session opened"), told(heard, "session closed")
    expected = {"peer": "127.0.0.1", "actor": "ann", "space": "home", "session": session}
    assert expected.items() <= opened.items()
    assert (expected | {"code": 1000, "why": "bye"}).items() <= closed.items()
    assert {"space": "home", "seq": 0}.items() <= told(heard, "space opened")[0].items()


def test_who_is_not_let_in_is_told_with_the_reason(server: Server, heard: io.StringIO) -> None:
    with pytest.raises(AccessError), client(server.url, token="nonsense"):  # noqa: S106  # of a test
        pass
    [refused] = told(heard, "connection refused")
    assert {"peer": "127.0.0.1", "status": 401}.items() <= refused.items()
    with pytest.raises(AccessError), client(server.url, token=token_for(server, "other", "read")):
        pass
    [refused] = told(heard, "session refused")
    assert {"peer": "127.0.0.1", "space": "home"}.items() <= refused.items()


def test_who_knocks_all_the_time_fills_no_log(
    server: Server, heard: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_log, "SPARING_S", 1e9)
    for _ in range(10):
        with pytest.raises(AccessError), client(server.url, token="nonsense"):  # noqa: S106  # of a test
            pass
    assert len(told(heard, "connection refused")) == 1


def test_whose_right_was_taken_away_is_told(server: Server, heard: io.StringIO) -> None:
    token = token_for(server, "home", "own", actor="ann")
    with client(server.url, token=token) as ann, client(server.url, actor="bob") as bob:
        write(ann, "a", 1)
        [grant] = server.access.ls()
        server.access.revoke(grant.id)
        write(bob, "a", 2)
        until(lambda: bool(told(heard, "session revoked")), "it is told")
    [revoked] = told(heard, "session revoked")
    assert {"actor": "ann", "space": "home", "code": 4410}.items() <= revoked.items()


def test_who_reads_too_slowly_is_told(server: Server, heard: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(server.url, actor="ann") as ann:
        write(ann, "a", 1)
        # Nothing may wait at all: whatever is sent next is too much.
        with monkeypatch.context() as strict:
            strict.setattr(server_socket, "OUT_BYTES_MAX", -1)
            ann.commit([SetDoc(doc_key("a"), 2)])
            until(lambda: bool(told(heard, "client reads too slowly")), "it is told")
        ann.sync()
    slow = told(heard, "client reads too slowly")[0]
    assert {"level": "warning", "peer": "127.0.0.1", "actor": "ann", "space": "home"}.items() <= slow.items()


def test_pages_are_told_only_to_who_wants_to_know_and_without_names(server: Server, heard: io.StringIO) -> None:
    with pages(server, token_for(server, "secret-plans", "own")) as asking:
        asking.get("/healthz")
        asking.get("/spaces/secret-plans/backup")
    until(lambda: len(told(heard, "page asked for")) == 2, "both are told")
    found = told(heard, "page asked for")
    assert [(each["path"], each["status"], each["level"]) for each in found] == [
        ("/healthz", 200, "debug"),
        ("/...", 404, "debug"),
    ]


def test_nothing_that_was_shown_or_written_is_told(server: Server, heard: io.StringIO) -> None:
    token, wrong = token_for(server, "home", "own"), "hw_wrong-but-a-secret-of-somebody"
    with client(server.url, token=token) as ann:
        write(ann, "diary", "dear diary")
        with pages(server, token) as asking:
            asking.get("/spaces/home/backup")
            asking.post("/spaces/home/topics/a/b", json={"dear": "diary"}, headers={"Idempotency-Key": "my-key"})
    with pytest.raises(AccessError), client(server.url, token=wrong):
        pass
    with pages(server, wrong) as asking:
        asking.get("/spaces/home/backup")
    text = heard.getvalue()
    assert len(text.splitlines()) > 6
    for secret in (token, token[-20:], wrong, "diary", "my-key"):
        assert secret not in text


# --- as users run it ------------------------------------------------------------------------------------------


def test_each_line_is_an_object_if_that_was_asked_for(store: Path) -> None:
    with ServeProcess(store, "--log", "json") as server:
        with client(server.url) as ann:
            write(ann, "a", 1)
        server.end()
        assert server.wait() == 0
    events = [json.loads(line)["event"] for line in server.lines]
    assert events == [
        "server started",
        "space opened",
        "session opened",
        "session closed",
        "server ends",
        "server ended",
    ]


def test_nothing_is_told_if_that_was_asked_for(store: Path) -> None:
    with ServeProcess(store, "--log", "off") as server:
        with client(server.url) as ann:
            write(ann, "a", 1)
        server.end()
        assert server.wait() == 0
    assert [line.split(" ")[0] for line in server.lines] == ["serving", "the"]
