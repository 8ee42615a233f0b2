"""A topic that is gone from the program: what a run holds of it counts as much as what waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import NotFoundError, TransitionError
from headwater.runtime.options import Options
from tests.runtime.workflows.mill import Mill, Note


def gate(app: hw.App, topic: str) -> hw.Workflow:
    flow = app.workflow("gate")
    orders = flow.topic(topic, Note)

    @flow.producer()
    def poll() -> None:
        if topic == "old":
            orders.publish(Note("a"), id="a")

    @flow.consumer(orders)
    class Ask(hw.Consumer[Note, str, int]):
        def prepare(self, pending: Any) -> hw.Plan[str]:
            return hw.Plan("x", take=pending, ask=True) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: str) -> int:
            return 1

    return flow


def test_an_event_that_waits_for_an_approval_is_not_stranded_when_its_topic_is_renamed(tmp_path: Path) -> None:
    url = str(tmp_path / "x.db")
    old = hw.App("shop")
    flow = gate(old, "old")
    with old.open(url) as space:
        space.workflows.drain()
        assert flow.status.state == "Needs attention"
    new = hw.App("shop")
    renamed = gate(new, "new")
    with pytest.raises(TransitionError, match=r"1 event of topic old.*--force"), new.open(url):
        pass
    with new.open_with(url, Options(force=True)) as space:
        space.workflows.drain()
        assert renamed.status.state == "Idle"
        assert renamed.status.pending == {"old": 0, "new": 0}
        assert [each.status for each in renamed.inputs()] == ["skipped"]
    with new.open(url):
        pass


def test_a_number_that_no_run_can_have_is_the_number_of_no_run() -> None:
    mill = Mill()
    mill.take()
    with mill.open():
        for number in (10**30, -(10**30)):
            with pytest.raises(NotFoundError, match="there is no run"):
                mill.flow.approve(number)
