"""The states of a transaction, the signals it can get, and the one table of transitions."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Status(Enum):
    """Where a transaction is in its life."""

    # Members are singletons: an enum's own hash, which is Python code, would cost every transaction half a microsecond.
    __hash__ = object.__hash__

    OPEN = "open"
    """Reads and writes."""
    PENDING = "pending"
    """Visible here; the store has not decided."""
    COMMITTED = "committed"
    """In the log; or there was nothing to write."""
    REJECTED = "rejected"
    """Taken back: the store did not accept it, or it was stale before it was sent."""
    ABORTED = "aborted"
    """Given up by its own side."""


class TransactionSignal(Enum):
    """What can happen to a transaction."""

    __hash__ = object.__hash__

    SENT = "sent"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    ABORTED = "aborted"


TRANSITIONS: Final[dict[tuple[Status, TransactionSignal], Status]] = {
    (Status.OPEN, TransactionSignal.SENT): Status.PENDING,
    (Status.OPEN, TransactionSignal.ABORTED): Status.ABORTED,
    # There was nothing to write, and so nothing to decide.
    (Status.OPEN, TransactionSignal.ACCEPTED): Status.COMMITTED,
    # Found stale, or refused at the replica's door: it never travelled.
    (Status.OPEN, TransactionSignal.REJECTED): Status.REJECTED,
    (Status.PENDING, TransactionSignal.ACCEPTED): Status.COMMITTED,
    (Status.PENDING, TransactionSignal.REJECTED): Status.REJECTED,
}
"""A pair that is missing cannot happen: `_signal` says so, loudly."""

SETTLED: Final = frozenset({Status.COMMITTED, Status.REJECTED, Status.ABORTED})
