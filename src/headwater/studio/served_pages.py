"""The pages of `headwater serve --studio`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from starlette.routing import BaseRoute, Route

from headwater.access.grants import Grant
from headwater.server.authenticator import Authenticator
from headwater.server.pages.backup_page import Backups
from headwater.server.server import MorePages
from headwater.studio.served_host import ServedHost
from headwater.studio.site import StudioSite

SOCKET: Final = "/studio/socket"
"""Where pages connect."""


def studio_pages(made: Callable[[ServedHost], None] = lambda _host: None) -> MorePages:
    """The routes of the Studio of a server. `made` gets the host, when the server starts."""

    def pages(authenticator: Authenticator, backups: Backups, url: str) -> Sequence[BaseRoute]:
        host = ServedHost(authenticator, backups, url)
        made(host)
        return [
            Route("/studio/download/{code}", host.download, methods=["GET"]),
            *StudioSite(host, host.logins, authenticator.names).routes(),
        ]

    return pages


def own_link(host: ServedHost, grant: Grant, url: str) -> str:
    """The address with a one-time code for the user of the server, on its machine."""
    code = host.logins.link_code(host.login_of(grant, "127.0.0.1"))
    return f"{url.replace('ws', 'http', 1)}/studio/#c={code}"
