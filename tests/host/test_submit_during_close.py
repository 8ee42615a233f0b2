"""A commit that a thread submits while another one closes the space is decided or refused, and never forgotten."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headwater.errors import ClosedError
from headwater.host.storage import Storage
from tests.support.hosts import in_memory
from tests.support.spaces import put


class ClosingLock:
    """After its next release, another thread closes the storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock: Any = storage._lock
        self.is_armed = True

    def acquire(self, *args: Any, **options: Any) -> bool:
        return bool(self._lock.acquire(*args, **options))

    def release(self) -> None:
        self._lock.release()
        if self.is_armed:
            self.is_armed = False
            thread = threading.Thread(target=self._storage.close)
            thread.start()
            thread.join()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def test_commit_that_is_submitted_after_the_close_is_refused() -> None:
    storage = in_memory(group_max=1)
    ann = storage.attach()
    first = ann.commit([put("a", 1)])
    storage._lock = ClosingLock(storage)  # type: ignore[assignment]  # as it is used
    with pytest.raises(ClosedError):
        # The group is full: this thread decides it, and is closed out before it adds its own commit.
        ann.commit([put("a", 2)])
    assert not storage._waiting
    ann.refresh()
    assert first.accepted


def test_commit_that_is_added_during_a_close_is_decided_although_that_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = in_memory()
    ann = storage.attach()
    wait, decide = Storage.wait, Storage._decide
    calls: list[int] = []
    late: list[Any] = []

    def wait_and_add(here: Storage, timeout: float | None = None) -> None:
        wait(here, timeout)
        late.append(ann.commit([put("a", 1)]))

    def interrupted_once(here: Storage, group: list[Any], **options: bool) -> Any:
        calls.append(len(group))
        if len(calls) == 1:
            raise KeyboardInterrupt
        return decide(here, group, **options)

    monkeypatch.setattr(Storage, "wait", wait_and_add)
    monkeypatch.setattr(Storage, "_drain", lambda _: None)
    monkeypatch.setattr(Storage, "_decide", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        storage.close()
    ann.refresh()
    assert calls == [1, 1]
    assert late[0].accepted
