"""Openings in a notebook or at a prompt: an input that is run again opens anew, and the former opening is let go.

A program that opens a space twice means that. At a prompt the variable that held the first opening holds the second
one, and nothing could close the first: it would hold its file until the kernel ends.
"""

from __future__ import annotations

import builtins
import logging
import sys
from typing import Final

from headwater.cells.context import open_spaces
from headwater.errors import HeadwaterError
from headwater.host.plain_runtime import PlainRuntime
from headwater.machine import machine
from headwater.runtime.space_runtime import SpaceRuntime
from headwater.values.author_text import describe

log: Final = logging.getLogger("headwater")


def is_interactive() -> bool:
    """Whether a person types: in IPython and its kernels, or at Python's own prompt."""
    return hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1")


def _former(app: str, place: str) -> list[SpaceRuntime]:
    """Openings of an app of that name at that place that no block is around: nothing else closes them."""
    if not place or not is_interactive():
        return []
    spaces = [home for home in list(open_spaces()) if isinstance(home, SpaceRuntime) and home.opened_as == (app, place)]
    return [space for space in spaces if not space.tokens]


def close_former(app: str, place: str) -> None:
    """Close what an earlier input has opened there."""
    for space in _former(app, place):
        _told(space)
        try:
            if isinstance(space, PlainRuntime):
                space.close()
            else:
                space.abandon()
        except HeadwaterError as error:
            log.warning("while closing the former opening of %s: %s", place, describe(error))


async def aclose_former(app: str, place: str) -> None:
    """As `close_former`, in an event loop."""
    import asyncio  # noqa: PLC0415  # plain programs need not load it

    from headwater.host.async_runtime import AsyncRuntime  # noqa: PLC0415

    for space in _former(app, place):
        _told(space)
        try:
            if isinstance(space, AsyncRuntime) and space.loop is asyncio.get_running_loop():
                await space.close()
            else:
                await machine().to_thread(space.close if isinstance(space, PlainRuntime) else space.abandon)
        except HeadwaterError as error:
            log.warning("while closing the former opening of %s: %s", place, describe(error))


def _told(space: SpaceRuntime) -> None:
    log.info("space %r is opened anew: its former opening is closed", space.name)
