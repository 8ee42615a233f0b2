"""What can be asked about workflows, runs and inputs."""

from __future__ import annotations

import pytest

from headwater.errors import NotFoundError
from headwater.workflow import operator_actions, run_queries
from headwater.workflow.rows import FailureKind
from headwater.workflow.schedule import Cron, Every
from headwater.workflow.workflow_limits import STALE_MS
from tests.support.flows import FLOW, MINUTE_MS, Desk, flow_spec


def flow(desk: Desk) -> run_queries.FlowView:
    return run_queries.flow(desk.tables, FLOW)


def test_schedules_are_told_in_words_in_the_order_of_the_program(desk: Desk) -> None:
    producers = {"poll": Every(5 * MINUTE_MS), "clean": Cron("0 9 * * 1-5", "Europe/Berlin"), "ask": None}
    desk.deploy(flow_spec(producers=producers), "2")
    view = flow(desk)
    assert view.schedule == ("poll every 5 minutes; clean on weekdays at 9:00 (Europe/Berlin); ask only when asked")
    assert [(each.name, each.kind) for each in view.handlers] == [
        ("poll", "producer"),
        ("clean", "producer"),
        ("ask", "producer"),
        ("work", "consumer"),
    ]
    assert view.handlers[-1].when == "when something is published to notes"
    assert (view.version, view.deployed_at) == (2, desk.clock.now_ms())


def test_a_workflow_without_producers_runs_when_something_is_published(desk: Desk) -> None:
    assert flow(desk).schedule == "when something is published"
    assert flow(desk).due_at is None


def test_what_is_due_is_the_next_thing_that_happens_by_itself(desk: Desk) -> None:
    desk.deploy(flow_spec(producers={"poll": Every(5 * MINUTE_MS)}), "2")
    assert flow(desk).due_at == desk.clock.now_ms()
    desk.idle(desk.begin(), wake_at=desk.clock.now_ms() + 2 * MINUTE_MS)
    desk.produce(desk.begin())
    assert flow(desk).due_at == desk.clock.now_ms() + 2 * MINUTE_MS
    assert flow(desk).next_at == desk.clock.now_ms() + 5 * MINUTE_MS
    desk.publish("a")
    desk.fail(desk.begin())
    assert flow(desk).due_at == desk.clock.now_ms() + 10_000, "a chain that is not finished comes first"
    desk.do(operator_actions.pause, FLOW)
    assert flow(desk).due_at is None, "nothing happens while it is paused"


def test_a_call_that_is_looked_up_later_is_due_then(desk: Desk) -> None:
    desk.doubt("a", next_at=desk.clock.now_ms() + 7000)
    assert flow(desk).due_at == desk.clock.now_ms() + 7000


def test_what_blocks_a_workflow_is_told_with_its_run(desk: Desk) -> None:
    run = desk.ask("a")
    assert (flow(desk).block_kind, flow(desk).run, flow(desk).due_at) == ("ask", run.id, None)
    assert run_queries.run_details(desk.tables, run.id).block_kind == "ask"
    assert [view.name for view in run_queries.needs_attention(desk.tables)] == [FLOW]


def test_a_workflow_is_found_by_the_part_after_the_dot_and_listed_unless_archived(desk: Desk) -> None:
    assert run_queries.flow(desk.tables, "inbox").name == FLOW
    desk.do(operator_actions.pause, FLOW)
    desk.do(operator_actions.archive, FLOW)
    assert run_queries.flows(desk.tables) == []
    assert [view.state for view in run_queries.flows(desk.tables, archived=True)] == ["Stopped"]
    with pytest.raises(NotFoundError, match="there is no workflow 'other' here; there is"):
        run_queries.flow(desk.tables, "other")


# --- runs -----------------------------------------------------------------------------------------------------


def test_runs_come_newest_first_and_in_pages(desk: Desk) -> None:
    for number in range(5):
        desk.consume(str(number))
    ids = [run.id for run in run_queries.runs(desk.tables)]
    assert ids == [6, 5, 4, 3, 2, 1]
    assert [run.id for run in run_queries.runs(desk.tables, limit=2)] == [6, 5]
    assert [run.id for run in run_queries.runs(desk.tables, limit=2, before=5)] == [4, 3]
    assert [run.id for run in run_queries.runs(desk.tables, after=4)] == [6, 5]
    assert [run.id for run in run_queries.runs(desk.tables, after=4, also=(1, 3), acting=True)] == [6, 5, 3, 1]
    assert [run.id for run in run_queries.runs(desk.tables, acting=True)] == [6, 5, 4, 3, 2], (
        "the first had nothing to do"
    )


def test_runs_are_chosen_by_workflow_and_by_what_their_status_begins_with(desk: Desk) -> None:
    desk.consume("a")
    desk.ask("b")
    assert [run.id for run in run_queries.runs(desk.tables, "inbox", status="paused")] == [3]
    assert [run.id for run in run_queries.runs(desk.tables, FLOW, status="committed")] == [2, 1]
    assert run_queries.runs(desk.tables, status="crashed", also=()) == []
    with pytest.raises(NotFoundError):
        run_queries.runs(desk.tables, "other")


def test_a_chain_is_told_with_all_its_calls(desk: Desk) -> None:
    desk.publish("a")
    first = desk.begin()
    desk.prepare(first, "a", title="Send it")
    desk.leave(first)
    desk.fail(first, message="refused", undone="refused")
    desk.clock.advance(10_000)
    second = desk.begin()
    desk.prepare(second, "a", title="Send it again")
    desk.act(second, {"sent": 1})
    desk.fail(second, FailureKind.LOGIC, "next is wrong")
    details = run_queries.run_details(desk.tables, first.id)
    assert [(run.id, run.attempt, run.followed_by) for run in details.chain] == [
        (first.id, 1, second.id),
        (second.id, 2, None),
    ]
    assert [(call.run, call.status) for call in details.calls] == [(first.id, "failed"), (second.id, "applied")]
    assert details.calls[0].key != details.calls[1].key
    assert details.call == details.calls[0]
    assert [(event.id, event.disposition) for event in details.events] == [("a", "released")]
    assert details.inputs == ["Note a"]
    assert run_queries.run_details(desk.tables, second.id).result == {"sent": 1}


# --- inputs ---------------------------------------------------------------------------------------------------


def by_status(desk: Desk) -> dict[str, list[str]]:
    statuses = ("pending", "done", "parked", "skipped")
    return {
        status: [view.external for view in run_queries.inputs(desk.tables, FLOW, status=status)] for status in statuses
    }


def test_inputs_are_what_their_events_are(desk: Desk) -> None:
    desk.consume("a")
    desk.ask("b")
    desk.publish("c", "d", "e")
    desk.do(operator_actions.skip_input, 4)
    tables = desk.tables
    desk.backend.begin()
    tables.execute("update flow_event set status = 'parked' where message = 'e'")
    desk.backend.append([], None)
    assert by_status(desk) == {"pending": ["c", "b"], "done": ["a"], "parked": ["e"], "skipped": ["d"]}
    assert [view.external for view in run_queries.inputs(desk.tables, limit=2, before=4)] == ["c", "b"]
    assert run_queries.input_view(desk.tables, 1).outputs == ["Did a"]
    with pytest.raises(NotFoundError, match="there is no input 9"):
        run_queries.input_view(desk.tables, 9)


def test_what_has_waited_for_a_week_is_counted_and_marked(desk: Desk) -> None:
    desk.publish("a")
    desk.clock.advance(STALE_MS + 1)
    desk.publish("b")
    assert (flow(desk).stale, flow(desk).waiting) == (1, 0)
    assert [(view.external, view.stale) for view in run_queries.inputs(desk.tables)] == [("b", False), ("a", True)]
