"""The record of an entry of the outbox for another space, and the record that names that space."""

from __future__ import annotations

from typing import NamedTuple

from headwater.values.causal import derive_id
from headwater.values.ids import MAIN
from headwater.values.tree import Value


class DeliveryTarget(NamedTuple):
    """The space that an entry is for."""

    space: str
    branch: str = MAIN


class Outgoing(NamedTuple):
    """One entry. `order` is its position: by the sequence number of the log when it was sent, and a number."""

    letters: str
    target: DeliveryTarget
    stream: str
    payload: Value
    order: tuple[int, ...]
    sent_ms: int = 0
    once: tuple[str, str] | None = None

    @property
    def event(self) -> str:
        """Its id in this space."""
        return f"event:{self.letters}"

    def name_there(self, space_id: str) -> tuple[str, str]:
        """The identity of the event for the other space: its sender, and its name there."""
        return self.once or (f"by space:{space_id}", self.letters)

    def event_there(self, space_id: str) -> str:
        """Its id in the other space, if this space has this id."""
        return derive_id("event", "outside", *self.name_there(space_id), self.stream)
