"""How far events have come, where the disk may be faster or slower than the test."""

from __future__ import annotations

import headwater as hw


def came_to(*tickets: hw.Ticket[object]) -> list[str]:
    """The states; "handled" for what is pending, or confirmed already."""
    return ["handled" if ticket.state in ("pending", "confirmed") else ticket.state for ticket in tickets]
