"""Found by `./hw sim` as storage:693198326: rule V did not hold.

A commit was rejected, the next one of its group was accepted, and the table transaction of the third one broke. So the
engine was started again, and told the accepted commit before the rejected one. The rule took the order in which
commits were told for the order in which they were decided.

d2 1 was rejected at 1 without a reason: cannot remove m/k1: the document does not exist; add or set it first
"""

from sim.apart import play
from sim.plan import Plan
from sim.storage.workload import Act, Look, Step, Writer

PLAN = Plan(
    kind="storage",
    nodes=(Writer(name="a", resends=False), Writer(name="d", resends=False, window=3)),
    operations=(
        Act(
            at=0.0,
            number=1,
            session="d",
            steps=(
                Step(how="remove", doc="d1", path=("m", "k1")),
                Step(how="large", doc="d1"),
            ),
            looks=(Look(doc="d0", path=("m",), shallow=True, lag=3),),
        ),
        Act(
            at=0.0,
            number=6,
            session="a",
            steps=(Step(how="set", doc="d1"),),
            looks=(Look(doc="d1", path=("l", 0), lag=1),),
            origin=1,
        ),
        Act(
            at=0.0,
            number=8,
            session="a",
            steps=(
                Step(how="replace", doc="d1", path=("l", 0)),
                Step(how="append", doc="d0", path=("l",)),
                Step(how="replace", doc="d2", path=("m", "k1")),
            ),
            looks=(
                Look(doc="d2", path=("l", 0), lag=1),
                Look(doc="d1", path=("l", 0), lag=10),
            ),
            rides="breaks",
        ),
    ),
)


def test_a_commit_may_be_rejected_before_one_that_was_told_earlier() -> None:
    assert play(PLAN, seed=693198326).violations == ()
