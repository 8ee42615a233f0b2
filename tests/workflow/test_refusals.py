"""What is refused says what was tried, what is so instead and what to do next, and has no words of the inside in it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from headwater.errors import TransitionError
from headwater.workflow import operator_actions, run_queries, transitions
from headwater.workflow.rows import FailureKind, RunRow
from tests.support.flows import FLOW, Desk, flow_spec, packed
from tests.workflow.roads import ROADS, Road, drive, name_of
from tests.workflow.test_transitions import ACTIONS

INSIDE = re.compile(
    r"paused:\w|failed:\w|prepar|in.flight|mutat|emitting|indeterminate|needs_|unknown|committed|resolv|head\b"
)


def refused(desk: Desk, act: Callable[..., object], *given: object) -> str:
    with pytest.raises(TransitionError) as told:
        desk.do(act, *given)
    message = told.value.message
    assert not INSIDE.search(message), message
    return message


@pytest.mark.parametrize("road", ROADS, ids=name_of)
def test_whatever_is_refused_is_refused_in_plain_words(desk: Desk, road: Road) -> None:
    run = drive(desk, road)
    for action in ACTIONS.values():
        desk.backend.begin()
        told = ""
        try:
            action(desk, run)
        except TransitionError as error:
            told = error.message
        desk.backend.roll_back()
        assert re.match(rf"$|(run {run.id}|{FLOW}) cannot (be|run) ", told), told
        assert not INSIDE.search(told), told


# --- runs -------------------------------------------------------------------------------------------------


def followed(desk: Desk) -> RunRow:
    """A run that was rejected, and the one that told `next` so."""
    run = desk.ask("a")
    desk.do(operator_actions.reject, run.id)
    desk.commit(desk.begin())
    return run


def test_a_run_that_was_answered_and_followed_says_which_one_to_look_at(desk: Desk) -> None:
    run = followed(desk)
    told = f"it was rejected, and run {run.id + 1} has followed it; `headwater runs show {run.id + 1}` shows that run"
    for act, what in (
        (operator_actions.approve, "approved"),
        (operator_actions.reject, "rejected"),
        (operator_actions.retry, "tried again"),
        (operator_actions.cancel, "cancelled"),
    ):
        assert refused(desk, act, run.id) == f"run {run.id} cannot be {what}: {told}"


def test_the_newest_run_of_a_chain_is_the_one_to_look_at(desk: Desk) -> None:
    desk.publish("a")
    first = desk.begin()
    desk.fail(first)
    for _ in range(2):
        desk.do(operator_actions.retry, desk.flow.head)
        desk.fail(desk.begin())
    told = refused(desk, operator_actions.retry, first.id)
    assert told.endswith(
        f"it failed, and run {first.id + 1} has followed it; `headwater runs show {first.id + 2}` shows that run"
    )


def test_a_second_answer_is_told_what_the_first_one_was(desk: Desk) -> None:
    run = desk.ask("a")
    desk.do(operator_actions.approve, run.id)
    for act in (operator_actions.approve, operator_actions.reject):
        assert "it was approved already; it goes on as soon as a host runs it" in refused(desk, act, run.id)
    desk.do(operator_actions.cancel, run.id)
    assert "it was skipped already; `headwater" in refused(desk, operator_actions.reconcile_skip, run.id)
    assert "it was cancelled already; a host tells `next` so" in refused(desk, operator_actions.reject, run.id)
    assert "it was skipped already, and `next` has to run" in refused(desk, operator_actions.cancel, run.id)


def test_what_a_run_waits_for_instead_is_said_with_what_to_type(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    told = f"run {run.id} cannot be approved: it is at work, and has not acted yet; `headwater runs show {run.id}`"
    assert refused(desk, operator_actions.approve, run.id).startswith(told)
    desk.fail(run)
    for act in (operator_actions.approve, operator_actions.reject):
        told = f"it has stopped (it broke), and is tried again by itself; `headwater runs retry {run.id}` does so now"
        assert refused(desk, act, run.id).endswith(told)
    desk.do(operator_actions.retry, run.id)
    assert "it is about to be tried again anyway" in refused(desk, operator_actions.retry, run.id)
    run = desk.begin()
    desk.fail(run, FailureKind.LOGIC, "it is wrong")
    told = f"it failed (it is wrong); when that is fixed, `headwater workflow resume {FLOW}` tries it again"
    assert refused(desk, operator_actions.approve, run.id).endswith(told)
    desk.do(operator_actions.cancel, run.id)
    assert refused(desk, operator_actions.retry, run.id).endswith(
        "it was cancelled already, and nothing is left to be done"
    )
    run = desk.doubt("b")
    assert f"say so: `headwater reconcile {run.id} --applied JSON`" in refused(desk, operator_actions.approve, run.id)
    assert f"`headwater reconcile {run.id} --skip` goes on" in refused(desk, operator_actions.cancel, run.id)
    assert "it waits for the outcome of run" in refused(desk, operator_actions.retry, run.id)


def test_a_producer_is_not_cancelled_but_its_workflow_paused(desk: Desk) -> None:
    from tests.support.flows import POLLING

    desk.deploy(POLLING, "2")
    desk.idle(desk.begin())
    run = desk.begin()
    assert f"`headwater workflow pause {FLOW}`" in refused(desk, operator_actions.cancel, run.id)
    assert "it is at work, and changes nothing outside" in refused(desk, operator_actions.approve, run.id)


def test_a_run_that_was_cancelled_while_it_plans_is_cancelled_once(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.do(operator_actions.cancel, run.id)
    assert "it was cancelled already, and stops before it acts" in refused(desk, operator_actions.cancel, run.id)


def test_what_was_put_aside_is_tried_again_by_its_workflow(desk: Desk) -> None:
    desk.deploy(flow_spec(on_poison="park"), "2")
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.fail(run, FailureKind.LOGIC)
    assert f"`headwater workflow reprocess {FLOW}`" in refused(desk, operator_actions.retry, run.id)


def test_what_is_known_of_a_call_is_not_asked(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    assert "it has called nothing outside" in refused(desk, operator_actions.reconcile_again, run.id)
    desk.prepare(run, "a")
    desk.leave(run)
    assert "its call is under way right now" in refused(desk, operator_actions.reconcile_skip, run.id)
    desk.do(transitions.hung, run.id, "it has not come back")
    assert "its call has not come back, and may still act" in refused(desk, operator_actions.reconcile_again, run.id)
    desk.do(operator_actions.reconcile_applied, run.id, packed(1))
    after = desk.begin()
    told = refused(desk, operator_actions.reconcile_not_applied, run.id)
    assert f"it is known already that its call happened, and run {after.id} has followed it" in told
    assert "it has acted, and is being finished" in refused(desk, operator_actions.approve, after.id)


def test_a_call_that_was_given_up_with_its_topic_waits_for_no_answer(desk: Desk) -> None:
    run = desk.doubt("a")
    desk.deploy(flow_spec(consumers={"other": ("letters",)}), "2", force=True)
    assert "it was given up, and nothing waits" in refused(desk, operator_actions.reconcile_skip, run.id)


# --- workflows and inputs ---------------------------------------------------------------------------------


def test_workflows_say_what_stands_in_the_way_and_what_to_type(desk: Desk) -> None:
    assert "it has no producer" in refused(desk, operator_actions.run_now, FLOW)
    assert refused(desk, operator_actions.restore, FLOW) == f"{FLOW} cannot be restored: it is not archived, but active"
    assert "it is not paused, and nothing blocks it; nothing is" in refused(desk, operator_actions.resume, FLOW)
    desk.publish("a")
    run = desk.begin()
    assert f"(run {run.id} of work); ask again when it is done" in refused(desk, operator_actions.run_now, FLOW)
    desk.do(operator_actions.pause, FLOW)
    assert f"run {run.id} of work is still at work" in refused(desk, operator_actions.archive, FLOW)
    desk.fail(run)
    desk.do(operator_actions.resume, FLOW)
    assert f"run {run.id} is not finished, and goes on by itself" in refused(desk, operator_actions.run_now, FLOW)
    desk.fail(desk.begin(), FailureKind.LOGIC, "it is wrong.\n")
    told = f"it waits for a person: work is wrong: it is wrong; `headwater workflow show {FLOW}` shows what to type"
    assert refused(desk, operator_actions.run_now, FLOW).endswith(told)
    desk.do(operator_actions.pause, FLOW)
    assert f"`headwater workflow resume {FLOW}` lets it go on" in refused(desk, operator_actions.pause, FLOW)
    assert "it is not archived, but paused;" in refused(desk, operator_actions.restore, FLOW)
    desk.do(operator_actions.archive, FLOW)
    restore = f"it is archived; restore it first: `headwater workflow restore {FLOW}`"
    for act in (operator_actions.pause, operator_actions.resume, operator_actions.run_now):
        assert refused(desk, act, FLOW).endswith(restore)
    assert "it is archived already" in refused(desk, operator_actions.archive, FLOW)


def test_inputs_say_how_they_are(desk: Desk) -> None:
    desk.consume("a")
    [done] = run_queries.inputs(desk.tables)
    told = f"input {done.id} (Note a) cannot be skipped: nothing of it waits any more; it is done"
    assert refused(desk, operator_actions.skip_input, done.id) == told
    run = desk.doubt("b")
    held = run_queries.inputs(desk.tables)[0]
    assert f"run {run.id} is at it" in refused(desk, operator_actions.skip_input, held.id)
    assert "nothing of it is put aside" in refused(desk, operator_actions.reprocess, FLOW, held.id)
    desk.do(operator_actions.reconcile_skip, run.id)
    desk.commit(desk.begin())
    assert "it was skipped already" in refused(desk, operator_actions.skip_input, held.id)
    desk.publish("c")
    waits = run_queries.inputs(desk.tables)[0]
    assert refused(desk, operator_actions.reprocess, FLOW, waits.id).endswith("; it waits to be handled")
    assert f"nothing of {FLOW} is parked" in refused(desk, operator_actions.reprocess, FLOW)


def test_what_was_put_aside_in_another_workflow_is_tried_again_there(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.deploy(flow_spec("app.other", on_poison="park"))
    desk.publish("about a", run=run)
    desk.do(transitions.consumed, run.id, None, flow_spec())
    other = desk.begin()
    desk.prepare(other, "about a")
    desk.fail(other, FailureKind.LOGIC)
    told = refused(desk, operator_actions.reprocess, FLOW, 1)
    assert told.endswith("events that follow from it are parked: `headwater workflow reprocess app.other`")
