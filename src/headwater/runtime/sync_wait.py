"""How often `space.sync()` waits, and what it raises: commits that were rolled back, events only in memory."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.cells.rejection import all_of
from headwater.cells.space_port import RuntimePort
from headwater.scheduler.events.outcomes import Outcomes


def rounds(outcomes: Outcomes) -> Iterator[None]:
    """The rounds in which a sync waits for the disk: one more after events were handled during the wait.

    One more also for an event that could not be stored for lack of room: it is retried.
    """
    yield
    if outcomes.is_undecided or outcomes.unstored() is not None:
        yield


def raise_lost(home: RuntimePort, outcomes: Outcomes) -> None:
    """Raise, once, for commits that were rolled back without a caller waiting; and for events that are only in memory.

    The latter as long as that is so.
    """
    if home.unreported:
        lost, home.unreported = home.unreported, []
        raise all_of(lost, home.name)
    unstored = outcomes.unstored()
    if unstored is not None:
        count, why = unstored
        events = "1 event is" if count == 1 else f"{count:,} events are"
        message = f"{events} only in memory in space {home.name!r}, and tried again: {why.message}"
        raise type(why)(message, **why.facts)
