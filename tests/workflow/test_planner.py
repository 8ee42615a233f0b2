"""Which run is next, what for, and how long nobody has to look: flags, times, and the order of those that are due."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import headwater as hw
from headwater.workflow import operator_actions, transitions
from headwater.workflow.planner import Due, Flags, IdleUntil, choose, flags_after_restart
from headwater.workflow.rows import FailureKind, Intent, RunCause
from headwater.workflow.schedule import Cron, Every
from headwater.workflow.table_checks import w12_wake_at
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.transitions import Begun, Prepared, ReconcileCall
from headwater.workflow.workflow_limits import WAKE_MAX_MS, WAKE_MIN_MS
from tests.support.flows import FLOW, MINUTE_MS, Desk, flow_spec, packed

HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
PLACES = {"work": ("notes",), "mail": ("letters", "parcels")}


def quiet(desk: Desk, version: str = "2", **spec: object) -> Desk:
    """Another version, and everything that is due because of it done."""
    desk.deploy(flow_spec(**spec), version)  # type: ignore[arg-type]  # as `flow_spec` has them
    while isinstance(found := desk.next(), Begun):
        if found.run.kind == "producer":
            desk.produce(found.run)
        else:
            desk.idle(found.run)
    return desk


def peeked(desk: Desk) -> IdleUntil:
    return desk.do(transitions.peek, FLOW, desk.spec, desk.flags)


# --- consumers ------------------------------------------------------------------------------------------------


def test_a_consumer_runs_when_something_was_published_and_looks_once_if_it_takes_nothing(desk: Desk) -> None:
    assert desk.next() == IdleUntil()
    desk.publish("a")
    run = desk.begin()
    assert (run.why, run.offered) == (RunCause.EVENT, 1)
    desk.idle(run)
    assert desk.next() == IdleUntil(), "it has seen it, and waits for something new"
    desk.publish("b")
    assert desk.begin().offered == 2


def test_a_backlog_is_worked_off_although_only_a_part_of_it_was_taken(desk: Desk) -> None:
    """D1: every pass consumes something, so it ends."""
    desk.publish("a", "b", "c")
    for left in (3, 2, 1):
        run = desk.begin()
        assert run.offered == left
        desk.prepare(run, "abc"[3 - left])
        desk.act(run)
        desk.commit(run)
    assert desk.next() == IdleUntil()


def test_what_is_published_while_a_run_is_under_way_is_not_lost(desk: Desk) -> None:
    """D2: the flag goes when the run that looks begins, not when it ends."""
    desk.publish("a")
    run = desk.begin()
    desk.publish("b")
    desk.idle(run)
    assert desk.begin().offered == 2


def test_a_run_that_goes_on_at_next_does_not_use_up_the_news(desk: Desk) -> None:
    """It looks at nothing."""
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.crash(run)
    desk.flags.dirty.clear()
    desk.publish("b")
    again = desk.begin()
    assert again.retry_of == run.id
    assert desk.flags.dirty == {"work"}
    desk.commit(again)
    assert desk.begin().offered == 1


def test_consumers_come_before_producers_and_the_oldest_event_first(desk: Desk) -> None:
    """W13."""
    desk.deploy(flow_spec(consumers=PLACES, producers={"poll": Every(MINUTE_MS)}), "2")
    desk.publish("1", topic="parcels")
    desk.publish("2", topic="notes")
    desk.publish("3", topic="letters")
    desk.flags.fresh.clear()
    order = []
    for _ in range(4):
        found = desk.next()
        assert isinstance(found, Begun)
        run = found.run
        order.append((run.handler, [event.message for event in found.events]))
        if run.kind == "producer":
            desk.produce(run)
            continue
        events = tuple(event.id for event in found.events[:1])
        desk.do(transitions.prepared, run.id, Prepared(events=events, result=packed(None)), desk.spec)
        desk._ended(desk.do(transitions.consumed, run.id, None, desk.spec))
    assert order == [("mail", ["1", "3"]), ("work", ["2"]), ("mail", ["3"]), ("poll", [])]


def test_events_of_several_topics_are_shown_in_the_order_in_which_they_came(desk: Desk) -> None:
    quiet(desk, consumers={"work": ("notes", "letters", "parcels")}, peek=5)
    names = ["letters", "notes", "parcels", "notes", "letters", "notes"]
    for number, topic in enumerate(names):
        desk.publish(f"{number}", topic=topic)
    found = desk.next()
    assert isinstance(found, Begun)
    assert [(event.message, event.topic) for event in desk.shown(found)] == [
        (f"{number}", topic) for number, topic in enumerate(names[:5])
    ]
    assert found.events == tuple(desk.shown(found)[: len(found.events)]), "the first are read with the beginning"


def test_those_with_events_come_before_those_that_are_woken_and_these_before_those_that_only_look(desk: Desk) -> None:
    consumers = {name: (name,) for name in ("a", "b", "c", "d")}
    quiet(desk, consumers=consumers)
    now = desk.clock.now_ms()
    desk.publish("x", topic="d")
    desk.tables.execute("update flow_handler set wake_at = ? where name = 'b'", now)
    desk.tables.execute("update flow_handler set wake_at = ? where name = 'c'", now - 1)
    desk.flags.fresh.add("a")
    order = []
    while isinstance(found := desk.next(), Begun):
        order.append((found.run.handler, found.run.why))
        desk.idle(found.run)
    assert order == [("d", RunCause.EVENT), ("c", RunCause.WAKE), ("b", RunCause.WAKE), ("a", RunCause.DEPLOY)]


def test_no_more_is_shown_than_a_consumer_asks_for(desk: Desk) -> None:
    quiet(desk, peek=2)
    desk.publish("a", "b", "c")
    assert desk.begin().offered == 2


# --- waking ---------------------------------------------------------------------------------------------------


def test_a_consumer_is_woken_at_the_time_it_has_asked_for_once(desk: Desk) -> None:
    """D17: the time is used up when the run that it is for begins."""
    due = desk.clock.now_ms() + MINUTE_MS
    desk.publish("a")
    desk.idle(desk.begin(), wake_at=due)
    assert desk.next() == peeked(desk) == IdleUntil(due)
    desk.clock.advance(MINUTE_MS)
    assert peeked(desk) == IdleUntil(desk.clock.now_ms())
    run = desk.begin()
    assert run.why == RunCause.WAKE
    assert desk.handler().wake_at is None
    desk.fail(run, FailureKind.STOPPED)
    desk.idle(desk.begin())
    assert desk.next() == IdleUntil()


def test_a_time_to_wake_is_half_a_minute_after_its_plan_is_stored(desk: Desk) -> None:
    """W12: between its making and its storing, a plan may have waited for the disk."""
    desk.publish("a")
    run = desk.begin()
    due = desk.clock.now_ms() + WAKE_MIN_MS
    desk.clock.advance(5_000)
    desk.idle(run, wake_at=due)
    assert desk.handler().wake_at == due + 5_000


def test_a_time_to_wake_whose_run_is_deleted_is_no_damage_after_the_clock_was_set_back(desk: Desk) -> None:
    desk.publish("a")
    desk.idle(desk.begin(), wake_at=desk.clock.now_ms() + MINUTE_MS)
    desk.do(lambda tables: tables.execute("delete from flow_run"))
    desk.clock.advance(-2 * DAY_MS)
    w12_wake_at(desk.tables)
    # Also if the workflow was written since, as by a deployment.
    desk.do(lambda tables: tables.execute("update flow set updated_at = ?", tables.now))
    w12_wake_at(desk.tables)


def test_a_plan_without_a_time_takes_back_the_one_before(desk: Desk) -> None:
    desk.publish("a")
    desk.idle(desk.begin(), wake_at=desk.clock.now_ms() + MINUTE_MS)
    desk.publish("b")
    desk.idle(desk.begin())
    assert (desk.handler().wake_at, desk.next()) == (None, IdleUntil())


def test_something_new_wakes_a_consumer_before_its_time_which_stays(desk: Desk) -> None:
    due = desk.clock.now_ms() + MINUTE_MS
    desk.publish("a")
    desk.idle(desk.begin(), wake_at=due)
    desk.publish("b")
    run = desk.begin()
    assert run.why == RunCause.EVENT
    assert desk.handler().wake_at == due
    desk.prepare(run, "a", wake_at=due)
    desk.act(run)
    desk.commit(run)
    assert desk.handler().wake_at == due


def test_a_time_to_wake_outlives_the_process(desk: Desk) -> None:
    due = desk.clock.now_ms() + MINUTE_MS
    desk.publish("a")
    desk.idle(desk.begin(), wake_at=due)
    desk.reopen()
    desk.idle(desk.begin(), wake_at=due)
    assert desk.next() == IdleUntil(due)


# --- producers ------------------------------------------------------------------------------------------------


def test_a_producer_runs_at_its_time_and_the_next_time_is_written_when_it_has(desk: Desk) -> None:
    quiet(desk, producers={"poll": Every(5 * MINUTE_MS)})
    due = desk.clock.now_ms() + 5 * MINUTE_MS
    assert desk.next() == peeked(desk) == IdleUntil(due)
    desk.clock.advance(5 * MINUTE_MS - 1)
    assert desk.next() == IdleUntil(due)
    desk.clock.advance(1)
    run = desk.begin()
    assert (run.kind, run.why) == ("producer", RunCause.SCHEDULE)
    assert desk.handler("poll", "producer").next_run_at == due
    desk.clock.advance(7_000)
    desk.produce(run, state=packed("cursor"))
    row = desk.handler("poll", "producer")
    assert (row.next_run_at, row.state) == (due + 7_000 + 5 * MINUTE_MS, packed("cursor"))


def test_fires_that_were_missed_come_to_one(desk: Desk) -> None:
    quiet(desk, producers={"poll": Every(MINUTE_MS), "daily": Cron("0 9 * * *", "UTC")})
    desk.clock.advance(10 * DAY_MS)
    desk.reopen()
    fired = []
    while isinstance(found := desk.next(), Begun):
        fired.append(found.run.handler)
        desk.produce(found.run)
    assert sorted(fired) == ["daily", "poll"]


def test_the_producer_that_has_waited_longest_is_first(desk: Desk) -> None:
    quiet(desk, producers={"slow": Every(2 * MINUTE_MS), "quick": Every(MINUTE_MS)})
    desk.clock.advance(3 * MINUTE_MS)
    assert [desk.produce(desk.begin()).handler for _ in range(2)] == ["quick", "slow"]


def test_a_producer_without_a_schedule_runs_when_it_is_deployed_and_when_it_is_asked_for(desk: Desk) -> None:
    quiet(desk, producers={"poll": None})
    assert desk.handler("poll", "producer").next_run_at is None
    assert desk.next() == IdleUntil()
    desk.do(operator_actions.run_now, FLOW)
    assert desk.begin().why == RunCause.MANUAL


def test_a_producer_that_fails_stays_due(desk: Desk) -> None:
    quiet(desk, producers={"poll": Every(MINUTE_MS)})
    desk.clock.advance(MINUTE_MS)
    desk.fail(desk.begin())
    desk.clock.advance(10_000)
    run = desk.begin()
    assert (run.handler, run.attempt, run.why) == ("poll", 2, RunCause.RETRY)


def test_a_state_that_is_not_returned_stays(desk: Desk) -> None:
    quiet(desk, producers={"poll": Every(MINUTE_MS)})
    desk.clock.advance(MINUTE_MS)
    desk.produce(desk.begin(), state=packed(1))
    desk.clock.advance(MINUTE_MS)
    found = desk.next()
    assert isinstance(found, Begun) and found.state == packed(1)
    desk.produce(found.run)
    assert desk.handler("poll", "producer").state == packed(1)


# --- resting --------------------------------------------------------------------------------------------------


def test_the_earliest_time_of_all_is_when_to_look_again(desk: Desk) -> None:
    quiet(desk, producers={"poll": Every(5 * MINUTE_MS), "slow": Every(HOUR_MS)})
    now = desk.clock.now_ms()
    assert desk.next() == IdleUntil(now + 5 * MINUTE_MS)
    desk.publish("a")
    desk.idle(desk.begin(), wake_at=now + MINUTE_MS)
    assert desk.next() == IdleUntil(now + MINUTE_MS)


@pytest.mark.parametrize("change", ["intent = 'paused'", "intent = 'archived'", "block = 'x', block_kind = 'logic'"])
def test_what_is_stopped_has_no_time_at_all(desk: Desk, change: str) -> None:
    quiet(desk, producers={"poll": Every(MINUTE_MS)})
    desk.tables.execute(f"update flow set {change}")  # noqa: S608
    desk.clock.advance(DAY_MS)
    desk.publish("a")
    assert desk.next() == peeked(desk) == IdleUntil()


def test_nothing_is_due_beside_a_run_that_is_active(desk: Desk) -> None:
    """W1."""
    desk.publish("a")
    desk.begin()
    desk.publish("b")
    assert desk.next() == peeked(desk) == IdleUntil()


def test_a_chain_that_is_not_finished_is_all_that_is_looked_at(desk: Desk) -> None:
    quiet(desk, producers={"poll": Every(MINUTE_MS)})
    desk.publish("a")
    desk.fail(desk.begin())
    retry_at = desk.clock.now_ms() + 10_000
    assert peeked(desk) == IdleUntil(retry_at)
    desk.clock.advance(DAY_MS)
    assert desk.begin().handler == "work"


def test_a_question_about_a_call_has_a_time_like_everything_else(desk: Desk) -> None:
    due = desk.clock.now_ms() + MINUTE_MS
    desk.doubt("a", next_at=due)
    assert peeked(desk) == IdleUntil(due)


def test_the_planner_only_looks(desk: Desk) -> None:
    desk.publish("a")
    before = desk.rows()
    found = choose(desk.tables, desk.flow, desk.spec, Flags(dirty={"work"}))
    assert isinstance(found, Due) and (found.handler.name, found.why) == ("work", RunCause.EVENT)
    assert choose(desk.tables, desk.flow, desk.spec, Flags()) == IdleUntil()
    peeked(desk)
    assert desk.rows() == before


def test_after_a_restart_those_look_who_have_something_to_look_at(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers=PLACES), "2")
    desk.publish("a", topic="parcels")
    flags = flags_after_restart(desk.tables, desk.flow, desk.spec)
    assert (flags.dirty, flags.fresh, flags.resumed) == ({"mail"}, set(), None)


def test_who_took_up_a_chain_is_told_by_its_run(desk: Desk) -> None:
    desk.publish("a")
    desk.fail(desk.begin(), FailureKind.LOGIC)
    desk.do(operator_actions.resume, FLOW)
    desk.flags.resumed = RunCause.FIXED
    assert desk.begin().why == RunCause.FIXED
    assert desk.flags.resumed is None


# --- a clock that was set back --------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [1, HOUR_MS, 400 * DAY_MS])
def test_a_producer_is_not_late_because_the_clock_was_set_back(desk: Desk, back: int) -> None:
    """W11."""
    quiet(desk, producers={"poll": Every(5 * MINUTE_MS), "asked": None, "hourly": Cron("0 * * * *", "UTC")})
    desk.clock.advance(-back)
    found = desk.next()
    assert isinstance(found, IdleUntil) and found.until is not None
    assert 0 < found.until - desk.clock.now_ms() <= 5 * MINUTE_MS
    for name in ("poll", "hourly"):
        due = desk.handler(name, "producer").next_run_at
        assert due is not None and due <= desk.clock.now_ms() + HOUR_MS
    desk.clock.advance(5 * MINUTE_MS)
    assert desk.begin().kind == "producer"


def test_a_producer_that_was_asked_for_runs_although_the_clock_was_set_back_a_little(desk: Desk) -> None:
    """By less than the time since anything else happened."""
    quiet(desk, producers={"poll": None})
    desk.clock.advance(HOUR_MS)
    desk.do(operator_actions.run_now, FLOW)
    desk.clock.advance(-HOUR_MS // 2)
    assert desk.begin().handler == "poll"


def test_a_retry_is_not_late_because_the_clock_was_set_back(desk: Desk) -> None:
    desk.publish("a")
    desk.fail(desk.begin())
    desk.clock.advance(-DAY_MS)
    assert desk.next() == IdleUntil(desk.clock.now_ms() + 10_000)
    desk.clock.advance(10_000)
    assert desk.begin().why == RunCause.RETRY


def test_a_question_about_a_call_is_not_late_because_the_clock_was_set_back(desk: Desk) -> None:
    desk.doubt("a", next_at=desk.clock.now_ms() + 10_000)
    desk.clock.advance(-DAY_MS)
    assert desk.next() == IdleUntil(desk.clock.now_ms() + 10_000)
    desk.clock.advance(10_000)
    assert isinstance(desk.next(), ReconcileCall)


def test_a_consumer_that_asked_to_be_woken_is_woken_within_a_day_although_the_clock_was_set_back(desk: Desk) -> None:
    desk.publish("a")
    desk.idle(desk.begin(), wake_at=desk.clock.now_ms() + MINUTE_MS)
    desk.clock.advance(-30 * DAY_MS)
    assert desk.next() == IdleUntil(desk.clock.now_ms() + WAKE_MAX_MS)


def test_a_clock_that_was_set_back_is_put_right_once(desk: Desk) -> None:
    quiet(desk, producers={"poll": Every(5 * MINUTE_MS)})
    desk.clock.advance(-DAY_MS)
    first = desk.next()
    desk.clock.advance(MINUTE_MS)
    assert desk.next() == first


def test_a_workflow_that_is_stopped_stays_stopped_when_the_clock_is_set_back(desk: Desk) -> None:
    quiet(desk, producers={"poll": Every(5 * MINUTE_MS)})
    desk.do(operator_actions.pause, FLOW)
    desk.clock.advance(-DAY_MS)
    assert desk.next() == IdleUntil()
    assert desk.flow.intent == Intent.PAUSED


# --- begun with the end of another ----------------------------------------------------------------------------


def test_who_takes_nothing_and_has_something_to_say_is_not_begun_again_and_again() -> None:
    """D3: `next` runs although nothing was taken. What waits has been looked at all the same."""
    app = hw.App("looks")
    flow = app.workflow("flow")
    numbers = flow.topic("numbers", int)
    seen: list[int] = []

    @flow.consumer(numbers)
    class Look(hw.Consumer[int, int, None]):
        def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[int]:
            assert len(seen) < 10
            return hw.Plan(len(pending))

        def next(self, run: hw.Run, data: int, outcome: object) -> None:
            assert run.attempt == 1 and isinstance(outcome, hw.Nothing)
            seen.append(data)

    with app.open("memory:") as space:
        numbers.publish(1, id="one")
        space.workflows.drain()
        assert seen[-1] == 1 and len(seen) <= 2


def test_what_a_run_leaves_is_begun_in_the_transaction_that_ends_it(desk: Desk) -> None:
    desk.publish("a", "b")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)

    def end(tables: WorkflowTables) -> object:
        transitions.consumed(tables, run.id, None, desk.spec)
        return transitions.begin_after(tables, "work", FLOW, desk.spec, desk.flags)

    found = desk.do(end)
    assert isinstance(found, Begun) and found.run.offered == 1
