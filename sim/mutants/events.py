"""Mistakes in the handling of events: receipts, origins, lanes, retries, the outbox."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import PROGRAM, SHARED, Mutant, maker

_m = maker("events", PROGRAM, SHARED)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # Once.
    _m(
        "receipt_not_required",
        "scheduler.events.handling:EventDispatcher._commit",
        "tx.require(Absent(receipt))",
        "pass",
        "I11",
        SHARED,
        PROGRAM,
    ),
    _m(
        "handled_before_retried",
        "scheduler.events.outcomes:Outcomes.decided",
        "isinstance(verdict.unmet, Absent)",
        "False",
        "I11",
        SHARED,
        PROGRAM,
    ),
    _m(
        "handled_before_run",
        "scheduler.events.handling:EventDispatcher._is_off",
        "self._replica.read(event.receipt) is ABSENT",
        "True",
        "I11",
    ),
    _m(
        "outbox_not_emptied",
        "scheduler.events.handling:EventDispatcher._commit",
        "outbox.take(tx, event.letters)",
        "pass",
        "I11",
    ),
    _m(
        "left_behind_lost",
        "scheduler.events.handling:EventDispatcher._leave_behind",
        "left += gone",
        "pass",
        "I11",
    ),
    _m("sent_not_stored", "scheduler.events.streams:Streams._tie", "outbox.put(tx, event)", "pass", "I11"),
    _m(
        "failed_not_kept",
        "scheduler.events.outcomes:Outcomes.fail",
        'commit_with_retries(self._replica, f"keeping {event.id}", work, partial(self._report_not_stored, event))',
        "pass",
        "T",
    ),
    # Origins.
    _m(
        "origin_not_required",
        "scheduler.events.handling:EventDispatcher._dispatch",
        "tx.require(OriginCommitted(launch.local_seq))",
        "pass",
        "I10",
    ),
    _m(
        "open_origin_handled",
        "scheduler.events.handling:EventDispatcher._held_up",
        "fate is OriginState.OPEN",
        "False",
        "I10",
    ),
    _m("orphan_lives", "scheduler.events.origin:Origins._ended", "launch.state is OriginState.FAILED", "False", "I10"),
    # Order, and current reads.
    _m(
        "stale_at_commit",
        "scheduler.events.handling:EventDispatcher.finish",
        "handling.needs or not self._is_still_current(handling)",
        "handling.needs",
        "I4",
        equivalent="the commit compares the version as well: if anything changed, it is rejected, and the event waits",
    ),
    _m(
        "reads_not_current",
        "scheduler.events.handling:EventDispatcher._gate",
        "not self.ready.is_written(doc)",
        "True",
        "I4",
    ),
    _m(
        "back_at_the_end",
        "scheduler.events.lanes:Lane.put",
        "not events or events[-1].ordinal < event.ordinal",
        "True",
        "I4",
    ),
    # Wake-ups.
    _m("parked_for_good", "scheduler.passes.settle:Settle.steps", "events.recheck()", "pass", "L2"),
    _m("parked_after_runs", "scheduler.passes.settle:Settle._recheck", "self.events.recheck()", "pass", "L2"),
    _m("retry_without_wake", "scheduler.events.outcomes:Outcomes.retry", "self._tick(True)", "pass", "L2"),
    _m("origin_sent_unheard", "scheduler.events.streams:Streams._origin_sent", "self._tick(True)", "pass", "L2"),
    _m(
        "server_back_unheard", "scheduler.events.lanes:Lanes.server_is_back", "lane.parked = None", "pass", "L2", SHARED
    ),
    _m(
        "never_given_up",
        "scheduler.events.outcomes:Outcomes.retry",
        "now - event.rejected_at >= RETRY_WINDOW_MS",
        "False",
        "I4",
    ),
)
