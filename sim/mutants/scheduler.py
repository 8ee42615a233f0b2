"""Mistakes in the reactive scheduler: invalidation, runs, liveness, passes, gates."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import PROGRAM, SHARED, Mutant, maker

_m = maker("scheduler", PROGRAM, SHARED)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # Invalidation.
    _m(
        "own_write_wakes",
        "scheduler.runs.invalidation:Invalidation.drain",
        "node is own or node.running",
        "node.running",
        "I5",
    ),
    _m(
        "revert_is_own",
        "scheduler.runs.invalidation:Invalidation.drain",
        "kind is _COMMIT",
        "type(source) is Transaction",
        "I1",
    ),
    _m(
        "failure_untold",
        "scheduler.runs.invalidation:Invalidation.failure_changed",
        "self.inbox.append(Notification(Kind.COMMIT, (Change(node.outputs[0], (), ABSENT, _SOMETHING),), source))",
        "pass",
        "I1",
        PROGRAM,
    ),
    _m(
        "discarded_unoffered",
        "scheduler.runs.invalidation:Invalidation.discard",
        "if node.live_refs:\n    self.offer(node)",
        "pass",
        "L2",
    ),
    _m(
        "invalid_again_unoffered",
        "scheduler.runs.runner:Runner.finish",
        "self._invalidation.offer_again(node)",
        "pass",
        "L2",
    ),
    _m(
        "first_run_awaited_not",
        "scheduler.runs.invalidation:Invalidation._await",
        "not node.spec.is_fed",
        "False",
        "I4",
    ),
    _m(
        "new_key_unnoticed",
        "scheduler.graph.reader_index:ReaderIndex.match",
        "not left and (before is ABSENT or after is ABSENT)",
        "False",
        "I1",
        PROGRAM,
    ),
    _m(
        "below_unmatched",
        "scheduler.graph.reader_index:_take_touched",
        "is_container(old) or is_container(new)",
        "False",
        "I1",
        PROGRAM,
    ),
    # Runs.
    _m(
        "outdated_kept",
        "scheduler.runs.runner:Runner.finish",
        "self._replica.version != attempt.version and changed_read(self._replica, tx, reads) is not None",
        "False",
        "I1",
    ),
    _m(
        "reads_of_failed_lost",
        "scheduler.runs.runner:Runner.finish",
        "tuple(reads) != node.reads or node.spec.declared_reads",
        "error is None and (tuple(reads) != node.reads or node.spec.declared_reads)",
        "I1",
        PROGRAM,
    ),
    _m(
        "rejected_not_again",
        "scheduler.runs.runner:Runner.repeat",
        "self._invalidation.discard(node, tx.triggers)",
        "pass",
        "I1, I8",
    ),
    _m(
        "side_writes_dropped",
        "scheduler.runs.runner:Runner._commit",
        "tx.wrote and (before is not None or tx.observes is not None)",
        "False",
        "I1",
    ),
    _m(
        "failure_stays",
        "scheduler.runs.runner:Runner._commit",
        "self._invalidation.failure_changed(node, tx)",
        "pass",
        "I1",
        PROGRAM,
    ),
    _m(
        "store_failure_final",
        "scheduler.runs.runner:Runner._decided",
        "tx.error is None or is_final(tx.error)",
        "True",
        "I1",
    ),
    _m(
        "waited_unlooked",
        "scheduler.runs.runner:Runner.waits",
        "self._replica.version != attempt.looked",
        "False",
        "I1",
        PROGRAM,
    ),
    # Liveness.
    _m(
        "rings_kept",
        "scheduler.graph.liveness:Liveness.withdraw",
        "self.has_cycles and not current.demand",
        "False",
        "I2",
        PROGRAM,
    ),
    _m(
        "lent_for_ever",
        "scheduler.passes.settle:Settle._expire",
        "self._graph.liveness.expire(node)",
        "pass",
        "I2",
        PROGRAM,
    ),
    _m(
        "live_unoffered",
        "scheduler.passes.settle:Settle.became_live",
        "node.status is not NodeStatus.CLEAN",
        "False",
        "I1",
        PROGRAM,
    ),
    # Passes.
    _m("spent_forgotten", "scheduler.passes.settle:Settle._end_pass", "self._rest(exhausted)", "pass", "I6", PROGRAM),
    _m(
        "inbox_missed",
        "scheduler.passes.settle:Settle._next",
        "if self._invalidation.inbox:\n    continue",
        "pass",
        "L2",
    ),
    _m(
        "promoted_not",
        "scheduler.passes.settle:Settle._before",
        "self._promoted(node) if self._graph.envelopes else None",
        "None",
        "I9",
        PROGRAM,
    ),
    # Gates.
    _m(
        "gate_without_wake",
        "scheduler.runs.gates:Gates.wait",
        "heappush(self.heap, (until, node.order, node))",
        "pass",
        "L2",
        PROGRAM,
    ),
    _m(
        "debounce_free",
        "scheduler.runs.gates:Gates.invalidated",
        "gate.debounce_until = max(gate.debounce_until, moment + gate.quiet_ms)",
        "pass",
        "I6",
        PROGRAM,
    ),
    _m(
        "throttle_free",
        "scheduler.runs.gates:Gates.ran",
        "gate.throttle_until = now + gate.throttle_ms",
        "pass",
        "I6",
        PROGRAM,
    ),
    _m(
        "backoff_flat",
        "scheduler.runs.gates:Gates.back_off",
        "min(gate.backoff_ms * 2 or float(BACKOFF_MS), float(BACKOFF_MAX_MS))",
        "float(BACKOFF_MS)",
        "I6",
        PROGRAM,
    ),
)
