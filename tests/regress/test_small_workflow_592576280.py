"""Found by `./hw sim` as small-workflow:592576280: rule W9 did not hold.

A run was set aside after its effect, with two events. A person skipped one of their inputs, and had the rest tried
again: `next` gets the plan as it was carried out. The rule counted the consumed events only.

1 events are consumed, and `next` has counted 2
"""

from sim.apart import play
from sim.flows.parts import (
    ConsumerPart,
    FlowApp,
    FlowNode,
    FlowPart,
    Mood,
    Person,
    Publish,
)
from sim.plan import Knobs, Plan

PLAN = Plan(
    kind="workflow",
    features=(
        "call",
        "park",
        "ready",
        "short limits",
        "failures",
        "people",
        "pauses",
        "answers",
        "restarts",
        "drains",
        "faults",
        "clock",
    ),
    knobs=Knobs(switch=0.02),
    nodes=(FlowNode(concurrency=1),),
    app=FlowApp(
        parts=(
            FlowPart(name="f0", on_poison="park"),
            ConsumerPart(flow="f0", name="c0", peek=2, next_s=0.005),
        )
    ),
    operations=(
        Mood(handler="c0", phase="prepare", mode="denied", first=2, seconds=3.0),
        Mood(handler="c0", phase="next", mode="transient", seconds=0.2),
        Mood(handler="c0", phase="next", mode="logic", first=2, seconds=3.0),
        Publish(at=2.187, consumer="c0", id="e2", value=2),
        Publish(at=3.011, consumer="c0", id="e3", value=3, in_tx=True),
        Person(at=25.306, flow="f0", verb="skip"),
        Person(at=5.482, flow="f0", verb="resume"),
    ),
)


def test_next_of_a_run_that_was_set_aside_gets_its_whole_plan_although_one_of_its_inputs_was_skipped() -> None:
    assert play(PLAN, seed=592576280).violations == ()
