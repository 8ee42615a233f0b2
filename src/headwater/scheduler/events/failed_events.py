"""The documents of failed events.

They can be inspected, delivered again, or deleted. The oldest are deleted when there are too many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.events.event import EventRecord
from headwater.scheduler.events.origin import OriginState
from headwater.scheduler.events.outbox import is_map, take
from headwater.store.commit import OriginCommitted
from headwater.values.address import Depth, doc_key
from headwater.values.author_text import calls_of, describe, traceback_text
from headwater.values.ids import DocKey
from headwater.values.patch import Add, Remove
from headwater.values.tree import Maybe, Value, freeze

FAILED: Final = doc_key("events:failed")
"""A map from the letters of each failed event's id to when it failed, in milliseconds since 1970."""

_FRAMES: Final = 30
"""Lines of calls that are kept of a traceback: the innermost ones."""

_TEXT_MAX: Final = 20_000
"""Characters of a message or traceback that are kept."""


def record_of(letters: str) -> DocKey:
    """The document of a failed event."""
    return doc_key(f"failed:{letters}")


def store(tx: Transaction, event: EventRecord, at_ms: float, kept_max: int) -> None:
    """Store a failed event, and remove it from the outbox in the same transaction."""
    launch = event.origin
    if launch is not None and launch.state is not OriginState.COMMITTED and launch.local_seq is not None:
        # I10: if the transaction that sent it does not commit, there is nothing to deliver again.
        tx.require(OriginCommitted(launch.local_seq))
    if event.is_stored:
        take(tx, event.letters)
    if not kept_max:
        return
    error = event.error
    record = {
        "event": event.id,
        "stream": event.handler.spec.stream,
        "payload": event.payload,
        "error": None if error is None else describe(error)[:_TEXT_MAX],
        "reason": event.reason[:_TEXT_MAX],
        "traceback": author_traceback(error),
        "attempts": event.tried_before + event.attempts,
        "at": int(at_ms),
    }
    if event.is_only_here and not event.was_failed:
        # Without a lookup, because a server may be away.
        tx.replica.expect_new(record_of(event.letters))
    put_record(tx, event.letters, freeze(record), int(at_ms), kept_max)


def put_record(tx: Transaction, letters: str, record: Value, at_ms: int, kept_max: int) -> None:
    """Store a record, list it, and delete the oldest ones if there are too many."""
    tx.set(record_of(letters), (), record)
    if not is_map(tx.document(FAILED)):
        tx.record(FAILED, (), Depth.DEEP)
        tx.set(FAILED, (), freeze({letters: at_ms}))
        return
    tx.patch(FAILED, Add((letters,), at_ms))
    listed = cast("Mapping[str, Value]", tx.document(FAILED))
    for each in oldest(listed, len(listed) - kept_max):
        forget(tx, each)


def oldest(times: Mapping[str, Value], count: int) -> list[str]:
    """The ids of the oldest of a list by time; none if there are not too many."""
    return sorted(times, key=lambda letters: (_time(times[letters]), letters))[:count] if count > 0 else []


def forget(tx: Transaction, letters: str) -> bool:
    """Delete the record of an event that was handled later, or dropped. Returns whether it existed."""
    listed = tx.document(FAILED)
    there = is_map(listed) and letters in cast("Mapping[str, Value]", listed)
    if there:
        tx.patch(FAILED, Remove((letters,)))
        tx.delete(record_of(letters))
    return there


def stored(replica: Replica) -> list[Mapping[str, Value]]:
    """All stored records, oldest first."""
    found = [replica.read(record_of(letters)) for letters in ids_by_age(replica.read(FAILED))]
    return [cast("Mapping[str, Value]", record) for record in found if is_map(record)]


def ids_by_age(failed: Maybe) -> list[str]:
    """The ids in the list without prefix, oldest first."""
    if not is_map(failed):
        return []
    times = cast("Mapping[str, Value]", failed)
    return sorted(times, key=lambda letters: (_time(times[letters]), letters))


def _time(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def author_traceback(error: Exception | None) -> str:
    """The traceback from the author's function on: the calls above it are the same for all."""
    if error is None:
        return ""
    calls = calls_of(error)
    while calls is not None and calls.tb_frame.f_globals.get("__name__", "").startswith("headwater."):
        calls = calls.tb_next
    text = traceback_text(error, calls, limit=-_FRAMES)
    half = _TEXT_MAX // 2
    # The place of the error is at the end; or, before a long message, at the beginning.
    return text if len(text) <= _TEXT_MAX else f"{text[:half]}\n...\n{text[-half:]}"
