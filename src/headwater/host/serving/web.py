"""What the server answers over HTTP: whether it is well, and how much it does.

Must never know: frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headwater.host.serving.doorman import Doorman
from headwater.host.serving.house import House

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send


def web_app(house: House, doorman: Doorman) -> Starlette:
    """The pages of one server."""

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        return PlainTextResponse("ending\n", 503) if house.closing else PlainTextResponse("ready\n")

    app = Starlette(
        routes=[Route("/healthz", healthz, methods=["GET"]), Route("/readyz", readyz, methods=["GET"])],
        middleware=[Middleware(_Guard, doorman=doorman)],
    )
    app.router.redirect_slashes = False
    return app


class _Guard:
    """Looks at who asks, before anybody looks at what."""

    def __init__(self, app: ASGIApp, doorman: Doorman) -> None:
        self._app = app
        self._doorman = doorman

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        refusal = self._refusal(dict(headers), [name for name, _ in headers])
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, headers: Mapping[str, str], names: list[str]) -> Response | None:
        if names.count("host") != 1:
            return PlainTextResponse("one Host is expected\n", 400)
        wrong = self._doorman.names.refusal(headers["host"], headers.get("origin"))
        return None if wrong is None else PlainTextResponse(wrong[1] + "\n", wrong[0])
