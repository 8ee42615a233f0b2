"""Mistakes in stored observations: what an opening restores without running it."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import PROGRAM, SHARED, Mutant, maker

_m = maker("resume", PROGRAM)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # Out.
    _m(
        "rejected_kept",
        "scheduler.runs.runner:Runner._decided",
        "self._persistence.rejected(node)",
        "pass",
        "I7",
        PROGRAM,
        SHARED,
    ),
    _m(
        "note_without_result",
        "scheduler.runs.persistence:Persistence._put_note",
        "not index and values and not same(mark.value, values[0])",
        "False",
        "I7",
        PROGRAM,
        SHARED,
    ),
    _m(
        "invalid_run_stored",
        "scheduler.runs.persistence:Persistence._body",
        "node.result_scope or tx.reads_outside or node.status is not NodeStatus.CLEAN",
        "node.result_scope or tx.reads_outside",
        "I7",
        equivalent="a run is discarded at its end if a function that it has called fails since, or no longer",
    ),
    _m(
        "instances_unmade",
        "scheduler.runs.persistence:Persistence._extra",
        "arguments is None or doc != writer.outputs[0]",
        "False",
        "I7",
    ),
    _m(
        "read_failure_unstored",
        "scheduler.runs.persistence:Persistence._extra",
        "arguments is not None or error is not None",
        "arguments is not None",
        "I7",
    ),
    # In.
    _m(
        "any_code",
        "scheduler.runs.persistence:Persistence._valid",
        "node.fingerprint is None or observation.fingerprint != node.taken_fingerprint()",
        "node.fingerprint is None",
        "I7",
    ),
    _m(
        "layers_not_newer",
        "scheduler.runs.persistence:Persistence._is_newer",
        "listing.is_newer(doc, seq) or self._replica.is_layered(doc)",
        "listing.is_newer(doc, seq)",
        "I7",
        SHARED,
        PROGRAM,
    ),
    _m(
        "result_overwritten",
        "scheduler.runs.persistence:Persistence._other_result",
        "self._is_newer(doc, row.seq, listing)",
        "False",
        "I7",
    ),
    _m(
        "result_overwritten_quickly",
        "scheduler.runs.persistence:Persistence._is_result_of",
        "head[0] <= seq",
        "True",
        "I7",
    ),
    _m(
        "changed_since_unseen_quickly",
        "scheduler.runs.persistence:Persistence._is_unchanged",
        "head is None or head[0] > seq or is_layered(doc)",
        "False",
        "I7",
    ),
    _m(
        "changed_since_unseen",
        "scheduler.runs.persistence:Persistence._since",
        "changed(doc, places, row.seq)",
        "False",
        "I7",
    ),
    _m(
        "other_failure_unseen",
        "scheduler.runs.persistence:Persistence._since",
        "[doc for doc in {**told, **now} if told.get(doc) != now.get(doc)]",
        "[]",
        "I7",
    ),
    _m(
        "failure_forgotten",
        "scheduler.runs.persistence:Persistence._restore",
        "node.own_rare().known_failure = observation.extra.error",
        "pass",
        "I7",
    ),
    _m("dirty_waits", "scheduler.runs.persistence:Persistence.restore_all", "self._gates.at_once(node)", "pass", "I7"),
    # Adopted from another runtime.
    _m(
        "adopted_outdated",
        "scheduler.runs.adoption:Adoption._are_as_of",
        "all(self._replica.is_as_of(doc, seq) for doc in docs)",
        "True",
        "I1",
        SHARED,
        PROGRAM,
    ),
    _m(
        "adopted_other_code",
        "scheduler.runs.adoption:Adoption.consider",
        "body is None or observation is None or observation.fingerprint != print_",
        "body is None or observation is None",
        "I7",
        SHARED,
        PROGRAM,
    ),
)
