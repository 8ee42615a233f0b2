"""The record of an event that waits at the head of its lane."""

from __future__ import annotations

import msgspec


class Parking(msgspec.Struct, frozen=True):
    """Why the head of a lane is not handled now, and until when, if it only waits for time."""

    reason: str
    until: float | None = None
