"""A connection to a space of a server, for as long as a `with` block takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.client.credentials import Credentials
from headwater.client.server_link import ServerLink
from headwater.client.server_url import ServerUrl
from headwater.sync.client_session import Item
from headwater.sync.frames import Open
from headwater.values.ids import BranchId


def _ignored(_items: list[Item]) -> None:
    """Nothing is watched."""


@contextmanager
def linked(
    url: ServerUrl,
    token: str | None,
    branch: str,
    actor: str = "",
    *,
    deliver: Callable[[list[Item]], None] = _ignored,
) -> Iterator[ServerLink]:
    """A connection to a space that exists. Raises OfflineError, AccessError."""
    opening = Open(url.space, BranchId(branch), actor, create=False)
    link = ServerLink(url, opening, Credentials(token=token), deliver=deliver, decided=lambda _number: None)
    link.start()
    try:
        yield link
    finally:
        link.stop()
