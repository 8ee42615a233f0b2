"""What people do to workflows, runs and inputs: what each changes, and what it is refused with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.errors import NotFoundError, TransitionError
from headwater.workflow import operator_actions, run_queries, transitions
from headwater.workflow.deployment import deploy
from headwater.workflow.planner import IdleUntil
from headwater.workflow.rows import (
    CallStatus,
    EffectOutcome,
    EventStatus,
    FailureKind,
    Intent,
    RunCause,
    RunPhase,
    RunStatus,
)
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.transitions import Begun, ReconcileCall
from headwater.workflow.workflow_limits import BACKOFF_MS
from tests.support.flows import FLOW, POLLING, Desk, flow_spec, packed

# --- workflows ------------------------------------------------------------------------------------------------


def test_a_workflow_is_found_by_its_name_or_without_its_apps_if_that_is_clear(desk: Desk) -> None:
    assert desk.do(operator_actions.find_flow, FLOW).name == FLOW
    assert desk.do(operator_actions.find_flow, "inbox").name == FLOW
    desk.do(deploy, flow_spec("other.inbox"), "1", "salt")
    with pytest.raises(NotFoundError) as found:
        desk.do(operator_actions.find_flow, "inbox")
    assert found.value.facts["known"] == (FLOW, "other.inbox")
    assert desk.do(operator_actions.find_flow, "other.inbox").name == "other.inbox"


def test_nothing_starts_while_a_workflow_is_paused_and_what_waits_is_done_when_it_goes_on(desk: Desk) -> None:
    desk.do(operator_actions.pause, FLOW)
    desk.publish("a")
    assert desk.next() == IdleUntil()
    with pytest.raises(TransitionError, match="paused already"):
        desk.do(operator_actions.pause, FLOW)
    desk.do(operator_actions.resume, FLOW)
    assert desk.begin().why == RunCause.EVENT
    with pytest.raises(TransitionError, match="not paused"):
        desk.do(operator_actions.resume, FLOW)


def test_a_run_that_is_under_way_stops_before_it_acts_when_its_workflow_is_paused(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.do(operator_actions.pause, FLOW)
    with pytest.raises(TransitionError) as refused:
        desk.leave(run)
    assert refused.value.facts["stopped"]
    assert desk.call(run) is None
    desk.fail(run, FailureKind.STOPPED)
    assert desk.flow.failures == 0
    assert desk.next() == IdleUntil()
    desk.do(operator_actions.resume, FLOW)
    again = desk.begin()
    assert (again.retry_of, again.phase) == (run.id, RunPhase.PREPARING)


def test_a_run_that_has_acted_is_finished_although_its_workflow_is_paused(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.do(operator_actions.pause, FLOW)
    assert desk.commit(run).status == RunStatus.COMMITTED
    assert desk.events() == {"a": EventStatus.CONSUMED}


def test_pausing_does_not_touch_what_blocks_a_workflow(desk: Desk) -> None:
    desk.publish("a")
    desk.fail(desk.begin(), FailureKind.LOGIC, "no such field")
    before = desk.flow
    desk.do(operator_actions.pause, FLOW)
    assert (desk.flow.block, desk.flow.block_kind) == (before.block, "logic")


@pytest.mark.parametrize("kind", [FailureKind.LOGIC, FailureKind.AUTH, FailureKind.PERMISSION, FailureKind.INTERNAL])
def test_resuming_takes_the_block_away_and_forgets_what_was_counted(desk: Desk, kind: FailureKind) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, kind)
    assert desk.next() == IdleUntil()
    flow = desk.do(operator_actions.resume, FLOW)
    assert (flow.block, flow.block_kind, flow.failures, flow.repairs) == (None, None, 0, 0)
    assert desk.begin().retry_of == run.id


def test_resuming_does_not_wait_for_the_backoff(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.fail(run)
    assert desk.next() == IdleUntil(desk.clock.now_ms() + BACKOFF_MS)
    desk.do(operator_actions.resume, FLOW)
    assert desk.begin().retry_of == run.id
    assert desk.flow.failures == 0


def test_what_waits_for_an_answer_cannot_be_resumed(desk: Desk) -> None:
    asked = desk.ask("a")
    for action, name in ((operator_actions.resume, FLOW), (operator_actions.retry, asked.id)):
        with pytest.raises(TransitionError, match=f"headwater approve {asked.id}"):
            desk.do(action, name)
    desk.do(operator_actions.reject, asked.id)
    desk.commit(desk.begin())
    doubtful = desk.doubt("b")
    for action, name in ((operator_actions.resume, FLOW), (operator_actions.retry, doubtful.id)):
        with pytest.raises(TransitionError, match=f"headwater reconcile {doubtful.id}"):
            desk.do(action, name)


def test_running_now_makes_every_producer_due_and_is_refused_while_anything_is_under_way(desk: Desk) -> None:
    desk.deploy(POLLING, "2")
    desk.idle(desk.begin())
    desk.produce(desk.begin())
    assert desk.handler("poll", "producer").next_run_at == desk.clock.now_ms() + 5 * 60_000
    desk.do(operator_actions.run_now, FLOW)
    desk.do(operator_actions.run_now, FLOW)
    run = desk.begin()
    assert (run.handler, run.why) == ("poll", RunCause.MANUAL)
    with pytest.raises(TransitionError, match="at work already"):
        desk.do(operator_actions.run_now, FLOW)
    desk.produce(run)
    assert isinstance(desk.next(), IdleUntil), "asked for twice, and run once"
    desk.publish("a")
    desk.fail(desk.begin())
    with pytest.raises(TransitionError, match="not finished"):
        desk.do(operator_actions.run_now, FLOW)
    desk.do(operator_actions.pause, FLOW)
    with pytest.raises(TransitionError, match="resume it first"):
        desk.do(operator_actions.run_now, FLOW)


def test_a_workflow_without_a_producer_cannot_be_run_now(desk: Desk) -> None:
    with pytest.raises(TransitionError, match="no producer"):
        desk.do(operator_actions.run_now, FLOW)


def test_an_archived_workflow_comes_back_paused(desk: Desk) -> None:
    with pytest.raises(TransitionError, match="pause it first"):
        desk.do(operator_actions.archive, FLOW)
    desk.do(operator_actions.pause, FLOW)
    desk.do(operator_actions.archive, FLOW)
    with pytest.raises(TransitionError):
        desk.do(operator_actions.archive, FLOW)
    with pytest.raises(TransitionError, match="restore it first"):
        desk.do(operator_actions.resume, FLOW)
    assert desk.do(operator_actions.restore, FLOW).intent == Intent.PAUSED
    with pytest.raises(TransitionError, match="not archived"):
        desk.do(operator_actions.restore, FLOW)


def test_a_workflow_that_is_at_work_is_not_archived(desk: Desk) -> None:
    desk.publish("a")
    desk.begin()
    desk.do(operator_actions.pause, FLOW)
    with pytest.raises(TransitionError, match="at work"):
        desk.do(operator_actions.archive, FLOW)


# --- plans that a person is asked about -----------------------------------------------------------------------


def test_the_very_attempt_that_was_approved_goes_on_with_what_it_holds(desk: Desk) -> None:
    asked = desk.ask("a", "b")
    assert (asked.status, asked.phase, asked.ask) == (RunStatus.APPROVAL, RunPhase.PREPARED, 1)
    assert desk.flow.block_kind == "ask" and desk.next() == IdleUntil()
    desk.do(operator_actions.approve, asked.id)
    found = desk.next()
    assert isinstance(found, Begun)
    assert (found.run.id, found.run.status, found.run.error_kind) == (asked.id, RunStatus.ACTIVE, None)
    assert [event.message for event in found.events] == ["a", "b"]
    desk.act(found.run)
    desk.commit(found.run)
    assert set(desk.events().values()) == {EventStatus.CONSUMED}


def test_who_failed_after_an_approval_is_not_asked_again_about_the_same_plan(desk: Desk) -> None:
    asked = desk.ask("a")
    desk.do(operator_actions.approve, asked.id)
    desk.begin()
    desk.fail(asked, undone="")
    desk.clock.advance(BACKOFF_MS)
    again = desk.begin()
    assert desk.prepare(again, "a", ask=True).ask == 0


def test_another_plan_is_asked_about_although_one_was_approved(desk: Desk) -> None:
    asked = desk.ask("a")
    desk.do(operator_actions.approve, asked.id)
    desk.begin()
    desk.fail(asked)
    desk.clock.advance(BACKOFF_MS)
    again = desk.begin()
    assert desk.prepare(again, "a", data="something else", ask=True).ask == 1


def test_signing_in_again_does_not_let_a_run_act_on_events_that_it_has_given_back(desk: Desk) -> None:
    """It was approved, and then stopped before it acted: what it held waits again, so it is prepared anew."""
    asked = desk.ask("a")
    desk.do(operator_actions.approve, asked.id)
    desk.begin()
    desk.fail(asked, FailureKind.AUTH, "sign in again")
    assert desk.events() == {"a": EventStatus.PENDING}
    desk.do(operator_actions.approve, asked.id)
    again = desk.begin()
    assert (again.retry_of, again.phase) == (asked.id, RunPhase.PREPARING)


def test_a_plan_that_nobody_has_approved_is_not_acted_on_because_another_was(desk: Desk) -> None:
    asked = desk.ask("a", "b")
    desk.do(operator_actions.approve, asked.id)
    desk.begin()
    desk.fail(asked)
    desk.clock.advance(BACKOFF_MS)
    again = desk.begin()
    desk.prepare(again, "a", "b", data="something else", ask=True)
    desk.do(transitions.ask, again.id)
    desk.do(operator_actions.skip_input, 1)
    third = desk.begin()
    assert (third.retry_of, third.phase) == (again.id, RunPhase.PREPARING)
    assert desk.events() == {"a": EventStatus.SKIPPED, "b": EventStatus.PENDING}


def test_what_is_rejected_is_not_done_and_next_is_told(desk: Desk) -> None:
    asked = desk.ask("a")
    rejected = desk.do(operator_actions.reject, asked.id)
    assert (rejected.phase, rejected.outcome) == (RunPhase.MUTATED, EffectOutcome.SKIPPED)
    run = desk.begin()
    assert (run.phase, run.outcome, run.retry_of) == (RunPhase.MUTATED, EffectOutcome.SKIPPED, asked.id)
    desk.commit(run)
    assert desk.events() == {"a": EventStatus.SKIPPED}
    assert desk.call(run) is None


def test_who_waits_for_somebody_to_sign_in_cannot_be_rejected(desk: Desk) -> None:
    """There is no plan to say no to: its events wait already."""
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.fail(run, FailureKind.AUTH, "sign in again")
    with pytest.raises(TransitionError, match="sign in again"):
        desk.do(operator_actions.reject, run.id)
    desk.do(operator_actions.approve, run.id)
    assert desk.begin().retry_of == run.id


# --- trying again, and not at all -----------------------------------------------------------------------------


def test_a_retry_is_at_once_and_as_if_it_had_not_failed(desk: Desk) -> None:
    desk.publish("a")
    desk.fail(desk.begin())
    desk.clock.advance(BACKOFF_MS)
    run = desk.begin()
    desk.fail(run)
    assert desk.flow.failures == 2
    desk.do(operator_actions.retry, run.id)
    assert (desk.flow.failures, desk.flow.retry_at) == (0, desk.clock.now_ms())
    assert desk.begin().why == RunCause.RETRY


def test_only_the_newest_run_of_a_chain_can_be_tried_again(desk: Desk) -> None:
    desk.publish("a")
    first = desk.begin()
    desk.fail(first)
    desk.clock.advance(BACKOFF_MS)
    second = desk.begin()
    for run in (first, second):
        with pytest.raises(TransitionError, match=f"run {run.id} cannot be tried again"):
            desk.do(operator_actions.retry, run.id)
    with pytest.raises(NotFoundError):
        desk.do(operator_actions.retry, 99)


def test_a_run_that_is_cancelled_before_it_acts_is_skipped(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.do(operator_actions.cancel, run.id)
    desk.prepare(run, "a")
    skipped = desk.leave(run)
    assert (skipped.phase, skipped.outcome) == (RunPhase.MUTATED, EffectOutcome.SKIPPED)
    assert desk.call(run) is None
    desk.commit(run)
    assert desk.events() == {"a": EventStatus.SKIPPED}


def test_a_run_that_has_stopped_before_it_acted_is_cancelled_with_what_it_was_about(desk: Desk) -> None:
    desk.publish("a", "b")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.fail(run)
    assert desk.do(operator_actions.cancel, run.id).cancelled == 1
    assert desk.events() == {"a": EventStatus.SKIPPED, "b": EventStatus.PENDING}
    assert desk.flow.head is None
    assert desk.begin().retry_of is None


def test_a_run_whose_effect_is_there_is_not_cancelled(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    with pytest.raises(TransitionError, match="it has acted, and is being finished; from there it only goes forward"):
        desk.do(operator_actions.cancel, run.id)
    desk.fail(run)
    with pytest.raises(TransitionError, match="its effect is there"):
        desk.do(operator_actions.cancel, run.id)


def test_a_run_that_was_rejected_is_not_cancelled_besides(desk: Desk) -> None:
    asked = desk.ask("a")
    desk.do(operator_actions.reject, asked.id)
    with pytest.raises(TransitionError, match="skipped already"):
        desk.do(operator_actions.cancel, asked.id)


def test_a_producer_is_not_cancelled(desk: Desk) -> None:
    desk.deploy(POLLING, "2")
    desk.idle(desk.begin())
    with pytest.raises(TransitionError, match="pause the workflow"):
        desk.do(operator_actions.cancel, desk.begin().id)


# --- calls that nobody knows of -------------------------------------------------------------------------------


def test_a_call_that_is_under_way_is_nobody_elses_to_decide(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.leave(run)
    with pytest.raises(TransitionError, match="its call is under way right now"):
        desk.do(operator_actions.reconcile_not_applied, run.id)


def test_what_a_person_says_happened_is_what_next_gets(desk: Desk) -> None:
    run = desk.doubt("a")
    told = desk.do(operator_actions.reconcile_applied, run.id, packed({"id": 7}))
    call = desk.call(run)
    assert call is not None
    assert (call.status, call.resolved_by, call.result) == (CallStatus.APPLIED, "user_applied", packed({"id": 7}))
    assert (told.phase, told.status, told.outcome) == (
        RunPhase.MUTATED,
        RunStatus.RECONCILIATION,
        EffectOutcome.APPLIED,
    )
    assert desk.flow.block is None
    again = desk.begin()
    assert (again.mutation_result, again.why) == (packed({"id": 7}), RunCause.RECONCILED)
    desk.commit(again)
    assert desk.events() == {"a": EventStatus.CONSUMED}


def test_what_a_person_says_did_not_happen_is_prepared_anew(desk: Desk) -> None:
    run = desk.doubt("a")
    desk.do(operator_actions.reconcile_not_applied, run.id)
    call = desk.call(run)
    assert call is not None and (call.status, call.resolved_by) == (CallStatus.FAILED, "user_not_applied")
    assert desk.events() == {"a": EventStatus.PENDING}
    again = desk.begin()
    assert (again.phase, again.retry_of) == (RunPhase.PREPARING, run.id)
    desk.prepare(again, "a")
    desk.leave(again)
    other = desk.call(again)
    assert other is not None and other.key != call.key, "another call, with a key of its own"


def test_a_person_can_go_on_without_knowing(desk: Desk) -> None:
    run = desk.doubt("a")
    desk.do(operator_actions.reconcile_skip, run.id)
    call = desk.call(run)
    assert call is not None and (call.status, call.resolved_by) == (CallStatus.FAILED, "user_skip")
    desk.commit(desk.begin())
    assert desk.events() == {"a": EventStatus.SKIPPED}


def test_without_a_reconcile_nothing_can_be_asked_again(desk: Desk) -> None:
    run = desk.doubt("a")
    with pytest.raises(TransitionError, match="has no `reconcile`") as refused:
        desk.do(operator_actions.reconcile_again, run.id)
    assert "--again" not in refused.value.message
    with pytest.raises(TransitionError) as refused:
        desk.do(operator_actions.resume, FLOW)
    assert "--again" not in refused.value.message
    view = run_queries.run_view(desk.tables, desk.run(run.id))
    assert (view.waits_for, view.can_ask, run_queries.flow(desk.tables, FLOW).can_ask) == (
        "indeterminate",
        False,
        False,
    )
    desk.deploy(flow_spec(reconciles=True), "2")
    view = run_queries.run_view(desk.tables, desk.run(run.id))
    assert (view.waits_for, view.can_ask, run_queries.flow(desk.tables, FLOW).can_ask) == ("indeterminate", True, True)
    desk.do(operator_actions.reconcile_again, run.id)
    assert isinstance(desk.next(), ReconcileCall)


def test_the_connector_is_asked_again_as_if_it_had_not_been(desk: Desk) -> None:
    desk.deploy(flow_spec(reconciles=True), "2")
    run = desk.doubt("a", next_at=1)
    desk.do(transitions.still_uncertain, run.id, "no answer", 5, None)
    assert desk.next() == IdleUntil() and desk.flow.block_kind == "indeterminate"
    desk.do(operator_actions.reconcile_again, run.id)
    call = desk.call(run)
    assert call is not None and (call.tries, call.next_at) == (0, desk.clock.now_ms())
    assert isinstance(desk.next(), ReconcileCall)
    with pytest.raises(TransitionError, match="about to be asked"):
        desk.do(operator_actions.reconcile_again, run.id)


@pytest.mark.parametrize("first", ["applied", "not applied", "skip"])
def test_what_became_of_a_call_is_said_once(desk: Desk, first: str) -> None:
    run = desk.doubt("a")
    answers: dict[str, Callable[[], object]] = {
        "applied": lambda: desk.do(operator_actions.reconcile_applied, run.id, packed(1)),
        "not applied": lambda: desk.do(operator_actions.reconcile_not_applied, run.id),
        "skip": lambda: desk.do(operator_actions.reconcile_skip, run.id),
        "again": lambda: desk.do(operator_actions.reconcile_again, run.id),
    }
    answers[first]()
    before = desk.rows()
    for answer in answers.values():
        with pytest.raises(TransitionError, match="already"):
            answer()
    assert desk.rows() == before


def test_of_a_run_that_was_given_up_there_is_nothing_to_be_said(desk: Desk) -> None:
    """Its workflow goes on without it: an answer now would have nowhere to go."""
    run = desk.doubt("a")
    desk.deploy(flow_spec(consumers={"other": ("letters",)}), "2", force=True)
    before = desk.rows()
    for answer, given in (
        (operator_actions.reconcile_applied, (packed(1),)),
        (operator_actions.reconcile_not_applied, ()),
        (operator_actions.reconcile_skip, ()),
        (operator_actions.reconcile_again, ()),
    ):
        with pytest.raises(TransitionError, match="given up"):
            desk.do(answer, run.id, *given)
    assert desk.rows() == before


# --- inputs ---------------------------------------------------------------------------------------------------


def test_what_waits_because_of_an_input_is_skipped(desk: Desk) -> None:
    desk.publish("a", "b")
    found = desk.do(operator_actions.find_input, 1)
    assert (found.message, found.title) == ("a", "Note a")
    assert desk.do(operator_actions.skip_input, 1) == 1
    assert desk.events() == {"a": EventStatus.SKIPPED, "b": EventStatus.PENDING}
    assert desk.do(operator_actions.find_input, 1).skipped_at == desk.clock.now_ms()
    with pytest.raises(TransitionError, match=r"Note a.*waits any more"):
        desk.do(operator_actions.skip_input, 1)
    with pytest.raises(NotFoundError, match="no input 9"):
        desk.do(operator_actions.skip_input, 9)


def test_an_input_that_is_skipped_while_a_run_plans_with_it_is_no_fault_of_the_run(desk: Desk) -> None:
    desk.publish("a", "b")
    run = desk.begin()
    desk.do(operator_actions.skip_input, 1)
    before = desk.rows()
    with pytest.raises(TransitionError, match="skipped while work planned with it") as refused:
        desk.prepare(run, "b", "a")
    assert refused.value.facts["stopped"]
    assert desk.rows() == before
    desk.fail(run, FailureKind.STOPPED)
    assert desk.begin().offered == 1


def test_an_input_that_a_run_holds_is_finished_by_it(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    before = desk.rows()
    with pytest.raises(TransitionError):
        desk.do(operator_actions.skip_input, 1)
    assert desk.rows() == before


def test_a_plan_that_waits_for_an_approval_is_void_when_an_input_of_it_is_skipped(desk: Desk) -> None:
    asked = desk.ask("a", "b")
    desk.do(operator_actions.skip_input, 2)
    assert desk.events() == {"a": EventStatus.PENDING, "b": EventStatus.SKIPPED}
    run = desk.begin()
    assert (run.retry_of, run.phase, run.offered) == (asked.id, RunPhase.PREPARING, 1)


def test_skipping_an_input_tells_every_workflow_whose_events_it_takes_away(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.do(deploy, flow_spec("app.second"), "1", "salt")
    desk.spec, here = flow_spec("app.second"), desk.spec
    desk.publish("from a", run=run)
    second, desk.spec = desk.flow.id, here
    desk.commit(run)
    touched: list[int] = []

    def skip(tables: WorkflowTables) -> None:
        operator_actions.skip_input(tables, 1)
        touched.extend(tables.touched)

    desk.do(skip)
    assert second in touched


def test_what_was_parked_waits_again_when_somebody_says_so(desk: Desk) -> None:
    desk.publish("a", "b", "c")
    desk.tables.execute("update flow_event set status = 'parked' where message <> 'c'")
    assert desk.do(operator_actions.reprocess, FLOW, 1) == 1
    assert desk.events() == {"a": EventStatus.PENDING, "b": EventStatus.PARKED, "c": EventStatus.PENDING}
    assert desk.do(operator_actions.reprocess, FLOW) == 1
    with pytest.raises(TransitionError, match="parked"):
        desk.do(operator_actions.reprocess, FLOW)
    assert desk.flags.dirty == {"work"}
    assert [event.attempt for event in desk.tables.pending(1, ["notes"], 9)] == [2, 2, 1]
