"""The end of an opening at a server, and of the program: what is waited for, and the report of unsent commits."""

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
"""How long the end of the program waits for unsent commits of a space that was not closed."""

log: Final = logging.getLogger("headwater")


class Closing:
    """The end of one opening."""

    def __init__(self, url: ServerUrl) -> None:
        self._url = url
        self._is_ending = False
        self._is_in_haste = False
        self._is_told = False

    def begin(self, *, in_haste: bool) -> None:
        """The opening is about to end. `in_haste`, after an error: do not wait for a server that is not reached."""
        self._is_ending = True
        self._is_in_haste = in_haste

    def can_leave(self, link: ServerLink, folder: ClientFolder | None) -> bool:
        """Whether to leave without waiting for an unreachable server: all is stored locally, or time is short."""
        is_away = link.phase in (ClientPhase.OFFLINE, ClientPhase.CONNECTING)
        return is_away and self._is_ending and (folder is not None or self._is_in_haste)

    def leave(self, link: ServerLink, folder: ClientFolder | None, left: int) -> None:
        """Report unsent commits, once. Raises OfflineError if they are lost."""
        what = "1 commit was" if left == 1 else f"{left:,} commits were"
        if folder is None:
            message = f"{self._url} is not reached ({link.trouble}): {what} not sent, and lost"
            raise OfflineError(message, url=str(self._url), waiting=left)
        # The next opening sends them.
        folder.flush()
        if not self._is_told:
            self._is_told = True
            level = logging.WARNING if self._is_in_haste else logging.INFO
            log.log(level, "%s not sent to %s, and kept in %s", what, self._url, folder.path)


class Closable(Protocol):
    """An opening that can be ended by the process."""

    def close_with_program(self, wait_s: float) -> None:
        """Close at the end of a program that did not."""

    def disown(self) -> None:
        """Release it in a forked child: it belongs to the parent."""


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
