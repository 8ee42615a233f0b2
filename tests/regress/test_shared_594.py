"""Found by `./hw sim` as shared:594: rule V did not hold.

A client that may only read held few documents. It ran a function again, because its reads were not here, with the
result of another function whose reads it did not hear of.

the sink of c has seen (2, 10, 0, 0), and the documents say (2, -1, 0, 0)
"""

from sim.apart import play
from sim.plan import Knobs, Plan
from sim.shared.workload import Act, ClientNode, ServerNode

PLAN = Plan(
    kind="shared",
    features=(
        "local",
        "events",
        "tree",
        "records",
        "actors",
        "failing",
        "pauses",
        "rights",
        "limits",
        "reduced",
    ),
    knobs=Knobs(),
    nodes=(
        ServerNode(),
        ClientNode(name="a", local=True, actor="ann"),
        ClientNode(
            name="b",
            local=True,
            actor="ann",
            can="write",
            reads_after=2.2041039134839457,
        ),
        ClientNode(name="c", local=True, actor="bob", can="read"),
    ),
    operations=(
        Act(
            at=0.03,
            node="b",
            number=0,
            steps=(("append", "1"), ("tset", "x", "q", "0"), ("incr", "0")),
            pause=0.0,
        ),
        Act(
            at=0.032,
            node="b",
            number=2,
            steps=(("sum",), ("tally", "0"), ("chain",)),
            how="event",
            pause=0.0,
        ),
    ),
)


def test_shared_594_violates_no_rule() -> None:
    assert play(PLAN, seed=594).violations == ()
