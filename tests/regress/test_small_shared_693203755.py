"""Found by `./hw sim` as small-shared:693203755: rule INV-9 did not hold.

A client released a document while it was requested, and requested it again. The answer to the first request was taken
for that to the second one, which was dropped: a change between the two was missing for good.

b has space/loose0 confirmed as none, the log says 1020900
"""

from sim.apart import play
from sim.plan import Knobs, Plan
from sim.shared.workload import Act, ClientNode, Release, ServerNode

PLAN = Plan(
    kind="shared",
    features=(
        "async",
        "once",
        "documents",
        "loose",
        "tree",
        "records",
        "lists",
        "reopen",
        "failing",
        "pauses",
        "contention",
        "bursts",
        "rights",
        "limits",
        "fetched again",
    ),
    knobs=Knobs(switch=0.02, group_max=64, fold_after=2, cache=2),
    nodes=(
        ServerNode(),
        ClientNode(name="a", mode="async"),
        ClientNode(name="b", mode="async", can="write"),
    ),
    operations=(
        Act(
            at=0.0,
            node="a",
            number=0,
            steps=(("append", "0"),),
            pause=0.01,
            settles=False,
        ),
        Act(at=0.0, node="b", number=1, steps=(("put", "1", "a"),), settles=False),
        Act(
            at=0.0,
            node="a",
            number=2,
            steps=(("vote", "k9"),),
            pause=0.01,
            settles=False,
        ),
        Act(at=0.0, node="b", number=3, steps=(("grow", "1"),), settles=False),
        Act(at=0.001, node="b", number=4, steps=(), how="once", key="1"),
        Act(
            at=0.002,
            node="a",
            number=5,
            steps=(("tree",), ("tdel", "x"), ("append", "2")),
            settles=False,
        ),
        Act(at=0.002, node="a", number=6, steps=(("reg", "1"), ("append", "0"))),
        Act(at=0.002, node="b", number=7, steps=(("grow", "1"),), settles=False),
        Act(at=0.002, node="a", number=8, steps=(("tset", "y", "p"), ("chain",))),
        Act(
            at=0.7502168271991347,
            node="b",
            number=204,
            steps=(("lput", "0"),),
            settles=False,
        ),
        Release(at=0.7733881748700572, node="b", docs=("loose0",)),
        Release(at=1.1469999999999998, node="a", docs=("loose0", "#items")),
        Act(at=1.1469999999999998, node="a", number=205, steps=(("lput", "0"),)),
        Act(
            at=1.1489999999999998,
            node="a",
            number=206,
            steps=(("loose", "0"), ("append", "0")),
            settles=False,
        ),
        Act(
            at=1.1517289505433541,
            node="a",
            number=207,
            steps=(("lput", "0"),),
            settles=False,
        ),
        Act(
            at=1.153099377936134,
            node="b",
            number=208,
            steps=(("lput", "0"),),
            settles=False,
        ),
        Release(at=1.55, node="b", docs=("loose0", "#items")),
        Act(at=1.55, node="b", number=210, steps=(("edit", "0"),)),
        Act(
            at=1.55,
            node="b",
            number=211,
            steps=(("loose", "0"), ("lput", "0")),
            settles=False,
        ),
        Release(at=1.5576883534361345, node="b", docs=("loose0",)),
        Act(
            at=1.5620552147080142,
            node="b",
            number=212,
            steps=(("lput", "0"),),
            settles=False,
        ),
        Act(
            at=1.563605295971139,
            node="a",
            number=209,
            steps=(("lput", "0"),),
            settles=False,
        ),
    ),
)


def test_document_that_is_released_and_requested_again_is_current() -> None:
    assert play(PLAN, seed=693203755).violations == ()
