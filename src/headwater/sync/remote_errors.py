"""Error frames as exceptions."""

from __future__ import annotations

from typing import Final

from headwater.errors import (
    AccessError,
    CorruptError,
    HeadwaterError,
    HistoryError,
    LimitError,
    LocalProtocolError,
    MigrationError,
    NameRefusedError,
    NotFoundError,
    PoisonedError,
    QueryError,
    RemoteProtocolError,
    ServerLimitError,
    SessionLostError,
    SpaceHeldError,
    SpaceTwinError,
    StoreError,
    StoreFullError,
    SyncError,
    UnavailableError,
)

_ERRORS: Final[dict[str, type[HeadwaterError]]] = {
    kind.code: kind
    for kind in (
        AccessError, CorruptError, HistoryError, LimitError, LocalProtocolError, MigrationError, NameRefusedError,
        NotFoundError, PoisonedError, QueryError, RemoteProtocolError, ServerLimitError, SessionLostError,
        SpaceHeldError, SpaceTwinError, StoreError, StoreFullError, SyncError, UnavailableError,
    )
}  # fmt: skip


def error_of(code: str, message: str) -> HeadwaterError:
    """The exception for an error frame of the server."""
    return _ERRORS.get(code, SyncError)(message)


def is_of_the_disk(error: HeadwaterError) -> bool:
    """Whether the server's disk is the cause: a passing state, and no answer to the request."""
    return isinstance(error, UnavailableError | PoisonedError) or type(error) is StoreError
