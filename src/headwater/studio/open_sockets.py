"""The open sockets of one Studio: those that have said who they are, and those that have not yet.

Both have their own bound, so that a client without a token takes no room from tabs with one. A socket that has not
said who it is makes room for a newer one: a page says it at once, so it comes in while others only hold sockets open.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.studio.limits import GRANT_TABS, HALF_OPEN, HALF_OPEN_PEER, HELLO_S, TABS


class HalfOpen:
    """One socket that has not said who it is."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.time = asyncio.timeout(HELLO_S)
        """Until its hello."""
        self.is_waiting = True
        """Whether its hello has not come. After it, it is not ended: a one-time code would be lost."""
        self.made_room = False
        """Whether it was ended for a newer one."""

    def heard(self) -> None:
        """Its hello has come."""
        self.is_waiting = False

    def make_room(self) -> None:
        """End the wait."""
        self.made_room, self.is_waiting = True, False
        self.time.reschedule(asyncio.get_running_loop().time())


class OpenSockets:
    """See the module. Used in the event loop only."""

    def __init__(self) -> None:
        self._half_open: list[HalfOpen] = []
        self._grants: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether no further tab has room."""
        return self._grants.total() >= TABS

    def begin(self, peer: str) -> HalfOpen | None:
        """Room for a socket that has not said who it is; None if there is none. The caller ends it."""
        theirs = [each for each in self._half_open if each.peer == peer]
        if len(theirs) >= HALF_OPEN_PEER and not self._make_room(theirs):
            return None
        if len(self._half_open) >= HALF_OPEN:
            [(most, _)] = Counter(each.peer for each in self._half_open).most_common(1)
            # The oldest of who has the most, or of all.
            of_most = [each for each in self._half_open if each.peer == most]
            if not self._make_room(of_most) and not self._make_room(self._half_open):
                return None
        made = HalfOpen(peer)
        self._half_open.append(made)
        return made

    def _make_room(self, among: list[HalfOpen]) -> bool:
        found = next((each for each in among if each.is_waiting), None)
        if found is None:
            return False
        found.make_room()
        self._half_open.remove(found)
        return True

    def end(self, half_open: HalfOpen) -> None:
        """It has entered, or is gone."""
        if half_open in self._half_open:
            self._half_open.remove(half_open)

    @contextmanager
    def tab(self, grant: str) -> Iterator[str]:
        """Room for a tab while the block runs; or the reason why there is none. At a local Studio there is no grant."""
        if self.is_full:
            yield "too many tabs are open"
        elif grant and self._grants[grant] >= GRANT_TABS:
            yield f"too many tabs are open with this token: {GRANT_TABS} at most"
        else:
            self._grants[grant] += 1
            try:
                yield ""
            finally:
                self._grants[grant] -= 1
                if not self._grants[grant]:
                    del self._grants[grant]
