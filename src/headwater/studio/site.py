"""The HTTP side of a Studio: the page, its files, downloads and the socket. HTTP changes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from headwater._version import __version__
from headwater.access.allowed_hosts import AllowedHosts
from headwater.errors import HeadwaterError, RemoteProtocolError
from headwater.machine import machine
from headwater.studio import page_frames
from headwater.studio.feed import SpaceFeed
from headwater.studio.host import Login, StudioHost
from headwater.studio.limits import FRAME_BYTES
from headwater.studio.logins import Logins, StudioSession
from headwater.studio.open_sockets import HalfOpen, OpenSockets
from headwater.studio.static_files import static_files
from headwater.studio.tab import BAD_FRAME, NOT_ADMITTED, TOO_MANY, GoneError, Tab

log: Final = logging.getLogger("headwater.studio")

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""No inline script, no other server, no frame, no HTML from text."""

HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_FOREVER: Final = "public, max-age=31536000, immutable"
_SLOW: Final = 4408
_TOO_LARGE: Final = 1009


class StudioSite:
    """One Studio: its routes, its feeds and tabs."""

    def __init__(self, host: StudioHost, logins: Logins, names: AllowedHosts, origins: Collection[str] = ()) -> None:
        self.host = host
        self.logins = logins
        self.version = __version__
        self._files = static_files()
        self._names = names
        self._origins = origins
        self._feeds: dict[tuple[Login, str, str], tuple[SpaceFeed, int]] = {}
        self._lock = machine().lock()
        self._sockets = OpenSockets()
        self.download: Callable[[Request], Response] | None = None
        """Answers `/studio/download/CODE`, if the host has downloads."""

    def routes(self) -> list[BaseRoute]:
        """The routes, all below `/studio/`."""
        return [
            Route("/studio", self._redirect, methods=["GET"]),
            Route("/studio/", self._index, methods=["GET"]),
            Route("/studio/download/{code}", self._download, methods=["GET"]),
            WebSocketRoute("/studio/socket", self.socket),
            Route("/studio/{version}/{path:path}", self._file, methods=["GET"]),
        ]

    def close(self) -> None:
        """End the threads of the feeds."""
        with self._lock:
            feeds = [feed for feed, _ in self._feeds.values()]
            self._feeds.clear()
        for feed in feeds:
            feed.close()

    # -- feeds ---------------------------------------------------------------------------------------------

    def feed(self, login: Login, space: str, branch: str) -> SpaceFeed:
        """The feed of a space for a login: one for all tabs of the same login."""
        key = login, space, branch
        with self._lock:
            found, count = self._feeds.get(key) or (SpaceFeed(self.host, login, space, branch), 0)
            self._feeds[key] = found, count + 1
        return found

    def release(self, feed: SpaceFeed) -> None:
        """A tab does not use a feed any more. The last one ends its thread."""
        with self._lock:
            key = next((key for key, (each, _) in self._feeds.items() if each is feed), None)
            if key is None:
                return
            _, count = self._feeds[key]
            if count > 1:
                self._feeds[key] = feed, count - 1
                return
            del self._feeds[key]
        machine().thread(feed.close, name="headwater-studio-end").start()

    # -- pages ---------------------------------------------------------------------------------------------

    def refusal(self, host: str, origin: str | None) -> tuple[int, str] | None:
        """Why a request of this Host and Origin is refused."""
        return self._names.refusal(host, origin, self._origins)

    def _refused(self, request: Request) -> Response | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            return PlainTextResponse("one Host is expected\n", 400, headers=HEADERS)
        wrong = self.refusal(hosts[0], request.headers.get("origin"))
        return None if wrong is None else PlainTextResponse(wrong[1] + "\n", wrong[0], headers=HEADERS)

    async def _redirect(self, request: Request) -> Response:
        return self._refused(request) or RedirectResponse("/studio/", 308, headers=HEADERS)

    async def _index(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        file = self._files.index
        return Response(file.body, headers={**HEADERS, "cache-control": "no-cache"}, media_type=file.media_type)

    async def _file(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        known = self._files
        # The path is a key of the table, never a path.
        file = known.by_path.get(request.path_params["path"])
        if file is None or request.path_params["version"] != known.version:
            return PlainTextResponse("there is no such file\n", 404, headers=HEADERS)
        return Response(file.body, headers={**HEADERS, "cache-control": _FOREVER}, media_type=file.media_type)

    async def _download(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        if self.download is None:
            return PlainTextResponse("there is no such file\n", 404, headers=HEADERS)
        return await machine().to_thread(self.download, request)

    # -- the socket ----------------------------------------------------------------------------------------

    async def socket(self, websocket: WebSocket) -> None:
        """One tab, from its upgrade to its end."""
        refused = self._socket_refusal(websocket)
        if refused is not None:
            await websocket.send_denial_response(PlainTextResponse(refused[1] + "\n", refused[0], headers=HEADERS))
            return
        await websocket.accept(subprotocol=page_frames.SUBPROTOCOL)
        half_open = self._sockets.begin(websocket.client.host if websocket.client is not None else "")
        if half_open is None:
            await _end(websocket, TOO_MANY, "too many connections have not said who they are")
            return
        try:
            await self._talk(websocket, half_open)
        finally:
            self._sockets.end(half_open)

    def _socket_refusal(self, websocket: WebSocket) -> tuple[int, str] | None:
        hosts = websocket.headers.getlist("host")
        origin = websocket.headers.get("origin")
        if len(hosts) != 1:
            return 400, "one Host is expected"
        wrong = self.refusal(hosts[0], origin)
        if wrong is not None:
            return wrong
        if origin is None:
            return 403, "an Origin is expected: only the page of the Studio may connect here"
        if page_frames.SUBPROTOCOL not in websocket.scope.get("subprotocols", ()):
            return 400, f"the subprotocol {page_frames.SUBPROTOCOL} is expected"
        return None

    async def _talk(self, websocket: WebSocket, half_open: HalfOpen) -> None:
        try:
            async with half_open.time:
                text = await _received(websocket)
                half_open.heard()
        except TimeoutError:
            # A page that does not answer the closing must not take room, either.
            self._sockets.end(half_open)
            if half_open.made_room:
                await _end(websocket, TOO_MANY, "too many connections have not said who they are")
            else:
                await _end(websocket, _SLOW, "no hello came in time")
            return
        except (WebSocketDisconnect, GoneError):
            return
        if self._sockets.is_full:
            # Before a one-time code is used up.
            self._sockets.end(half_open)
            await _end(websocket, TOO_MANY, "too many tabs are open")
            return
        try:
            hello = page_frames.read_page_frame(text)
            if not isinstance(hello, page_frames.HelloFrame):
                raise RemoteProtocolError("the first frame must be hello")
            secret, session = await machine().to_thread(self.logins.enter, hello, half_open.peer)
        except RemoteProtocolError as error:
            self._sockets.end(half_open)
            await _send(websocket, page_frames.frame_text(page_frames.trouble_of(error)))
            await _end(websocket, BAD_FRAME, "the first frame is not understood")
            return
        except HeadwaterError as error:
            self._sockets.end(half_open)
            await _send(websocket, page_frames.frame_text(page_frames.trouble_of(error)))
            await _end(websocket, NOT_ADMITTED, "not admitted")
            return
        self._sockets.end(half_open)
        with self._sockets.tab(session.login.grant) as why_not:
            if not why_not:
                await self._enter(websocket, session, secret)
        if why_not:
            await _end(websocket, TOO_MANY, why_not)

    async def _enter(self, websocket: WebSocket, session: StudioSession, secret: str) -> None:
        tab = Tab(self, session, partial(_send, websocket))
        try:
            await self._serve(websocket, tab, secret)
        finally:
            tab.close()

    async def _serve(self, websocket: WebSocket, tab: Tab, secret: str) -> None:
        welcome = await machine().to_thread(tab.welcome, secret)
        await _send(websocket, page_frames.frame_text(welcome))

        async def read() -> None:
            while True:
                await tab.receive(await _received(websocket))

        reading, holding = asyncio.ensure_future(read()), asyncio.ensure_future(tab.hold())
        try:
            await asyncio.wait({reading, holding}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                await reading
                return
            gone = page_frames.GoneFrame(reason="session", message="the session has ended: log in again")
            await _send(websocket, page_frames.frame_text(gone))
            await _end(websocket, NOT_ADMITTED, "the session has ended")
        except GoneError as error:
            await _end(websocket, error.code, str(error))
        except WebSocketDisconnect:
            pass
        finally:
            for task in (reading, holding):
                task.cancel()
            await asyncio.gather(reading, holding, return_exceptions=True)


async def _received(websocket: WebSocket) -> str | bytes:
    """The next text. Raises WebSocketDisconnect, GoneError."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1006))
    text = message.get("text")
    if text is None:
        raise GoneError(BAD_FRAME, "a text is expected")
    if len(text) > FRAME_BYTES:
        raise GoneError(_TOO_LARGE, "the frame is too large")
    return str(text)


async def _send(websocket: WebSocket, text: str) -> None:
    # The page may be gone already, which the next read tells.
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.send_text(text)


async def _end(websocket: WebSocket, code: int, reason: str) -> None:
    # The page may be gone already.
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.close(code, reason)


def studio_routes(
    host: StudioHost, logins: Logins, names: AllowedHosts, origins: Collection[str] = ()
) -> list[BaseRoute]:
    """The routes of a Studio in another server."""
    return StudioSite(host, logins, names, origins).routes()
