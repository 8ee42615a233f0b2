"""The grants of a server, looked at by the server and changed by commands."""

from __future__ import annotations

from pathlib import Path

from headwater.access.access_control import LOOK_EVERY_MS, AccessControl
from headwater.testing.sim_clock import SimClock


class Steady:
    """A clock that nobody sets, and that stands still."""

    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms


class Desk:
    """A server's access, and another process's: two objects on one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "access.json"
        self.clock = SimClock()
        self.steady = Steady()
        self.server = AccessControl(folder, self.clock, steady=self.steady)

    def command(self) -> AccessControl:
        """As a command makes it: new each time."""
        return AccessControl(self.folder, self.clock)

    def later(self, ms: float = LOOK_EVERY_MS) -> None:
        self.steady.ms += ms
