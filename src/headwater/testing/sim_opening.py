"""Opens an app at a simulated clock."""

from __future__ import annotations

from os import PathLike

from headwater.app import App
from headwater.host.plain_space import Space
from headwater.runtime.options import Options
from headwater.testing.sim_clock import SimClock


def open_at(app: App, clock: SimClock, url: str | PathLike[str] = "memory:", *, force: bool = False) -> Space:
    """Open an app at a simulated clock. Schedules, retries and wake times follow this clock.

    Args:
        app: The app.
        clock: The clock.
        url: The space, as in `app.open`.
        force: Deploy workflows although waiting events would be skipped.

    Returns:
        The open space.

    Raises:
        SpaceHeldError: HW202. Another process has this file open.
    """
    return app.open_with(url, Options(wall=clock.now_ms, force=force, on_error="raise"))
