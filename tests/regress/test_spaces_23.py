"""Found by `./hw sim` as spaces:23: rule I3 did not hold.

The world was wrong: its functions used the table in which their runs are counted, so that none of them was restored
when one space was closed and opened again. With that, exact numbers of runs hold across openings of single spaces.

f0 ran 1 times, due: False
"""

from sim.apart import play
from sim.plan import Plan
from sim.spaces.parts import Function, Functions, Spaces, Step

PLAN = Plan(
    kind="spaces",
    nodes=(Spaces(count=2),),
    app=Functions(
        parts=(
            Function(
                name="f0",
                space=0,
                cells=((0, 1), (1, 0), (1, 2)),
                modulus=3,
                is_shown=True,
            ),
            Function(name="f1", space=0, cells=((1, 2),), calls=("f0",), modulus=3),
            Function(
                name="f2",
                space=0,
                cells=((0, 2),),
                calls=("f0", "f1"),
                modulus=3,
                is_shown=True,
            ),
        )
    ),
    operations=(
        Step(kind="block", space=1, number=3, value=2, gap=0.05),
        Step(kind="block", space=1, number=4, value=2, gap=0.05),
        Step(kind="reopen", to=1, number=5, value=3),
    ),
)


def test_spaces_23_violates_no_rule() -> None:
    assert play(PLAN, seed=23).violations == ()
