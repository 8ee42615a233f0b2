"""The state of the connection between an open space and its server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from headwater.runtime.error_report import log_raised

ConnectionState: TypeAlias = Literal["local", "connecting", "live", "offline", "over"]
"""local: no server. live: connected. offline: tried again by itself. over: not any more; the error says why."""


class Connection(msgspec.Struct, frozen=True):
    """The state of the connection of a space to its server, at one moment.

    It is true if writes are decided at once: without a server, or while connected.
    """

    state: ConnectionState
    """`"local"`: no server. `"connecting"`. `"live"`: connected. `"offline"`: tried again. `"over"`: ended."""
    url: str = ""
    """The address of the server."""
    actor: str = ""
    """The user that the program acts for."""
    can: str = "own"
    """What the program may do in the space: `"read"`, `"write"` or `"own"`."""
    pending: int = 0
    """The number of commits that the server has not decided yet."""
    tries: int = 0
    """The number of attempts to connect."""
    trouble: str = ""
    """Why the connection is not live."""
    refused: int = 0
    """The number of commits from earlier runs of the program that the server rejected at this opening."""
    by_rules: bool = False
    """Whether a program that can `"read"` may write what the rules of collections allow its roles."""

    def __bool__(self) -> bool:
        """Whether a write is decided at once."""
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
