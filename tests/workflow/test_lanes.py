"""Lanes: what of a consumer is done one after the other, what at the same time, and how often it calls."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headwater.errors import DeclarationError, TransitionError
from headwater.workflow import operator_actions, run_queries, transitions
from headwater.workflow.planner import IdleUntil
from headwater.workflow.rates import interval_of
from headwater.workflow.rows import FailureKind, RunRow
from headwater.workflow.run_lanes import check_key, lane_text, within
from headwater.workflow.table_checks import check_all
from headwater.workflow.transitions import Later
from headwater.workflow.workflow_spec import ConsumerSpec, FlowSpec, LaneSpec, Lost, ProducerSpec
from tests.support.flows import FLOW, Desk, packed
from tests.support.spaces import EITHER

SECOND = 1000


def laned(
    key: str | None = "who",
    at_once: int | None = None,
    *,
    rate: str | None = None,
    peek: int = 100,
    lost: Lost | None = None,
    others: tuple[ConsumerSpec, ...] = (),
    producers: tuple[ProducerSpec, ...] = (),
) -> FlowSpec:
    """A consumer `work` of `notes` with lanes, and perhaps others without."""
    work = ConsumerSpec(
        name="work",
        topics=("notes",),
        peek=peek,
        lanes=LaneSpec(key=key, at_once=at_once),
        call_every_us=msgspec.UNSET if rate is None else interval_of(rate, "work"),
        lost=msgspec.UNSET if lost is None else lost,
        reconciles=lost == "same_call",
    )
    topics = ("notes", *(topic for each in others for topic in each.topics))
    return FlowSpec(name=FLOW, topics=topics, consumers=(work, *others), producers=producers, keep_runs=None)


@pytest.fixture(params=EITHER)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


def desk_of(kind: str, folder: Path, spec: FlowSpec) -> Desk:
    return Desk(kind, folder, spec)


def give(desk: Desk, *ids: str, priority: int = 5) -> None:
    """Publish events such as "ann 1": the first word is the key."""
    for one in ids:
        desk.publish(one, payload={"who": one.partition(" ")[0]}, priority=priority)


def begun(desk: Desk) -> dict[str, str]:
    """Begin everything that can begin: the first event that each run is shown, by lane."""
    found: dict[str, str] = {}
    while True:
        each = desk.next()
        if not isinstance(each, transitions.Begun):
            return found
        assert each.run.lane not in found
        found[each.run.lane] = each.events[0].message if each.events else ""


def active(desk: Desk, lane: str) -> RunRow:
    run = desk.tables.active(desk.flow.id, lane)
    assert run is not None
    return run


def do(desk: Desk, run: RunRow, *messages: str) -> None:
    """A whole run from its plan on."""
    desk.prepare(run, *messages)
    desk.act(run, "done")
    desk.commit(run)


# --- which runs at the same time --------------------------------------------------------------------------------


def test_events_of_one_key_follow_each_other_and_others_run_beside_them(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1", "ann 2", "bob 1", "carl 1")
    assert begun(desk) == {"work who=ann": "ann 1", "work who=bob": "bob 1", "work who=carl": "carl 1"}
    assert begun(desk) == {}
    do(desk, active(desk, "work who=ann"), "ann 1")
    assert begun(desk) == {"work who=ann": "ann 2"}
    check_all(desk.tables)
    desk.close()


def test_an_event_that_moved_to_another_lane_is_not_shown_in_the_one_it_has_left(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1", "ann 2")
    run = active(desk, *begun(desk))
    desk.prepare(run, "ann 1")
    desk.fail(run, FailureKind.TRANSIENT)
    # Published anew with another value.
    desk.publish("ann 1", payload={"who": "bob"})
    desk.clock.advance(60 * SECOND)
    assert begun(desk) == {"work who=ann": "ann 2", "work who=bob": "ann 1"}
    do(desk, active(desk, "work who=bob"), "ann 1")
    do(desk, active(desk, "work who=ann"), "ann 2")
    check_all(desk.tables)
    desk.close()


def test_an_event_that_was_handled_in_its_new_lane_is_no_mistake_of_the_one_it_has_left(
    kind: str, tmp_path: Path
) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1")
    begun(desk)
    desk.publish("ann 1", payload={"who": "bob"})
    begun(desk)
    do(desk, active(desk, "work who=bob"), "ann 1")
    with pytest.raises(TransitionError, match="published anew while work planned with it") as caught:
        desk.prepare(active(desk, "work who=ann"), "ann 1")
    assert caught.value.facts["stopped"]
    desk.close()


def test_no_more_lanes_are_at_work_than_are_declared(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned(at_once=2))
    give(desk, "ann 1", "bob 1", "carl 1")
    assert list(begun(desk)) == ["work who=ann", "work who=bob"]
    do(desk, active(desk, "work who=bob"), "bob 1")
    assert list(begun(desk)) == ["work who=carl"]
    desk.close()


def test_without_a_key_each_event_is_a_lane(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned(None, 2))
    give(desk, "ann 1", "ann 2", "ann 3")
    assert begun(desk) == {"work #1": "ann 1", "work #2": "ann 2"}
    do(desk, active(desk, "work #2"), "ann 2")
    assert begun(desk) == {"work #3": "ann 3"}
    desk.close()


def test_an_unfinished_chain_holds_up_its_own_lane_only_also_after_a_restart(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1", "bob 1")
    begun(desk)
    ann = active(desk, "work who=ann")
    desk.prepare(ann, "ann 1")
    desk.fail(ann, FailureKind.TRANSIENT)
    do(desk, active(desk, "work who=bob"), "bob 1")
    give(desk, "ann 2", "bob 2")
    assert begun(desk) == {"work who=bob": "bob 2"}
    do(desk, active(desk, "work who=bob"), "bob 2")
    desk.reopen()
    assert begun(desk) == {}
    desk.clock.advance(60 * SECOND)
    assert begun(desk) == {"work who=ann": "ann 1"}
    assert active(desk, "work who=ann").retry_of == ann.id
    do(desk, active(desk, "work who=ann"), "ann 1")
    assert begun(desk) == {"work who=ann": "ann 2"}
    assert desk.tables.execute("select count(*) from flow_lane") == [(0,)]
    check_all(desk.tables)
    desk.close()


def test_a_crash_is_recovered_in_the_lane_it_happened_in(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1", "bob 1")
    begun(desk)
    for lane in ("work who=ann", "work who=bob"):
        desk.crash(active(desk, lane))
    check_all(desk.tables)
    assert begun(desk) == {"work who=ann": "ann 1", "work who=bob": "bob 1"}
    assert {run.retry_of for run in desk.tables.at_work(desk.flow.id)} == {1, 2}
    desk.close()


def test_lanes_and_the_other_handlers_of_a_workflow_run_beside_each_other_in_turn(kind: str, tmp_path: Path) -> None:
    other = ConsumerSpec(name="tell", topics=("letters",))
    desk = desk_of(kind, tmp_path, laned(at_once=1, others=(other,)))
    desk.idle(desk.begin())
    give(desk, "ann 1", "bob 1")
    desk.publish("a", "b", topic="letters")
    order: list[str] = []
    for _ in range(3):
        # One thread: it finishes what it has begun.
        found = desk.next()
        assert isinstance(found, transitions.Begun)
        order.append(found.run.handler)
        do(desk, found.run, found.events[0].message) if found.run.lane else desk.idle(found.run)
    assert order == ["work", "tell", "work"]
    desk.close()


def test_a_pause_holds_up_every_lane_and_resuming_clears_what_blocks_any(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1", "bob 1", "carl 1")
    begun(desk)
    for who in ("ann", "bob"):
        run = active(desk, f"work who={who}")
        desk.prepare(run, f"{who} 1")
        desk.fail(run, FailureKind.LOGIC, "no such field")
    do(desk, active(desk, "work who=carl"), "carl 1")
    view = run_queries.flow(desk.tables, FLOW)
    assert (view.state, view.waiting) == ("Needs attention", 2)
    assert view.sentence.startswith("work who=ann: work is wrong: no such field.")
    assert view.sentence.endswith("1 more wait for a person.")
    desk.do(operator_actions.pause, FLOW)
    give(desk, "carl 2")
    assert begun(desk) == {}
    desk.do(operator_actions.resume, FLOW)
    assert begun(desk) == {"work who=ann": "ann 1", "work who=bob": "bob 1", "work who=carl": "carl 2"}
    with pytest.raises(TransitionError, match="nothing is to be done"):
        desk.do(operator_actions.resume, FLOW)
    desk.close()


def test_an_answer_goes_to_the_lane_that_asked(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1", "bob 1")
    begun(desk)
    for who in ("ann", "bob"):
        run = active(desk, f"work who={who}")
        desk.prepare(run, f"{who} 1", title="Pay", ask=True)
        desk.do(transitions.ask, run.id)
    assert begun(desk) == {}
    desk.do(operator_actions.approve, 2)
    found = desk.next()
    assert isinstance(found, transitions.Begun)
    assert (found.run.id, found.run.lane) == (2, "work who=bob")
    assert [view.id for view in run_queries.runs(desk.tables, waiting=True)] == [1]
    desk.close()


# --- order ----------------------------------------------------------------------------------------------------


def test_a_higher_priority_goes_first_and_equal_ones_in_the_order_they_came(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned(peek=2))
    give(desk, "ann 1", "ann 2")
    give(desk, "ann 3", "ann 4", priority=9)
    give(desk, "ann 5", priority=0)
    seen: list[str] = []
    for _ in range(5):
        found = desk.next()
        assert isinstance(found, transitions.Begun)
        seen.append(found.events[0].message)
        do(desk, found.run, found.events[0].message)
    assert seen == ["ann 3", "ann 4", "ann 1", "ann 2", "ann 5"]
    desk.close()


def test_what_has_begun_stays_first_whatever_comes_with_a_higher_priority(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1")
    run = desk.begin()
    desk.prepare(run, "ann 1")
    desk.fail(run, FailureKind.TRANSIENT)
    give(desk, *(f"ann {number}" for number in range(2, 9)), priority=9)
    desk.clock.advance(60 * SECOND)
    found = desk.next()
    assert isinstance(found, transitions.Begun)
    assert [event.message for event in found.events][:2] == ["ann 1", "ann 2"]
    desk.close()


def test_priorities_also_hold_without_lanes(kind: str, tmp_path: Path) -> None:
    desk = desk_of(
        kind,
        tmp_path,
        FlowSpec(name=FLOW, topics=("notes",), consumers=(ConsumerSpec(name="work", topics=("notes",)),)),
    )
    desk.idle(desk.begin())
    desk.publish("low", priority=1)
    desk.publish("usual")
    desk.publish("high", priority=9)
    found = desk.next()
    assert isinstance(found, transitions.Begun)
    assert [event.message for event in found.events] == ["high", "usual", "low"]
    desk.close()


# --- rates ----------------------------------------------------------------------------------------------------


def test_a_call_leaves_at_most_once_in_the_interval_of_the_rate_also_after_a_restart(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned(rate="2/s"))
    give(desk, "ann 1", "bob 1", "carl 1")
    lanes = begun(desk)
    assert len(lanes) == 3
    first, second, third = (active(desk, lane) for lane in lanes)
    for run, message in zip((first, second, third), lanes.values(), strict=True):
        desk.prepare(run, message)
    desk.leave(first)
    at = desk.clock.now_ms()
    found = desk.do(transitions.in_flight, second.id, "work.mutate", packed(None), desk.spec.consumer("work"))
    assert found == Later(at + 500)
    desk.clock.advance(499)
    found = desk.do(transitions.in_flight, second.id, "work.mutate", packed(None), desk.spec.consumer("work"))
    assert found == Later(at + 500)
    desk.reopen()
    desk.clock.advance(1)
    desk.leave(second)
    give(desk, "dora 1")
    idle = desk.next()
    assert isinstance(idle, IdleUntil)
    assert desk.do(transitions.peek, FLOW, desk.spec, desk.flags).until == at + 1000
    desk.clock.advance(500)
    assert list(begun(desk)) == ["work who=dora"]
    desk.close()


def test_a_clock_that_is_set_back_does_not_stop_the_calls(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned(rate="1/m"))
    give(desk, "ann 1")
    do(desk, desk.begin(), "ann 1")
    desk.clock.advance(-3600 * SECOND)
    give(desk, "ann 2")
    assert begun(desk) == {}
    desk.clock.advance(60 * SECOND)
    assert begun(desk) == {"work who=ann": "ann 2"}
    desk.close()


def test_a_lost_call_that_is_sent_again_counts_as_a_call(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned(rate="1/m", lost="same_call"))
    give(desk, "ann 1")
    run = desk.begin()
    desk.prepare(run, "ann 1")
    desk.leave(run)
    desk.lose(run, desk.clock.now_ms())
    found = desk.next()
    assert isinstance(found, IdleUntil)
    desk.clock.advance(60 * SECOND)
    assert isinstance(desk.next(), transitions.ReconcileCall)
    desk.close()


@pytest.mark.parametrize(
    ("rate", "interval"),
    [("50/s", 20_000), ("3/s", 333_334), ("1/m", 60_000_000), ("1000/s", 1000), ("500/d", 172_800_000)],
)
def test_rate_is_an_interval_between_two_calls(rate: str, interval: int) -> None:
    assert interval_of(rate, "work") == interval


@pytest.mark.parametrize("rate", ["x", "", "50", "50/", "/s", "0/s", "-1/s", "1.5/s", "5/w", "1001/s", 5, "\u0665/s"])
def test_rate_that_is_none_is_rejected(rate: object) -> None:
    with pytest.raises(DeclarationError, match=r"^HW110: work: rate="):
        interval_of(rate, "work")


# --- keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "key", "text"),
    [
        ({"who": "ann"}, "who", "ann"),
        ({"who": 7}, "who", "7"),
        ({"who": True}, "who", "true"),
        ({"to": {"city": "Rome"}}, "to.city", "Rome"),
        ({"to": {"city": None}}, "to.city", ""),
        ({"to": "Rome"}, "to.city", ""),
        ({}, "who", ""),
        ({"who": ["ann"]}, "who", ""),
        ("ann", "who", ""),
        ({"who": "a=b #1"}, "who", "a=b #1"),
    ],
)
def test_lane_is_the_text_of_a_field(payload: object, key: str, text: str) -> None:
    assert lane_text(packed(payload), key) == text
    assert within(f"work {key}={text}") == text


def test_lane_of_a_long_text_is_its_digest() -> None:
    long = lane_text(packed({"who": "x" * 201}), "who")
    assert len(long) == 32
    assert long != lane_text(packed({"who": "x" * 202}), "who")
    assert lane_text(packed({"who": "x" * 200}), "who") == "x" * 200


@pytest.mark.parametrize("key", ["", ".", "a.", "a..b", "a b", "a=b", 5, "a\nb"])
def test_key_that_names_no_field_is_rejected(key: object) -> None:
    with pytest.raises(DeclarationError, match=r"^HW110: work: key="):
        check_key(key, "work")


def test_another_key_moves_waiting_events_after_what_has_begun_is_finished(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    for number, (who, city) in enumerate([("ann", "Rome"), ("ann", "Oslo"), ("bob", "Rome")]):
        desk.publish(f"e{number}", payload={"who": who, "city": city})
    assert list(begun(desk)) == ["work who=ann", "work who=bob"]
    ann, bob = (active(desk, f"work who={who}") for who in ("ann", "bob"))
    desk.prepare(ann, "e0")
    desk.fail(ann, FailureKind.TRANSIENT)
    do(desk, bob, "e2")
    desk.deploy(laned("city"), "2")
    # Nothing else begins before what was unfinished is finished.
    assert begun(desk) == {}
    desk.clock.advance(60 * SECOND)
    assert begun(desk) == {"work who=ann": ""}
    desk.idle(active(desk, "work who=ann"))
    assert begun(desk) == {"work city=Rome": "e0", "work city=Oslo": "e1"}
    check_all(desk.tables)
    desk.close()


def test_a_workflow_gets_lanes_and_loses_them_again_without_overtaking(kind: str, tmp_path: Path) -> None:
    plain = FlowSpec(name=FLOW, topics=("notes",), consumers=(ConsumerSpec(name="work", topics=("notes",)),))
    desk = desk_of(kind, tmp_path, plain)
    desk.idle(desk.begin())
    give(desk, "ann 1", "bob 1")
    run = desk.begin()
    desk.prepare(run, "ann 1")
    desk.deploy(laned(), "2")
    # The run of the shared lane goes on; no lane begins beside it.
    assert begun(desk) == {}
    desk.act(run, "done")
    desk.commit(run)
    assert begun(desk) == {"work who=bob": "bob 1"}
    run = active(desk, "work who=bob")
    desk.deploy(plain, "3")
    assert begun(desk) == {}
    do(desk, run, "bob 1")
    give(desk, "carl 1")
    assert begun(desk) == {"": "carl 1"}
    check_all(desk.tables)
    desk.close()


# --- what is shown --------------------------------------------------------------------------------------------


def test_view_says_of_each_lane_why_it_waits(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned(at_once=1))
    give(desk, "ann 1", "ann 2", "bob 1")
    begun(desk)
    view = run_queries.flow(desk.tables, FLOW)
    assert view.handlers[0].when == "when something is published to notes; a lane for each who, at most 1 at once"
    assert [(lane.name, lane.state, lane.sentence, lane.pending) for lane in view.lanes] == [
        ("work who=ann", "Running", "work is at work.", 2),
        ("work who=bob", "Idle", "Waits: 1 of 1 lanes are at work.", 1),
    ]
    assert view.working == 1
    assert run_queries.runs(desk.tables)[0].lane == "work who=ann"
    desk.do(operator_actions.pause, FLOW)
    assert [lane.sentence for lane in run_queries.flow(desk.tables, FLOW).lanes][1:] == [
        "Waits: the workflow is paused."
    ]
    desk.close()


def test_a_lane_that_took_nothing_is_looked_at_again_when_something_of_it_comes(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1", "bob 1")
    begun(desk)
    desk.idle(active(desk, "work who=ann"))
    do(desk, active(desk, "work who=bob"), "bob 1")
    give(desk, "bob 2")
    assert begun(desk) == {"work who=bob": "bob 2"}
    give(desk, "ann 2")
    assert begun(desk) == {"work who=ann": "ann 1"}
    desk.close()


def test_a_lane_asks_to_be_woken_for_itself(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, "ann 1", "bob 1")
    begun(desk)
    at = desk.clock.now_ms() + 60 * SECOND
    desk.idle(active(desk, "work who=ann"), wake_at=at)
    desk.idle(active(desk, "work who=bob"))
    assert desk.do(transitions.peek, FLOW, desk.spec, desk.flags).until == at
    desk.clock.advance(60 * SECOND)
    assert begun(desk) == {"work who=ann": "ann 1"}
    check_all(desk.tables)
    desk.close()


def test_many_events_of_a_busy_lane_do_not_hide_those_of_others(kind: str, tmp_path: Path) -> None:
    desk = desk_of(kind, tmp_path, laned())
    give(desk, *(f"ann {number}" for number in range(600)), "bob 1", "carl 1")
    assert begun(desk) == {"work who=ann": "ann 0", "work who=bob": "bob 1", "work who=carl": "carl 1"}
    desk.close()
