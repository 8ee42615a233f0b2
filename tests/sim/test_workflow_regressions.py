"""Defects that worlds of workflows have found, as plans; and what such worlds can see."""

from __future__ import annotations

import msgspec

from headwater.workflow.workflow_limits import CRASHES
from sim.apart import play_all
from sim.faults import Clock, Eio, Full, Kill
from sim.flows.parts import ConsumerPart, FlowApp, FlowNode, FlowPart, Mood, Person, Publish, Restart
from sim.flows.source import source_of
from sim.kinds import make_plan
from sim.plan import Plan

FLOW = FlowPart(name="f0")
LATER = Person(at=8.0, flow="f0", verb="restore")
"""Is refused. The world lasts until then."""


def found(plan: Plan, seed: int = 1) -> list[str]:
    (outcome,) = play_all([(plan, seed)])
    return [f"{one.rule}: {one.text}" for one in outcome.violations]


def plan_of(*parts: ConsumerPart, **fields: object) -> Plan:
    return msgspec.structs.replace(
        Plan(kind="workflow", nodes=(FlowNode(),), app=FlowApp(parts=(FLOW, *parts))),
        **fields,
    )


def test_workflow_continues_after_a_full_disk_without_being_opened_again() -> None:
    """The end of the run could not be written: it stayed active without a thread."""
    plan = plan_of(
        ConsumerPart(flow="f0", name="c0", act_s=0.5),
        operations=(Publish(at=1.0, consumer="c0", id="e0"), LATER),
        faults=(Full(at=1.1, node="a", seconds=2.0),),
    )
    assert found(plan) == []


def test_drain_executes_what_the_last_run_has_published_for_another_workflow() -> None:
    """Only the workflow whose run was the last was looked at again."""
    flows = (FLOW, FlowPart(name="f1"))
    consumers = (
        ConsumerPart(flow="f0", name="c1", effect="none"),
        ConsumerPart(flow="f1", name="c0", effect="none", targets=("c1",)),
    )
    plan = plan_of(
        nodes=(FlowNode(drains=True),),
        app=FlowApp(parts=(*flows, *consumers)),
        operations=(Publish(at=1.0, consumer="c0", id="e0"),),
    )
    assert found(plan) == []


def test_retry_stays_near_if_a_new_version_is_deployed_after_the_clock_was_set_back() -> None:
    """The deployment wrote the workflow first, and with it the time by which the change of the clock is noticed."""
    plan = plan_of(
        ConsumerPart(flow="f0", name="c0"),
        operations=(
            Mood(handler="c0", phase="prepare", mode="transient", first=2),
            Publish(at=1.0, consumer="c0", id="e0"),
            Restart(at=2.0, revision=2, down_s=2.0),
            LATER,
        ),
        faults=(Clock(at=3.0, node="a", jump=-3600.0),),
    )
    assert found(plan) == []


def test_commits_after_a_failed_sync_and_a_new_opening_survive_a_power_failure() -> None:
    """The log had a hole, which only the memory of the system filled: everything behind it was lost."""
    plan = plan_of(
        ConsumerPart(flow="f0", name="c0", effect="none"),
        operations=tuple(Publish(at=at, consumer="c0", id=f"e{at:.0f}") for at in (1.0, 6.0, 12.0)),
        faults=(Eio(at=5.0, node="a", kind="sync", count=2), Kill(at=15.0, node="a", keep=0.0, down=0.1)),
    )
    assert found(plan) == []


def test_run_that_only_looks_may_delete_old_runs_at_rest() -> None:
    """The rule compared which run has consumed an event, also after the retention had deleted that run."""
    values = (-1, -1, 0, 0)  # the eighth run is the forced one, and runs are deleted at every fourth
    plan = plan_of(
        app=FlowApp(parts=(FlowPart(name="f0", keep_runs=0), ConsumerPart(flow="f0", name="c0", take="ready"))),
        operations=tuple(
            Publish(at=1.0 + number, consumer="c0", id=f"e{number}", value=value) for number, value in enumerate(values)
        ),
    )
    assert found(plan) == []


def test_answer_of_a_person_continues_work_that_has_crashed_too_often() -> None:
    """The rule knew of `resume`, and not of the report of an outcome that is unknown after the fifth crash."""
    plan = plan_of(
        ConsumerPart(flow="f0", name="c0", effect="blind"),
        operations=(
            Mood(handler="c0", phase="prepare", mode="dies", count=CRASHES - 1),
            Mood(handler="c0", phase="mutate", mode="dies after"),
            Publish(at=1.0, consumer="c0", id="e0"),
            Person(at=200.0, flow="f0", verb="restore"),
        ),
    )
    assert found(plan) == []


def test_retry_is_due_if_the_clock_was_set_back_while_no_process_was_open() -> None:
    """The rule took the first moment of the new process for the time before the change."""
    plan = plan_of(
        ConsumerPart(flow="f0", name="c0", prepare_s=2.0),
        operations=(Publish(at=1.0, consumer="c0", id="e0"), Restart(at=2.0, down_s=5.0)),
        faults=(Clock(at=5.0, node="a", jump=-700.0),),
    )
    assert found(plan) == []


def test_plan_is_made_again_by_its_repr() -> None:
    plan = make_plan("workflow", 3)
    names = {
        name: value for name, value in vars(__import__("sim.flows.parts", fromlist=["x"])).items() if name[0] != "_"
    }
    names |= vars(__import__("sim.faults", fromlist=["x"])) | vars(__import__("sim.plan", fromlist=["x"]))
    assert eval(repr(plan), names) == plan  # noqa: S307  # our own text


def test_program_without_a_workflow_has_nothing_of_it() -> None:
    app = FlowApp(parts=(FLOW, ConsumerPart(flow="f0", name="c0", targets=("c1",)), ConsumerPart(flow="f0", name="c1")))
    assert app.without(frozenset({0})).parts == ()
    assert "c1" not in source_of(app.without(frozenset({2})), 1)
