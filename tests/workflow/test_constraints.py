"""What the database itself holds true of workflows, whoever writes: told as a fault of ours, and nothing is kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headwater.errors import InvariantError, TransitionError
from headwater.workflow import run_rows, transitions
from headwater.workflow.rows import RunCause
from tests.support.flows import Desk, packed


def refused(desk: Desk, query: str, *values: object, why: str = "must never be so") -> None:
    """The statement is not taken, and everything is as it was."""
    before = desk.rows()
    with pytest.raises(InvariantError, match=why) as found:
        desk.do(lambda tables: tables.execute(query, *values))
    assert found.value.facts["query"] == query
    assert desk.rows() == before


# --- runs -----------------------------------------------------------------------------------------------------


def test_a_workflow_has_one_active_run(desk: Desk) -> None:
    desk.publish("a")
    desk.begin()
    before = desk.rows()
    with pytest.raises(InvariantError, match="flow_run"):
        desk.do(lambda tables: run_rows.insert(tables, desk.flow, "work", "consumer", RunCause.EVENT))
    assert desk.rows() == before


def test_two_workflows_have_one_each(desk: Desk) -> None:
    desk.publish("a")
    desk.begin()
    desk.tables.execute(
        "insert into flow(name, salt, version, intent, created_at, updated_at) values ('other', '', 1, 'active', 1, 1)"
    )
    other = desk.tables.flow_named("other")
    assert other is not None
    assert desk.do(lambda tables: run_rows.insert(tables, other, "work", "consumer", RunCause.EVENT)).flow == other.id


def test_a_run_has_one_successor(desk: Desk) -> None:
    desk.publish("a")
    first = desk.begin()
    failed = desk.fail(first)
    desk.clock.advance(10_000)
    second = desk.begin()
    desk.fail(second)
    before = desk.rows()
    with pytest.raises(InvariantError, match="retry_of"):
        desk.do(lambda tables: run_rows.insert_after(tables, desk.flow, failed, RunCause.RETRY, keeps=False))
    assert desk.rows() == before


def test_a_run_follows_an_earlier_one(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    for later in (run.id, run.id + 1):
        refused(desk, "update flow_run set retry_of = ? where id = ?", later, run.id)
        refused(
            desk,
            "insert into flow_run(id, flow, handler, kind, retry_of, chain, attempt, why, version, phase, status, "
            "outcome, prepare_result, created_at, updated_at) "
            "values (?, 1, 'work', 'consumer', ?, 1, 1, '', 1, 'committed', 'committed', 'none', x'c0', 1, 1)",
            run.id + 1,
            later + 1,
            why="retry_of < id|FOREIGN KEY",
        )


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("flow", 2),
        ("handler", "other"),
        ("kind", "producer"),
        ("retry_of", None),
        ("chain", 7),
        ("attempt", 3),
        ("why", "wake"),
        ("version", 9),
        ("effect_of", 1),
    ],
)
def test_what_a_run_is_and_follows_from_stays_as_it_is(desk: Desk, column: str, value: object) -> None:
    desk.publish("a")
    run = desk.begin()
    refused(desk, f"update flow_run set {column} = ? where id = ?", value, run.id, why="stays as it is")  # noqa: S608


def test_what_was_prepared_and_what_came_of_it_is_said_once(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a", data="this")
    refused(desk, "update flow_run set prepare_result = ? where id = ?", packed("that"), run.id, why="said once")
    desk.act(run, "done")
    refused(desk, "update flow_run set mutation_result = ? where id = ?", packed("twice"), run.id, why="said once")
    desk.do(
        lambda tables: tables.execute("update flow_run set prepare_result = ? where id = ?", packed("this"), run.id)
    )


def test_a_run_goes_forward_only(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    refused(desk, "update flow_run set phase = 'preparing' where id = ?", run.id, why="forward only")


def test_a_finished_run_stays_as_it_is(desk: Desk) -> None:
    run = desk.consume("a")
    for change in ("status = 'active'", "phase = 'emitting'", "outcome = 'none', mutation_result = null"):
        refused(desk, f"update flow_run set {change} where id = ?", run.id)  # noqa: S608


def test_a_run_that_waits_says_what_for(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    refused(desk, "update flow_run set status = 'paused:transient' where id = ?", run.id, why="error_kind")


def test_an_effect_that_is_there_has_a_result_and_no_other_has(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.leave(run)
    refused(desk, "update flow_run set phase = 'mutated', outcome = 'applied' where id = ?", run.id)
    refused(
        desk, "update flow_run set phase = 'mutated', outcome = 'failed', mutation_result = x'00' where id = ?", run.id
    )


# --- events ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["reserved", "consumed", "skipped", "parked"])
def test_what_a_run_was_given_does_not_change(desk: Desk, status: str) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    if status != "reserved":
        desk.do(run_rows.release, run, status, "consumed")
    refused(desk, "update flow_event set payload = x'01' where message = 'a'", why="does not change")


def test_an_event_is_held_by_a_run_or_not_reserved(desk: Desk) -> None:
    desk.publish("a", "b")
    run = desk.begin()
    desk.prepare(run, "b")
    refused(desk, "update flow_event set status = 'reserved' where message = 'a'")
    refused(desk, "update flow_event set reserved_by = ? where message = 'a'", run.id)
    refused(desk, "update flow_event set status = 'pending' where message = 'b'")
    refused(desk, "update flow_event set reserved_by = null where message = 'b'")
    refused(desk, "update flow_event set reserved_by = 99 where message = 'b'", why="FOREIGN KEY")


def test_an_id_is_published_to_a_topic_once(desk: Desk) -> None:
    desk.publish("a")
    refused(
        desk, "insert into flow_event(topic, message, payload, status, created_at) values (1, 'a', x'', 'pending', 1)"
    )


def test_how_many_events_wait_is_counted_by_the_database(desk: Desk) -> None:
    desk.publish("a", "b", "c")
    run = desk.begin()
    desk.prepare(run, "a", "b")
    assert desk.tables.topics(1)["notes"].pending == 1
    desk.do(run_rows.release, run)
    desk.tables.execute("update flow_event set status = 'parked' where message = 'a'")
    topic = desk.tables.topics(1)["notes"]
    assert (topic.pending, topic.parked) == (2, 1)
    refused(desk, "update flow_topic set pending = pending - 3")


def test_what_became_of_an_event_in_a_run_is_said_once(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    refused(desk, "update flow_take set run = 1", why="said once")
    refused(desk, "update flow_take set disposition = 'lost'")
    desk.do(run_rows.release, run)
    refused(desk, "update flow_take set disposition = 'consumed'", why="said once")
    refused(desk, "update flow_take set disposition = 'reserved'", why="said once")


# --- decisions, and runs that are put aside ------------------------------------------------------------------


def test_only_a_run_that_stopped_after_its_effect_is_put_aside(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    refused(desk, "update flow_run set aside = 'kept' where id = ?", run.id)
    desk.act(run)
    refused(desk, "update flow_run set aside = 'kept' where id = ?", run.id)
    desk.fail(run)
    refused(desk, "update flow_run set aside = 'gone' where id = ?", run.id)
    desk.tables.execute("update flow_run set aside = 'kept' where id = ?", run.id)


def test_only_a_producer_is_asked_for(desk: Desk) -> None:
    refused(desk, "update flow_handler set asked = 1 where kind = 'consumer'")


def test_a_decision_is_about_a_run_and_recorded_once(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    decide = "insert into flow_decision(run, at, actor, verb) values (?, 1, 'ann', 'approve')"
    refused(desk, decide, 99, why="FOREIGN KEY")
    desk.tables.execute(decide, run.id)
    refused(desk, "update flow_decision set actor = 'bob'", why="recorded once")


# --- calls ----------------------------------------------------------------------------------------------------


def test_what_became_of_a_call_is_said_once(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    before = desk.rows()
    with pytest.raises(InvariantError, match="said once"):
        desk.do(run_rows.resolve_call, run, "reconciliation", result=None, error="no")
    with pytest.raises(InvariantError, match="said once"):
        desk.do(run_rows.leave_call_open, run, 5)
    with pytest.raises(TransitionError, match="known already"):
        desk.do(transitions.applied, run.id, packed(2))
    assert desk.rows() == before


def test_a_run_makes_one_call(desk: Desk) -> None:
    """W4."""
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.leave(run)
    with pytest.raises(InvariantError, match="flow_call"):
        desk.do(run_rows.write_call, desk.flow, run, "again", b"")


def test_two_calls_never_have_the_same_key(desk: Desk) -> None:
    """It is made of the number of the run, the name of the workflow and the salt of the space."""
    flow = desk.flow
    others = [replace(flow, name="app.other"), replace(flow, salt="another space")]
    keys = [run_rows.key_of(each, run) for each in [flow, *others] for run in range(1, 200)]
    assert len(set(keys)) == len(keys)
    assert run_rows.key_of(flow, 7) == run_rows.key_of(desk.flow, 7), "the same, whenever it is asked for"


@pytest.mark.parametrize(
    "change",
    [
        "status = 'applied', resolved_by = 'call'",
        "status = 'failed'",
        "status = 'needs_reconcile'",
        "status = 'indeterminate', next_at = 5",
        "result = x'00'",
        "resolved_by = 'call'",
        "status = 'failed', resolved_by = 'somebody'",
    ],
)
def test_a_call_that_is_resolved_says_how_and_one_that_is_not_says_when_it_is_asked_about(
    desk: Desk, change: str
) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.leave(run)
    refused(desk, f"update flow_call set {change}")  # noqa: S608


# --- workflows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "block = 'why'",
        "block_kind = 'logic'",
        "retry_at = 5",
        "intent = 'stopped'",
        "head = 99",
        "name = null",
    ],
)
def test_a_workflow_is_blocked_for_a_reason_and_tried_again_only_if_something_is(desk: Desk, change: str) -> None:
    refused(desk, f"update flow set {change}")  # noqa: S608


def test_a_producer_has_a_next_time_and_a_consumer_is_woken(desk: Desk) -> None:
    refused(desk, "update flow_handler set next_run_at = 5")
    desk.tables.execute("insert into flow_handler(flow, name, kind) values (1, 'poll', 'producer')")
    refused(desk, "update flow_handler set wake_at = 5 where kind = 'producer'")


def test_a_version_is_kept_as_it_was(desk: Desk) -> None:
    refused(desk, "insert into flow_version select * from flow_version")
