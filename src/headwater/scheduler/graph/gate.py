"""The record of what delays one node: debounce, throttle, backoff."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Gate:
    """What may delay one node. Written by `runs/gates.py` only."""

    debounce_ms: float | None = None
    throttle_ms: float | None = None
    # No automatic debounce although it is slow.
    no_auto_debounce: bool = False
    auto_debounce_ms: float = 0.0
    # The end of the quiet time; every invalidation moves it.
    debounce_until: float = 0.0
    throttle_until: float = 0.0
    backoff_until: float = 0.0
    backoff_ms: float = 0.0
    # The last backoff because of functions of other spaces, and until when a next one is the same trouble.
    ring_ms: float = 0.0
    ring_until: float = 0.0
    # The store does not take its result: when it is tried again.
    store_until: float = 0.0
    # How often in a row the store has refused its result for good.
    refused_count: int = 0
    # How often it ran for an event without its debounce.
    hurried_count: int = 0
    # Of a proxy node: the debounce of the function that it waits for, if it waits for nothing else.
    far_quiet_ms: float = 0.0
    # While it waits: its time in the heap.
    waits_until: float = 0.0

    @property
    def quiet_ms(self) -> float:
        """The debounce in effect."""
        return self.debounce_ms if self.debounce_ms is not None else self.auto_debounce_ms
