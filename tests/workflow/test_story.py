"""What people are told of a run: why it started, how far it came, and what became of it and of its call."""

from __future__ import annotations

from itertools import product

from msgspec.structs import replace

from headwater.workflow import operator_actions, run_queries, transitions
from headwater.workflow.rows import (
    CallRow,
    CallStatus,
    EffectOutcome,
    FailureKind,
    RunCause,
    RunPhase,
    RunRow,
    RunStatus,
)
from headwater.workflow.wording.story import because, call_sentence, one_line, reached, sentence, standing
from headwater.workflow.wording.views import RunView
from tests.support.flows import Desk, packed

SECOND = 1000


def view(desk: Desk, run: RunRow | int) -> RunView:
    return run_queries.run_view(desk.tables, desk.run(run))


def head(desk: Desk) -> RunView:
    assert desk.flow.head is not None
    return view(desk, desk.flow.head)


def known(desk: Desk, run: RunRow) -> str:
    call = desk.call(run)
    assert call is not None
    return call_sentence(call)


def test_a_run_that_went_well_is_told_by_its_plan(desk: Desk) -> None:
    done = view(desk, desk.consume("a", "b"))
    assert (done.because, done.reached, done.sentence) == (
        "events came in",
        'planned "Did a, b" with 2 events and acted',
        "Done.",
    )
    assert done.text == "Note a, Note b -> Did a, b"
    assert not done.may_change


def test_a_run_is_told_by_phase_while_it_is_at_work(desk: Desk) -> None:
    desk.publish("a", "b")
    run = desk.begin()
    assert view(desk, run).sentence == "At work: preparing."
    assert view(desk, run).may_change
    desk.prepare(run, "a", title="Send it")
    assert view(desk, run).sentence == "At work: it has a plan."
    assert view(desk, run).reached == 'planned "Send it" with 1 of 2 events'
    desk.leave(run)
    assert view(desk, run).sentence == "At work: its call is under way."
    desk.do(transitions.applied, run.id, packed(1))
    assert view(desk, run).sentence == "At work: going on after its plan."


def test_a_run_that_was_cancelled_says_so_while_it_is_at_work(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.do(operator_actions.cancel, run.id)
    assert view(desk, run).sentence == "At work; it was cancelled, and stops before it acts."


def test_a_crash_during_the_call_is_told_before_and_after_it_is_known(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a", title="Send it")
    desk.leave(run)
    desk.crash(run)
    assert view(desk, run).sentence == "Crashed while its call was under way; finding out whether it happened."
    assert view(desk, run).may_change
    desk.do(transitions.still_uncertain, run.id, "cannot tell", 5, None)
    told = "Crashed while its call was under way; it is not known whether it happened: a person has to say."
    assert view(desk, run).sentence == told
    assert known(desk, run) == "It is not known whether it happened; it was looked up 5 times. A person has to say."
    desk.do(transitions.applied, run.id, packed("ok"), "reconciliation")
    assert view(desk, run).sentence == "Crashed while its call was under way; found out later that it had happened."
    assert known(desk, run) == "It happened: that was found out by looking it up."
    after = view(desk, desk.begin())
    assert after.because == "the outcome of its call was found out"
    assert after.reached == f"went on after the call of run {run.id}"


def test_a_person_who_says_what_became_of_a_call_is_told_of(desk: Desk) -> None:
    run = desk.doubt("a")
    assert head(desk).sentence == (
        "Its call ended without an answer (no answer); it is not known whether it happened: a person has to say."
    )
    desk.do(operator_actions.reconcile_not_applied, run.id)
    assert view(desk, run).sentence == (
        "Its call ended without an answer (no answer); a person said that it had not happened."
    )
    assert known(desk, run) == "It did not happen: a person said so."
    desk.idle(desk.begin())
    run = desk.doubt("b")
    desk.do(operator_actions.reconcile_applied, run.id, packed(1))
    assert view(desk, run).sentence.endswith("; a person said that it had happened.")
    desk.commit(desk.begin())
    run = desk.doubt("c")
    desk.do(operator_actions.reconcile_skip, run.id)
    assert view(desk, run).sentence.endswith("; a person decided to go on without it.")
    assert known(desk, run) == "It is not known whether it happened: a person decided to go on without it."


def test_an_approval_is_waited_for_given_or_refused(desk: Desk) -> None:
    run = desk.ask("a")
    assert view(desk, run).sentence == "Waits for your approval."
    desk.do(operator_actions.approve, run.id)
    assert view(desk, run).sentence == "Goes on in a moment."
    desk.begin()
    desk.act(desk.run(run))
    desk.commit(desk.run(run))
    assert view(desk, run).sentence == "Done."
    run = desk.ask("b")
    desk.do(operator_actions.reject, run.id)
    assert view(desk, run).sentence == "A person rejected its plan."
    after = desk.begin()
    assert view(desk, after).because == "its plan was rejected"
    assert view(desk, desk.commit(after)).sentence == "Skipped: a person decided that it is not done."


def test_failures_say_whether_they_came_after_the_effect_and_what_is_next(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, message="the post office\nis closed.")
    assert view(desk, run).sentence == "Failed: the post office is closed. It is tried again."
    assert view(desk, run).retry_at == desk.clock.now_ms() + 10 * SECOND
    desk.clock.advance(10 * SECOND)
    after = desk.begin()
    assert view(desk, run).sentence == "Failed: the post office is closed."
    assert view(desk, after).because == "the attempt before had failed"
    desk.prepare(after, "a")
    desk.act(after)
    desk.fail(after, FailureKind.LOGIC, "next is wrong")
    assert view(desk, after).sentence == "Failed after its call had happened: next is wrong. Waits for a person."
    assert view(desk, after).reached == "made a plan with 1 event and acted"


def test_a_call_that_surely_had_no_effect_is_told_so(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.leave(run)
    desk.fail(run, message="refused", undone="refused")
    assert view(desk, run).sentence == "Failed: refused; its call had no effect. It is tried again."
    assert known(desk, run) == "It did not happen: the service said so."


def test_a_run_that_was_stopped_has_not_failed(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, FailureKind.STOPPED, "the host ends")
    assert view(desk, run).sentence == "Stopped before it acted: the workflow was paused, or the host ended."
    assert view(desk, desk.begin()).because == "the attempt before was stopped"


def test_somebody_who_has_to_sign_in_is_told_so(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, FailureKind.AUTH, "the token has expired")
    assert view(desk, run).sentence == "Waits for a new sign-in: the token has expired."
    desk.do(operator_actions.approve, run.id)
    assert view(desk, desk.begin()).because == "what it waited for was granted"
    waited = "Waited for a new sign-in: the token has expired."
    assert view(desk, run).sentence == f"{waited} Run {desk.flow.head} has followed it."
    assert view(desk, run).state == f"approved, followed by run {desk.flow.head}"


def test_a_host_that_ended_is_told_by_what_the_run_was_doing(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.crash(run)
    assert view(desk, run).sentence == "Interrupted: the host ended while it was preparing."
    run = desk.begin()
    assert view(desk, run).because == "the attempt before was interrupted"
    desk.prepare(run, "a")
    desk.crash(run)
    assert view(desk, run).sentence == "Interrupted: the host ended while it was about to act."
    desk.clock.advance(600 * SECOND)
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.crash(run)
    assert view(desk, run).sentence == "Interrupted: the host ended after its call had come back."


def test_every_run_that_can_stand_in_the_tables_has_a_story(desk: Desk) -> None:
    row = desk.ask("a")
    call = CallRow(
        run=row.id,
        operation="work.mutate",
        params=b"",
        key="k",
        status=CallStatus.INDETERMINATE,
        result=None,
        error=None,
        tries=0,
        next_at=None,
        resolved_by=None,
        resolved_at=None,
        at=row.created_at,
    )
    for phase, status, outcome, kind, trouble in product(
        RunPhase, RunStatus, EffectOutcome, ("producer", "consumer"), (None, *FailureKind)
    ):
        run = replace(row, phase=phase, status=status, outcome=outcome, kind=kind, error_kind=trouble)
        for given, later, idle in product((None, call), (None, 9), ("", "Waits for a host.")):
            told = sentence(run, given, desk.flow, later=later, idle=idle)
            assert told.endswith(".")
            assert told[0].isupper()
            assert standing(run, given, desk.flow, later)
        assert reached(run)
    for why in RunCause:
        assert because(replace(row, why=why), None)
    for state in CallStatus:
        assert call_sentence(replace(call, status=state)).endswith(".")


def test_long_errors_are_cut_and_stand_on_one_line() -> None:
    assert one_line("a\n\n  b\tc") == "a b c"
    assert one_line("x" * 1000) == "x" * 299 + "…"
