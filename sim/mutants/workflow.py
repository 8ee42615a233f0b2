"""Mistakes in workflows: transitions, calls, reservations, recovery, the threads that execute runs."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import WORKFLOW, Mutant, maker

_m = maker("workflow", WORKFLOW)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # Beginning.
    _m("two_at_once", "workflow.beginning:_begin_shared", "tables.active(flow.id) is not None", "False", "W1"),
    _m("dirty_forgotten", "workflow.beginning:begin_after", "now.dirty.add(handler)", "pass", "W10"),
    _m(
        "published_forgotten",
        "workflow.beginning:begin_after",
        "now.note_published(spec, [each for each in tables.published if flow is not None and each[0] == flow.id])",
        "pass",
        "W10",
    ),
    _m(
        "wake_used_up_not",
        "workflow.beginning:_begins",
        "set_handler(tables, due.handler, wake_at=None)",
        "pass",
        "W12",
    ),
    _m(
        "approved_by_other_code",
        "workflow.beginning:_go_on",
        "is_approved and head.version == flow.version",
        "is_approved",
        "W3",
    ),
    # Calls.
    _m("paused_acts", "workflow.transitions:in_flight", "flow.intent != Intent.ACTIVE", "False", "W14"),
    _m(
        "paused_acts_at_once",
        "workflow.transitions:prepared",
        "plan.acts is not None and not asks and taken and not run.cancelled and flow.intent == Intent.ACTIVE",
        "plan.acts is not None and not asks and taken and not run.cancelled",
        "W14",
    ),
    _m(
        "call_unwritten",
        "workflow.transitions:in_flight",
        "run_rows.write_call(tables, flow, run, operation, params)",
        "pass",
        "W6",
    ),
    _m("one_key_for_all", "workflow.run_rows:write_call", "key_of(flow, run.id)", "key_of(flow, 0)", "W4"),
    _m(
        "cancelled_consumes",
        "workflow.transitions:consumed",
        "run.cancelled and run.taken and run.outcome == EffectOutcome.NONE",
        "False",
        "W14",
    ),
    _m(
        "asked_while_acting",
        "host.workflow_threads:Host._turn",
        "isinstance(found, ReconcileCall) and self._is_acting(found.run.id)",
        "False",
        "W7",
        equivalent="the transaction that gives a call up also blocks its workflow, until the call has returned",
    ),
    # Failures and crashes.
    _m("unknown_released", "workflow.stopping:crashed", "restart is Restart.FRESH", "True", "W5"),
    _m("unknown_retried", "workflow.stopping:crashed", "restart is Restart.WAIT", "False", "W5, W7"),
    _m(
        "failed_keeps_events",
        "workflow.stopping:failed",
        "restart_of(EffectOutcome(run.outcome)) is Restart.FRESH",
        "False",
        "W5, W9",
    ),
    _m(
        "effect_released",
        "workflow.stopping:failed",
        "restart_of(EffectOutcome(run.outcome)) is Restart.FRESH",
        "True",
        "W5",
    ),
    _m("crash_loop", "workflow.stopping:after_crash", "run.crashes >= CRASHES", "False", "W8"),
    _m("retried_for_ever", "workflow.stopping:_later", "failures <= retry.tries", "True", "L6"),
    _m("failures_not_counted", "workflow.stopping:_later", "flow.failures + 1", "1", "L6"),
    # Events.
    _m(
        "hand_over_lost",
        "workflow.run_rows:_hand_over",
        'tables.execute("update flow_event set reserved_by = ? where reserved_by = ?", run.id, before.id)',
        "pass",
        "W9",
    ),
    _m(
        "republish_unheard",
        "workflow.publication:_again",
        "status == EventStatus.PENDING and payload != event.payload",
        "False",
        "W9, W10",
    ),
    _m(
        "flag_not_set",
        "runtime.workflows.hub:Hub._mark",
        "hosted.flags.note_published(hosted.spec, (each,))",
        "pass",
        "W10",
    ),
    _m(
        "left_over_unseen",
        "runtime.workflows.hub:Hub._run_moved",
        "hosted.flags.dirty.add(run.handler)",
        "pass",
        "W10",
    ),
    _m(
        "restart_forgets_events",
        "workflow.planner:flags_after_restart",
        "Flags(dirty={c.name for c in spec.consumers if any(topics[name].pending for name in c.topics)})",
        "Flags()",
        "W10",
    ),
    # Time.
    _m("clock_not_mended", "workflow.due_times:correct_clock", "flow.updated_at <= tables.now", "True", "W11"),
    _m(
        "clock_back_unseen",
        "host.workflow_threads:Host._keep_time",
        "at <= now or is_back",
        "at <= now",
        "W11",
    ),
    _m(
        "missed_times_made_up",
        "workflow.transitions:produced",
        "None if schedule is None else next_after(schedule, tables.now)",
        "None if schedule is None else next_after(schedule, row.next_run_at or tables.now)",
        "W11",
    ),
    # Threads and recovery.
    _m("again_unheard", "host.workflow_threads:Host.wake", "self._again.add(name)", "pass", "L2"),
    _m("ring_unheard", "runtime.workflows.hub:Hub._decided", "self.ring(hosted.spec.name)", "pass", "L2"),
    _m(
        "alive_recovered",
        "workflow.run_recovery:left_active",
        "row[0] not in alive",
        "True",
        "W1",
        equivalent="a hub recovers once, at the first deployment and before any run begins: `alive` is empty",
    ),
    _m("run_left_active", "runtime.workflows.hub:Hub.recover", "left_active(tables, self.alive)", "list[int]()", "W8"),
    # Set aside, retention, deployment, limits.
    _m("aside_not_wanted", "workflow.set_aside:want_again", 'run_rows.mark(tables, run, aside="again")', "pass", "L1"),
    _m(
        "aside_released",
        "workflow.set_aside:put_aside",
        'run_rows.release(tables, run, EventStatus.PARKED, "parked")',
        "run_rows.release(tables, run)",
        "W5",
    ),
    _m("newest_pruned", "workflow.run_retention:prune", "max(keep, 1)", "keep", "W4"),
    _m(
        "version_still_blocked",
        "workflow.deployment:_use_version",
        'flow.block_kind in ("logic", "crashes", "exhausted") and flow.head is not None',
        "False",
        "deployed",
    ),
    _m("tried_early", "workflow.beginning:_go_on", "flow.retry_at > tables.now", "False", "L6"),
    _m("any_order", "workflow.planner:_consumers", "len(waiting) > 1", "False", "W13"),
    _m(
        "result_not_on_disk",
        "runtime.workflows.run_executor:Performance._applied",
        "self.is_given_up or not reconciles(self.handler, self._operation())",
        "self.is_given_up",
        "W3",
    ),
    _m("busy_is_definite", "runtime.workflows.run_executor:Performance._act", "not error.definite", "False", "W5"),
    _m(
        "late_not_given_up",
        "host.workflow_threads:Host._keep_time",
        "each.is_late(machine().monotonic())",
        "False",
        "W3",
    ),
    _m("room_not_awaited", "host.workflow_threads:Host._work", "isinstance(error, UnavailableError)", "False", "L1"),
    _m(
        "interrupted_left_active",
        "host.workflow_host:Workflows._perform",
        "hub.left[run_id] = hosted.spec.name",
        "pass",
        "L1",
    ),
    _m(
        "clock_evidence_lost",
        "workflow.workflow_rows:set_flow",
        "stored.updated_at > tables.now",
        "False",
        "W11",
    ),
    _m(
        "others_not_drained",
        "host.workflow_host:Workflows.drain",
        "line.extend(other for other in names if other not in line and other != name)",
        "pass",
        "W10",
    ),
)
