"""Waiting for a signal, or for somebody who rings: also if the signal came just before."""

from __future__ import annotations

from queue import SimpleQueue

import pytest

from headwater.host import process_lifetime
from headwater.host.process_lifetime import hear


def test_what_was_said_just_before_the_wait_is_heard_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_lifetime, "LOOK_S", 0.01)
    looks: list[bool] = []

    def is_over() -> bool:
        # As after a signal whose handler runs when the thread wakes, and not before.
        looks.append(True)
        return len(looks) > 3

    hear(SimpleQueue(), None, is_over)
    assert len(looks) == 4


def test_a_ring_ends_the_wait_and_is_taken_out() -> None:
    rung: SimpleQueue[None] = SimpleQueue()
    rung.put(None)
    rung.put(None)
    hear(rung, None, lambda: False)
    assert rung.empty()


def test_a_wait_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_lifetime, "LOOK_S", 0.001)
    hear(SimpleQueue(), 0.01, lambda: False)
    hear(SimpleQueue(), 0.0, lambda: False)
