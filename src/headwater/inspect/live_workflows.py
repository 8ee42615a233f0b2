"""The workflows of a file that this process has open: what is told of them at its door, and done with them there.

Must never know: sockets, and who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.errors import ClosedError, NotFoundError
from headwater.host.system_clock import SystemClock
from headwater.inspect import workflow_commands
from headwater.inspect.records import Ask
from headwater.runtime.workflows.hub import Hub, hub_of

if TYPE_CHECKING:
    from headwater.inspect.view import Window


def answer(windows: Sequence[Window], ask: Ask) -> tuple[str, str | None]:
    """The mark, and what was asked for; nothing if all is as it was when the asker last heard. Raises NotFoundError."""
    hub = _hub(windows, ask)
    # Before the answer: what happens meanwhile is told once more, rather than never.
    mark = workflow_commands.mark_of(hub)
    apps = tuple(window.app for window in windows if window.space.is_main)
    return mark, None if ask.unless == mark else workflow_commands.answer(hub, ask, apps)


def act(windows: Sequence[Window], ask: Ask) -> str:
    """Do it, and tell how it is then. Raises what refuses it: then nothing was done."""
    return workflow_commands.act(_hub(windows, ask), ask)


def _hub(windows: Sequence[Window], ask: Ask) -> Hub:
    if not windows:
        raise ClosedError("it was closed")
    space = windows[0].space.name
    if ask.space and space != ask.space:
        message = f"it holds the space {space!r}, not {ask.space!r}; leave out --space, or name the folder"
        raise NotFoundError(message, space=ask.space, found=space)
    for window in windows:
        if window.space.is_main:
            return window.space.flows
    # Only branches are open here; workflows are on none of them, but in the file.
    return hub_of(windows[0].storage, SystemClock().now_ms)
