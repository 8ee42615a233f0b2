"""What a door answers about workflows, and does with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import headwater as hw
from headwater.errors import ClosedError, NotFoundError, UsageError
from headwater.host.plain_space import Space
from headwater.host.space_files import open_space
from headwater.inspect import live_workflows, workflow_commands
from headwater.inspect.live_queries import answer
from headwater.inspect.records import Ask
from headwater.inspect.workflow_commands import Done, FlowsTold, RunTold
from tests.support.doors import request


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


def ask(question: str, **more: object) -> Ask:
    return request(question, **more)  # type: ignore[arg-type]  # of a workflow


def flows(space: Space, **more: object) -> FlowsTold:
    _, told = live_workflows.answer([space._runtime.window], ask("workflows", **more))
    assert told is not None
    return msgspec.json.decode(told, type=FlowsTold)


def test_nothing_is_told_twice_to_somebody_who_shows_the_mark(tmp_path: Path) -> None:
    app = make_app()
    with app.open(str(tmp_path / "post.db")) as space:
        first = answer([space._runtime.window], ask("workflows"), 1)
        assert first.told is not None
        again = answer([space._runtime.window], ask("workflows", unless=first.mark), 1)
        assert (again.told, again.mark) == (None, first.mark)
        space.workflows.drain()
        after = answer([space._runtime.window], ask("workflows", unless=first.mark), 1)
        assert after.told is not None
        assert after.mark != first.mark


def test_a_file_of_which_only_a_branch_is_open_tells_of_its_workflows_too(tmp_path: Path) -> None:
    url = str(tmp_path / "post.db")
    with make_app().open(url) as space:
        space.workflows.drain()
    with open_space(url) as storage:
        storage.fork("draft")
    with hw.App("other").open(url, branch="draft") as space:
        [view] = flows(space).flows
        assert (view.name, view.block_kind) == ("post.letters", "indeterminate")
        told = live_workflows.act([space._runtime.window], ask("workflow", act="not_applied", number=view.run))
        assert msgspec.json.decode(told, type=Done).flow.block_kind is None


def test_runs_that_a_host_left_are_recovered_by_whoever_has_the_file_open(tmp_path: Path) -> None:
    url = str(tmp_path / "post.db")
    with make_app().open(url) as space:
        space.workflows.drain()
        hub = space._runtime.flows
        hub.do(lambda book: book.execute("update flow set head = null, block = null, block_kind = null"))
        found = hub.do(
            lambda book: book.execute(
                "insert into flow_run(flow, handler, kind, chain, attempt, why, version, phase, status, outcome, "
                "created_at, updated_at) values (1, 'poll', 'producer', 9, 1, 'schedule', 1, 'preparing', 'active', "
                "'none', 1, 1) returning id"
            )
        )
    with hw.App("other").open(url) as space:
        _, told = live_workflows.answer([space._runtime.window], ask("run", number=found[0][0]))
        assert told is not None
        assert msgspec.json.decode(told, type=RunTold).details.run.status == "crashed"


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with make_app().open(str(tmp_path / "post.db")) as space:
        space.workflows.drain()
        windows = [space._runtime.window]
        with pytest.raises(UsageError, match="not said what is to be done"):
            live_workflows.act(windows, ask("workflow"))
        with pytest.raises(UsageError, match="no question about workflows"):
            workflow_commands.answer(space._runtime.flows, ask("ping"))
        [view] = flows(space).flows
        with pytest.raises(UsageError, match="is not JSON"):
            live_workflows.act(windows, ask("workflow", act="applied", number=view.run, value="{"))
        with pytest.raises(NotFoundError, match="it holds the space 'post', not 'other'"):
            live_workflows.answer(windows, ask("runs", space="other"))
        with pytest.raises(ClosedError):
            live_workflows.answer([], ask("runs"))
        refused = answer(windows, ask("run", number=99), 1)
        assert refused.trouble is not None
        assert refused.trouble.kind == "NotFoundError"


def test_a_result_that_a_person_names_has_to_be_of_the_type_that_next_expects(tmp_path: Path) -> None:
    with make_app().open(str(tmp_path / "post.db")) as space:
        space.workflows.drain()
        [view] = flows(space).flows
        with pytest.raises(UsageError, match="int"):
            live_workflows.act([space._runtime.window], ask("workflow", act="applied", number=view.run, value='"x"'))
        told = live_workflows.act([space._runtime.window], ask("workflow", act="applied", number=view.run, value="7"))
        run = msgspec.json.decode(told, type=Done).run
        assert run is not None
        assert run.outcome == "applied"
