"""The states of a transaction, the signals it can get, and the one table of transitions."""

from __future__ import annotations

from enum import Enum
from typing import Final

from headwater.errors import ClosedError
from headwater.values.transition_table import Transitions


class Status(Enum):
    """The state of a transaction."""

    # Members are singletons: an enum's own hash, which is Python code, would cost every transaction half a microsecond.
    __hash__ = object.__hash__

    OPEN = "open"
    """Reads and writes."""
    PENDING = "pending"
    """Visible here; the store has not decided."""
    COMMITTED = "committed"
    """In the log; or there was nothing to write."""
    REJECTED = "rejected"
    """Rolled back: the store did not accept it, or its reads were outdated before it was sent."""
    ABORTED = "aborted"
    """Given up by its own code."""


class TransactionSignal(Enum):
    """What can happen to a transaction."""

    __hash__ = object.__hash__

    SENT = "sent"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    ABORTED = "aborted"


TRANSITIONS: Final = Transitions[Status, TransactionSignal](
    {
        (Status.OPEN, TransactionSignal.SENT): Status.PENDING,
        (Status.OPEN, TransactionSignal.ABORTED): Status.ABORTED,
        # There was nothing to write, and so nothing to decide.
        (Status.OPEN, TransactionSignal.ACCEPTED): Status.COMMITTED,
        # Outdated reads, or refused by the replica: it was never sent.
        (Status.OPEN, TransactionSignal.REJECTED): Status.REJECTED,
        (Status.PENDING, TransactionSignal.ACCEPTED): Status.COMMITTED,
        (Status.PENDING, TransactionSignal.REJECTED): Status.REJECTED,
    }
)

SETTLED: Final = frozenset({Status.COMMITTED, Status.REJECTED, Status.ABORTED})


def ended_error(name: str, verb: str, status: Status) -> ClosedError:
    """The error for a use of a transaction that has ended."""
    whose = f"transaction {name}" if name else "this transaction"
    message = (
        f"{whose} cannot {verb}: it is {status.value}. Code that goes on after its block has ended, such as a "
        "task or thread started in it, needs a transaction of its own"
    )
    return ClosedError(message, status=status.value)
