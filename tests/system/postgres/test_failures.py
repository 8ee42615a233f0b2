"""What fails while a program commits to PostgreSQL: no confirmed commit is lost, none is stored twice."""

from __future__ import annotations

import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import FencedError
from headwater.host.postgres.database_connection import DatabaseConnection
from headwater.host.postgres.database_url import parse_database_url
from headwater.store.backend import LogRow
from headwater.store.backends.postgres.fence import find_space, take
from headwater.store.backends.postgres.postgres_backend import PostgresBackend
from headwater.testing.postgres import PostgresServer
from headwater.values.ids import NEVER, Seq
from tests.support.postgres import database, new_name, open_backend, require_postgres

pytestmark = pytest.mark.slow

SAFETY_S = 120.0
"""For one line of a process, on a machine that is busy with other work."""

WRITER = Path(__file__).with_name("writer_to_kill.py")


class Writer:
    """A process of `writer_to_kill.py`, and the numbers that were confirmed to it."""

    def __init__(self, url: str, space: str, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WRITER), url, space, name], stdout=subprocess.PIPE, text=True
        )
        self.confirmed: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())
        self._lines.put("end")

    def line(self) -> str:
        """The next line."""
        found = self._lines.get(timeout=SAFETY_S)
        if found not in ("open", "end") and not found.startswith("error"):
            self.confirmed.append(found)
        return found

    def until(self, count: int) -> None:
        """Wait for so many confirmed numbers more."""
        for _ in range(count):
            assert self.line() not in ("end", "error"), self.confirmed

    def end(self, number: int = signal.SIGKILL) -> None:
        """End it, and take what it has printed."""
        self.process.send_signal(number)
        self.process.wait()
        while self.line() != "end":
            pass

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A cluster of its own, which the test may kill."""
    require_postgres()
    with PostgresServer() as made:
        yield made


Start = Callable[[str], Writer]


@pytest.fixture
def start(server: PostgresServer) -> Iterator[Start]:
    """Starts a writer with a name, which has the space open when this returns."""
    started: list[Writer] = []

    def make(name: str) -> Writer:
        end = time.monotonic() + SAFETY_S
        while True:
            started.append(Writer(server.url(), "main", name))
            # One that was stopped a moment ago seems to be there.
            if (line := started[-1].line()) != "error HW202" or time.monotonic() > end:
                assert line == "open"
                return started[-1]

    yield make
    for writer in started:
        writer.close()


def stored(url: str, space: str) -> list[str]:
    app = hw.App("numbers")
    items = app.cell("items", type=list[str], default=[])
    with app.open(url, space=space):
        return list(items.value)


def check(found: list[str], *writers: Writer) -> None:
    """Everything that was confirmed is there, in its order and once; besides, at most the last one of each writer."""
    for writer in writers:
        name = writer.confirmed[0].partition("-")[0] if writer.confirmed else ""
        own = [item for item in found if item.partition("-")[0] == name]
        assert own[: len(writer.confirmed)] == writer.confirmed
        assert own == [f"{name}-{number}" for number in range(1, len(own) + 1)]
        assert len(own) <= len(writer.confirmed) + 1


@pytest.mark.parametrize("how", ["kill", "immediate"])
def test_a_crash_of_postgresql_loses_no_confirmed_commit_and_the_program_goes_on(
    server: PostgresServer, start: Start, how: str
) -> None:
    writer = start("a")
    for _ in range(4):
        writer.until(25)
        if how == "kill":
            server.kill()
        else:
            server.stop_at_once()
        server.start()
    writer.until(25)
    writer.end()
    check(stored(server.url(), "main"), writer)


def test_connections_that_are_cut_lose_and_double_nothing(server: PostgresServer, start: Start) -> None:
    writer = start("a")
    connection = DatabaseConnection(parse_database_url(server.url()))
    chance = random.Random(3)
    for _ in range(30):
        writer.until(chance.randrange(1, 8))
        connection.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
            "and application_name = 'headwater'"
        )
    writer.until(5)
    connection.close()
    writer.end()
    check(stored(server.url(), "main"), writer)


def test_a_program_that_was_killed_is_succeeded_and_lost_nothing(server: PostgresServer, start: Start) -> None:
    writers = []
    for number in range(5):
        writer = start(f"w{number}")
        writer.until(10)
        writer.end()
        writers.append(writer)
    check(stored(server.url(), "main"), *writers)


def test_a_program_that_was_stopped_cannot_commit_after_another_has_taken_over(
    server: PostgresServer, start: Start
) -> None:
    old = start("old")
    old.until(10)
    old.process.send_signal(signal.SIGSTOP)
    new = start("new")
    new.until(10)
    old.process.send_signal(signal.SIGCONT)
    while not (last := old.line()).startswith("error"):
        assert last != "end"
    assert last == "error HW210 HW213"
    new.until(10)
    old.end()
    new.end()
    found = stored(server.url(), "main")
    check(found, old, new)
    # Nothing of the first one is after what the second one has written.
    assert max(place for place, item in enumerate(found) if item.startswith("old")) < found.index("new-1")


def test_takeovers_as_fast_as_they_go_leave_no_gap_and_no_fall_of_epochs() -> None:
    name = new_name()
    open_backend(name).close()
    counts = {"taken": 0, "landed": 0, "fenced": 0}
    lock = threading.Lock()

    def race(writer: int) -> None:
        chance = random.Random(writer)
        connection = DatabaseConnection(database(), is_relaxed=True)
        for _ in range(40):
            time.sleep(chance.random() * 0.01)
            seen = find_space(connection, name)
            assert seen is not None
            fence = take(connection, seen, writer)
            if fence is None:
                continue
            backend = PostgresBackend(connection, seen.id, fence)
            landed = 0
            last = None
            try:
                last = backend.last()
                while True:
                    head = 0 if last is None else last.seq
                    body = f"{fence.epoch}".encode()
                    group = [LogRow(Seq(head + n), body, b"c" * 32) for n in range(1, chance.randrange(2, 6))]
                    backend.append(group, None)
                    last, landed = group[-1], landed + 1
                    if chance.random() < 0.05:
                        break
            except FencedError:
                with lock:
                    counts["fenced"] += 1
            with lock:
                counts["taken"] += 1
                counts["landed"] += landed
        connection.close()

    threads = [threading.Thread(target=race, args=(writer,)) for writer in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    backend = open_backend(name)
    rows = list(backend.log(NEVER, Seq(10**9)))
    backend.close()
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    epochs = [int(row.body) for row in rows]
    assert epochs == sorted(epochs)
    assert counts["taken"] > 40
    assert counts["fenced"] > 10, counts
