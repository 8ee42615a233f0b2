"""Found by `./hw sim` as small-spaces:46: closing never waited, and never ended.

A space was closed while another one sent to it. Its events had been left to the next opening already, and it still took
one more: that was never answered. The sender asked again and again, without a pause, for as long as a close may take.
"""

from sim.apart import play
from sim.plan import Plan
from sim.spaces.parts import Function, Functions, Spaces, Step

PLAN = Plan(
    kind="spaces",
    features=("delays",),
    nodes=(Spaces(count=2, patient=True),),
    app=Functions(parts=(Function(name="f0", space=0, cells=((1, 2), (0, 1)), is_shown=True),)),
    operations=(
        Step(kind="deal", to=1, number=2, value=3),
        Step(kind="alone", space=1, number=4),
    ),
)


def test_small_spaces_46_violates_no_rule() -> None:
    assert play(PLAN, seed=46).violations == ()
