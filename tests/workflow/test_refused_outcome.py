"""The outcome of a call is written without waiting for it. If the disk refuses it, the end of the run writes it.

If the run does not come to its end, it does not stay active.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import StoreFullError
from headwater.runtime.workflows.hub import Hub
from headwater.runtime.workflows.run_executor import Performance
from headwater.workflow.tables import WorkflowTables

app = hw.App("post")
flow = app.workflow("box")
letters = flow.topic("letters", int)
done: list[str] = []
failures: list[Exception] = []


@flow.consumer(letters)
class Take(hw.Consumer[int, int, int]):
    """Takes one letter at a time."""

    def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[int]:
        return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

    def mutate(self, _run: hw.Run, data: int) -> int:
        done.append(f"acted on {data}")
        return data

    def reconcile(self, _run: hw.Run, data: int) -> hw.Answer[int]:
        done.append(f"asked about {data}")
        return hw.Applied(data)

    def next(self, _run: hw.Run, _data: int, outcome: hw.Outcome[int]) -> None:
        done.append(f"next after {outcome}")
        if failures:
            raise failures.pop()


def refuse_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk has no room for an outcome alone."""
    post = Hub.post

    def refused(hub: Hub, *_steps: object, soon: bool = True) -> object:
        def step(_tables: WorkflowTables) -> None:
            raise StoreFullError("no room", path="")

        return post(hub, step, soon=soon)

    monkeypatch.setattr(Hub, "post", refused)


def test_outcome_that_the_disk_refuses_is_written_with_the_end_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done.clear()
    with app.open(str(tmp_path / "post.db")) as space:
        letters.publish(1, id="a").sync()
        refuse_outcomes(monkeypatch)
        space.workflows.drain()
        monkeypatch.undo()
        run = flow.runs()[0]
        assert (run.status, run.outcome) == ("committed", "applied")
    assert done == ["acted on 1", "next after Applied(1)"]


def test_outcome_of_a_run_that_fails_is_found_by_reconcile_if_the_disk_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done.clear()
    failures.append(hw.TransientError("next fails"))
    with app.open(str(tmp_path / "post.db")) as space:
        letters.publish(1, id="a").sync()
        refuse_outcomes(monkeypatch)
        space.workflows.drain()
        monkeypatch.undo()
        space.workflows.drain()
        assert flow.runs()[0].status == "committed"
    assert done[0] == "acted on 1"
    assert done[-2:] == ["asked about 1", "next after Applied(1)"]
    assert done.count("acted on 1") == 1


def test_outcome_is_written_alone_if_the_end_of_the_run_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was left to the end. Written alone, it is known when `next` is called again."""
    done.clear()

    def interrupt(*_: object) -> None:
        raise hw.TransientError("the commit of the end")

    with app.open(str(tmp_path / "post.db")) as space:
        letters.publish(1, id="a").sync()
        monkeypatch.setattr(Performance, "_commit", interrupt)
        space.workflows.drain(limit=1)
        monkeypatch.undo()
        run = flow.runs()[0]
        assert (run.status, run.outcome) == ("paused:transient", "applied")
    assert done == ["acted on 1", "next after Applied(1)"]
