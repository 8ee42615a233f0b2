"""Ctrl-C while a thread decides commits: after a number of lines, as the interpreter may raise it between any two."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from sim.world import World

_FILES: Final = ("/headwater/store/engine.py", "/headwater/store/backends/sqlite.py", "/headwater/host/disk_writer.py")
_FUNCTIONS: Final = frozenset(
    {"_work", "_append", "_end_written", "_deliver", "_decide", "_stall", "_stalled_by", "_tell"}
)
"""Of the storage: other functions hold its lock between two lines, which no program can make safe."""


COUNTED: Final = "line interrupts"
"""The figure of a world: at lines of Python, which a compiled core does not have."""


class Interruption:
    """Counts lines of the code that decides."""

    def __init__(self, lines: int) -> None:
        self._left = abs(lines)
        # Below 0: only lines after the disk has taken a group count.
        self._counts = lines > 0

    def trace(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        """For `sys.settrace`: called for each new function."""
        del event
        code = frame.f_code
        if code.co_filename.endswith(_FILES):
            return self._line
        if code.co_filename.endswith("/headwater/host/storage.py") and code.co_name in _FUNCTIONS:
            return self._line
        return None

    def _line(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "return" and frame.f_code.co_name == "append":
            self._counts = True
        elif event == "line" and self._counts:
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt
        return self._line


@contextmanager
def interrupted(world: World, lines: int) -> Iterator[None]:
    """Interrupt what is done within, after so many lines; 0: not at all."""
    try:
        if lines:
            world.counts[COUNTED] += 1
            sys.settrace(Interruption(lines).trace)
        yield
    except KeyboardInterrupt:
        world.counts["interrupts"] += 1
    finally:
        sys.settrace(None)
