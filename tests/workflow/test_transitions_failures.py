"""What becomes of a chain that fails: when it is tried again, when a person is told, and what it holds meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import LogicError, TransitionError
from headwater.workflow import operator_actions, repairs, transitions
from headwater.workflow.planner import IdleUntil
from headwater.workflow.retry_policy import Retry
from headwater.workflow.rows import (
    CallStatus,
    EffectOutcome,
    EventStatus,
    FailureKind,
    RunCause,
    RunPhase,
    RunRow,
    RunStatus,
)
from headwater.workflow.transitions import Begun, Prepared, ReconcileCall, Repair, RunFailure
from headwater.workflow.workflow_limits import BACKOFF_MAX_MS, BACKOFF_MS, CRASHES, ERROR_MAX, REPAIRS, TRIES
from tests.support.flows import FLOW, POLLING, Desk, flow_spec, packed

WAITS = [10_000, 20_000, 40_000, 80_000, 160_000]


def wait(desk: Desk) -> int:
    """Until the chain is tried again; how long that was."""
    found = desk.next()
    assert isinstance(found, IdleUntil) and found.until is not None, found
    waited = found.until - desk.clock.now_ms()
    desk.clock.advance(waited - 1)
    assert desk.next() == found, "not before its time"
    desk.clock.advance(1)
    return waited


# --- tried again ----------------------------------------------------------------------------------------------


def test_what_should_pass_by_itself_is_tried_five_times_at_doubling_intervals_and_then_a_person_is_told(
    desk: Desk,
) -> None:
    desk.publish("a")
    desk.fail(desk.begin())
    waits = []
    for failures in range(1, TRIES + 1):
        assert desk.flow.failures == failures
        waits.append(wait(desk))
        run = desk.begin()
        assert (run.attempt, run.why) == (failures + 1, RunCause.RETRY)
        desk.prepare(run, "a")
        desk.fail(run, message="still down")
        assert desk.events() == {"a": EventStatus.PENDING}
    assert waits == WAITS
    flow = desk.flow
    assert (flow.failures, flow.retry_at, flow.block_kind) == (TRIES + 1, None, "exhausted")
    assert flow.block == "work failed 6 times: still down"
    assert desk.next() == IdleUntil()
    assert len(desk.runs()) == TRIES + 2


def test_no_wait_is_longer_than_ten_minutes(desk: Desk) -> None:
    desk.retry = Retry(12)
    desk.publish("a")
    desk.fail(desk.begin())
    waits = []
    for _ in range(12):
        waits.append(wait(desk))
        desk.fail(desk.begin())
    assert waits == [*WAITS, 320_000, *[BACKOFF_MAX_MS] * 6]


def test_a_restart_neither_hammers_nor_forgets(desk: Desk) -> None:
    desk.publish("a")
    desk.fail(desk.begin())
    wait(desk)
    desk.fail(desk.begin())
    due = desk.clock.now_ms() + 20_000
    desk.reopen()
    assert desk.next() == IdleUntil(due)
    assert desk.flow.failures == 2


def test_part_of_a_wait_can_be_left_to_chance(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    why = RunFailure(kind=FailureKind.TRANSIENT, message="down")
    desk.do(transitions.failed, run.id, why, desk.spec, Retry(jitter=0.5), 0.5)
    assert desk.next() == IdleUntil(desk.clock.now_ms() + 7_500)


def test_a_success_forgets_what_was_counted(desk: Desk) -> None:
    desk.publish("a")
    desk.fail(desk.begin())
    wait(desk)
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.commit(run)
    flow = desk.flow
    assert (flow.failures, flow.head, flow.retry_at) == (0, None, None)


def test_nothing_else_is_begun_while_a_chain_waits(desk: Desk) -> None:
    """A workflow is one line of work: what comes meanwhile waits, and its producers with it."""
    desk.deploy(POLLING, "2")
    desk.idle(desk.begin())
    desk.fail(desk.begin())
    desk.publish("a")
    assert isinstance(desk.next(), IdleUntil)
    wait(desk)
    assert desk.begin().handler == "poll"


def test_after_its_effect_a_run_that_fails_for_good_keeps_what_it_holds_and_goes_on_at_next_when_it_is_resumed(
    desk: Desk,
) -> None:
    """D18."""
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run, "sent")
    for _ in range(TRIES):
        run = desk.fail(run)
        wait(desk)
        run = desk.begin()
        assert (run.phase, run.mutation_result) == (RunPhase.MUTATED, packed("sent"))
    last = desk.fail(run)
    assert (desk.flow.block_kind, desk.flow.head) == ("exhausted", last.id)
    assert [event.message for event in desk.tables.events_of(last)] == ["a"]
    desk.do(operator_actions.resume, FLOW)
    run = desk.begin()
    assert (run.phase, run.mutation_result, run.retry_of) == (RunPhase.MUTATED, packed("sent"), last.id)
    desk.commit(run)
    assert desk.events() == {"a": EventStatus.CONSUMED}
    assert len(desk.tables.execute("select 1 from flow_call")) == 1


def test_being_stopped_is_no_failure(desk: Desk) -> None:
    desk.publish("a")
    for _ in range(TRIES + 2):
        run = desk.begin()
        desk.prepare(run, "a")
        stopped = desk.fail(run, FailureKind.STOPPED, "the host ends")
        assert (stopped.status, stopped.error_kind) == (RunStatus.TRANSIENT, FailureKind.STOPPED)
        assert (desk.flow.failures, desk.flow.retry_at, desk.flow.block) == (0, desk.clock.now_ms(), None)


# --- stopped for good -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (FailureKind.LOGIC, RunStatus.LOGIC),
        (FailureKind.AUTH, RunStatus.APPROVAL),
        (FailureKind.PERMISSION, RunStatus.APPROVAL),
        (FailureKind.INTERNAL, RunStatus.INTERNAL),
    ],
)
def test_what_does_not_pass_by_itself_blocks_the_workflow_at_once(
    desk: Desk, kind: FailureKind, status: RunStatus
) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    failed = desk.fail(run, kind, "no such field")
    assert (failed.status, failed.phase, failed.error) == (status, RunPhase.PREPARED, "no such field")
    flow = desk.flow
    assert (flow.block_kind, flow.head, flow.retry_at) == (kind.value, run.id, None)
    assert flow.block is not None and "no such field" in flow.block
    assert desk.events() == {"a": EventStatus.PENDING}
    assert desk.next() == IdleUntil()


def test_a_long_error_is_cut(desk: Desk) -> None:
    desk.publish("a")
    run = desk.fail(desk.begin(), FailureKind.INTERNAL, "x" * 2 * ERROR_MAX)
    assert len(run.error or "") == len(desk.flow.block or "") == ERROR_MAX


def test_a_run_that_somebody_has_ended_cannot_fail_besides(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.fail(run)
    before = desk.rows()
    late: list[Callable[[], object]] = [
        lambda: desk.fail(run),
        lambda: desk.prepare(run, "a"),
        lambda: desk.leave(run),
        lambda: desk.commit(run),
        lambda: desk.do(transitions.skipped, run.id),
        lambda: desk.do(transitions.uncertain, run.id, "late", None),
        lambda: desk.do(transitions.ask, run.id),
        lambda: desk.idle(run),
    ]
    for again in late:
        with pytest.raises(TransitionError, match="not active any more"):
            again()
    assert desk.rows() == before


def test_a_plan_takes_all_that_it_names_or_nothing(desk: Desk) -> None:
    """W9, L5: pending, and of a topic that the consumer consumes."""
    desk.publish("a", "b")
    run = desk.begin()
    before = desk.rows()
    taken = (desk.event("a"), desk.event("b"), desk.event("b"))
    for events in (taken, (99,)):
        with pytest.raises(LogicError, match="cannot take event"):
            desk.do(transitions.prepared, run.id, Prepared(events=events, result=packed(None)), desk.spec)
        assert desk.rows() == before


def test_a_plan_cannot_take_what_another_consumer_consumes(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers={"work": ("notes",), "mail": ("letters",)}), "2")
    desk.publish("a", topic="letters")
    run = desk.begin()
    assert run.handler == "mail"
    desk.do(transitions.prepared, run.id, Prepared(result=packed(None)), desk.spec)
    desk.commit(run)
    other = desk.begin()
    assert other.handler == "work"
    plan = Prepared(events=(desk.event("a", "letters"),), result=packed(None))
    with pytest.raises(LogicError):
        desk.do(transitions.prepared, other.id, plan, desk.spec)


# --- calls ----------------------------------------------------------------------------------------------------


def test_a_call_that_surely_had_no_effect_ends_its_run_in_one_transaction(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.leave(run)
    failed = desk.fail(run, undone="429 too many")
    assert (failed.phase, failed.status, failed.outcome) == (
        RunPhase.MUTATED,
        RunStatus.TRANSIENT,
        EffectOutcome.FAILED,
    )
    call = desk.call(run)
    assert call is not None and (call.status, call.error, call.resolved_by) == (
        CallStatus.FAILED,
        "429 too many",
        "call",
    )
    assert desk.events() == {"a": EventStatus.PENDING}
    wait(desk)
    assert desk.begin().phase == RunPhase.PREPARING


def test_a_call_that_nobody_knows_of_is_never_taken_for_a_failure(desk: Desk) -> None:
    """L11: while it is in the air, no failure of the run ends it."""
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.leave(run)
    before = desk.rows()
    for kind in (FailureKind.TRANSIENT, FailureKind.LOGIC, FailureKind.AUTH, FailureKind.INTERNAL, FailureKind.STOPPED):
        with pytest.raises(TransitionError):
            desk.fail(run, kind)
    assert desk.rows() == before


def test_what_became_of_a_call_is_asked_at_its_time_and_then_a_person_is(desk: Desk) -> None:
    due = desk.clock.now_ms() + BACKOFF_MS
    run = desk.doubt("a", next_at=due)
    assert (run.status, run.phase, run.error_kind) == (
        RunStatus.RECONCILIATION,
        RunPhase.MUTATING,
        FailureKind.INDETERMINATE,
    )
    assert desk.flow.block is None
    assert desk.next() == IdleUntil(due)
    desk.clock.advance(BACKOFF_MS)
    found = desk.next()
    assert isinstance(found, ReconcileCall) and found.run.id == run.id
    desk.do(transitions.still_uncertain, run.id, "no answer", 1, due + 30_000)
    assert desk.next() == IdleUntil(due + 30_000)
    desk.clock.advance(30_000)
    desk.do(transitions.still_uncertain, run.id, "no answer", 2, None)
    call = desk.call(run)
    assert call is not None and (call.status, call.tries) == (CallStatus.INDETERMINATE, 2)
    assert (desk.flow.block_kind, desk.next()) == ("indeterminate", IdleUntil())
    assert desk.events() == {"a": EventStatus.RESERVED}
    assert desk.run(run).status == RunStatus.RECONCILIATION


def test_an_answer_that_comes_late_is_taken_once(desk: Desk) -> None:
    run = desk.doubt("a")
    desk.do(transitions.applied, run.id, packed("late"))
    assert desk.flow.block is None
    before = desk.rows()
    with pytest.raises(TransitionError, match="known already"):
        desk.do(transitions.still_uncertain, run.id, "no answer", 1, None)
    assert desk.rows() == before
    assert desk.begin().mutation_result == packed("late")


def test_a_call_that_never_happens_is_not_made_for_ever(desk: Desk) -> None:
    """L7: each time nobody knew, each time it was found out that it did not happen."""
    desk.publish("a")
    waits = []
    for tries in range(1, TRIES + 2):
        run = desk.begin()
        desk.prepare(run, "a")
        desk.leave(run)
        desk.do(transitions.uncertain, run.id, "no answer", desk.clock.now_ms())
        desk.do(transitions.not_applied, run.id, "it is not there", "reconciliation")
        assert desk.flow.failures == tries
        if tries <= TRIES:
            waits.append(wait(desk))
    assert waits == WAITS
    assert (desk.flow.block_kind, desk.next()) == ("exhausted", IdleUntil())
    assert desk.events() == {"a": EventStatus.PENDING}


# --- crashes --------------------------------------------------------------------------------------------------


def crash_at(desk: Desk, where: str) -> RunRow:
    run = desk.begin()
    if where == "mutated" and run.phase == RunPhase.PREPARING:
        desk.prepare(run, "a")
        desk.act(run)
    return desk.crash(run)


@pytest.mark.parametrize("where", ["preparing", "mutated"])
def test_work_that_the_host_ends_in_time_after_time_is_taken_for_the_reason(desk: Desk, where: str) -> None:
    desk.publish("a")
    for crashes in range(1, CRASHES):
        run = crash_at(desk, where)
        assert run.crashes == crashes
        if crashes > 1:
            assert wait(desk) == WAITS[crashes - 2]
    last = crash_at(desk, where)
    assert (last.crashes, desk.flow.block_kind, desk.flow.head) == (CRASHES, "crashes", last.id)
    assert desk.next() == IdleUntil()
    desk.do(operator_actions.resume, FLOW)
    assert desk.begin().retry_of == last.id


def test_crashes_are_counted_in_a_row(desk: Desk) -> None:
    desk.publish("a")
    desk.crash(desk.begin())
    second = desk.crash(desk.begin())
    assert second.crashes == 2
    wait(desk)
    desk.fail(desk.begin(), FailureKind.STOPPED)
    assert desk.crash(desk.begin()).crashes == 1


def test_a_crash_in_a_call_is_asked_about_at_once_and_counted_all_the_same(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.leave(run)
    crashed = desk.crash(run)
    assert (crashed.crashes, crashed.outcome) == (1, EffectOutcome.UNKNOWN)
    call = desk.call(run)
    assert call is not None and (call.status, call.next_at) == (CallStatus.NEEDS_RECONCILE, desk.clock.now_ms())
    desk.do(transitions.not_applied, run.id, "it is not there", "reconciliation")
    assert desk.begin().crashes == 1


@pytest.mark.parametrize("answer", ["person", "connector"])
def test_only_the_answer_of_a_person_continues_a_call_that_has_crashed_too_often(desk: Desk, answer: str) -> None:
    desk.publish("a")
    for crashes in range(1, CRASHES):
        desk.crash(desk.begin())
        if crashes > 1:
            wait(desk)
    run = desk.begin()
    desk.prepare(run, "a")
    desk.leave(run)
    assert desk.crash(run).crashes == CRASHES
    if answer == "person":
        desk.do(operator_actions.reconcile_not_applied, run.id)
        assert desk.begin().retry_of == run.id
    else:
        desk.do(transitions.not_applied, run.id, "it is not there", "reconciliation")
        assert (desk.next(), desk.flow.block_kind) == (IdleUntil(), "crashes")


# --- poison ---------------------------------------------------------------------------------------------------


@pytest.fixture
def parking(tmp_path: Path) -> Desk:
    """A workflow that would rather go on."""
    desk = Desk("memory", tmp_path, flow_spec(on_poison="park", peek=8))
    desk.idle(desk.begin())
    return desk


def shown(desk: Desk) -> tuple[RunRow, list[str]]:
    found = desk.next()
    assert isinstance(found, Begun), found
    return found.run, [event.message for event in found.events]


def test_the_events_of_a_run_that_failed_are_shown_one_at_a_time_and_the_one_that_fails_alone_is_parked(
    parking: Desk,
) -> None:
    desk = parking
    desk.publish("a", "bad", "c")
    told = []
    for _ in range(12):
        found = desk.next()
        if not isinstance(found, Begun):
            break
        names = [event.message for event in found.events]
        told.append(" ".join(names))
        desk.prepare(found.run, *names)
        if "bad" in names:
            desk.fail(found.run, FailureKind.LOGIC, "no such field")
        else:
            desk.act(found.run)
            desk.commit(found.run)
    assert told == ["a bad c", "a", "bad c", "bad", "c"]
    assert desk.events() == {"a": "consumed", "bad": "parked", "c": "consumed"}
    assert (desk.flow.head, desk.flow.block) == (None, None)
    assert desk.tables.topics(desk.flow.id)["notes"].parked == 1


def test_more_is_shown_again_when_the_poison_is_behind_it(parking: Desk) -> None:
    desk = parking
    desk.publish("bad", *[f"e{number:02}" for number in range(40)])
    sizes = []
    while True:
        found = desk.next()
        if not isinstance(found, Begun):
            break
        names = [event.message for event in desk.shown(found)]
        sizes.append(len(names))
        desk.prepare(found.run, *names)
        if "bad" in names:
            desk.fail(found.run, FailureKind.LOGIC)
        else:
            desk.act(found.run)
            desk.commit(found.run)
    assert sizes == [8, 1, 1, 2, 4, 8, 8, 8, 8, 1]
    assert desk.handler().span is None


def test_an_event_that_prepare_fails_on_is_found_among_those_it_was_shown(parking: Desk) -> None:
    """It never came to a plan: nothing was taken."""
    desk = parking
    desk.publish("bad", "good")
    run, names = shown(desk)
    assert names == ["bad", "good"]
    desk.fail(run, FailureKind.LOGIC, "no such field")
    run, names = shown(desk)
    assert names == ["bad"]
    desk.fail(run, FailureKind.LOGIC, "no such field")
    assert desk.events() == {"bad": "parked", "good": "pending"}
    assert desk.said == {desk.flow.id: "work: parked, no such field"}
    assert shown(desk)[1] == ["good"]


def test_what_should_pass_by_itself_is_parked_when_it_has_not_after_all_tries(parking: Desk) -> None:
    desk = parking
    desk.publish("a")
    for _ in range(TRIES):
        run, _ = shown(desk)
        desk.prepare(run, "a")
        desk.fail(run)
        wait(desk)
    run, _ = shown(desk)
    desk.prepare(run, "a")
    desk.fail(run)
    assert desk.events() == {"a": "parked"}
    assert (desk.flow.failures, desk.flow.head, desk.flow.block) == (0, None, None)


def test_what_has_had_its_effect_is_put_aside_with_its_run(parking: Desk) -> None:
    desk = parking
    desk.publish("a")
    run, _ = shown(desk)
    desk.prepare(run, "a")
    desk.act(run)
    desk.fail(run, FailureKind.LOGIC)
    assert (desk.flow.block_kind, desk.events()) == (None, {"a": "parked"})
    assert desk.run(run.id).aside == "kept"


def test_a_run_that_was_shown_nothing_blocks_the_workflow(parking: Desk) -> None:
    desk = parking
    desk.flags.fresh.add("work")
    run, names = shown(desk)
    assert names == []
    desk.fail(run, FailureKind.LOGIC)
    assert desk.flow.block_kind == "logic"


def test_who_needs_more_than_one_event_gets_more_than_one_after_a_failure(parking: Desk) -> None:
    """It takes pairs: alone, no event is enough, and none is to blame."""
    desk = parking
    desk.publish("a", "b")
    run, names = shown(desk)
    desk.prepare(run, "a", "b")
    desk.fail(run, FailureKind.LOGIC, "once")
    run, names = shown(desk)
    assert names == ["a"]
    desk.idle(run)
    run, names = shown(desk)
    assert names == ["a", "b"]
    desk.prepare(run, "a", "b")
    desk.act(run)
    desk.commit(run)
    assert desk.handler().span is None


def test_events_that_fail_only_together_are_parked_together(parking: Desk) -> None:
    """Each round shows fewer, or shows that fewer are not enough, or parks some: so it ends."""
    desk = parking
    desk.publish("a", "b", "c")
    rounds = 0
    while isinstance(found := desk.next(), Begun):
        rounds += 1
        assert rounds < 20
        names = [event.message for event in found.events]
        if len(names) < 2:
            desk.idle(found.run)
            continue
        desk.prepare(found.run, *names[:2])
        desk.fail(found.run, FailureKind.LOGIC, "they do not go together")
    assert desk.events() == {"a": "parked", "b": "parked", "c": "pending"}
    assert desk.flow.block is None


def test_who_fails_on_all_and_takes_none_alone_blocks_the_workflow(parking: Desk) -> None:
    desk = parking
    desk.publish("a", "b")
    rounds = 0
    while isinstance(found := desk.next(), Begun):
        rounds += 1
        assert rounds < 20
        if len(found.events) < 2:
            desk.idle(found.run)
        else:
            desk.fail(found.run, FailureKind.LOGIC, "too many")
    assert desk.flow.block_kind == "logic"


# --- repairs --------------------------------------------------------------------------------------------------


def test_a_program_that_repairs_is_asked_twice_and_then_a_person(desk: Desk) -> None:
    desk.deploy(flow_spec(has_fixer=True), "2")
    desk.publish("a")
    run = desk.begin()
    for number in range(1, REPAIRS + 1):
        desk.fail(run, FailureKind.LOGIC, "no such field")
        assert (desk.flow.repairing, desk.flow.block) == (1, None)
        found = desk.next()
        assert isinstance(found, Repair) and found.run.id == run.id
        flow = desk.do(repairs.repaired, run.id, "work", f"version {number}")
        assert (flow.repairs, flow.repairing, flow.version) == (number, 0, 2 + number)
        before, run = run, desk.begin()
        assert (run.version, run.retry_of) == (2 + number, before.id)
        with pytest.raises(TransitionError, match="not under repair"):
            desk.do(repairs.repaired, run.id, "work", "late")
    desk.fail(run, FailureKind.LOGIC, "no such field")
    assert (desk.flow.block_kind, desk.flow.repairing) == ("logic", 0)


def test_who_cannot_repair_it_says_so_and_a_person_is_told(desk: Desk) -> None:
    desk.deploy(flow_spec(has_fixer=True), "2")
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, FailureKind.LOGIC)
    flow = desk.do(repairs.gave_up, run.id, "this cannot be repaired")
    assert (flow.block, flow.block_kind, flow.repairing) == ("this cannot be repaired", "logic", 0)
    with pytest.raises(TransitionError):
        desk.do(repairs.gave_up, run.id, "again")


def test_code_is_never_repaired_because_of_a_call_that_nobody_knows_of(desk: Desk) -> None:
    desk.deploy(flow_spec(has_fixer=True), "2")
    desk.doubt("a")
    assert (desk.flow.repairing, desk.flow.block_kind) == (0, "indeterminate")
