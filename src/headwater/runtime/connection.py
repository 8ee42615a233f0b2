"""The state of the connection between an open space and its server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from headwater.runtime.error_report import log_raised

ConnectionState: TypeAlias = Literal["local", "connecting", "live", "offline", "over"]
"""local: no server. live: connected. offline: tried again by itself. over: not any more; the error says why."""


class Connection(msgspec.Struct, frozen=True):
    """The state at one moment."""

    state: ConnectionState
    url: str = ""
    actor: str = ""
    can: str = "own"
    """What may be done: read, write or own."""
    pending: int = 0
    """Commits that the server has not decided yet."""
    tries: int = 0
    """How often it was tried to connect."""
    trouble: str = ""
    """Why it is not live."""
    refused: int = 0
    """Commits of earlier runs of the program, kept in its folder, that were taken back when it was opened again."""

    def __bool__(self) -> bool:
        """Whether what is written is decided at once."""
        return self.state in ("local", "live")


class Listeners:
    """Listeners for changes of the state."""

    def __init__(self) -> None:
        self._listeners: tuple[Callable[[Connection], None], ...] = ()

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self, listener: Callable[[Connection], None]) -> Callable[[], None]:
        """Add a listener. Returns a function that removes it."""
        # Wrapped, so that a listener that is added twice is called twice.
        entry: Callable[[Connection], None] = lambda connection: listener(connection)  # noqa: E731, PLW0108
        self._listeners = (*self._listeners, entry)

        def end() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not entry)

        return end

    def tell(self, connection: Connection) -> None:
        """Notify all listeners. An error of one is logged, and the others are notified."""
        for listener in self._listeners:
            try:
                listener(connection)
            except Exception as error:  # noqa: BLE001  # a function of the author's
                log_raised(error, "a function that was given to space.on_connection has raised")


LOCAL: Final = Connection("local")
"""Of a space in this process."""
