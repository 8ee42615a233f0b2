"""Found by `./hw sim` as storage:693237193: rule INV-5 did not hold.

Ctrl-C interrupted the decision of a commit that was stored. Its session was told so, and then that a full disk did not
allow to try it again. The session took it for undecided.

a1 5 was decided, and 3 before it was not
"""

from sim.apart import play
from sim.faults import Full
from sim.plan import Knobs, Plan
from sim.storage.workload import Act, Look, Step, Writer

PLAN = Plan(
    kind="storage",
    knobs=Knobs(pct=3, group_max=3, fold_after=2, checkpoint_pages=4),
    nodes=(
        Writer(name="a", resends=True, window=1),
        Writer(name="b", resends=True, window=3),
    ),
    operations=(
        Act(
            at=0.007,
            number=1,
            session="b",
            steps=(
                Step(how="remove", doc="d2", path=("l", 0)),
                Step(how="large", doc="d1"),
            ),
            waits=True,
            interrupt=30,
        ),
        Act(
            at=0.007,
            number=2,
            session="b",
            steps=(
                Step(how="insert", doc="d1", path=("l", 1)),
                Step(how="remove", doc="d0", path=("m", "k0")),
                Step(how="insert", doc="d2", path=("l", 1)),
            ),
            looks=(Look(doc="d2", path=("m",), lag=1),),
            waits=True,
        ),
        Act(
            at=0.011,
            number=3,
            session="a",
            steps=(Step(how="add", doc="d2", path=("m", "k0")),),
            looks=(Look(doc="d1", path=("m", "k0"), shallow=True, lag=10),),
            rides="adds",
        ),
        Act(
            at=0.017,
            number=4,
            session="b",
            steps=(Step(how="add", doc="d0", path=("m", "k2")),),
            interrupt=188,
        ),
        Act(
            at=0.027,
            number=9,
            session="b",
            steps=(Step(how="insert", doc="d1", path=("l", 0)),),
            branch="b1",
            interrupt=6,
        ),
        Act(
            at=0.029,
            number=10,
            session="a",
            steps=(
                Step(how="insert", doc="d1", path=("l", 1)),
                Step(how="remove", doc="d2", path=("m", "k1")),
            ),
        ),
        Act(
            at=0.031,
            number=11,
            session="a",
            steps=(
                Step(how="insert", doc="d1", path=("l", 0)),
                Step(how="add", doc="d2", path=("m", "k2")),
            ),
            looks=(Look(doc="d1", path=("n",), lag=30),),
            interrupt=137,
        ),
        Act(
            at=0.034,
            number=12,
            session="b",
            steps=(Step(how="add", doc="d1", path=("m", "k1")),),
            same="d1",
            interrupt=250,
        ),
        Act(
            at=0.055,
            number=21,
            session="a",
            steps=(Step(how="add", doc="d0", path=("m", "k2")),),
            looks=(Look(doc="d2", path=("l",)), Look(doc="d1", path=("l",), lag=3)),
        ),
        Act(
            at=0.058,
            number=22,
            session="b",
            steps=(
                Step(how="add", doc="d0", path=("m", "k0")),
                Step(how="add", doc="d2", path=("m", "k0")),
            ),
            looks=(Look(doc="d2", lag=3), Look(doc="d1", path=("m", "k1"))),
            waits=True,
        ),
        Act(
            at=0.076,
            number=23,
            session="a",
            steps=(Step(how="add", doc="d1", path=("m", "k1")),),
            origin=2,
            waits=True,
        ),
        Act(
            at=0.076,
            number=24,
            session="b",
            steps=(
                Step(how="add", doc="d2", path=("m", "k0")),
                Step(how="remove", doc="d1", path=("m", "k1")),
                Step(how="set", doc="r0"),
            ),
            looks=(Look(doc="d0", path=("n",), lag=1),),
            absent="r0",
        ),
    ),
    faults=(
        Full(at=0.012, node="s", seconds=3.544, room=100),
        Full(at=0.034, node="s", seconds=6.773, room=5000),
    ),
)


def test_verdict_holds_although_the_disk_is_full_when_it_is_told_again() -> None:
    assert play(PLAN, seed=693237193).violations == ()
