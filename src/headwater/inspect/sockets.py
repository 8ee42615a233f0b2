"""The local sockets of the spaces that this process has open, for questions of other processes.

There is one socket for each file, however often it is open here. A space that is open for a moment gets none: the
thread that opens sockets begins with a short wait. A space works without a socket, too.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from select import select
from typing import Final

from headwater.host.socket_paths import ListeningSocket
from headwater.host.wake_pipe import WakePipe
from headwater.inspect.opening_port import OpeningPort
from headwater.machine import Thread, machine

GRACE_S = 0.05
"""A program that ends earlier has no socket, and does not pay for one."""

LINGER_S: Final = 5.0
"""Seconds that the thread waits for another space: a new thread costs more."""

LOOK_S: Final = 0.05
"""Seconds between two polls meanwhile: opening a space is faster without waking a thread."""

_END_S: Final = 1.0
"""Seconds that the end of the program, or a fork, waits for the thread."""

log: Final = logging.getLogger("headwater")


class FileSocket:
    """The socket of one file, shared by all its openings in this process."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.openings: list[OpeningPort] = []
        self.due = machine().monotonic() + GRACE_S
        # Set by the thread: the socket, and that it tried to open one.
        self.listening: ListeningSocket | None = None
        self.tried = machine().event()
        # No opening has the file any more.
        self.closed = False


class SocketRegistry:
    """The sockets of a process, and the thread that serves them."""

    def __init__(self) -> None:
        self.lock = machine().lock()
        self.sockets: dict[str, FileSocket] = {}
        self.ended = False
        # Set by the thread: that it polls, and how to close everything it has.
        self.polls = False
        self.drop: Callable[[], None] = _nothing
        # The forking thread, if it holds the lock.
        self._forker = 0
        self._registered = False
        self._thread: Thread | None = None
        self._waker: WakePipe | None = None

    def enter(self, opening: OpeningPort, file: str) -> Callable[[], None]:
        """Include an opening in answers about its file. Returns the function that ends this."""
        with self.lock:
            file_socket = self.sockets.get(file)
            if file_socket is None:
                file_socket = self.sockets[file] = FileSocket(file)
            file_socket.openings.append(opening)
            if not self._registered:
                # Not earlier: exit functions run in reverse order, and the file is open by now.
                atexit.register(self.end)
                self._registered = True
            try:
                self._begin()
            except (OSError, RuntimeError, AttributeError) as error:
                # Too many files or threads are open; or the system has no such sockets.
                log.debug("%s has no socket: %s", file, error)
        return lambda: self._leave(file_socket, opening)

    def _begin(self) -> None:
        """Start or wake the thread."""
        if self.ended:
            return
        waker = self._waker = self._waker or WakePipe()
        if self._thread is None:
            thread = machine().thread(self._run, args=(waker,), name="headwater-inspect")
            thread.start()
            self._thread = thread
        elif not self.polls:
            waker.wake()

    def _leave(self, file_socket: FileSocket, opening: OpeningPort) -> None:
        with self.lock:
            if self.sockets.get(file_socket.file) is not file_socket:
                return  # it is that of the parent, from which this process was forked
            file_socket.openings.remove(opening)
            if not file_socket.openings:
                self._close(file_socket)
            waker = self._waker
        if waker is not None and file_socket.tried.is_set():
            waker.wake()

    def _close(self, file_socket: FileSocket) -> None:
        """Before the file is released: the next process may open a socket of its own."""
        del self.sockets[file_socket.file]
        file_socket.closed = True
        if file_socket.listening is not None:
            file_socket.listening.remove()

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self, waker: WakePipe) -> None:
        try:
            if self._wait(waker):
                # It takes longer to load than a small program takes to run.
                from headwater.inspect.socket_service import SocketService  # noqa: PLC0415

                SocketService(self, waker).run()
        except Exception:
            log.exception("from now on other processes cannot inspect the open spaces")
            self.ended = True

    def _wait(self, waker: WakePipe) -> bool:
        """Wait until a socket is due. False: there is none, and the thread has ended."""
        quiet_since = machine().monotonic()
        while not self.ended:
            due = self.next_due()
            if due is not None:
                quiet_since = machine().monotonic()
                if due <= quiet_since:
                    return True
            elif machine().monotonic() - quiet_since >= LINGER_S:
                break
            if select([waker.reader], [], [], LOOK_S if due is None else due - quiet_since)[0]:
                waker.clear()
        return not self.retire()

    def next_due(self) -> float | None:
        """When the next socket is due. If there are no files at all, the thread polls."""
        with self.lock:
            self.polls = not self.sockets
            return min(
                (file_socket.due for file_socket in self.sockets.values() if not file_socket.tried.is_set()),
                default=None,
            )

    def retire(self) -> bool:
        """Whether the thread may end: not if a space was opened meanwhile."""
        with self.lock:
            if self.sockets and not self.ended:
                return False
            self._thread, self.polls = None, False
            return True

    # -- the end -------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Take the lock: the child could not close a socket that is not recorded yet."""
        if self.lock.acquire(timeout=_END_S):
            self._forker = machine().thread_id()

    def after_fork(self) -> None:
        """In the parent: release the lock."""
        if self._forker == machine().thread_id():
            self._forker = 0
            self.lock.release()

    def disown(self) -> None:
        """In a forked child: close the sockets, which belong to the parent."""
        self.lock = machine().lock()
        self._forker = 0
        self.polls = False
        self.sockets = {}
        self.drop()
        self.drop = _nothing
        self._thread = None
        if self._waker is not None:
            self._waker.disown()
            self._waker = None

    def end(self) -> None:
        """At the end of the program: close the remaining openings, and store their last state."""
        with self.lock:
            self.ended = True
            left = list(self.sockets.values())
        for file_socket in left:
            for opening in list(file_socket.openings):
                opening.end()
            with self.lock:
                if self.sockets.get(file_socket.file) is file_socket:
                    self._close(file_socket)
        thread, waker = self._thread, self._waker
        if thread is not None and waker is not None:
            waker.wake()
            thread.join(_END_S)


def _nothing() -> None:
    """There is nothing to close."""


def socket_registry() -> SocketRegistry:
    """The sockets of this process."""
    return machine().state(SocketRegistry)


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(
        before=lambda: socket_registry().before_fork(),
        after_in_parent=lambda: socket_registry().after_fork(),
        after_in_child=lambda: socket_registry().disown(),
    )
