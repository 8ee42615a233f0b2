"""Edges alone: nodes that come, go and read something else than before, without anything being run.

Ranks, rings, references and the index are compared with what follows from the records, after each step. Documents may
have several writers, and nodes several outputs.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core import DocKey, NodeKind, NodeSpec, Scheduler, doc_key
from headwater.scheduler.graph.node import NodeSignal, NodeStatus
from headwater.testing.invariants.scheduler_invariants import edges_are_exact, i2_liveness, i9_ranks, index_is_exact
from tests.cells.replica.desk import Desk
from tests.support.halves import examples

DOCS = st.integers(0, 5)
SETS = st.lists(DOCS, max_size=4, unique=True)


class Step(NamedTuple):
    kind: str
    number: int
    outputs: list[int]
    reads: list[int]


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["read"] * 4 + ["compute"] * 2 + ["declare", "eager", "observe", "remove"]),
        st.integers(0, 9),
        st.lists(DOCS, min_size=1, max_size=2, unique=True),
        SETS,
    ),
    min_size=12,
    max_size=40,
)


def key(number: int) -> DocKey:
    return doc_key(f"d{number}")


def take(scheduler: Scheduler, step: Step) -> None:
    nodes = list(scheduler.registry.nodes)
    name = f"n{scheduler.registry.nodes and max(node.order for node in nodes)}"
    reads = tuple(map(key, step.reads))
    match step.kind:
        case "read" if nodes:
            node = nodes[step.number % len(nodes)]
            if node.status is NodeStatus.NEVER_RAN and step.number % 2:
                # As an opening does that takes over what another has kept.
                node.signal(NodeSignal.RESTORED)
                scheduler.graph.install_reads(node, tuple((doc, (), 0) for doc in dict.fromkeys(reads)))
                return
            if node.status is NodeStatus.NEVER_RAN:
                node.signal(NodeSignal.STARTED)
            scheduler.graph.apply_reads(node, {(doc, (), 0): None for doc in reads})
        case "remove" if nodes:
            scheduler.remove(nodes[step.number % len(nodes)])
        case "observe":
            scheduler.register(NodeSpec(name=name, fn=print, kind=NodeKind.EFFECT))
        case "compute" | "declare" | "eager":
            spec = NodeSpec(name=name, fn=print, outputs=tuple(map(key, step.outputs)), eager=step.kind == "eager")
            spec.declared_reads = reads if step.kind == "declare" else ()
            scheduler.register(spec)
        case _:
            """There is no node to do it with."""


@settings(max_examples=examples(700))
@given(STEPS)
def test_ranks_rings_and_references_are_what_follows_from_who_reads_what(steps: list[Step]) -> None:
    scheduler = Scheduler(Desk().replica("here"), now=lambda: 0.0)
    for step in steps:
        take(scheduler, step)
        edges_are_exact(scheduler)
        index_is_exact(scheduler)
        i2_liveness(scheduler)
        i9_ranks(scheduler)
