"""What the events of a server's space know of the server: whether it is reached, and what may be written."""

from __future__ import annotations

from headwater.errors import AccessError
from headwater.runtime.connection import Connection
from headwater.runtime.storage_port import StoragePort
from headwater.scheduler.scheduler_environment import EventServer


def may_write(connection: Connection) -> bool:
    """Whether the server accepts all writes of this client."""
    return connection.can != "read"


def may_write_some(connection: Connection) -> bool:
    """Whether the server accepts writes of this client, if only those that rules of collections allow."""
    return may_write(connection) or connection.by_rules


def left(connection: Connection, *, is_kept: bool) -> str:
    """What happens to the last writes to a server's space, as text. `is_kept`: they are stored in a local folder."""
    if not may_write(connection):
        return "lost, since the right to write is missing"
    if connection.state == "over":
        return f"lost: {connection.trouble}"
    if connection or is_kept:
        return "handled when the space is opened again"
    return f"lost, since {connection.url} is not reached and no folder was given (`local=`)"


def event_server(storage: StoragePort) -> EventServer:
    """The server of a space, as its events see it: they wait while it is away, and failures are stored there."""

    def away() -> str:
        connection = storage.connection()
        # The connection has ended for good: waiting is useless, and the caller gets the reason.
        is_away = connection.state in ("connecting", "offline")
        return f"{connection.url} is not reached ({connection.trouble})" if is_away else ""

    def refusal() -> AccessError | None:
        if may_write_some(storage.connection()):
            return None
        name = storage.name
        return AccessError(f"nothing can be stored in space {name!r}: the right to write is missing", space=name)

    return EventServer(url=storage.connection().url, away=away, refusal=refusal)
