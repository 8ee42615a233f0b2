"""How a run stands once its status is no longer all there is to say; and a workflow that nobody executes."""

from __future__ import annotations

import pytest

from headwater.workflow import operator_actions, run_queries
from headwater.workflow.host_state import Hosts
from headwater.workflow.input_queries import next_in_words
from headwater.workflow.rows import FailureKind, RunRow
from headwater.workflow.wording.views import FlowView, RunView
from tests.support.flows import FLOW, Desk, flow_spec, packed

SECOND = 1000
NOBODY = Hosts()
WAITS = "Waits for a host: headwater run MODULE:APP."


def view(desk: Desk, run: RunRow, hosts: Hosts | None = None) -> RunView:
    return run_queries.run_view(desk.tables, desk.run(run), hosts=hosts)


def flow(desk: Desk, hosts: Hosts = NOBODY) -> FlowView:
    return run_queries.flow(desk.tables, FLOW, hosts=hosts)


# --- runs -------------------------------------------------------------------------------------------------


def test_a_run_is_what_its_status_says_until_somebody_answers(desk: Desk) -> None:
    run = desk.ask("a")
    assert (view(desk, run).state, view(desk, run).waits_for) == ("paused:approval", "ask")
    desk.do(operator_actions.approve, run.id)
    assert (view(desk, run).state, view(desk, run).waits_for) == ("approved", None)
    desk.begin()
    assert view(desk, run).state == "active"


def test_a_plan_that_was_approved_and_is_planned_anew_by_another_version_was_approved(desk: Desk) -> None:
    run = desk.ask("a")
    desk.do(operator_actions.approve, run.id)
    desk.deploy(flow_spec(), "2")
    after = desk.begin()
    assert view(desk, run).state == f"approved, followed by run {after.id}"
    assert view(desk, run).sentence == f"A person approved its plan. Run {after.id} has followed it."


def test_a_plan_that_was_rejected_and_one_that_was_cancelled_are_told_apart(desk: Desk) -> None:
    run = desk.ask("a")
    desk.do(operator_actions.reject, run.id)
    after = desk.begin()
    assert view(desk, run).state == f"rejected, followed by run {after.id}"
    assert view(desk, after).reached == f"went on without what run {run.id} had planned"
    desk.commit(after)
    run = desk.ask("b")
    desk.do(operator_actions.cancel, run.id)
    after = desk.begin()
    assert view(desk, run).state == f"cancelled, followed by run {after.id}"
    assert view(desk, run).sentence == f"A person cancelled it. Run {after.id} has followed it."
    assert view(desk, after).because == "it was cancelled"


def test_a_plan_whose_input_was_skipped_is_planned_anew(desk: Desk) -> None:
    run = desk.ask("a")
    [found] = run_queries.inputs(desk.tables)
    desk.do(operator_actions.skip_input, found.id)
    dropped = "Its plan was dropped: something that it was about was skipped."
    assert (view(desk, run).state, view(desk, run).sentence) == ("planned anew", f"{dropped} Goes on in a moment.")
    after = desk.begin()
    assert view(desk, run).state == f"planned anew, followed by run {after.id}"
    assert view(desk, run).sentence == f"{dropped} Run {after.id} has followed it."


def test_who_had_to_sign_in_has_and_it_goes_on(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, FailureKind.AUTH, "the token has expired")
    assert (view(desk, run).state, view(desk, run).waits_for) == ("paused:approval", "auth")
    desk.do(operator_actions.approve, run.id)
    assert view(desk, run).state == "approved"
    assert view(desk, run).sentence.endswith("the token has expired. Goes on in a moment.")


def test_calls_that_were_reconciled_say_how(desk: Desk) -> None:
    run = desk.doubt("a")
    assert (view(desk, run).state, view(desk, run).waits_for) == ("paused:reconciliation", "indeterminate")
    desk.do(operator_actions.reconcile_applied, run.id, packed(1))
    after = desk.begin()
    assert view(desk, run).state == f"reconciled: it had happened, followed by run {after.id}"
    desk.commit(after)
    run = desk.doubt("b")
    desk.do(operator_actions.reconcile_not_applied, run.id)
    assert view(desk, run).state == "reconciled: it had not happened"
    desk.idle(desk.begin())
    desk.do(operator_actions.skip_input, 2)
    run = desk.doubt("c")
    desk.do(operator_actions.reconcile_skip, run.id)
    assert view(desk, run).state == "skipped"


def test_attempts_that_were_made_again_say_why_they_ended(desk: Desk) -> None:
    desk.publish("a")
    failed = desk.begin()
    desk.fail(failed)
    assert view(desk, failed).state == "paused:transient"
    desk.do(operator_actions.retry, failed.id)
    stopped = desk.begin()
    assert view(desk, failed).state == f"failed, followed by run {stopped.id}"
    desk.fail(stopped, FailureKind.STOPPED, "the host ends")
    crashed = desk.begin()
    assert view(desk, stopped).state == f"stopped, followed by run {crashed.id}"
    desk.crash(crashed)
    assert view(desk, crashed).state == "crashed"
    last = desk.begin()
    assert view(desk, crashed).state == f"interrupted, followed by run {last.id}"
    desk.fail(last)
    desk.do(operator_actions.cancel, last.id)
    assert view(desk, last).state == "cancelled"
    assert view(desk, desk.consume("b")).state == "committed"


def test_a_run_whose_events_were_put_aside_says_so(desk: Desk) -> None:
    desk.deploy(flow_spec(on_poison="park"), "2")
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.fail(run, FailureKind.LOGIC, "it cannot be read")
    assert view(desk, run).state == "put aside"
    assert run_queries.runs(desk.tables, status="failed")[0].id == run.id


def test_only_what_is_still_paused_is_listed_as_paused_and_only_what_waits_as_waiting(desk: Desk) -> None:
    desk.publish("a")
    first = desk.begin()
    desk.fail(first)
    assert [run.id for run in run_queries.runs(desk.tables, status="paused")] == [first.id]
    assert run_queries.runs(desk.tables, waiting=True) == [], "it is tried again by itself"
    desk.do(operator_actions.retry, first.id)
    desk.fail(desk.begin(), FailureKind.LOGIC)
    assert run_queries.runs(desk.tables, status="paused") == []
    assert [run.waits_for for run in run_queries.runs(desk.tables, waiting=True)] == ["logic"]
    assert flow(desk).waiting == 1
    desk.do(operator_actions.pause, FLOW)
    desk.do(operator_actions.archive, FLOW)
    assert run_queries.runs(desk.tables, waiting=True) == []
    assert (flow(desk).waiting, flow(desk).sentence) == (0, "Archived.")


# --- nobody executes it -----------------------------------------------------------------------------------


def test_a_run_that_is_due_waits_for_a_host_if_there_is_none(desk: Desk) -> None:
    run = desk.ask("a")
    assert view(desk, run, NOBODY).sentence == "Waits for your approval."
    desk.do(operator_actions.approve, run.id)
    assert view(desk, run, NOBODY).sentence == WAITS
    assert view(desk, run, Hosts((FLOW,))).sentence == "Goes on in a moment."
    desk.do(operator_actions.pause, FLOW)
    resumed = f"Goes on when the workflow is resumed: headwater workflow resume {FLOW}."
    assert view(desk, run, NOBODY).sentence == resumed
    desk.do(operator_actions.archive, FLOW)
    assert view(desk, run, NOBODY).sentence == "Goes on in a moment."


def test_what_is_tried_again_later_is_tried_by_a_host(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.fail(run)
    assert view(desk, run, NOBODY).sentence == "Failed: it broke. It is tried again."
    tried = "Trying again after a failure (1 so far): it broke. It waits for a host: headwater run MODULE:APP."
    assert (flow(desk).state, flow(desk).sentence) == ("Stopped", tried)
    desk.clock.advance(10 * SECOND)
    assert view(desk, run, NOBODY).sentence == f"Failed: it broke. {WAITS}"
    assert (flow(desk).state, flow(desk).sentence) == ("Stopped", tried)


def test_whether_it_happened_is_not_found_out_without_a_host(desk: Desk) -> None:
    run = desk.doubt("a", next_at=0)
    told = f"(no answer); it is not found out yet whether it happened. {WAITS}"
    assert view(desk, run, NOBODY).sentence.endswith(told)
    assert view(desk, run).sentence.endswith("; finding out whether it happened.")
    said = "Whether Send it happened is found out as soon as there is a host: headwater run MODULE:APP."
    assert flow(desk).sentence == said


def test_a_workflow_that_nobody_executes_is_not_told_of_as_running(desk: Desk) -> None:
    assert flow(desk).sentence == "Waiting for something to do."
    desk.publish("a")
    assert (flow(desk).state, flow(desk).sentence) == ("Stopped", "1 event waits for a host: headwater run MODULE:APP.")
    assert flow(desk, Hosts((FLOW,), ("app",), (FLOW,))).state == "Idle"
    run = desk.begin()
    assert flow(desk).state == "Running", "a program that drains is at it"
    desk.crash(run)
    assert (flow(desk).state, flow(desk).sentence) == ("Stopped", "work waits for a host: headwater run MODULE:APP.")
    desk.do(operator_actions.pause, FLOW)
    assert flow(desk).sentence == "Paused."


def test_a_repair_waits_for_a_host(desk: Desk) -> None:
    desk.deploy(flow_spec(has_fixer=True), "2")
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, FailureKind.LOGIC)
    said = "Something failed, and its repair waits for a host: headwater run MODULE:APP."
    assert flow(desk).sentence == said
    assert view(desk, run, NOBODY).sentence == f"Failed: it broke. A repair is under way. {WAITS}"


# --- it is not in the program -----------------------------------------------------------------------------

GONE = "It is in the file, but not in the program that has it open: "


@pytest.mark.parametrize("declared", [("app.other",), ()])
def test_a_workflow_that_is_not_in_the_program_says_what_waits_in_it_and_what_to_do(
    desk: Desk, declared: tuple[str, ...]
) -> None:
    hosts = Hosts((), ("app",), declared)
    found = flow(desk, hosts)
    assert (found.gone, found.state) == (True, "Stopped")
    assert found.sentence.startswith(f"{GONE}nothing waits in it. Bring it back into the program, or put it out")
    assert found.sentence.endswith(f": headwater workflow pause {FLOW}, then headwater workflow archive {FLOW}.")
    run = desk.ask("a", "b")
    found = flow(desk, hosts)
    assert found.sentence.startswith(f"{GONE}2 events wait in it and run {run.id} (Send it) is not finished. ")
    assert found.state == "Needs attention"
    desk.do(operator_actions.pause, FLOW)
    assert flow(desk, hosts).sentence.endswith(f"out of the way: headwater workflow archive {FLOW}.")
    desk.do(operator_actions.archive, FLOW)
    assert not flow(desk, hosts).gone


def test_a_workflow_of_an_app_that_is_not_open_is_not_gone(desk: Desk) -> None:
    assert not flow(desk, Hosts((), ("another",), ("another.inbox",))).gone


# --- what runs next ---------------------------------------------------------------------------------------


def after(desk: Desk, hosts: Hosts = NOBODY) -> str:
    return next_in_words(desk.tables, desk.flow, hosts)


def test_what_runs_next_is_said_by_what_waits_and_what_is_in_the_way(desk: Desk) -> None:
    assert after(desk) == "Nothing else waits."
    desk.publish("a", "b")
    assert after(desk, Hosts((FLOW,))) == "work is next, and is shown 2 events that wait."
    run = desk.begin()
    assert after(desk) == f"Run {run.id} of work is at work, and comes first."
    desk.fail(run)
    told = (
        "work is tried again first, and is shown 2 events that wait; as soon as there is a host: headwater run MODULE"
    )
    assert after(desk).startswith(told)
    desk.do(operator_actions.skip_input, 1)
    desk.do(operator_actions.skip_input, 2)
    assert after(desk, Hosts((FLOW,))) == "work is tried again first."
    desk.do(operator_actions.retry, run.id)
    desk.fail(desk.begin(), FailureKind.LOGIC)
    assert after(desk).startswith("Nothing runs before a person has answered: `headwater workflow show")
    desk.do(operator_actions.pause, FLOW)
    assert after(desk) == f"Nothing runs before `headwater workflow resume {FLOW}`: it is paused."
    desk.do(operator_actions.archive, FLOW)
    assert after(desk) == f"Nothing runs before `headwater workflow restore {FLOW}`: it is archived."
