"""Found by `./hw sim` as spaces:25: rule I4 did not hold.

The same as spaces:3, with a ring of two spaces, and a third one that asks.

f1() is 0, and 1 by what is written
"""

from sim.apart import play
from sim.plan import Plan
from sim.spaces.parts import Function, Functions, Spaces, Step

PLAN = Plan(
    kind="spaces",
    features=("delays",),
    nodes=(Spaces(count=4, together=False, patient=True),),
    app=Functions(
        parts=(
            Function(name="f0", space=0, cells=((1, 1),), is_shown=True, is_delayed=True),
            Function(
                name="f1",
                space=1,
                cells=((0, 2), (2, 2), (3, 1)),
                calls=("f0",),
                modulus=3,
                is_shown=True,
            ),
        )
    ),
    operations=(
        Step(kind="pass", space=3, number=3, value=2, gap=0.5),
        Step(kind="write", space=1, number=5, value=4, gap=0.5),
        Step(kind="ask", space=2, number=1),
    ),
)


def test_spaces_25_violates_no_rule() -> None:
    assert play(PLAN, seed=25).violations == ()
