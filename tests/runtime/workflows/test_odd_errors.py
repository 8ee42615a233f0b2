"""A run whose handler raises what cannot be shown fails like any other, and so does a question to the outside."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from tests.runtime.workflows.mill import Mill
from tests.support.odd_errors import ODD, odd_id


class MuteError(hw.TransientError):
    """One of Headwater's own, made by an author who forgot the rest of it."""

    def __init__(self) -> None:
        """No message."""


@pytest.mark.parametrize("phase", ["prepare", "mutate", "next"])
@pytest.mark.parametrize("kind", [*ODD, MuteError], ids=odd_id)
def test_a_run_that_raises_it_fails_and_is_told(kind: type[Exception], phase: str) -> None:
    mill = Mill()

    def fail(_: object, *args: object) -> Any:
        raise kind

    mill.take(**{phase: fail})
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        ends = {"mutate": "paused:reconciliation"}
        end = ends.get(phase, "paused:transient" if kind is MuteError else "failed:logic")
        assert mill.statuses[0] == end
        # No generator is between the run and the error: Python would replace one that forbids it to note its cause.
        assert kind.__qualname__ in str(mill.runs[0].error)
