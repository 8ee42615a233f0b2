"""Handlers that note what they were sent, handlers that have to wait, and what stands in the outbox."""

from __future__ import annotations

from typing import Any

from headwater.core import Event, Transaction, doc_key
from headwater.scheduler.events.outbox import waiting
from tests.scheduler.events.office import Clerk, look


def noter(clerk: Clerk, stream: str = "note") -> None:
    clerk.handler(stream, lambda _, sent: f"{sent} by {clerk.replica.session}")


def send(clerk: Clerk, *payloads: object, stream: str = "note") -> list[Event]:
    """All in one transaction."""
    tx = Transaction(clerk.replica, "work")
    events = [clerk.send(stream, payload, origin=tx) for payload in payloads]
    tx.commit()
    return events


def held(clerk: Clerk) -> None:
    """From now on whoever handles `wait` has to wait."""
    clerk.put(gate=0)
    clerk.handler("wait", lambda tx, _: look(tx, "slow"), reads=(doc_key("slow"),))
    clerk.scheduler.pull(clerk.sum("slow", "gate", debounce_ms=500))
    clerk.put(gate=1)


def standing(clerk: Clerk) -> list[Any]:
    """The payloads of what stands in the outbox, in the order in which it was sent."""
    return [payload for _, _, payload in waiting(clerk.replica)]
