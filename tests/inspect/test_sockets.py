"""The local socket of an open space: how it is found, what it answers, and that it delays no program."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.json import encode

import headwater as hw
from headwater.host.socket_paths import PATH_MAX, path_beside
from headwater.inspect import socket_service, sockets
from headwater.inspect.envelope import Request
from headwater.inspect.function_records import ExplainNode, GetActivity, GetCounts, GetGraph, GetTrace
from headwater.inspect.opening_inspection import inspection_of
from headwater.inspect.socket_client import SocketInspector
from headwater.inspect.sockets import socket_registry
from headwater.machine import Machine, use
from tests.support.open_spaces import (
    SAFETY_S,
    STAYING,
    Counter,
    ask_one,
    call,
    call_when_ready,
    running,
    socket_ready,
    tell,
)


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "GRACE_S", 0.0)


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "counter.db"


# --- where it is ------------------------------------------------------------------------------------------


def test_only_the_owner_can_use_it_and_it_goes_with_the_space(counter: Counter, file: Path) -> None:
    place = Path(path_beside(str(file)))
    with counter.app.open(file):
        socket_ready(file)
        found = place.stat().st_mode
        assert stat.S_ISSOCK(found)
        assert stat.S_IMODE(found) == 0o600
    assert not place.exists()
    assert SocketInspector.connect(str(file)) is None


def test_space_in_memory_has_none(counter: Counter) -> None:
    with counter.app.open("memory:"):
        assert not socket_registry().sockets


def test_opening_for_a_moment_makes_none(counter: Counter, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "GRACE_S", SAFETY_S)
    with counter.app.open(file):
        behind = socket_registry().sockets[str(file)]
        counter.count.value = 1
        assert [path.name for path in file.parent.iterdir() if "runtime" in path.name] == []
    assert not behind.tried.is_set()


@pytest.mark.parametrize("folder", ["f" * 120, "ö" * 60, "a/" * 60])
def test_path_that_is_too_long_for_a_socket_is_no_hindrance(counter: Counter, tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    file = tmp_path / folder / "counter.db"
    place = Path(path_beside(str(file)))
    assert len(os.fsencode(place)) > PATH_MAX
    with counter.app.open(file):
        socket_ready(file)
        target = Path(place.read_text(encoding="utf-8").splitlines()[1])
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700
        assert ask_one(file, GetCounts()).app == "counter"
    assert not place.exists()
    assert not target.exists()


def test_a_foreign_file_is_not_replaced(counter: Counter, file: Path) -> None:
    place = Path(path_beside(str(file)))
    place.write_text("my notes")
    with counter.app.open(file):
        assert socket_ready(file).listening is None
        counter.count.value = 1
        assert counter.doubled() == 2
    assert place.read_text() == "my notes"


def test_folder_in_which_nothing_can_be_made_is_no_hindrance(
    counter: Counter, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_place: str) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr("headwater.host.socket_paths._clear", refuse)
    with caplog.at_level("DEBUG", "headwater"), counter.app.open(file):
        assert socket_ready(file).listening is None
        counter.count.value = 1
    assert "has no socket: not here" in caplog.text
    assert [record.levelname for record in caplog.records if record.name == "headwater"] == ["DEBUG"]


def test_process_without_room_for_another_file_or_thread_opens_all_the_same(
    counter: Counter, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(sockets, "WakePipe", refuse)
    with use(Machine()):
        with caplog.at_level("DEBUG", "headwater"), counter.app.open(file):
            counter.count.value = 1
            assert counter.doubled() == 2
        assert not sockets.socket_registry().sockets
    assert "has no socket: too many open files" in caplog.text


def test_socket_of_a_killed_process_is_replaced(counter: Counter, file: Path) -> None:
    with running(STAYING, file) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(SAFETY_S)
    place = Path(path_beside(str(file)))
    assert place.is_socket()
    assert SocketInspector.connect(str(file)) is None, "no process listens"
    with counter.app.open(file):
        socket_ready(file)
        with call(file) as caller:
            assert caller.ping() == os.getpid()
    assert not place.exists()


def test_long_way_of_a_killed_process_is_replaced(counter: Counter, tmp_path: Path) -> None:
    (tmp_path / ("f" * 120)).mkdir()
    file = tmp_path / ("f" * 120) / "counter.db"
    with running(STAYING, file) as process:
        target = Path(Path(path_beside(str(file))).read_text().splitlines()[1])
        process.send_signal(signal.SIGKILL)
        process.wait(SAFETY_S)
    assert target.is_socket()
    assert SocketInspector.connect(str(file)) is None
    with counter.app.open(file):
        socket_ready(file)
        assert ask_one(file, GetCounts()).app == "counter"
    assert not target.exists()


# --- several ----------------------------------------------------------------------------------------------


def test_all_openings_of_a_file_answer_at_one_socket(counter: Counter, file: Path) -> None:
    other = Counter("other")
    with counter.app.open(file) as first:
        socket_ready(file)
        with counter.app.open(file, actor="ann"), other.app.open(file):
            with call(file) as caller:
                openings = caller.ask(GetGraph())
            assert [(one.app, one.actor) for one in openings] == [("counter", ""), ("counter", "ann"), ("other", "")]
        assert ask_one(file, GetGraph()).app == "counter"
        first.close()
        assert SocketInspector.connect(str(file)) is None


def test_every_file_has_a_socket_of_its_own(counter: Counter, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.db" for number in range(5)]
    spaces = [counter.app.open(file) for file in files]
    for file in files:
        socket_ready(file)
        assert ask_one(file, GetCounts()).space == file.stem
    assert sum(thread.name == "headwater-inspect" for thread in threading.enumerate()) == 1
    for space in spaces:
        space.close()
    assert not socket_registry().sockets


def test_space_that_is_opened_again_is_found_again(counter: Counter, file: Path) -> None:
    for _ in range(3):
        with counter.app.open(file):
            socket_ready(file)
            assert ask_one(file, GetCounts()).app == "counter"
        assert SocketInspector.connect(str(file)) is None


# --- answers ----------------------------------------------------------------------------------------------


def test_snapshot_is_the_one_of_the_scheduler_at_the_time_of_day(counter: Counter, file: Path) -> None:
    with counter.app.open(file) as space:
        socket_ready(file)
        counter.count.value = 3
        space.sync()
        opening = ask_one(file, GetGraph())
        own = space.scheduler.get_graph_snapshot()
    assert opening.snapshot is not None
    assert msgspec.structs.replace(opening.snapshot, at_ms=own.at_ms) == own
    assert opening.snapshot.at_ms > 1_700_000_000_000
    assert not opening.busy


def test_of_many_nodes_functions_come_before_instances(file: Path) -> None:
    app = hw.App("many")
    row = app.computed(name="row")(_row)
    app.computed(name="last")(lambda: 1)
    app.sink(name="show")(lambda: [row(number) for number in range(20)])
    with app.open(file):
        socket_ready(file)
        opening = ask_one(file, GetGraph(limit=5))
    assert opening.snapshot is not None
    assert [node.name for node in opening.snapshot.nodes][:2] == ["last", "show"]
    assert (len(opening.snapshot.nodes), opening.left_out) == (5, 17)
    ids = {node.id for node in opening.snapshot.nodes}
    assert {edge.target for edge in opening.snapshot.edges} <= ids


def _row(number: int) -> int:
    return number


def test_why_is_told_in_words_with_names_that_authors_know(file: Path) -> None:
    with running(STAYING, file) as process:
        tell(process, 20)
        [why] = ask_one(file, ExplainNode(node="total")).whys
        assert "total() is a computation, clean, live: read by live nodes" in why.words
        assert "because gross(0) and gross(1) changed" in why.words
        assert [why.name for why in ask_one(file, ExplainNode(node="shop.gross")).whys] == [
            "gross(0)",
            "gross(1)",
        ]
        assert ask_one(file, ExplainNode(node="nothing")).names == (
            "total",
            "unused",
            "receipt",
            "gross(0)",
            "gross(1)",
        )


def test_counts_are_told_by_name_and_functions_with_all_their_instances(file: Path) -> None:
    with running(STAYING, file) as process:
        tell(process, 20)
        counts = ask_one(file, GetCounts()).counts
        activities = ask_one(file, GetActivity()).activities
    assert counts["effects"] == 1
    assert counts["commits"] > 0
    gross = next(one for one in activities if one.name == "gross")
    assert (gross.nodes, gross.live, gross.runs, gross.has_arguments) == (2, 2, 4, True)
    unused = next(one for one in activities if one.name == "unused")
    assert (unused.nodes, unused.live, unused.never_ran, unused.runs) == (1, 0, 1, 0)


def test_nothing_new_is_answered_with_the_mark_alone(counter: Counter, file: Path) -> None:
    with counter.app.open(file) as space, call_when_ready(file) as caller:
        caller.ask(GetGraph())
        space.sync()
        first = caller.exchange(encode(Request(ask=GetGraph())))
        again = caller.exchange(encode(Request(ask=GetGraph(), unless=first.mark)))
        assert (bytes(again.answer), again.mark) == (b"", first.mark)
        counter.count.value = 7
        assert bytes(caller.exchange(encode(Request(ask=GetGraph(), unless=first.mark))).answer)


# --- while a pass goes on ---------------------------------------------------------------------------------


class Held:
    """An app whose sink does not return until it may."""

    def __init__(self) -> None:
        self.app = hw.App("held")
        self.count = self.app.cell("count", 0)
        self.at_work, self.go_on = threading.Event(), threading.Event()

        @self.app.sink
        def slow() -> None:
            if self.count.value:
                self.at_work.set()
                assert self.go_on.wait(SAFETY_S)


@pytest.fixture
def held() -> Iterator[Held]:
    one = Held()
    yield one
    one.go_on.set()


def test_long_pass_is_answered_with_what_is_known(held: Held, file: Path) -> None:
    with held.app.open(file):
        socket_ready(file)
        writer = threading.Thread(target=lambda: setattr(held.count, "value", 1))
        writer.start()
        assert held.at_work.wait(SAFETY_S)
        opening = ask_one(file, GetGraph(), wait_ms=1)
        assert (opening.busy, opening.running) == (True, ("slow",))
        assert opening.snapshot is not None
        assert [(node.name, node.in_flight, node.runs) for node in opening.snapshot.nodes] == [("slow", True, 2)]
        assert "It is running" in ask_one(file, ExplainNode(node="slow"), wait_ms=1).whys[0].words
        stats = ask_one(file, GetCounts(), wait_ms=1)
        assert (stats.busy, stats.counts) == (True, {})
        assert [one.running for one in ask_one(file, GetActivity(), wait_ms=1).activities] == [1]
        held.go_on.set()
        writer.join(SAFETY_S)
        after = ask_one(file, GetCounts())
        assert (after.busy, after.running, after.counts["in_flight"]) == (False, (), 0)


def test_question_waits_a_little_for_the_end_of_a_pass(held: Held, file: Path) -> None:
    with held.app.open(file) as space:
        socket_ready(file)
        writer = threading.Thread(target=lambda: setattr(held.count, "value", 1))
        writer.start()
        assert held.at_work.wait(SAFETY_S)
        asked = threading.Event()
        view = inspection_of(space._opening)
        turn, view._lock = view._lock, Turn(view._lock, asked.set)  # type: ignore[assignment]

        def release() -> None:
            assert asked.wait(SAFETY_S)
            held.go_on.set()

        releaser = threading.Thread(target=release)
        releaser.start()
        assert not ask_one(file, GetGraph(), wait_ms=5000).busy
        inspection_of(space._opening)._lock = turn
        writer.join(SAFETY_S)
        releaser.join(SAFETY_S)


class Turn:
    """A lock that reports when a thread waits for it."""

    def __init__(self, lock: threading.RLock, wanted: object) -> None:
        self._lock, self._wanted = lock, wanted

    def acquire(self, timeout: float) -> bool:
        self._wanted()  # type: ignore[operator]
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self._lock.release()


def test_asking_does_not_swallow_a_pass_of_an_event_loop(counter: Counter, file: Path) -> None:
    async def main() -> None:
        async with counter.app.aopen(file) as space:
            held, release = threading.Event(), threading.Event()

            def look() -> None:
                with inspection_of(space._opening).locked(1) as has_lock:
                    assert has_lock
                    held.set()
                    assert release.wait(SAFETY_S)

            looking = threading.Thread(target=look)
            looking.start()
            assert await asyncio.to_thread(held.wait, SAFETY_S)
            counter.count.value = 5
            await asyncio.sleep(0)
            assert space._opening.runtime._missed
            release.set()
            await asyncio.to_thread(looking.join, SAFETY_S)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert counter.shown == [0, 10]

    asyncio.run(asyncio.wait_for(main(), SAFETY_S))


def test_a_question_runs_no_function(file: Path) -> None:
    def run(name: str, *, ask: bool) -> list[tuple[str, int, int]]:
        counter = Counter(name)
        questions = (GetGraph(), GetCounts(), GetActivity(), ExplainNode(node="doubled"), GetTrace())
        with counter.app.open(file) as space, call_when_ready(file) as caller:
            for number in range(10):
                counter.count.value = number // 2
                if ask:
                    for question in questions:
                        assert caller.ask(question)  # type: ignore[var-annotated]
            nodes = space.scheduler.registry.nodes
            return [(node.name, node.runs, node.invalidated) for node in nodes]

    assert run("one", ask=True) == run("two", ask=False)


# --- the protocol -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"v": 9, "ask": {"question": "graph"}}', "it speaks version 4 of this protocol, not 9"),
        (b'{"v": 4, "ask": {"question": "destroy"}}', "the question is unknown there: Invalid value 'destroy'"),
        (b'{"v": 4, "do": {"command": "destroy"}}', "the question is unknown there: Invalid value 'destroy'"),
        (b'{"v": 4, "ask": {"question": "graph", "colour": 1}}', "is not understood"),
        (b'{"ask": {"question": "graph"}}', "is not understood"),
        (b"nonsense", "is not understood"),
        (b"\xff\xfe", "is not understood"),
        (b"[" * 10_000, "is not understood"),
        (b'{"v": 4, "ask": {"question": "trace", "kind": "no"}}', "'no' is no kind of trace; there are registered"),
        (b'{"v": 4, "follow": "no"}', "'no' is no kind of trace; there are registered"),
    ],
)
def test_what_is_not_understood_is_refused_and_the_next_is_answered(
    counter: Counter, file: Path, line: bytes, why: str
) -> None:
    with counter.app.open(file), call_when_ready(file) as caller:
        assert why in caller.exchange(line).refused
        assert caller.ping() == os.getpid()


def test_request_without_end_is_not_listened_to(counter: Counter, file: Path) -> None:
    with counter.app.open(file):
        with call_when_ready(file) as caller, pytest.raises(ConnectionError):
            while True:
                caller._connection.sendall(b"x" * 10_000)
        assert ask_one(file, GetCounts()).app == "counter"


def test_too_many_callers_are_turned_away_and_the_others_are_not(
    counter: Counter, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_service, "PEERS_MAX", 2)
    with counter.app.open(file):
        with call_when_ready(file) as first, call(file) as second:
            assert first.ping() == second.ping()
            with call(file) as third, pytest.raises(ConnectionError):
                third.ping()
            assert second.ping() == os.getpid()
        # A caller that disconnects makes room, once this is noticed.
        while True:
            with call(file) as fourth:
                try:
                    assert fourth.ping() == os.getpid()
                except ConnectionError:
                    continue
                break
