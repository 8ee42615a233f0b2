"""What the workload was told: transactions and events with their outcomes. It outlives the lives of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.errors import PoisonedError, PreconditionError, UnconfirmedError
from headwater.scheduler.scheduler_limits import RETRY_MAX_MS, RETRY_WINDOW_MS
from sim.apps import parts as p
from sim.apps.module import SCREENS


class SentEvent(msgspec.Struct):
    """An event of plain code."""

    tag: str
    thread: int
    opening: int
    order: int
    once: str
    ticket: Any
    state: str = "queued"
    handler: str = ""
    """Of the app; empty: of a piece."""
    space: Any = None
    """The opening that it was sent in."""


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
        self.found: list[tuple[str, str]] = []
        """Rules that were broken."""
        self.left: list[SentEvent] = []
        """Events that waited when their opening was closed."""
        self._handled: set[tuple[object, str]] = set()
        """Openings with the tags of events that have a receipt there."""
        self._asked: list[tuple[object, str, int]] = []
        self.acknowledged: Callable[[Transaction], None] = lambda _: None
        """Called with each block that has committed."""
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
                    self.acknowledged(tx)
                case Status.REJECTED:
                    self.rejected.add(tag)
                case Status.ABORTED:
                    self.rolled_back.add(tag)
                case _:
                    left.append((tag, tx))
        self._open = left
        for event in self._waiting:
            self._look(event)
        self._waiting = [each for each in self._waiting if each.state in ("queued", "running", "pending")]

    def _look(self, event: SentEvent) -> None:
        event.state = event.ticket.state
        record = event.ticket._event
        if event.state in ("confirmed", "rejected"):
            self._handled.add((event.space, event.tag))
        if event.state == "failed" and isinstance(record.error, PreconditionError):
            self.found.append(("I11", f"event {event.tag} was handled elsewhere, and failed here: {record.error}"))
        if event.state == "failed" and isinstance(record.error, PoisonedError | UnconfirmedError):
            event.state = "unknown"
        if record.rejected_at is not None and record.not_before - record.rejected_at > RETRY_WINDOW_MS + RETRY_MAX_MS:
            self.found.append(("I4", f"event {event.tag} is tried again after {RETRY_WINDOW_MS:g} ms"))

    def asked_again(self, tag: str, space: object) -> None:
        """An event with an id is sent; perhaps it is known there that it was handled."""
        self.look()
        if (space, tag) in self._handled:
            self._asked.append((space, tag, SCREENS.called_in[space, tag]))

    def check_again(self) -> None:
        """I11: no handler is called with an event that was handled before."""
        for space, tag, count in self._asked:
            if SCREENS.called_in[space, tag] > count:
                self.found.append(("I11", f"the handler is called with {tag}, which has a receipt in this opening"))

    def leave(self) -> None:
        """The opening was closed in order: what waits is for the next one."""
        self.left += [each for each in self._waiting if each.state == "queued" and each.handler]

    def forget(self) -> None:
        """The process has ended: what has no outcome by now may have either."""
        self._open.clear()
        self._waiting.clear()

    @property
    def pending(self) -> list[str]:
        """Without an outcome."""
        return [tag for tag, _ in self._open] + [each.tag for each in self._waiting]
