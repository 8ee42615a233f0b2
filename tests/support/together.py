"""Several apps that are opened before any of their functions runs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import headwater as hw


def open_together(stack: ExitStack, apps: list[tuple[hw.App, str | Path]]) -> list[hw.Space]:
    """Open all, restore all, and then let all of them settle."""
    return list(stack.enter_context(hw.together(*(app.opening(url, on_error="log") for app, url in apps))))
