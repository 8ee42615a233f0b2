"""One write asks only the parts of a space that have something to do with it."""

from __future__ import annotations

import pytest

from bench.walk import CALLS_MAX, Walk, walk

IDLE = ("scheduler/events/", "runtime/event_service.py", "runtime/timers.py", "runtime/resources/", "runtime/pieces/")
"""A space has these, and in this program none of them has a member."""


@pytest.fixture(scope="module")
def found() -> Walk:
    return walk()


def test_idle_parts_are_not_asked_on_a_write(found: Walk) -> None:
    assert [call for call in found.calls if call[1].startswith(IDLE)] == []


def test_a_write_takes_no_more_calls_than_it_did(found: Walk) -> None:
    assert len(found.calls) <= CALLS_MAX
