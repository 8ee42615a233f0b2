"""The end of an opening, and of the program: who is waited for then, and what is said of what was not sent.

Must never know: what is in a space.
"""

from __future__ import annotations

import atexit
import logging
import os
from typing import Final, Protocol
from weakref import WeakSet

from headwater.client.client_folder import ClientFolder
from headwater.client.server_link import ServerLink
from headwater.client.server_url import ServerUrl
from headwater.errors import OfflineError
from headwater.machine import machine
from headwater.sync.client_session import ClientPhase

EXIT_S: Final = 2.0
"""How long the end of the program waits for what was written, if it has not closed the space."""

log: Final = logging.getLogger("headwater")


class Closing:
    """The end of one opening."""

    def __init__(self, url: ServerUrl) -> None:
        self._url = url
        self._is_ending = False
        self._is_in_haste = False
        self._is_told = False

    def begin(self, *, in_haste: bool) -> None:
        """It is about to end; in haste, after an error: then who is not reached is not waited for."""
        self._is_ending = True
        self._is_in_haste = in_haste

    def can_leave(self, link: ServerLink, folder: ClientFolder | None) -> bool:
        """Whether a server that is not reached needs not be waited for: all is kept, or whoever leaves cannot wait."""
        is_away = link.phase in (ClientPhase.OFFLINE, ClientPhase.CONNECTING)
        return is_away and self._is_ending and (folder is not None or self._is_in_haste)

    def leave(self, link: ServerLink, folder: ClientFolder | None, left: int) -> None:
        """Say, once, what becomes of commits that were not sent. Raises OfflineError if they are lost."""
        what = "1 commit was" if left == 1 else f"{left:,} commits were"
        if folder is None:
            message = f"{self._url} is not reached ({link.trouble}): {what} not sent, and lost"
            raise OfflineError(message, url=str(self._url), waiting=left)
        # The next opening goes on with them.
        folder.flush()
        if not self._is_told:
            self._is_told = True
            level = logging.WARNING if self._is_in_haste else logging.INFO
            log.log(level, "%s not sent to %s, and kept in %s", what, self._url, folder.path)


class Closable(Protocol):
    """An opening."""

    def close_with_program(self, wait_s: float) -> None:
        """The program ends, and has not closed it."""

    def disown(self) -> None:
        """This process was forked from the one that has opened it."""


class _Openings:
    """State of the process."""

    def __init__(self) -> None:
        self.open: WeakSet[Closable] = WeakSet()


def openings() -> WeakSet[Closable]:
    """All openings of this process at servers."""
    return machine().state(_Openings).open


def _disown_all() -> None:
    for each in list(openings()):
        each.disown()


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(after_in_child=_disown_all)


@atexit.register
def _close_all() -> None:
    for each in list(openings()):
        each.close_with_program(EXIT_S)
