"""Opens an app at a simulated clock."""

from __future__ import annotations

from os import PathLike

from headwater.app import App
from headwater.host.plain_space import Space
from headwater.runtime.options import Options
from headwater.testing.sim_clock import SimClock


def open_at(app: App, clock: SimClock, url: str | PathLike[str] = "memory:", *, force: bool = False) -> Space:
    """As `app.open(url)`; schedules, retries and wake times come when the clock is moved to them."""
    return app.open_with(url, Options(wall=clock.now_ms, force=force, on_error="raise"))
