"""Routes of the HTTP pages, behind checks of Host and Origin."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from headwater.errors import HeadwaterError
from headwater.server.authenticator import Authenticator
from headwater.server.pages.backup_page import Backups, BrokenOffError
from headwater.server.pages.health_page import Health
from headwater.server.pages.inspect_page import Inspections
from headwater.server.pages.metrics_page import Metrics
from headwater.server.pages.page_access import refused, told
from headwater.server.pages.topics_page import Topics

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log: Final = logging.getLogger("headwater.server")

_PLAIN: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Pages whose path is logged. Other paths contain names of spaces."""


def web_app(
    authenticator: Authenticator,
    health: Health,
    backups: Backups | None = None,
    *,
    proxied: bool = False,
    more: Sequence[BaseRoute] = (),
) -> Starlette:
    """The pages of one server. `more`: further routes."""
    backups = backups or Backups(authenticator)
    topics, metrics = Topics(authenticator), Metrics(authenticator, proxied=proxied)
    inspections = Inspections(authenticator)
    posts = authenticator.traffic.posts

    async def post(request: Request) -> Response:
        status = 500
        try:
            answered = await topics.post(request)
            status = answered.status_code
        except HTTPException as error:
            status = error.status_code
            raise
        except HeadwaterError as error:
            answered = await refused(request, error)
            status = answered.status_code
        finally:
            posts[status] = posts.get(status, 0) + 1
        return answered

    def get(path: str, page: Callable[[Request], Awaitable[Response]]) -> Route:
        return Route(path, page, methods=["GET"])

    app = Starlette(
        routes=[
            get("/healthz", health.healthz),
            get("/readyz", health.readyz),
            get("/metrics", metrics.metrics),
            Route("/spaces/{space}/topics/{workflow}/{topic}", post, methods=["POST"]),
            Route("/spaces/{space}/backup", backups.backup, methods=["GET"]),
            Route("/spaces/{space}/inspect", inspections.post, methods=["POST"]),
            *more,
        ],
        middleware=[Middleware(_Guard, authenticator=authenticator)],
        exception_handlers={HTTPException: told, HeadwaterError: refused},
    )
    # No redirects: a post is not sent twice.
    app.router.redirect_slashes = False
    return app


class _Guard:
    """Checks Host and Origin before routing, and counts and logs the result."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        refusal = self._refusal(dict(headers), [name for name, _ in headers])
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await (self._app if refusal is None else refusal)(scope, receive, sending)
        except BrokenOffError:
            # In the middle of a response the connection can only be closed.
            pass
        except Exception:
            log.exception("a page could not be answered")
            raise
        finally:
            if log.isEnabledFor(logging.DEBUG):
                path = scope["path"] if scope["path"] in _PLAIN else "/..."
                peer = scope["client"][0] if scope.get("client") else ""
                said = {"method": scope.get("method", "GET"), "path": path, "status": status, "peer": peer}
                log.debug("page asked for", extra=said)

    def _refusal(self, headers: Mapping[str, str], names: list[str]) -> Response | None:
        if names.count("host") != 1:
            return PlainTextResponse("one Host is expected\n", 400)
        wrong = self._authenticator.names.refusal(headers["host"], headers.get("origin"))
        return None if wrong is None else PlainTextResponse(wrong[1] + "\n", wrong[0])
