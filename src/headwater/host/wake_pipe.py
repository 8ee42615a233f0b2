"""A pipe that wakes a thread which waits for sockets."""

from __future__ import annotations

import os
from contextlib import suppress

from headwater.machine import machine


class WakePipe:
    """Wakes a thread. It has no lock: a signal handler may call it at any time.

    It is never closed: its number must not mean another file for a thread that is about to write to it.
    """

    def __init__(self) -> None:
        self.reader, self._writer = machine().pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self._is_set = False

    def wake(self) -> None:
        """Wake the thread. Further calls have no effect until `clear`."""
        if not self._is_set and self._writer >= 0:
            self._is_set = True
            with suppress(OSError):
                os.write(self._writer, b"!")

    def clear(self) -> None:
        """Reset. The caller looks for work afterwards."""
        with suppress(OSError):
            os.read(self.reader, 64)
        self._is_set = False

    def disown(self) -> None:
        """In a forked child: there is no thread to wake."""
        reader, writer = self.reader, self._writer
        self.reader = self._writer = -1
        for descriptor in (reader, writer):
            with suppress(OSError):
                os.close(descriptor)
