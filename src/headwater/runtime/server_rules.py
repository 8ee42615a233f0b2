"""What the events of a server's space have to know of the server: whether it is reached, and what may be done there.

Must never know: how an event is handled, and how a connection is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import AccessError

if TYPE_CHECKING:
    from headwater.runtime.connection import Connection
    from headwater.runtime.space_runtime import BaseSpace
    from headwater.runtime.storage_port import StoragePort


def may_write(connection: Connection) -> bool:
    """Whether anything that is written there is taken."""
    return connection.can != "read"


def left(connection: Connection, *, is_kept: bool) -> str:
    """What becomes of what was written to a server's space last, in words, if it `is_kept` in a folder."""
    if not may_write(connection):
        return "lost, since the right to write is missing"
    if connection.state == "over":
        return f"lost: {connection.trouble}"
    if connection or is_kept:
        return "handled when the space is opened again"
    return f"lost, since {connection.url} is not reached and no folder was given (`local=`)"


def share(space: BaseSpace, place: StoragePort, *, is_kept: bool) -> None:
    """Have events wait for the server while it is away, and say the truth of those that fail or are left.

    `is_kept`: in a folder, what the server has not decided.
    """
    scheduler = space.scheduler
    url = place.connection().url

    def away() -> str:
        connection = place.connection()
        # One that is over has no use in waiting: whoever asks is told why.
        is_away = connection.state in ("connecting", "offline")
        return f"{connection.url} is not reached ({connection.trouble})" if is_away else ""

    def unkeepable() -> AccessError | None:
        if may_write(place.connection()):
            return None
        return AccessError(f"who may only read space {space.name!r} keeps nothing there", space=space.name)

    def changed(connection: Connection) -> None:
        if connection.state in ("live", "over") and not space.closed:
            scheduler.lanes.server_is_back()
            space.ring()

    space.mail.left = lambda: left(place.connection(), is_kept=is_kept)
    scheduler.streams.is_shared = True
    scheduler.outcomes.unkeepable, scheduler.outcomes.where = unkeepable, f" --url {url}"
    scheduler.events.server, scheduler.events.away = url, away
    place.on_connection(changed)
