"""Found by `./hw sim` as spaces:15: rule T did not hold.

`hw.together` closed one space while a delayed function of another one, which reads it, was due: that ran afterwards.

reported: NotOpen: HW150: show_f1() in space 's0' raised NotOpen
"""

from sim.apart import play
from sim.plan import Plan
from sim.spaces.parts import Function, Functions, Spaces, Step

PLAN = Plan(
    kind="spaces",
    features=("delays",),
    nodes=(Spaces(count=2),),
    app=Functions(
        parts=(
            Function(
                name="f0",
                space=1,
                cells=((0, 0),),
                is_guarded=True,
                modulus=3,
                is_shown=True,
            ),
            Function(
                name="f1",
                space=0,
                cells=((1, 1),),
                calls=("f0",),
                modulus=3,
                is_shown=True,
                is_delayed=True,
            ),
        )
    ),
    operations=(
        Step(kind="write", to=1, number=4, value=1),
        Step(kind="alone", space=1, number=2, value=2, gap=0.5),
    ),
)


def test_spaces_15_violates_no_rule() -> None:
    assert play(PLAN, seed=15).violations == ()
