"""Found by `./hw sim` as small-workflow:693195182: rule W11 did not hold.

A person resumed a workflow in a process that was suspended. The world looked for work before that action had begun, and
ended before the workflow had done it.

p1 has not published item 1, which was there in time
"""

from sim.apart import play
from sim.faults import Pause
from sim.flows.parts import (
    ConsumerPart,
    FlowApp,
    FlowNode,
    FlowPart,
    Mood,
    Person,
    ProducerPart,
    Publish,
)
from sim.plan import Plan

PLAN = Plan(
    kind="workflow",
    features=(
        "ask",
        "park",
        "ready",
        "producers",
        "failures",
        "refusals",
        "unknown",
        "deaths",
        "away",
        "pauses",
        "slow",
        "crash loop",
        "faults",
        "clock",
    ),
    nodes=(FlowNode(watched=False),),
    app=FlowApp(
        parts=(
            FlowPart(name="f0"),
            ConsumerPart(flow="f0", name="c0", peek=1, tries=0, act_s=2.0, next_s=0.3),
            ProducerPart(
                flow="f0",
                name="p1",
                target="c0",
                every_s=300,
                cron="*/2 * * * *",
                items=(0.16, 0.357, 4.947, 6.987),
            ),
        )
    ),
    operations=(
        Mood(handler="p1", phase="produce", mode="slow", count=4, seconds=0.2),
        Publish(at=0.099, consumer="c0", id="e0", in_tx=True),
        Publish(at=0.099, consumer="c0", id="e1", value=1),
        Person(at=6.841, flow="f0", verb="pause", handler="c0", phase="next", nth=2),
        Person(at=26.841, flow="f0", verb="resume"),
    ),
    faults=(Pause(at=7.427, node="a", seconds=35.56),),
)


def test_a_world_ends_after_the_action_of_a_person_that_a_suspended_process_has_delayed() -> None:
    assert play(PLAN, seed=693195182).violations == ()
