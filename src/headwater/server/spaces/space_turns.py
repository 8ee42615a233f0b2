"""Turns of the spaces of one server: a large answer of one space pauses while another is in use."""

from __future__ import annotations


class SpaceTurns:
    """Which spaces of a server were used last: a large answer pauses while another space is in use."""

    def __init__(self) -> None:
        # Used since the last pause, by the identity of the channel: at most two are of interest.
        self._used: tuple[object, ...] = ()

    def use(self, channel: object) -> None:
        """A client uses a space."""
        used = self._used
        if channel not in used:
            self._used = (*used[-1:], channel)

    def others_used(self, channel: object) -> bool:
        """Whether another space was used since this was last asked."""
        used, self._used = self._used, ()
        return any(other is not channel for other in used)
