"""The invariant of spans: what the scheduler has registered of them is what the nodes have read."""

from __future__ import annotations

from headwater.scheduler.graph.node import Node
from headwater.scheduler.graph.span_readers import LiveTally
from headwater.scheduler.scheduler import Scheduler
from headwater.testing.invariants.event_invariants import broken


def spans_are_exact(scheduler: Scheduler) -> None:
    """The ranges of indexes have exactly the reads of the records; an answer is that of one tally with its readers."""
    spans = scheduler.graph.spans
    wanted: set[tuple[object, ...]] = set()
    answers: dict[object, set[Node]] = {}
    for node in scheduler.registry.nodes:
        if node.rare.noted_spans is not None and not node.rare.noted_spans:
            raise broken(
                "spans", "a run without reads of indexes is among those whose reads of indexes are stored", None
            )
        for key in node.rare.spans:
            if key.question is not None:
                answers.setdefault(key, set()).add(node)
            elif key.lo < key.hi:
                wanted.add((key.index, key.lo, key.hi, (node, key.fields) if key.fields else node))
    tallies = {live.key: live for live in spans.tallies()}
    found = {entry for entry in spans.entries() if not isinstance(entry[3], LiveTally)}
    if found != wanted:
        raise broken("spans", f"the ranges and what was read differ by {wanted ^ found}", None)
    ranged = {entry[3].key for entry in spans.entries() if isinstance(entry[3], LiveTally)}
    if {key: set(live.readers) for key, live in tallies.items()} != answers or ranged != set(tallies):
        raise broken("spans", "the tallies, their ranges and the answers that were read differ", None)
