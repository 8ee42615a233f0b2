"""Found by `./hw sim` as program:85: rule L2 did not hold.

A transaction that had started a piece ended while a pass of another thread had the lock. The thread left the piece to
that pass and asked for another one, and the pass cleared the request at its end without a look at the pieces.

work on pieces is left, and no pass is asked for
"""

import pytest

from sim.apart import play
from sim.apps import parts as p
from sim.plan import Plan
from sim.program.operations import Block, Lane, Program, Together, Write


def _plan(*, loop: bool, gives_up: bool) -> Plan:
    block = Block(tag="x1", steps=(p.Start("p1", "k", p.Const(1)),), hold=0.01, gives_up=gives_up)
    slow = Write(gap=0.005, step=p.Put("i1", p.Const(2)))
    return Plan(
        kind="program",
        nodes=(Program(loop=loop),),
        app=p.App(
            parts=(
                p.IntCell("i1"),
                p.Pattern("p1", p.Const(1)),
                p.Computed("c1", p.Read("i1"), eager=True, slow=20),
            )
        ),
        operations=(
            Write(step=p.Put("i1", p.Const(1))),
            Together(gap=0.1, lanes=(Lane(operations=(slow,)), Lane(operations=(block,)))),
        ),
    )


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("gives_up", [False, True])
def test_work_on_pieces_that_a_thread_leaves_to_a_pass_is_done_by_it(*, loop: bool, gives_up: bool) -> None:
    assert play(_plan(loop=loop, gives_up=gives_up), seed=1).violations == ()
