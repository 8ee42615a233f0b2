"""What the workload was told: transactions and events with their outcomes. It outlives the lives of the program."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.errors import PoisonedError, UnconfirmedError
from sim.apps import parts as p


class SentEvent(msgspec.Struct):
    """An event of plain code."""

    tag: str
    thread: int
    opening: int
    order: int
    once: str
    ticket: Any
    state: str = "queued"


class Told:
    """By tag."""

    def __init__(self) -> None:
        self.blocks: dict[str, tuple[p.Step, ...]] = {}
        self.versions: dict[str, int] = {}
        self.committed: set[str] = set()
        self.rejected: set[str] = set()
        self.rolled_back: set[str] = set()
        self.events: dict[str, SentEvent] = {}
        self.called: Counter[str] = Counter()
        """By tag, how often a handler was called with it."""
        self._open: list[tuple[str, Transaction]] = []
        self._waiting: list[SentEvent] = []

    def began(self, tag: str, steps: tuple[p.Step, ...], tx: Transaction) -> None:
        self.blocks[tag] = steps
        self._open.append((tag, tx))

    def sent(self, event: SentEvent) -> None:
        self.events[event.tag] = event
        self._waiting.append(event)

    def look(self) -> None:
        """Note the outcomes that are known by now: what was told once holds for ever."""
        left: list[tuple[str, Transaction]] = []
        for tag, tx in self._open:
            match tx.status:
                case Status.COMMITTED:
                    self.committed.add(tag)
                case Status.REJECTED:
                    self.rejected.add(tag)
                case Status.ABORTED:
                    self.rolled_back.add(tag)
                case _:
                    left.append((tag, tx))
        self._open = left
        for event in self._waiting:
            event.state = event.ticket.state
            if event.state == "failed" and isinstance(event.ticket._event.error, PoisonedError | UnconfirmedError):
                event.state = "unknown"
        self._waiting = [each for each in self._waiting if each.state in ("queued", "running", "pending")]

    def forget(self) -> None:
        """The process has ended: what has no outcome by now may have either."""
        self._open.clear()
        self._waiting.clear()

    @property
    def pending(self) -> list[str]:
        """Without an outcome."""
        return [tag for tag, _ in self._open] + [each.tag for each in self._waiting]
