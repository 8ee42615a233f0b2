"""Doors of the spaces that this process has open: through them other processes ask what its functions are doing.

One door for each file, however often it is open here. A space that is open for a moment only gets none: the thread
that makes doors and answers at them begins with a short wait. What cannot be made is missing; the space works without.

Must never know: what is asked, and how it travels.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from select import select
from typing import TYPE_CHECKING, Final

from headwater.machine import Thread, machine

if TYPE_CHECKING:
    from headwater.inspect.socket_paths import ListeningSocket
    from headwater.inspect.view import Window

GRACE_S = 0.05
"""A program that has come to its end by then was not asked anything, and shall not pay for it."""

LINGER_S: Final = 5.0
"""How long the thread waits for another space when there is none: starting it anew would cost more."""

LOOK_S: Final = 0.05
"""How often it looks for one meanwhile: who opens a space is quicker if nobody has to be woken."""

_END_S: Final = 1.0
"""How long the end of the program, or a fork, waits for the thread."""

log: Final = logging.getLogger("headwater")


class Door:
    """What all openings of one file in this process share."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.windows: list[Window] = []
        self.due = machine().monotonic() + GRACE_S
        # The thread: what it made, or that it tried. Whoever waits for that is told.
        self.way: ListeningSocket | None = None
        self.tried = machine().event()
        # Nobody has the file open any more.
        self.closed = False


class Bell:
    """Wakes the thread. It is rung in the middle of anything, so it has no lock that a signal could find held.

    It is never taken down: whoever is about to ring must not find that its number means another file by now.
    """

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self._rung = False

    def ring(self) -> None:
        """Once is enough until it is heard."""
        if not self._rung and self._writer >= 0:
            self._rung = True
            with suppress(OSError):
                os.write(self._writer, b"!")

    def hear(self) -> None:
        """Be ready for the next. Who rings before that is seen by a look after it."""
        with suppress(OSError):
            os.read(self.reader, 64)
        self._rung = False

    def disown(self) -> None:
        """In a forked child: there is nobody to hear it."""
        reader, writer = self.reader, self._writer
        self.reader = self._writer = -1
        for descriptor in (reader, writer):
            with suppress(OSError):
                os.close(descriptor)


class Doors:
    """All of them, and the thread that looks after them while there are any."""

    def __init__(self) -> None:
        self.lock = machine().lock()
        self.open: dict[str, Door] = {}
        self.ended = False
        # The thread: it looks around by itself; and how to let go of everything it has.
        self.looks = False
        self.drop: Callable[[], None] = _nothing
        # The thread that forks right now, if it has the lock.
        self._forker = 0
        self._registered = False
        self._thread: Thread | None = None
        self._bell: Bell | None = None

    def enter(self, window: Window, file: str) -> Callable[[], None]:
        """From now on questions about the file are answered with what is seen there, too. Returns what ends it."""
        with self.lock:
            door = self.open.get(file)
            if door is None:
                door = self.open[file] = Door(file)
            door.windows.append(window)
            if not self._registered:
                # Not before: what ends at last was begun first, and there is an open file by now.
                atexit.register(self.end)
                self._registered = True
            try:
                self._begin()
            except (OSError, RuntimeError, AttributeError) as error:
                # Too many files or threads are open; or this is no system for it.
                log.debug("%s has no door: %s", file, error)
        return lambda: self._leave(door, window)

    def _begin(self) -> None:
        """There is something to do for the thread."""
        if self.ended:
            return
        bell = self._bell = self._bell or Bell()
        if self._thread is None:
            thread = machine().thread(self._run, args=(bell,), name="headwater-door")
            thread.start()
            self._thread = thread
        elif not self.looks:
            bell.ring()

    def _leave(self, door: Door, window: Window) -> None:
        with self.lock:
            if self.open.get(door.file) is not door:
                return  # it is another process's, and this one was forked from that
            door.windows.remove(window)
            if not door.windows:
                self._close(door)
            bell = self._bell
        if bell is not None and door.tried.is_set():
            bell.ring()

    def _close(self, door: Door) -> None:
        """Before the file is let go: whoever has it then may make a door of their own."""
        del self.open[door.file]
        door.closed = True
        if door.way is not None:
            door.way.remove()

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self, bell: Bell) -> None:
        try:
            if self._wait(bell):
                # Not before it is needed: it takes longer to load than a small program takes to run.
                from headwater.inspect.socket_service import Service  # noqa: PLC0415

                Service(self, bell).run()
        except Exception:
            log.exception("from now on nobody can ask what the functions of open spaces are doing")
            self.ended = True

    def _wait(self, bell: Bell) -> bool:
        """Until there is a door to be made. False: there is none, and the thread has ended."""
        quiet_since = machine().monotonic()
        while not self.ended:
            due = self.next_due()
            if due is not None:
                quiet_since = machine().monotonic()
                if due <= quiet_since:
                    return True
            elif machine().monotonic() - quiet_since >= LINGER_S:
                break
            if select([bell.reader], [], [], LOOK_S if due is None else due - quiet_since)[0]:
                bell.hear()
        return not self.retire()

    def next_due(self) -> float | None:
        """When the next door is to be made. If there is none at all, the thread has to look again."""
        with self.lock:
            self.looks = not self.open
            return min((door.due for door in self.open.values() if not door.tried.is_set()), default=None)

    def retire(self) -> bool:
        """The thread has nothing to do: it may end, unless somebody has come meanwhile."""
        with self.lock:
            if self.open and not self.ended:
                return False
            self._thread, self.looks = None, False
            return True

    # -- the end -------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Nothing may be half done: the child could not let go of a socket that nobody has noted yet."""
        if self.lock.acquire(timeout=_END_S):
            self._forker = machine().thread_id()

    def after_fork(self) -> None:
        """In the parent, everything goes on."""
        if self._forker == machine().thread_id():
            self._forker = 0
            self.lock.release()

    def disown(self) -> None:
        """In a forked child: the doors are the parent's. Not even their sockets may be left open here."""
        self.lock = machine().lock()
        self._forker = 0
        self.looks = False
        self.open = {}
        self.drop()
        self.drop = _nothing
        self._thread = None
        if self._bell is not None:
            self._bell.disown()
            self._bell = None

    def end(self) -> None:
        """The program ends: what it forgot to close leaves no door, and what is known of it is kept."""
        with self.lock:
            self.ended = True
            left = list(self.open.values())
        for door in left:
            for window in list(door.windows):
                window.end()
            with self.lock:
                if self.open.get(door.file) is door:
                    self._close(door)
        thread, bell = self._thread, self._bell
        if thread is not None and bell is not None:
            bell.ring()
            thread.join(_END_S)


def _nothing() -> None:
    """There is nothing to let go of."""


def doors() -> Doors:
    """Those of this process."""
    return machine().state(Doors)


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(
        before=lambda: doors().before_fork(),
        after_in_parent=lambda: doors().after_fork(),
        after_in_child=lambda: doors().disown(),
    )
