"""The thread of a storage whose writers ring for each commit: it decides at once, and sleeps until the next one."""

from __future__ import annotations

import threading

import pytest

from headwater.machine import Machine
from tests.server.running import until
from tests.support.hosts import in_memory
from tests.support.spaces import put


class Bell(threading.Event):
    """Keeps how long it was waited for; None: until it rings."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return super().wait(timeout)


def test_commits_of_an_event_loop_or_a_server_wait_for_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bell = Bell()
    monkeypatch.setattr(Machine, "event", lambda _: bell)
    with in_memory(still=False) as storage:
        ann = storage.attach(wake=lambda: None)
        ann.commit([put("a", 0)])
        until(lambda: storage.groups == 1 and bell.waits[-1] is None, "the thread has decided it, and sleeps")
        bell.waits.clear()
        for number in range(1, 6):
            ann.commit([put("a", number)])
            until(lambda: storage.groups == number + 1, "it is decided")  # noqa: B023  # called here
        assert not [each for each in bell.waits if each is not None]
