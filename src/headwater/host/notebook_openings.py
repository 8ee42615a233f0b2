"""Openings in a notebook or at a prompt: an input that is run again closes the former opening, and opens again.

A program that opens a space twice intends that. At a prompt, the variable of the first opening now holds the second
one, so nothing could close the first: it would hold its file until the kernel ends.
"""

from __future__ import annotations

import builtins
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headwater.cells.context import open_spaces
from headwater.errors import HeadwaterError
from headwater.host.plain_opening import PlainOpening
from headwater.runtime.entered_space import EnteredSpace
from headwater.values.author_text import describe

log: Final = logging.getLogger("headwater")


def is_interactive() -> bool:
    """Whether a person types: in IPython and its kernels, or at Python's own prompt."""
    return hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1")


def former_openings(app: str, place: str) -> list[EnteredSpace]:
    """Openings of an app of that name at that place without a block around them: nothing else closes them."""
    if not place or not is_interactive():
        return []
    spaces = [home for home in list(open_spaces()) if isinstance(home, EnteredSpace)]
    return [space for space in spaces if space.opened_as == (app, place) and not space.is_entered]


def close_former(app: str, place: str) -> None:
    """Close what an earlier input has opened there."""
    for space in former_openings(app, place):
        with closing_former(space, place):
            if isinstance(space, PlainOpening):
                space.close()
            else:
                space.abandon()


@contextmanager
def closing_former(space: EnteredSpace, place: str) -> Iterator[None]:
    """The closing of a former opening: logged, as are its errors."""
    log.info("space %r is opened anew: its former opening is closed", space.name)
    try:
        yield
    except HeadwaterError as error:
        log.warning("while closing the former opening of %s: %s", place, describe(error))
