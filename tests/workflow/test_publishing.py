"""Events into topics: each id once, what of it may change when, and the inputs that it is about."""

from __future__ import annotations

import pytest

from headwater.errors import NotFoundError, TransitionError
from headwater.workflow import run_rows
from headwater.workflow.deployment import deploy
from headwater.workflow.operator_actions import find_input
from headwater.workflow.planner import IdleUntil
from headwater.workflow.publication import Publication, publish
from headwater.workflow.rows import FailureKind, InputRow
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.transitions import Begun
from tests.support.flows import FLOW, POLLING, Desk, flow_spec, packed


def payload(desk: Desk, message: str, topic: str = "notes") -> bytes:
    [[found]] = desk.tables.execute("select payload from flow_event where id = ?", desk.event(message, topic))
    assert isinstance(found, bytes)
    return found


def causes(desk: Desk, message: str, topic: str = "notes") -> list[str]:
    """What an event is about: the ids of inputs, as their sources have them."""
    query = (
        "select input.message from flow_cause as cause join flow_input as input on input.id = cause.input "
        "where cause.event = ? order by input.id"
    )
    return [row[0] for row in desk.tables.execute(query, desk.event(message, topic))]


def inputs(desk: Desk) -> list[InputRow]:
    return [desk.do(find_input, row[0]) for row in desk.tables.execute("select id from flow_input order by id")]


# --- the same id again (D8) -----------------------------------------------------------------------------------


def test_an_id_is_new_once(desk: Desk) -> None:
    assert desk.publish("a") is True
    assert desk.publish("a") is False
    assert desk.events() == {"a": "pending"}
    assert desk.tables.topics(desk.flow.id)["notes"].pending == 1


def test_while_it_waits_an_event_gets_the_new_payload(desk: Desk) -> None:
    desk.publish("a", payload=1)
    desk.publish("a", payload=2)
    assert payload(desk, "a") == packed(2)
    run = desk.begin()
    assert run.offered == 1


@pytest.mark.parametrize("status", ["reserved", "consumed", "skipped", "parked"])
def test_what_a_run_was_given_keeps_its_payload_and_its_status(desk: Desk, status: str) -> None:
    desk.publish("a", payload=1)
    run = desk.begin()
    desk.prepare(run, "a")
    if status != "reserved":
        desk.do(run_rows.release, run, status, "consumed")
    desk.flags.dirty.clear()
    assert desk.publish("a", payload=2) is False
    assert payload(desk, "a") == packed(1)
    assert desk.events() == {"a": status}
    assert not desk.flags.dirty, "nothing new waits"


def test_an_event_that_was_given_back_gets_the_new_payload_again(desk: Desk) -> None:
    desk.publish("a", payload=1)
    run = desk.begin()
    desk.prepare(run, "a")
    desk.fail(run)
    desk.publish("a", payload=2)
    assert payload(desk, "a") == packed(2)


def test_who_has_looked_at_an_event_looks_again_when_it_says_something_else(desk: Desk) -> None:
    """W10: it was left waiting for what it said; now it says something else."""
    desk.publish("a", payload={"state": "open"})
    desk.idle(desk.begin())
    desk.publish("a", payload={"state": "open"})
    assert desk.next() == IdleUntil(), "the same is no news: whoever polls publishes it again and again"
    desk.publish("a", payload={"state": "closed"})
    assert desk.begin().offered == 1


def test_a_run_does_not_act_on_what_an_event_said_before(desk: Desk) -> None:
    """It was published anew while the run planned with what it had said: no word of it is lost."""
    desk.publish("a", "b", payload=1)
    run = desk.begin()
    desk.publish("a", payload=2)
    before = desk.rows()
    with pytest.raises(TransitionError, match="published anew") as refused:
        desk.prepare(run, "b", "a")
    assert refused.value.facts["stopped"]
    assert desk.rows() == before
    desk.fail(run, FailureKind.STOPPED, refused.value.message)
    found = desk.next()
    assert isinstance(found, Begun)
    assert [event.payload for event in found.events] == [packed(2), packed(1)]
    desk.prepare(found.run, "a", "b")
    assert desk.flow.failures == 0


def test_a_run_acts_on_events_that_were_published_anew_before_it_began(desk: Desk) -> None:
    desk.publish("a", payload=1)
    desk.idle(desk.begin())
    desk.publish("a", payload=2)
    run = desk.begin()
    desk.publish("a", payload=2)
    desk.prepare(run, "a")


def test_the_same_id_in_two_topics_is_two_events(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers={"work": ("notes", "letters")}), "2")
    assert desk.publish("a", topic="notes")
    assert desk.publish("a", topic="letters")
    assert [row[0] for row in desk.tables.execute("select topic from flow_event order by id")] == [1, 2]


# --- inputs and causes ----------------------------------------------------------------------------------------


def test_what_comes_from_outside_is_an_input_and_the_event_is_about_it(desk: Desk) -> None:
    desk.do(publish, Publication(FLOW, "notes", "a", packed(1), "Note a.txt", "files"))
    [found] = inputs(desk)
    assert (found.source, found.message, found.title, found.created_by) == ("files", "a", "Note a.txt", None)
    assert (found.flow, found.created_at, found.skipped_at) == (desk.flow.id, desk.clock.now_ms(), None)
    assert causes(desk, "a") == ["a"]


def test_an_input_without_a_title_or_a_source_is_named_after_its_topic(desk: Desk) -> None:
    desk.do(publish, Publication(FLOW, "notes", "a", packed(1)))
    [found] = inputs(desk)
    assert (found.source, found.title) == ("notes", "notes a")


def test_an_input_is_registered_once_and_keeps_its_title(desk: Desk) -> None:
    desk.do(publish, Publication(FLOW, "notes", "a", packed(1), "first", "files"))
    desk.clock.advance(1000)
    desk.do(publish, Publication(FLOW, "notes", "a", packed(2), "second", "files"))
    [found] = inputs(desk)
    assert (found.title, found.created_at) == ("first", desk.clock.now_ms() - 1000)


def test_an_event_that_two_sources_publish_is_about_both(desk: Desk) -> None:
    desk.do(publish, Publication(FLOW, "notes", "a", packed(1), "", "files"))
    desk.do(publish, Publication(FLOW, "notes", "a", packed(1), "", "http"))
    assert [found.source for found in inputs(desk)] == ["files", "http"]
    assert causes(desk, "a") == ["a", "a"]


def test_what_a_producer_publishes_is_an_input_of_its_run(desk: Desk) -> None:
    desk.deploy(POLLING, "2")
    desk.idle(desk.begin())
    run = desk.begin()
    assert run.kind == "producer"
    desk.do(publish, Publication(FLOW, "notes", "a", packed(1)), run)
    assert inputs(desk)[0].created_by == run.id
    assert desk.tables.execute("select created_by from flow_event") == [(run.id,)]


def test_what_a_consumer_publishes_is_about_all_that_its_run_was_about(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers={"work": ("notes",), "mail": ("letters",)}), "2")
    desk.publish("a", "b", "c")
    run = desk.begin()
    desk.prepare(run, "a", "b")
    desk.act(run)
    desk.publish("out", topic="letters", run=run)
    assert causes(desk, "out", "letters") == ["a", "b"]
    assert [found.message for found in inputs(desk)] == ["a", "b", "c"], "it is no input itself"
    desk.commit(run)
    after = desk.begin()
    assert (after.handler, after.offered) == ("work", 1)
    desk.prepare(after, "c")
    desk.act(after)
    desk.publish("out", topic="letters", run=after)
    assert causes(desk, "out", "letters") == ["a", "b", "c"], "published again, it is about that, too"


def test_causes_are_those_of_the_inputs_however_many_topics_they_went_through(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers={"work": ("notes",), "mail": ("letters",)}), "2")
    desk.publish("a", "b")
    run = desk.begin()
    desk.prepare(run, "a", "b")
    desk.act(run)
    desk.publish("letter", topic="letters", run=run)
    desk.commit(run)
    second = desk.begin()
    assert second.handler == "mail"
    [letter] = desk.tables.pending(desk.flow.id, ["letters"], 5)
    desk.do(run_rows.reserve, second, [letter.id], [2])
    desk.publish("reply", run=second)
    assert causes(desk, "reply") == ["a", "b"]


def test_what_a_run_that_took_over_publishes_is_about_what_it_holds(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers={"work": ("notes",), "mail": ("letters",)}), "2")
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.crash(run)
    again = desk.begin()
    desk.publish("out", topic="letters", run=again)
    assert causes(desk, "out", "letters") == ["a"]


def test_what_a_consumer_publishes_to_another_workflow_is_about_the_same(desk: Desk) -> None:
    desk.do(deploy, flow_spec("app.second"), "1", "salt")
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.do(publish, Publication("app.second", "notes", "out", packed(1)), run)
    second = desk.tables.flow_named("app.second")
    assert second is not None and second.id != desk.flow.id
    query = "select input from flow_cause join flow_event on id = event where message = 'out'"
    assert desk.tables.execute(query) == [(1,)]
    assert desk.tables.topics(second.id)["notes"].pending == 1


# --- what is not there ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flow", "topic"), [(FLOW, "letters"), ("app.other", "notes"), ("inbox", "notes")])
def test_a_topic_that_is_not_there_is_refused_by_name(desk: Desk, flow: str, topic: str) -> None:
    before = desk.rows()
    with pytest.raises(NotFoundError) as refused:
        desk.do(publish, Publication(flow, topic, "a", packed(1)))
    assert refused.value.facts == {"flow": flow, "topic": topic}
    assert desk.rows() == before


def test_whoever_is_told_of_what_is_published_is_told_of_its_workflow_and_topic(desk: Desk) -> None:
    def look(tables: WorkflowTables, message: str) -> tuple[list[tuple[int, str]], list[int]]:
        publish(tables, Publication(FLOW, "notes", message, packed(message)))
        return [each[:2] for each in tables.published], list(tables.touched)

    assert desk.do(look, "a") == ([(desk.flow.id, "notes")], [desk.flow.id])
    assert desk.do(look, "a") == ([], [])
