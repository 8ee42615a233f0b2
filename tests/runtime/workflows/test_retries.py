"""What is tried again, when, and how often: by what was raised, and by what the handler says of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.testing import SimClock
from tests.runtime.workflows.mill import Mill


def failing(error: Any, phase: str = "prepare", folder: Path | None = None, clock: Any = None, **consumer: Any) -> Mill:
    """A consumer that raises in one of its phases, as often as it is called."""
    mill = Mill(folder, clock)

    def fail(_: object, *args: object) -> Any:
        mill.log.append(mill.clock.now_ms())
        raise error

    mill.take(consumer=consumer, **{phase: fail})
    return mill


def waits(mill: Mill, space: hw.Space, most: int = 20) -> list[int]:
    """Seconds between attempts, until nothing is planned any more."""
    for _ in range(most):
        space.workflows.drain()
        at = space.workflows.wake_at
        if at is None:
            break
        mill.clock.advance(at - mill.clock.now_ms())
    times = [entry for entry in mill.log if isinstance(entry, int)]
    return [(after - before) // 1000 for before, after in pairwise(times)]


def test_what_passes_is_tried_five_times_ever_more_seldom() -> None:
    mill = failing(hw.TransientError("down"))
    with mill.open() as space:
        mill.put("a")
        assert waits(mill, space) == [10, 20, 40, 80, 160]
        assert mill.statuses == ["paused:transient"] * 6
        assert mill.flow.status.state == "Needs attention"
        assert mill.flow.status.sentence.startswith("Take failed 6 times: down.")
        assert [run.retry_of for run in mill.runs] == [None, 1, 2, 3, 4, 5]
        assert [run.attempt for run in mill.runs] == [1, 2, 3, 4, 5, 6]


def test_a_handler_says_how_often_and_how_soon() -> None:
    mill = failing(hw.TransientError("down"), retry=hw.Retry(4, backoff="3s", max="10s"))
    with mill.open() as space:
        mill.put("a")
        assert waits(mill, space) == [3, 6, 10, 10]


def test_a_handler_that_is_not_tried_again_blocks_at_once() -> None:
    mill = failing(hw.TransientError("down"), retry=hw.Retry(0))
    with mill.open() as space:
        mill.put("a")
        assert waits(mill, space) == []
        assert mill.statuses == ["paused:transient"]
        assert mill.flow.status.sentence == "Take failed 1 times: down. When the reason is gone, resume."


def test_jitter_makes_waits_shorter_and_never_longer() -> None:
    mill = failing(hw.TransientError("down"), retry=hw.Retry(20, backoff="100s", max="100s", jitter=0.5))
    with mill.open() as space:
        mill.put("a")
        found = waits(mill, space, 30)
        assert all(49 <= wait <= 100 for wait in found)
        assert len(set(found)) > 3


@pytest.mark.parametrize(
    ("error", "on", "status"),
    [
        (OSError("down"), (), "failed:logic"),
        (OSError("down"), OSError, "paused:transient"),
        (ConnectionResetError("down"), OSError, "paused:transient"),
        (ValueError("odd"), (OSError, ValueError), "paused:transient"),
        (KeyError("odd"), (OSError, ValueError), "failed:logic"),
        (hw.LogicError("odd"), (), "failed:logic"),
        (hw.LogicError("odd"), hw.LogicError, "paused:transient"),
        (hw.ApprovalError("sign in"), (), "paused:approval"),
        (hw.InternalError("odd"), (), "failed:internal"),
        (hw.IndeterminateError("odd"), (), "failed:logic"),
        (TimeoutError("slow"), (), "paused:transient"),
        (ExceptionGroup("several", [OSError("down")]), OSError, "paused:transient"),
        (ExceptionGroup("several", [TimeoutError("slow"), KeyError("odd")]), (), "failed:logic"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("phase", ["prepare", "next"])
def test_failures_are_told_apart_by_their_class(error: Exception, on: Any, status: str, phase: str) -> None:
    mill = failing(error, phase, retry=hw.Retry(2, on=on))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.statuses == [status]
        assert mill.events() == {"a": "pending" if phase == "prepare" else "reserved"}


@pytest.mark.parametrize("error", [OSError("down"), hw.TransientError("down"), hw.LogicError("odd")])
def test_after_the_call_has_left_nothing_is_retried_by_itself(error: Exception) -> None:
    mill = failing(error, "mutate", retry=hw.Retry(5, on=OSError))
    with mill.open() as space:
        mill.put("a")
        assert waits(mill, space) == []
        assert (mill.last.status, mill.last.outcome) == ("paused:reconciliation", "unknown")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (hw.TransientError("busy", definite=True), "paused:transient"),
        (hw.LogicError("bad request", definite=True), "failed:logic"),
        (hw.ApprovalError("401", definite=True), "paused:approval"),
    ],
    ids=repr,
)
def test_a_clean_refusal_is_told_apart_like_any_failure(error: Exception, status: str) -> None:
    mill = failing(error, "mutate")
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert (mill.last.status, mill.last.outcome) == (status, "failed")
        assert mill.events() == {"a": "pending"}


def test_not_applied_is_tried_again_like_something_that_passes() -> None:
    mill = Mill()
    answers: list[Any] = [hw.NotApplied("busy"), 1]
    mill.take(mutate=lambda _, run, data: answers.pop(0))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert (mill.last.status, mill.last.error) == ("paused:transient", "busy")
        mill.advance(10)
        space.workflows.drain()
        assert mill.log == [("next", ["a"], 1)]


def test_a_count_and_a_wait_outlive_the_process(tmp_path: Path) -> None:
    clock, attempts = SimClock(), list[int]()
    for _ in range(3):
        mill = failing(hw.TransientError("down"), folder=tmp_path, clock=clock)
        with mill.open() as space:
            mill.put("a")
            # Not hammered: what is not due is not tried because of a restart.
            if attempts:
                assert space.workflows.drain() == 0
                clock.advance(int(space.workflows.wake_at or 0) - clock.now_ms())
            space.workflows.drain()
            attempts += mill.log
    assert [(at - attempts[0]) // 1000 for at in attempts] == [0, 10, 30]


def test_what_works_again_begins_to_count_anew() -> None:
    mill, fails = Mill(), [True, True, False, True, False]

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        mill.log.append(mill.clock.now_ms())
        if fails.pop(0):
            raise hw.TransientError("down")
        return hw.Plan(None, take=pending[:1])

    mill.take(prepare=prepare, mutate=None, next=None)
    with mill.open() as space:
        mill.put("a", "b")
        assert waits(mill, space) == [10, 20, 0, 10]
        assert mill.events() == {"a": "consumed", "b": "consumed"}


def test_a_failure_after_the_effect_is_tried_again_from_next() -> None:
    mill = failing(hw.TransientError("down"), "next", retry=hw.Retry(1))
    with mill.open() as space:
        mill.put("a")
        assert waits(mill, space) == [10]
        # D18: what is there is not lost because a budget is.
        assert mill.flow.status.state == "Needs attention"
        assert mill.events() == {"a": "reserved"}
        assert [entry for entry in mill.log if isinstance(entry, tuple)] == [("mutate", ["a"])]
        mill.flow.resume()
        space.workflows.drain()
        assert [entry for entry in mill.log if isinstance(entry, tuple)] == [("mutate", ["a"])]
        assert mill.last.outcome == "applied"


def test_a_producer_is_tried_again_and_everything_else_waits_for_it() -> None:
    mill = Mill()
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="1h", retry=hw.Retry(3, backoff="5s", on=OSError))
    def poll() -> None:
        mill.log.append(mill.clock.now_ms())
        raise OSError("down")

    with mill.open() as space:
        assert waits(mill, space) == [5, 10, 20]
        assert mill.flow.status.sentence.startswith("poll failed 4 times: OSError: down")


def test_failures_are_told_to_whoever_listens() -> None:
    mill = failing(ValueError("odd"))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        [error] = mill.errors
        assert "run 1 of mill.notes.Take failed: ValueError: odd" in str(error)
        assert error.facts["run"] == 1
        assert "raise error" in str(mill.details(1).details)
