"""How it stands between an open space and its server, for whoever wants to show it.

Must never know: how a connection is made.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

ConnectionState: TypeAlias = Literal["local", "connecting", "live", "offline", "over"]
"""local: no server. live: connected. offline: tried again by itself. over: not any more; the error says why."""


class Connection(msgspec.Struct, frozen=True):
    """At one moment."""

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

    def __bool__(self) -> bool:
        """Whether what is written is decided at once."""
        return self.state in ("local", "live")


LOCAL: Final = Connection("local")
"""Of a space in this process."""
