"""A run is of one version of the code: what was prepared by one is not acted on by another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headwater as hw
from headwater.testing import SimClock
from tests.runtime.workflows.mill import Mill, Note


def asking(mill: Mill, words: str) -> Mill:
    """A consumer that asks before it acts, as one version of a program has it."""

    @mill.flow.consumer(mill.notes)
    class Send(hw.Consumer[Note, list[str], int]):
        def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            if not pending:
                return hw.Plan.idle()
            return hw.Plan([f"{words} {e.id}" for e in pending], take=pending, title=words, ask=True)

        def mutate(self, run: hw.Run, data: list[str]) -> int:  # as authors write it
            mill.log.append(list(data))
            return len(data)

    return mill


def test_a_plan_of_an_older_version_is_made_anew_and_asked_about_again_if_it_differs(tmp_path: Path) -> None:
    clock = SimClock()
    old = asking(Mill(tmp_path, clock, version=1), "old words")
    with old.open() as space:
        old.put("a")
        space.workflows.drain()
        waits = old.flow.status.run
        assert waits is not None
        old.flow.approve(waits)
    new = asking(Mill(tmp_path, clock, version=2), "new words")
    with new.open() as space:
        space.workflows.drain()
        assert new.log == []
        assert new.flow.status.state == "Needs attention"
        again = new.flow.status.run
        assert again is not None
        assert again > waits
        assert [(run.id, run.version, run.retry_of) for run in new.runs if run.taken] == [
            (waits, 1, None),
            (again, 2, waits),
        ]
        new.flow.approve(again)
        space.workflows.drain()
        assert new.log == [["new words a"]]
        assert new.events() == {"a": "consumed"}


def test_an_approval_holds_for_the_same_plan_of_a_newer_version(tmp_path: Path) -> None:
    clock = SimClock()
    old = asking(Mill(tmp_path, clock, version=1), "same words")
    with old.open() as space:
        old.put("a")
        space.workflows.drain()
        waits = old.flow.status.run
        assert waits is not None
        old.flow.approve(waits)
    new = asking(Mill(tmp_path, clock, version=2), "same words")
    with new.open() as space:
        space.workflows.drain()
        assert new.log == [["same words a"]]
        assert [(run.version, run.status) for run in new.runs if run.taken] == [
            (1, "paused:approval"),
            (2, "committed"),
        ]
