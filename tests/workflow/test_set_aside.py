"""Runs that are put aside after their effect: what is kept of them, and how they are taken up again."""

from __future__ import annotations

import pytest

from headwater.errors import TransitionError
from headwater.workflow import operator_actions, run_queries
from headwater.workflow.decisions import DecidedBy, Decision, decisions, record
from headwater.workflow.planner import IdleUntil
from headwater.workflow.rows import EffectOutcome, FailureKind, RunPhase, RunRow, RunStatus
from headwater.workflow.run_retention import prune
from headwater.workflow.table_checks import check_all
from headwater.workflow.transitions import Begun
from tests.support.flows import FLOW, Desk, flow_spec, packed


def broken(desk: Desk, *messages: str, kind: FailureKind = FailureKind.LOGIC) -> RunRow:
    """A run whose effect is there, and whose `next` has failed."""
    desk.publish(*messages)
    run = desk.begin()
    desk.prepare(run, *messages, data=list(messages), title=f"Send {', '.join(messages)}")
    desk.act(run, {"receipt": 7})
    return desk.fail(run, kind, "no such field")


def statuses(desk: Desk) -> dict[str, str]:
    return {message: str(status) for message, status in desk.events().items()}


def test_an_abandoned_run_keeps_its_plan_and_result_and_its_workflow_goes_on(desk: Desk) -> None:
    run = broken(desk, "a")
    desk.publish("b")
    assert desk.next() == IdleUntil(), "everything waits for it"
    desk.do(operator_actions.abandon, run.id)
    found = desk.run(run.id)
    assert (found.aside, found.cancelled, found.outcome) == ("kept", 1, EffectOutcome.APPLIED)
    assert (found.prepare_result, found.mutation_result) == (packed(["a"]), packed({"receipt": 7}))
    assert (desk.flow.head, desk.flow.block) == (None, None)
    assert statuses(desk) == {"a": "parked", "b": "pending"}
    assert desk.tables.topics(1)["notes"].parked == 1
    check_all(desk.tables)
    found_next = desk.next()
    assert isinstance(found_next, Begun) and found_next.run.retry_of is None
    assert [event.message for event in desk.shown(found_next)] == ["b"]


@pytest.mark.parametrize("how", ["retry", "reprocess", "reprocess the input"])
def test_it_is_taken_up_again_from_next_on_and_never_from_prepare(desk: Desk, how: str) -> None:
    run = broken(desk, "a", "b")
    desk.do(operator_actions.abandon, run.id)
    if how == "retry":
        desk.do(operator_actions.retry, run.id)
    else:
        count = desk.do(operator_actions.reprocess, FLOW, None if how == "reprocess" else 1)
        assert count == 2
    assert statuses(desk) == {"a": "parked", "b": "parked"}, "until it goes on"
    again = desk.begin()
    assert (again.retry_of, again.phase, again.outcome) == (run.id, RunPhase.MUTATED, EffectOutcome.APPLIED)
    assert (again.prepare_result, again.mutation_result, again.taken) == (packed(["a", "b"]), packed({"receipt": 7}), 2)
    assert statuses(desk) == {"a": "reserved", "b": "reserved"}
    check_all(desk.tables)
    desk.commit(again)
    assert statuses(desk) == {"a": "consumed", "b": "consumed"}
    check_all(desk.tables)


def test_several_are_taken_up_one_after_the_other_before_anything_new(desk: Desk) -> None:
    first, second = broken(desk, "a"), None
    desk.do(operator_actions.abandon, first.id)
    second = broken(desk, "b")
    desk.do(operator_actions.abandon, second.id)
    desk.publish("c")
    assert desk.do(operator_actions.reprocess, FLOW) == 2
    for run in (first, second):
        again = desk.begin()
        assert again.retry_of == run.id
        desk.commit(again)
    last = desk.begin()
    assert last.retry_of is None
    desk.prepare(last, "c")
    check_all(desk.tables)


def test_what_was_put_aside_can_fail_and_be_put_aside_again(desk: Desk) -> None:
    run = broken(desk, "a")
    for _ in range(3):
        desk.do(operator_actions.abandon, run.id)
        desk.do(operator_actions.retry, run.id)
        run = desk.fail(desk.begin(), FailureKind.LOGIC, "still no such field")
        check_all(desk.tables)
    assert desk.flow.block_kind == "logic"


def test_an_event_that_is_skipped_meanwhile_is_not_part_of_what_is_taken_up(desk: Desk) -> None:
    run = broken(desk, "a", "b")
    desk.do(operator_actions.abandon, run.id)
    desk.do(operator_actions.skip_input, 1)
    desk.do(operator_actions.retry, run.id)
    again = desk.begin()
    assert again.taken == 1
    check_all(desk.tables)
    desk.commit(again)
    assert statuses(desk) == {"a": "skipped", "b": "consumed"}
    check_all(desk.tables)


def test_if_all_of_it_was_skipped_there_is_nothing_to_take_up(desk: Desk) -> None:
    run = broken(desk, "a")
    desk.do(operator_actions.abandon, run.id)
    desk.do(operator_actions.skip_input, 1)
    with pytest.raises(TransitionError, match="nothing is left to be done"):
        desk.do(operator_actions.retry, run.id)
    check_all(desk.tables)


def test_while_the_workflow_is_paused_or_blocked_it_is_not_taken_up(desk: Desk) -> None:
    run = broken(desk, "a")
    desk.do(operator_actions.abandon, run.id)
    other = broken(desk, "b")
    desk.do(operator_actions.retry, run.id)
    assert desk.next() == IdleUntil(), "the other one is not finished"
    desk.do(operator_actions.abandon, other.id)
    desk.do(operator_actions.pause, FLOW)
    assert desk.next() == IdleUntil()
    desk.do(operator_actions.resume, FLOW)
    assert desk.begin().retry_of == run.id


def test_what_is_not_abandoned_is_refused_with_what_to_type_instead(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    with pytest.raises(TransitionError, match="at work"):
        desk.do(operator_actions.abandon, run.id)
    desk.prepare(run, "a")
    desk.fail(run, FailureKind.LOGIC)
    with pytest.raises(TransitionError, match=f"headwater runs cancel {run.id}"):
        desk.do(operator_actions.abandon, run.id)
    desk.do(operator_actions.cancel, run.id)
    doubtful = desk.doubt("b")
    with pytest.raises(TransitionError, match=f"headwater reconcile {doubtful.id} --applied"):
        desk.do(operator_actions.abandon, doubtful.id)
    desk.do(operator_actions.reconcile_skip, doubtful.id)
    desk.do(operator_actions.abandon, doubtful.id)
    with pytest.raises(TransitionError, match=f"put aside already.*headwater runs retry {doubtful.id}"):
        desk.do(operator_actions.abandon, doubtful.id)
    with pytest.raises(TransitionError, match="put aside already"):
        desk.do(operator_actions.cancel, doubtful.id)
    desk.do(operator_actions.retry, doubtful.id)
    with pytest.raises(TransitionError, match="taken up again anyway"):
        desk.do(operator_actions.retry, doubtful.id)


def test_cancel_names_abandon_after_the_effect(desk: Desk) -> None:
    run = broken(desk, "a", kind=FailureKind.TRANSIENT)
    with pytest.raises(TransitionError, match=f"headwater runs abandon {run.id}"):
        desk.do(operator_actions.cancel, run.id)


@pytest.mark.parametrize("kind", [FailureKind.LOGIC, FailureKind.TRANSIENT])
def test_a_workflow_that_parks_puts_it_aside_by_itself(desk: Desk, kind: FailureKind) -> None:
    desk.deploy(flow_spec(on_poison="park"), "2")
    run = broken(desk, "a", kind=kind)
    while kind is FailureKind.TRANSIENT and desk.run(run.id).aside is None:
        assert desk.flow.retry_at is not None
        desk.clock.advance(desk.flow.retry_at - desk.clock.now_ms())
        run = desk.fail(desk.begin(), kind)
    found = desk.run(run.id)
    assert (found.aside, found.cancelled, found.mutation_result) == ("kept", 0, packed({"receipt": 7}))
    assert (desk.flow.head, desk.flow.block) == (None, None)
    assert statuses(desk) == {"a": "parked"}
    check_all(desk.tables)
    view = run_queries.run_details(desk.tables, run.id)
    assert (view.run.state, view.result) == ("put aside", {"receipt": 7})
    assert "after its call had happened" in view.run.sentence


def test_a_handler_that_is_gone_is_named(desk: Desk) -> None:
    run = broken(desk, "a")
    desk.do(operator_actions.abandon, run.id)
    desk.deploy(flow_spec(consumers={"other": ("notes",)}), "2")
    for action, what in ((operator_actions.retry, run.id), (operator_actions.reprocess, FLOW)):
        with pytest.raises(TransitionError, match="its handler work is not in the program"):
            desk.do(action, what)
    desk.deploy(flow_spec(), "3")
    desk.do(operator_actions.retry, run.id)
    desk.deploy(flow_spec(consumers={"other": ("notes",)}), "4")
    desk.idle(desk.begin())
    assert desk.next() == IdleUntil(), "it waits for its handler, and nothing waits for it"


def test_it_is_not_let_go_as_long_as_it_has_the_only_copy_of_what_came_of_its_call(desk: Desk) -> None:
    run = broken(desk, "a")
    desk.do(operator_actions.abandon, run.id)
    desk.do(record, run.id, "abandon", DecidedBy("ann", "booked by hand"))
    for name in "bcdef":
        desk.consume(name)
    desk.do(prune, desk.flow.id, 1)
    assert run.id in [each.id for each in desk.runs()]
    desk.do(operator_actions.retry, run.id)
    desk.commit(desk.begin())
    desk.consume("g")
    desk.do(prune, desk.flow.id, 1)
    assert run.id not in [each.id for each in desk.runs()]
    assert desk.tables.execute("select 1 from flow_decision") == []
    assert desk.foreign_keys() == []
    check_all(desk.tables)


# --- what is told ---------------------------------------------------------------------------------------------


def test_it_is_told_as_abandoned_and_then_as_what_became_of_it(desk: Desk) -> None:
    run = broken(desk, "a")
    desk.do(operator_actions.abandon, run.id)
    view = run_queries.run_view(desk.tables, desk.run(run.id))
    assert (view.state, view.aside) == ("abandoned", "kept")
    assert view.sentence == (
        "Failed after its call had happened: no such field. A person put it aside, with its plan and result."
    )
    desk.do(operator_actions.retry, run.id)
    view = run_queries.run_view(desk.tables, desk.run(run.id))
    assert view.sentence.endswith("A person put it aside; it is tried again.")
    again = desk.begin()
    view = run_queries.run_view(desk.tables, desk.run(run.id))
    assert view.state == f"failed, followed by run {again.id}"
    assert desk.run(again.id).status == RunStatus.ACTIVE


def test_decisions_are_told_with_who_and_why_oldest_first(desk: Desk) -> None:
    asked = desk.ask("a")
    desk.do(operator_actions.approve, asked.id)
    desk.do(record, asked.id, "approve", DecidedBy("ann"))
    desk.clock.advance(1000)
    desk.do(record, asked.id, "cancel", DecidedBy("x" * 500, "y" * 5000))
    first, second = decisions(desk.tables, [asked.id])
    assert first == Decision(asked.id, desk.clock.now_ms() - 1000, "ann", "approve", "")  # type: ignore[arg-type]
    assert (len(second.actor), len(second.reason)) == (200, 2000)
    told = [made.sentence for made in run_queries.run_details(desk.tables, asked.id).decisions]
    assert told[0] == "Approved by ann."
    assert told[1].startswith("Cancelled by xxx")
