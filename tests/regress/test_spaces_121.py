"""Found by `./hw sim` as spaces:121: rule V did not hold.

The end of a pass was told to another space, which handled an event at once. What that changed was read in the space of
the pass, which had looked for changes already, and was not given another turn.

after a step the sinks show {'f5': 24, 'f3': 0, 'f4': 0}, and {'f3': 0, 'f4': 0, 'f5': 26} follows from the cells
"""

from sim.apart import play
from sim.faults import KillInIo, SlowDisk
from sim.plan import Knobs, Plan
from sim.spaces.parts import Function, Functions, Spaces, Step

PLAN = Plan(
    kind="spaces",
    knobs=Knobs(switch=0.02, pct=2, group_max=3, window=8, cache=0),
    nodes=(Spaces(count=3, together=False),),
    app=Functions(
        parts=(
            Function(name="f0", space=1, cells=((0, 2),)),
            Function(name="f1", space=2, cells=((1, 2),), modulus=2),
            Function(name="f2", space=0, cells=((1, 1), (2, 1), (0, 2)), modulus=2),
            Function(
                name="f3",
                space=0,
                cells=((2, 1), (1, 1)),
                calls=("f2",),
                modulus=2,
                is_shown=True,
            ),
            Function(
                name="f4",
                space=0,
                cells=((0, 1), (2, 0), (1, 0)),
                modulus=2,
                is_shown=True,
            ),
            Function(name="f5", space=2, cells=((1, 2), (0, 2), (1, 1)), is_shown=True),
        )
    ),
    operations=(
        Step(kind="write", space=2, number=1, value=2, gap=0.05),
        Step(kind="restart", space=1, number=4, value=2, gap=0.5),
        Step(kind="deal", space=2, to=1, number=5, gap=0.5),
        Step(kind="block", space=1, to=2, number=3),
        Step(kind="write", space=2, to=1, number=10, value=4, gap=0.5),
        Step(kind="ask", to=2, number=5, value=2, gap=0.5),
        Step(kind="write", space=2, to=1, value=2, gap=0.001),
        Step(kind="call", space=1, to=2, value=1),
        Step(kind="reopen", space=1, to=2, number=4, value=1),
        Step(kind="aside", space=1, number=3, gap=0.05),
        Step(kind="write", space=2, number=5, value=2, gap=0.001),
        Step(kind="restart", to=2, number=3, value=3),
        Step(kind="deal", to=1, number=6, value=3, gap=0.5),
        Step(kind="ask", to=1, number=7, value=2, gap=0.05),
        Step(kind="aside", to=2, number=11),
        Step(kind="ask", space=1, to=2, number=2, value=2, gap=0.5),
        Step(kind="call", to=2, number=9, value=4, gap=0.001),
        Step(kind="write", space=1, to=2, number=5, value=2, gap=0.5),
        Step(kind="pass", space=2, to=1, number=1, gap=0.5),
        Step(kind="pass", space=2, number=4, value=4, gap=0.5),
        Step(kind="call", to=1, number=8, value=2),
        Step(kind="block", to=1, number=4, value=3, gap=0.001),
        Step(kind="ask", space=1, number=8, gap=0.05),
        Step(kind="block", to=1, number=10, gap=0.5),
        Step(kind="write", space=2, number=11, value=3, gap=0.05),
        Step(kind="deal", to=1, number=2, value=3, gap=0.05),
        Step(kind="ask", space=2, number=8, gap=0.5),
        Step(kind="ask", space=1, number=10, value=1),
        Step(kind="call", to=2, number=3, value=3),
        Step(kind="block", to=2, number=6, value=3, gap=0.5),
        Step(kind="block", to=1, number=7, value=3),
        Step(kind="deal", space=2, number=2),
        Step(kind="block", to=2, number=9),
        Step(kind="deal", space=2, to=1, number=7, value=2),
        Step(kind="ask", space=2, to=1, number=9, value=2),
        Step(kind="block", space=1, to=2, number=11, value=1),
    ),
    faults=(
        SlowDisk(at=5.154, node="p", seconds=9.469, sync_ms=1.157),
        KillInIo(at=5.306, node="p", kind="write", nth=15, after=False, keep=1.0, down=1.259),
    ),
)


def test_spaces_121_violates_no_rule() -> None:
    assert play(PLAN, seed=121).violations == ()
