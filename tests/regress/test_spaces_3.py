"""Found by `./hw sim` as spaces:3: rule I4 did not hold.

An event called a function of another space, whose own space had a result of a delayed function that was due: the time
had come, and that space had not looked at its clock since. The call took the last result.

f5() is 0, and 1 by what is written
"""

from sim.apart import play
from sim.plan import Plan
from sim.spaces.parts import Function, Functions, Spaces, Step

PLAN = Plan(
    kind="spaces",
    features=("delays",),
    nodes=(Spaces(count=3),),
    app=Functions(
        parts=(
            Function(
                name="f0",
                space=1,
                cells=((0, 1), (2, 2), (0, 2)),
                modulus=2,
                is_shown=True,
            ),
            Function(
                name="f1",
                space=0,
                cells=((0, 0),),
                calls=("f0",),
                modulus=2,
                is_shown=True,
            ),
            Function(
                name="f2",
                space=0,
                cells=((2, 1), (1, 0)),
                calls=("f0",),
                modulus=2,
                is_delayed=True,
            ),
            Function(name="f3", space=0, cells=((1, 1), (2, 1)), calls=("f0",)),
            Function(
                name="f4",
                space=2,
                cells=((1, 1),),
                calls=("f1",),
                modulus=2,
                is_shown=True,
            ),
            Function(
                name="f5",
                space=0,
                cells=((0, 1), (2, 1)),
                calls=("f2", "f4"),
                modulus=2,
                is_shown=True,
            ),
        )
    ),
    operations=(
        Step(kind="alone", to=1, number=1, value=1, gap=0.05),
        Step(kind="ask", space=1, number=5, value=3),
    ),
)


def test_spaces_3_violates_no_rule() -> None:
    assert play(PLAN, seed=3).violations == ()
