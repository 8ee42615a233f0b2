"""The seam is enough: on a machine with virtual time and seeded chance, the product never asks the real one."""

from __future__ import annotations

import os
import random
import secrets
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.access.access_control import AccessControl
from headwater.access.rights import Right
from headwater.cells.context import open_spaces
from headwater.host.system_clock import SystemClock
from headwater.machine import File, Files, Lock, Machine, StrPath, Thread, machine, use
from headwater.store.commit import decode_entry

START_S = 1_700_000_000.0


class RecordingFiles(Files):
    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, path: StrPath, flags: int, mode: int = 0o600) -> File:
        self.opened.append(os.fspath(path))
        return super().open(path, flags, mode)


class VirtualMachine(Machine):
    """Time passes by sleeping alone. Chance is drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.elapsed = 0.0
        self.asked: Counter[str] = Counter()
        self.threads: list[str] = []
        self._chance = random.Random(seed)
        super().__init__()
        self.files: RecordingFiles = RecordingFiles()

    def monotonic(self) -> float:
        self.asked["monotonic"] += 1
        return self.elapsed

    def steady_ms(self) -> float:
        return self.monotonic() * 1000

    def time(self) -> float:
        self.asked["time"] += 1
        return START_S + self.elapsed

    def now_ms(self) -> int:
        return int(self.time() * 1000)

    def sleep(self, seconds: float) -> None:
        self.asked["sleep"] += 1
        self.elapsed += seconds

    def random(self) -> float:
        return self._chance.random()

    def token_bytes(self, size: int) -> bytes:
        self.asked["token_bytes"] += 1
        return self._chance.randbytes(size)

    def lock(self) -> Lock:
        self.asked["lock"] += 1
        return super().lock()

    def pipe(self) -> tuple[int, int]:
        raise OSError("no sockets here")

    def thread(self, target: Callable[..., object], *, name: str, args: tuple[Any, ...] = ()) -> Thread:
        self.threads.append(name)
        return super().thread(target, name=name, args=args)


@pytest.fixture
def no_real_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code of headwater that asks the system for time or chance is an error; that of Python's libraries may."""
    leaks: list[str] = []

    def guarded(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def ask(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1)
            # A thread that is left from another test is on the real machine.
            is_here = threading.current_thread() is threading.main_thread() or isinstance(machine(), VirtualMachine)
            if is_here and caller.f_globals.get("__name__", "").startswith("headwater"):
                leaks.append(f"{name} in {caller.f_code.co_filename}:{caller.f_lineno}")
                raise AssertionError(leaks[-1])
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, ask)

    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep"):
        guarded(time, name)
    guarded(random, "random")
    guarded(secrets, "token_bytes")
    guarded(os, "urandom")
    yield
    assert leaks == []


def play(file: Path, seed: int) -> VirtualMachine:
    """A program with all that reacts: a computed, a sink, a handler with a follow-up, a debounced function."""
    system = VirtualMachine(seed)
    with use(system):
        app = hw.App("seam")
        count = app.cell("count", 0)
        log = app.cell("log", [0])

        @app.computed
        def doubled() -> int:
            return count.value * 2

        @app.handler
        def add(by: int) -> None:
            count.value += by
            if by > 1:
                add.send(by - 1)

        @app.materializer(writes=log)
        def noted() -> None:
            log.value = [doubled()]

        shown: list[int] = []

        @app.sink(debounce="500ms")
        def show() -> None:
            shown.append(doubled())

        with app.open(str(file)) as space:
            count.value = 1
            add.send(3)
            space.settle()
            space.wait("2s")
            assert count.value == 7
            assert [*log.value] == [14]
            assert shown[-1] == 14
            assert open_spaces() != []
    return system


def entries(file: Path) -> list[Any]:
    with sqlite3.connect(file) as db:
        return [decode_entry(body) for (body,) in db.execute("select body from log order by seq")]


@pytest.mark.usefixtures("no_real_clock")
def test_program_on_a_virtual_machine_never_asks_the_real_one(tmp_path: Path) -> None:
    before, real_threads = time.monotonic(), threading.active_count()
    # Those that other tests have not closed, and no collection has removed.
    others = open_spaces()
    system = play(tmp_path / "seam.db", 1)
    assert system.elapsed >= 2
    assert time.monotonic() - before < 60
    assert system.asked["sleep"] >= 1
    assert system.asked["token_bytes"] >= 1
    assert system.asked["lock"] >= 1
    assert any(name.startswith("headwater-") for name in system.threads)
    assert "headwater-door" not in system.threads, "without a pipe there is no inspection socket"
    assert str(tmp_path / "seam.db") in system.files.opened
    assert threading.active_count() <= real_threads
    left = [space for space in open_spaces() if space not in others]
    assert left == [], "what was opened there is no state of this process"


@pytest.mark.usefixtures("no_real_clock")
def test_commits_carry_virtual_time(tmp_path: Path) -> None:
    system = play(tmp_path / "seam.db", 1)
    times = [entry.at for entry in entries(tmp_path / "seam.db")]
    assert times
    assert all(START_S * 1000 <= at <= START_S * 1000 + system.elapsed * 1000 for at in times)


def test_two_runs_of_one_seed_write_the_same_log_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        play(tmp_path / f"{name}.db", seed)
    a, b, c = (entries(tmp_path / f"{name}.db") for name in "abc")
    assert [(entry.session, entry.local_seq, entry.operations) for entry in a] == [
        (entry.session, entry.local_seq, entry.operations) for entry in b
    ]
    assert [entry.session for entry in a] != [entry.session for entry in c]


@pytest.mark.usefixtures("no_real_clock")
def test_two_machines_in_one_process_share_no_state() -> None:
    one, other = VirtualMachine(1), VirtualMachine(2)
    app = hw.App("seam")
    app.cell("count", 0)
    with use(one), app.open("memory:"):
        assert len(open_spaces()) == 1
        with use(other):
            assert open_spaces() == []
            assert machine().process is not one.process
        assert len(open_spaces()) == 1


@pytest.mark.usefixtures("no_real_clock")
def test_tokens_of_a_server_are_made_by_the_machine(tmp_path: Path) -> None:
    made = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir(mode=0o700)
        system = VirtualMachine(5)
        with use(system):
            made.append(AccessControl(folder, SystemClock()).create(space="home", can=Right.READ))
            assert any("access" in path for path in system.files.opened)
    (token, grant), (again, _) = made
    assert token == again
    assert START_S * 1000 <= grant.created <= START_S * 1000 + 1000
