"""What is remembered of the tables from one transaction to the next is what stands in them."""

from __future__ import annotations

import pytest

from headwater.errors import InvariantError, TransitionError
from headwater.workflow import transitions
from headwater.workflow.rows import EffectOutcome, Intent, RunPhase
from headwater.workflow.table_checks import check_all
from headwater.workflow.transitions import Begun, Prepared
from headwater.workflow.workflow_limits import PAGE
from headwater.workflow.workflow_rows import set_flow
from tests.support.flows import Desk, packed


def planned(desk: Desk, *, acts: str | None = "work.mutate", ask: bool = False) -> Prepared:
    return Prepared(events=(desk.event("a"),), result=packed(1), acts=acts, approval=b"plan" if ask else None)


# --- remembering ----------------------------------------------------------------------------------------------


def test_rows_are_read_once_until_somebody_writes_them(desk: Desk) -> None:
    desk.publish("a")
    tables = desk.tables
    assert tables.flow(desk.flow.id) is tables.flow(desk.flow.id)
    assert tables.topics(desk.flow.id) is tables.topics(desk.flow.id)
    before = tables.flow(desk.flow.id)
    desk.do(set_flow, desk.flow, intent=Intent.PAUSED)
    assert (before.intent, tables.flow(desk.flow.id).intent) == (Intent.ACTIVE, Intent.PAUSED)


def test_a_write_of_which_nobody_says_what_it_changes_makes_everything_forgotten(desk: Desk) -> None:
    assert desk.tables.topics(desk.flow.id)["notes"].pending == 0
    desk.publish("a")
    assert desk.tables.topics(desk.flow.id)["notes"].pending == 1
    desk.tables.execute("update flow_event set status = 'parked'")
    assert not desk.tables.cache
    assert desk.tables.topics(desk.flow.id)["notes"].parked == 1


def test_what_was_taken_back_is_not_remembered(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    with pytest.raises(TransitionError):
        desk.do(
            lambda tables: [
                transitions.prepared(tables, run.id, planned(desk), desk.spec),
                transitions.ask(tables, run.id),
            ]
        )
    assert desk.run(run).phase == RunPhase.PREPARING
    assert not desk.tables.refresh_cache()


def test_a_row_that_was_written_behind_its_back_is_found_by_the_checker(desk: Desk) -> None:
    assert desk.flow.version == 1
    desk.backend.tables.execute("update flow set version = 7")
    with pytest.raises(InvariantError, match="the cache differs from the tables"):
        check_all(desk.tables)


# --- a plan that leaves with its call -------------------------------------------------------------------------


def test_a_plan_whose_call_is_known_leaves_with_it_in_one_transaction(desk: Desk) -> None:
    desk.publish("a")
    run = desk.do(transitions.prepared, desk.begin().id, planned(desk), desk.spec)
    call = desk.call(run)
    assert (run.phase, run.outcome) == (RunPhase.MUTATING, EffectOutcome.UNKNOWN)
    assert call is not None and (call.operation, call.params) == ("work.mutate", packed(1))
    check_all(desk.tables)


@pytest.mark.parametrize("why", ["a person is asked first", "the workflow was paused", "the run was cancelled"])
def test_nothing_leaves_with_a_plan_that_somebody_has_a_say_in(desk: Desk, why: str) -> None:
    desk.publish("a")
    run = desk.begin()
    if why == "the workflow was paused":
        desk.do(set_flow, desk.flow, intent=Intent.PAUSED)
    if why == "the run was cancelled":
        desk.tables.execute("update flow_run set cancelled = 1")
    plan = planned(desk, ask=why == "a person is asked first")
    run = desk.do(transitions.prepared, run.id, plan, desk.spec)
    assert (run.phase, run.outcome, desk.call(run)) == (RunPhase.PREPARED, EffectOutcome.NONE, None)


def test_a_plan_that_takes_nothing_calls_nothing(desk: Desk) -> None:
    desk.publish("a")
    plan = Prepared(result=packed(1), acts="work.mutate")
    run = desk.do(transitions.prepared, desk.begin().id, plan, desk.spec)
    assert (run.phase, desk.call(run)) == (RunPhase.PREPARED, None)


# --- reading little -------------------------------------------------------------------------------------------


def test_few_events_are_read_when_a_run_begins_and_all_are_counted(desk: Desk) -> None:
    desk.publish(*[f"{number}" for number in range(30)])
    found = desk.next()
    assert isinstance(found, Begun)
    assert (len(found.events), found.run.offered, len(desk.shown(found))) == (PAGE, 30, 30)
