"""Unhandled events, stored in the outbox at closing."""

from __future__ import annotations

from functools import partial

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.errors import SyncError
from headwater.scheduler.events import outbox
from headwater.scheduler.events.event import EventRecord
from headwater.scheduler.events.origin import Origin, OriginState
from headwater.scheduler.events.outcomes import Outcomes
from headwater.scheduler.events.retry_transaction import commit_with_retries
from headwater.store.commit import OriginCommitted


def store_unhandled(left: list[EventRecord], *, outcomes: Outcomes, replica: Replica) -> None:
    """Store unhandled events. Those sent in a transaction are in the outbox already; failed ones stay failed."""
    free: list[EventRecord] = []
    again: list[EventRecord] = []
    for event in left:
        launch = event.origin
        is_decided = launch is None or launch.state is OriginState.COMMITTED
        if event.sender is not None:
            # The space that sent it still has it, and delivers it again.
            continue
        if launch is not None and not launch.is_near and not is_decided:
            reason = "the space was closed before what sent it, in another space, was confirmed"
            outcomes.fail(event, None, reason)
        elif event.is_stored or event.was_failed:
            if event.resumed_count:
                # This opening closes in order.
                event.resumed_count = 0
                again.append(event)
        elif is_decided:
            free.append(event)
        else:
            # I10: with the transaction that sent it, or not at all.
            _put_back([event], launch, outcomes=outcomes, replica=replica)
    _put_back(free, None, outcomes=outcomes, replica=replica)
    if again:
        commit_with_retries(replica, "closing", partial(outbox.count, events=again))


def _put_back(events: list[EventRecord], launch: Origin | None, *, outcomes: Outcomes, replica: Replica) -> None:
    def work(tx: Transaction) -> None:
        if launch is not None and launch.local_seq is not None:
            tx.require(OriginCommitted(launch.local_seq))
        for event in events:
            outbox.put(tx, event)

    try:
        commit_with_retries(replica, "closing", work, partial(outcomes.lost, events))
    except SyncError as over:
        # The server accepts nothing any more.
        outcomes.lost(events, over)
