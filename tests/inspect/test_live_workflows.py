"""Workflows of an open space: questions and commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import ClosedError, NotFoundError, UsageError
from headwater.host.space_files import open_space
from headwater.inspect.live_inspector import LiveInspector
from headwater.inspect.names import InspectScope
from headwater.inspect.opening_inspection import inspection_of
from headwater.inspect.workflow_records import DecideRun, ListRuns, ListWorkflows, ShowRun


def make_app() -> hw.App:
    app = hw.App("post")
    flow = app.workflow("letters")
    letters = flow.topic("letters", str)

    @flow.producer(every="1h")
    def poll() -> None:
        letters.publish("hello", id="a", title="Letter a")

    @flow.consumer(letters)
    class Send(hw.Consumer[str, str, int]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[str]:
            return hw.Plan(pending[0].data, take=pending[:1], title="Send a") if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: str) -> int:
            raise TimeoutError(f"no answer to {data} of run {run.id}")

    return app


def test_mark_changes_when_something_happens(tmp_path: Path) -> None:
    app = make_app()
    with app.open(str(tmp_path / "post.db")) as space:
        inspector = LiveInspector([inspection_of(space._opening)])
        first = inspector.mark(ListWorkflows())
        assert inspector.mark(ListRuns()) == first
        space.workflows.drain()
        assert inspector.mark(ListWorkflows()) != first


def test_a_file_of_which_only_a_branch_is_open_tells_of_its_workflows_too(tmp_path: Path) -> None:
    url = str(tmp_path / "post.db")
    with make_app().open(url) as space:
        space.workflows.drain()
    with open_space(url) as storage:
        storage.fork("draft")
    with hw.App("other").open(url, branch="draft") as space:
        inspector = LiveInspector([inspection_of(space._opening)])
        [view] = inspector.ask(ListWorkflows()).flows
        assert (view.name, view.block_kind) == ("post.letters", "indeterminate")
        assert view.run is not None
        assert inspector.do(DecideRun(run=view.run, action="not_applied")).flow.block_kind is None


def test_runs_of_a_killed_host_are_recovered_by_the_process_that_has_the_file_open(tmp_path: Path) -> None:
    url = str(tmp_path / "post.db")
    with make_app().open(url) as space:
        space.workflows.drain()
        hub = space._opening.flows
        hub.do(lambda tables: tables.execute("update flow set head = null, block = null, block_kind = null"))
        found = hub.do(
            lambda tables: tables.execute(
                "insert into flow_run(flow, handler, kind, chain, attempt, why, version, phase, status, outcome, "
                "created_at, updated_at) values (1, 'poll', 'producer', 9, 1, 'schedule', 1, 'preparing', 'active', "
                "'none', 1, 1) returning id"
            )
        )
    with hw.App("other").open(url) as space:
        report = LiveInspector([inspection_of(space._opening)]).ask(ShowRun(run=found[0][0]))
        assert report.details.run.status == "crashed"


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with make_app().open(str(tmp_path / "post.db")) as space:
        space.workflows.drain()
        inspector = LiveInspector([inspection_of(space._opening)])
        [view] = inspector.ask(ListWorkflows()).flows
        assert view.run is not None
        with pytest.raises(UsageError, match="is not JSON"):
            inspector.do(DecideRun(run=view.run, action="applied", value="{"))
        with pytest.raises(NotFoundError, match="it holds the space 'post', not 'other'"):
            LiveInspector([inspection_of(space._opening)], InspectScope(space="other")).ask(ListRuns())
        with pytest.raises(ClosedError):
            LiveInspector([]).ask(ListRuns())
        with pytest.raises(NotFoundError):
            inspector.ask(ShowRun(run=99))


def test_a_result_that_a_person_names_has_to_be_of_the_type_that_next_expects(tmp_path: Path) -> None:
    with make_app().open(str(tmp_path / "post.db")) as space:
        space.workflows.drain()
        inspector = LiveInspector([inspection_of(space._opening)])
        [view] = inspector.ask(ListWorkflows()).flows
        assert view.run is not None
        with pytest.raises(UsageError, match="int"):
            inspector.do(DecideRun(run=view.run, action="applied", value='"x"'))
        run = inspector.do(DecideRun(run=view.run, action="applied", value="7")).run
        assert run is not None
        assert run.outcome == "applied"
