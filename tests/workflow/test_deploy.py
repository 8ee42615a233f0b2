"""A program's workflow meets what is kept of it: what is refused, what is kept, and what goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headwater.errors import DeclarationError, TransitionError
from headwater.workflow import operator_actions, repairs, transitions
from headwater.workflow.deployment import check
from headwater.workflow.planner import IdleUntil
from headwater.workflow.rows import EventStatus, FailureKind, RunCause, RunPhase, RunStatus
from headwater.workflow.schedule import Every
from headwater.workflow.transitions import Begun
from headwater.workflow.workflow_spec import ConsumerSpec, FlowSpec, ProducerSpec
from tests.support.flows import FLOW, MINUTE_MS, POLLING, Desk, flow_spec, packed

# --- what could never work ------------------------------------------------------------------------------------


def spec_of(topics: tuple[str, ...], **consumers: tuple[str, ...]) -> FlowSpec:
    made = tuple(ConsumerSpec(name=name, topics=consumed) for name, consumed in consumers.items())
    return FlowSpec(name=FLOW, topics=topics, consumers=made)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (spec_of(()), "neither a producer nor a consumer"),
        (spec_of(("notes",), work=("letters",)), r"work consumes letters, which is no topic.*flow\.topic\('letters'"),
        (spec_of(("notes",), work=("notes",), mail=("notes",)), "consumed by work and by mail"),
        (spec_of(("notes", "letters"), work=("notes",)), "no consumer takes topic letters"),
    ],
)
def test_what_could_never_work_is_refused(spec: FlowSpec, said: str) -> None:
    with pytest.raises(DeclarationError, match=said) as refused:
        check(spec)
    assert refused.value.facts["flow"] == FLOW


def test_a_workflow_of_producers_alone_is_taken() -> None:
    check(FlowSpec(name=FLOW, producers=(ProducerSpec(name="poll"),)))
    check(flow_spec())
    check(POLLING)


# --- the first time -------------------------------------------------------------------------------------------


def test_everything_is_due_when_a_workflow_is_deployed_for_the_first_time(tmp_path: Path) -> None:
    desk = Desk("memory", tmp_path)
    deployed = desk.deploy(POLLING)
    assert (deployed.is_new, deployed.flow.version, deployed.code) == (True, 1, None)
    assert (deployed.flags.fresh, deployed.flags.dirty) == ({"work"}, {"work"})
    assert desk.handler("poll", "producer").next_run_at == desk.clock.now_ms()
    first = desk.begin()
    assert (first.handler, first.why, first.offered) == ("work", RunCause.DEPLOY, 0)
    desk.idle(first)
    second = desk.begin()
    assert (second.handler, second.why) == ("poll", RunCause.SCHEDULE)
    desk.produce(second)
    assert desk.next() == IdleUntil(desk.clock.now_ms() + 5 * MINUTE_MS)


def test_what_the_program_declares_is_kept_with_its_version(desk: Desk) -> None:
    [[kept, why]] = desk.tables.execute("select config, why from flow_version")
    assert msgspec.msgpack.decode(kept, type=FlowSpec) == desk.spec
    assert why == "deployed"


def test_the_same_program_again_is_no_new_version(desk: Desk) -> None:
    desk.publish("a")
    desk.idle(desk.begin())
    before = desk.rows()
    deployed = desk.deploy(desk.spec)
    assert (deployed.is_new, deployed.flags.fresh) == (False, set())
    assert deployed.flags.dirty == {"work"}, "after a restart, those look who have something to look at"
    assert desk.rows() == before


# --- another version ------------------------------------------------------------------------------------------


def test_another_version_keeps_everything_that_waits_and_all_that_was_remembered(desk: Desk) -> None:
    desk.deploy(POLLING, "2")
    desk.idle(desk.begin())
    desk.produce(desk.begin(), state=packed("cursor"))
    desk.consume("a", state=packed("seen a"))
    desk.publish("b", "c")
    desk.idle(desk.begin(), wake_at=desk.clock.now_ms() + MINUTE_MS)
    kept = {table: rows for table, rows in desk.rows().items() if table not in ("flow", "flow_version", "flow_handler")}
    deployed = desk.deploy(POLLING, "3")
    assert (deployed.is_new, deployed.flow.version) == (True, 3)
    now = desk.rows()
    assert {table: now[table] for table in kept} == kept
    work, poll = desk.handler(), desk.handler("poll", "producer")
    assert (work.state, work.wake_at) == (packed("seen a"), desk.clock.now_ms() + MINUTE_MS)
    assert poll.state == packed("cursor")
    run = desk.begin()
    assert (run.version, run.offered, run.why) == (3, 2, RunCause.EVENT)


def test_another_version_makes_everything_due(desk: Desk) -> None:
    desk.deploy(POLLING, "2")
    desk.idle(desk.begin())
    desk.produce(desk.begin())
    desk.clock.advance(1000)
    desk.deploy(POLLING, "3")
    assert desk.handler("poll", "producer").next_run_at == desk.clock.now_ms()
    assert [desk.idle(desk.begin()).handler, desk.produce(desk.begin()).handler] == ["work", "poll"]


def test_a_run_is_pinned_to_the_version_that_it_was_begun_with(desk: Desk) -> None:
    """L10: and its successor says which one finished it."""
    desk.publish("a")
    run = desk.begin()
    desk.deploy(desk.spec, "2")
    assert desk.run(run).version == 1
    desk.fail(run, FailureKind.STOPPED)
    assert desk.begin().version == 2


def test_handlers_and_topics_may_come_and_those_without_work_may_go(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers={"work": ("notes",), "mail": ("letters",)}, producers={"poll": None}), "2")
    desk.publish("a", topic="letters")
    desk.flags.fresh.clear()
    run = desk.begin()
    assert run.handler == "mail"
    event = desk.event("a", "letters")
    desk.do(transitions.prepared, run.id, transitions.Prepared(events=(event,), result=packed(1)), desk.spec)
    desk.do(transitions.consumed, run.id, packed("mail state"), desk.spec)
    desk.deploy(flow_spec(), "3")
    assert [row.name for row in desk.tables.handlers(desk.flow.id)] == ["work"]
    assert desk.handler("poll", "producer").gone and desk.handler("poll", "producer").next_run_at is None
    desk.deploy(flow_spec(consumers={"work": ("notes",), "mail": ("letters",)}), "4")
    back = desk.handler("mail")
    assert (back.gone, back.state) == (0, packed("mail state")), "what is brought back remembers"


def test_a_time_that_a_removed_consumer_asked_for_is_forgotten(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers={"work": ("notes",), "mail": ("letters",)}), "2")
    desk.tables.execute("update flow_handler set wake_at = 5")
    desk.deploy(flow_spec(), "3")
    assert desk.handler("mail").wake_at is None


# --- what would be lost ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["pending", "parked"])
def test_events_that_nobody_would_consume_are_not_lost_silently(desk: Desk, status: str) -> None:
    """L14."""
    desk.publish("a", "b")
    desk.tables.execute("update flow_event set status = ?", status)
    other = flow_spec(consumers={"mail": ("letters",)})
    before = desk.rows()
    with pytest.raises(TransitionError, match=r"2 events of topic notes.*force=True"):
        desk.deploy(other, "2")
    assert desk.rows() == before
    desk.deploy(other, "2", force=True)
    assert desk.events() == dict.fromkeys("ab", EventStatus.SKIPPED)
    topic = desk.tables.topics(desk.flow.id)["notes"]
    assert (topic.pending, topic.parked) == (0, 0)
    desk.deploy(other, "3")


def test_a_topic_may_change_its_consumer(desk: Desk) -> None:
    desk.publish("a")
    desk.deploy(flow_spec(consumers={"other": ("notes",)}), "2")
    assert desk.begin().handler == "other"


def test_a_chain_that_nobody_could_finish_is_not_lost_silently(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run)
    desk.fail(run)
    other = flow_spec(consumers={"other": ("notes",)})
    before = desk.rows()
    with pytest.raises(TransitionError, match=f"run {run.id} of work is not finished"):
        desk.deploy(other, "2")
    assert desk.rows() == before
    desk.deploy(other, "2", force=True)
    flow = desk.flow
    assert (flow.head, flow.retry_at, flow.block) == (None, None, None)
    assert desk.run(run).cancelled == 1
    assert desk.events() == {"a": EventStatus.SKIPPED}
    assert desk.taken(run) == {"a": "skipped"}
    assert desk.begin().handler == "other"


def test_what_was_not_known_when_a_handler_was_removed_is_given_up_with_it(desk: Desk) -> None:
    desk.doubt("a")
    other = flow_spec(consumers={"other": ("notes",)})
    with pytest.raises(TransitionError, match="not finished"):
        desk.deploy(other, "2")
    desk.deploy(other, "2", force=True)
    assert (desk.flow.head, desk.flow.block) == (None, None)
    assert isinstance(desk.next(), Begun)


# --- what it was waiting for ----------------------------------------------------------------------------------


def test_a_new_version_is_what_wrong_code_was_waiting_for(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, FailureKind.LOGIC, "no such field")
    desk.deploy(desk.spec)
    assert desk.flow.block_kind == "logic", "the same version is no other"
    desk.deploy(desk.spec, "2")
    assert (desk.flow.block, desk.flow.failures) == (None, 0)
    again = desk.begin()
    assert (again.retry_of, again.version) == (run.id, 2)


def test_a_new_version_goes_on_at_next_after_the_effect(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    desk.act(run, "sent")
    desk.fail(run, FailureKind.LOGIC, "no such field")
    desk.deploy(desk.spec, "2")
    again = desk.begin()
    assert (again.phase, again.mutation_result, again.version) == (RunPhase.MUTATED, packed("sent"), 2)


@pytest.mark.parametrize("kind", ["crashes", "exhausted"])
def test_a_new_version_is_tried_after_failures_without_end(desk: Desk, kind: str) -> None:
    desk.publish("a")
    desk.fail(desk.begin())
    desk.tables.execute("update flow set block = 'x', block_kind = ?, retry_at = null, failures = 9", kind)
    desk.deploy(desk.spec, "2")
    assert (desk.flow.failures, desk.begin().why) == (0, RunCause.RETRY)


@pytest.mark.parametrize("kind", [FailureKind.AUTH, FailureKind.PERMISSION, FailureKind.INTERNAL])
def test_a_new_version_does_not_sign_in_for_anybody(desk: Desk, kind: FailureKind) -> None:
    desk.publish("a")
    desk.fail(desk.begin(), kind)
    desk.deploy(desk.spec, "2")
    assert (desk.flow.block_kind, desk.next()) == (kind.value, IdleUntil())


def test_a_new_version_approves_nothing_and_knows_nothing_of_a_call(desk: Desk) -> None:
    asked = desk.ask("a")
    desk.deploy(desk.spec, "2")
    assert (desk.flow.block_kind, desk.next()) == ("ask", IdleUntil())
    desk.do(operator_actions.reject, asked.id)
    desk.commit(desk.begin())
    desk.doubt("b")
    desk.deploy(desk.spec, "3")
    assert (desk.flow.block_kind, desk.next()) == ("indeterminate", IdleUntil())
    assert desk.runs()[-1].status == RunStatus.RECONCILIATION


def test_a_new_version_takes_the_place_of_a_repair_that_is_under_way(desk: Desk) -> None:
    desk.deploy(flow_spec(has_fixer=True), "2")
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, FailureKind.LOGIC)
    assert desk.flow.repairing
    desk.deploy(flow_spec(has_fixer=True), "3")
    assert desk.flow.repairing == 0
    assert desk.begin().retry_of == run.id
    with pytest.raises(TransitionError):
        desk.do(repairs.repaired, run.id, "work", "late")


def test_what_a_program_has_repaired_stays_until_the_program_itself_is_another(desk: Desk) -> None:
    spec = flow_spec(has_fixer=True)
    desk.deploy(spec, "2")
    desk.publish("a")
    run = desk.begin()
    desk.fail(run, FailureKind.LOGIC)
    desk.do(repairs.repaired, run.id, "work", "def work(): ...")
    again = desk.deploy(spec, "2")
    assert (again.is_new, again.flow.version) == (False, 3)
    assert again.code is not None
    assert msgspec.msgpack.decode(again.code) == {"work": "def work(): ..."}
    other = desk.deploy(spec, "3")
    assert (other.is_new, other.code, other.flow.version) == (True, None, 4)


def test_a_paused_workflow_stays_paused(desk: Desk) -> None:
    desk.do(operator_actions.pause, FLOW)
    desk.deploy(flow_spec(producers={"poll": Every(MINUTE_MS)}), "2")
    assert desk.next() == IdleUntil()
