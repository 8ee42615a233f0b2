"""Found by `./hw sim` as shared:693244448: rule INV-9 did not hold.

A server was put back to an older state, and a client noticed it. Before its program opened the space again, the server
had as many commits as were seen before. So the session was resumed from the local folder, with documents of both
histories.

c has space/shared.chain confirmed as [1000201, 1020100, 1020700, 1021900], the log says [1000201, 1021900]
"""

from sim.apart import play
from sim.faults import Cut
from sim.plan import Knobs, Plan
from sim.shared.workload import Act, ClientNode, Reopen, ServerNode, Upkeep

PLAN = Plan(
    kind="shared",
    features=("local", "once", "reopen", "failing", "contention", "put back"),
    knobs=Knobs(
        switch=0.5,
        pct=3,
        group_max=3,
        window=1,
        fold_after=2,
        cache=0,
        checkpoint_pages=4,
        out_bytes=8000,
    ),
    nodes=(
        ServerNode(),
        ClientNode(name="a", local=True),
        ClientNode(name="b", local=True),
        ClientNode(name="c", local=True),
        ClientNode(name="d", local=True),
    ),
    operations=(
        Act(at=0.01, node="b", number=0, steps=(("append", "1"),), settles=False),
        Act(at=0.01, node="a", number=1, steps=(("pair",),)),
        Act(
            at=0.011,
            node="a",
            number=2,
            steps=(("append", "0"), ("chain",), ("append", "2")),
            settles=False,
        ),
        Upkeep(at=0.714),
        Act(
            at=0.833525683638379,
            node="b",
            number=210,
            steps=(("put", "1", "a"), ("append", "1")),
            settles=False,
        ),
        Act(
            at=0.8393504082251366,
            node="d",
            number=205,
            steps=(("reg", "0"), ("append", "0")),
        ),
        Act(at=0.8551329222094954, node="b", number=212, steps=(("append", "1"),)),
        Act(at=0.864055987954074, node="a", number=201, steps=(("chain",),)),
        Act(at=0.9204156899507299, node="d", number=207, steps=(("chain",),)),
        Act(
            at=0.9208709788954925,
            node="a",
            number=211,
            steps=(("put", "1", "a"), ("append", "1")),
            settles=False,
        ),
        Act(at=0.9299558065992555, node="d", number=204, steps=(("chain",),)),
        Act(at=0.9644072494961408, node="d", number=208, steps=(("append", "0"),)),
        Act(
            at=0.9803328703156654,
            node="d",
            number=209,
            steps=(("reg", "1"), ("append", "1")),
        ),
        Act(at=0.9812710568917042, node="b", number=203, steps=(("chain",),)),
        Act(
            at=0.9953020667862195,
            node="a",
            number=202,
            steps=(("put", "0", "a"), ("append", "0")),
        ),
        Act(
            at=1.0252883857660042,
            node="d",
            number=206,
            steps=(("reg", "0"), ("append", "0")),
            settles=False,
        ),
        Reopen(at=1.204, node="d", after=1.0),
        Act(
            at=1.207024395929866,
            node="c",
            number=213,
            steps=(("put", "0", "a"), ("append", "0")),
        ),
        Act(
            at=1.2119728968821588,
            node="b",
            number=214,
            steps=(("put", "1", "a"), ("append", "1")),
        ),
        Upkeep(at=1.214, what="older"),
        Act(at=1.2327645864290777, node="d", number=8, steps=(), how="once", key="7"),
        Act(
            at=1.2627645864290777,
            node="c",
            number=9,
            steps=(("reg", "0"), ("append", "2")),
        ),
        Act(
            at=4.214,
            node="c",
            number=218,
            steps=(("put", "0", "a"), ("append", "0")),
            settles=False,
        ),
        Act(at=4.214, node="b", number=219, steps=(("chain",),), settles=False),
        Act(at=4.214, node="a", number=220, steps=(("put", "0", "a"), ("append", "0"))),
        Act(at=4.214, node="d", number=221, steps=(("put", "0", "a"), ("append", "0"))),
    ),
    faults=(Cut(at=1.184, node="c", every=True),),
)


def test_session_of_a_server_that_was_put_back_is_not_resumed() -> None:
    assert play(PLAN, seed=693244448).violations == ()
