"""Threads that decide for many storages: one group each, in turn, and never two threads for one storage."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headwater.host.deciding_threads import DecidingThreads

WAIT_S = 30.0


class Work:
    """A storage with so many groups."""

    def __init__(self, name: str, groups: int, log: list[str]) -> None:
        self.name = name
        self.left = groups
        self.log = log
        self.inside = 0
        self.most_inside = 0
        self.done = threading.Event()
        self.begun = threading.Event()
        self.may_go = threading.Event()
        self.may_go.set()

    def decide_next(self) -> bool:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.begun.set()
        assert self.may_go.wait(WAIT_S)
        self.log.append(self.name)
        self.left -= 1
        self.inside -= 1
        if not self.left:
            self.done.set()
        return self.left > 0


def test_busy_storage_and_its_neighbors_take_turns() -> None:
    log: list[str] = []
    threads = DecidingThreads(1, "test")
    gate, hot = Work("gate", 1, log), Work("hot", 6, log)
    others = [Work(f"other{number}", 1, log) for number in range(3)]
    gate.may_go.clear()
    threads.ring(gate)
    assert gate.begun.wait(WAIT_S)
    for each in (hot, *others):
        threads.ring(each)
    gate.may_go.set()
    for each in (hot, *others):
        assert each.done.wait(WAIT_S)
    threads.close()
    assert log == ["gate", "hot", "other0", "other1", "other2", *["hot"] * 5]


def test_storage_that_is_rung_while_it_decides_decides_again_and_in_one_thread_at_a_time() -> None:
    log: list[str] = []
    threads = DecidingThreads(4, "test")
    work = Work("a", 2, log)
    work.may_go.clear()
    # It says that nothing waits: the second group arrived after that.
    inner = work.decide_next
    work.decide_next = lambda: bool(inner()) and False  # type: ignore[method-assign]  # what is tested
    threads.ring(work)
    assert work.begun.wait(WAIT_S)
    for _ in range(10):
        threads.ring(work)
    work.may_go.set()
    assert work.done.wait(WAIT_S)
    threads.close()
    assert (log, work.most_inside) == (["a", "a"], 1)


def test_error_in_one_storage_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    threads = DecidingThreads(1, "test")

    class Broken:
        name = "broken"

        def decide_next(self) -> bool:
            raise RuntimeError("of ours")

    work = Work("a", 1, log)
    broken: Any = Broken()
    threads.ring(broken)
    threads.ring(work)
    assert work.done.wait(WAIT_S)
    threads.close()
    assert "space 'broken': a group could not be decided" in caplog.text
