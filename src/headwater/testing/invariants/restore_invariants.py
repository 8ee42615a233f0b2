"""Invariant I7 of restored nodes.

`docs/internals/invariants.md` says what it promises, and which code upholds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headwater.cells.pending_commit import SHALLOW_BIT
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.failing import recorded_failures
from headwater.scheduler.runs.persistence import ADOPTED
from headwater.scheduler.scheduler import Scheduler
from headwater.scheduler.trace import (
    NodeInvalidated,
    NodeRegistered,
    NodeRestored,
    RunDiscarded,
    RunStarted,
    TraceRecord,
)
from headwater.store.backend import ObservationRow
from headwater.store.engine import Engine
from headwater.store.observations import Observation, decode_observation
from headwater.store.resumption import observation_of
from headwater.testing.invariants.event_invariants import broken
from headwater.values.address import Depth
from headwater.values.ids import MAIN, BranchId, DocKey
from headwater.values.overlap import touches


def i7_restart_equivalence(scheduler: Scheduler, engine: Engine, branch: BranchId = MAIN) -> None:
    """A restored, clean node that has not run since has the same reads and writes as in the stored run.

    To be called when every commit is decided and every notification was received.
    """
    for node in scheduler.registry.nodes:
        if not node.restored or node.runs or not node.is_clean:
            continue
        row = _row_of(node, engine, branch)
        observation = None if row is None else decode_observation(row.body)
        if row is None or observation is None:
            raise broken("I7", "it was restored, and nothing is kept of it", node)
        failures = scheduler.persistence.failing.above(node)
        _as_it_was(node, row, observation, failures, engine, branch)


def _as_it_was(  # noqa: PLR0917  # called in one place
    node: Node,
    row: ObservationRow,
    observation: Observation,
    failures: dict[DocKey, bytes],
    engine: Engine,
    branch: BranchId,
) -> None:
    documents = engine.documents
    if row.seq < documents.horizon.seq:
        # Deleted since: it cannot be compared.
        return
    if node.fingerprint is None or observation.fingerprint != node.taken_fingerprint():
        raise broken("I7", "it was restored from what is kept of other code", node)
    places = [read if isinstance(read, tuple) else (read, (), False) for read in observation.reads]
    if [(doc, path, SHALLOW_BIT if shallow else 0) for doc, path, shallow in places] != list(node.reads):
        raise broken("I7", "it was restored with other reads than are kept", node)
    if recorded_failures(observation) != failures:
        raise broken("I7", "it was restored as clean, and a function that it has read fails differently", node)
    for doc, path, shallow in [*places, *((doc, (), False) for doc in node.outputs)]:
        then = documents.at(branch, doc, row.seq).value
        now = documents.at(branch, doc, engine.head).value
        if touches(path, Depth.SHALLOW if shallow else Depth.DEEP, then, now):
            raise broken("I7", f"it was restored as clean, and {doc}{list(path)} has changed since {row.seq}", node)


def _row_of(node: Node, engine: Engine, branch: BranchId) -> ObservationRow | None:
    key = node.stored_as or node.outputs[0]
    line: BranchId | None = branch
    through = engine.head
    while line is not None:
        found = observation_of(engine, line, key)
        if found is not None and found.seq <= through:
            return found
        row = engine.documents.branch(line)
        through, line = min(through, row.fork_seq), row.parent
    return None


def i7_runs(records: Sequence[TraceRecord]) -> None:
    """A restored node starts only after a change of something that it read."""
    waits: dict[str, bool] = {}
    for record in records:
        if isinstance(record, NodeRestored):
            waits[record.node] = record.outcome in ("restored", ADOPTED)
        elif isinstance(record, NodeInvalidated | RunDiscarded | NodeRegistered):
            waits[record.node] = False
        elif isinstance(record, RunStarted) and waits.get(record.node):
            raise broken("I7", "it was restored, nothing it read has changed, and it starts", record)


OVER_TRACE: Final[tuple[Callable[[Sequence[TraceRecord]], None], ...]] = (i7_runs,)
