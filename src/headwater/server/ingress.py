"""HTTP ingress: `POST /topics/{workflow}/{topic}` publishes an event, and is answered when it is on disk.

The sender names the event with `Idempotency-Key`: a repeated post is the same event, so a sender without an answer
posts again. Imported only where it is used.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Mapping
from hmac import compare_digest
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Self

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from headwater.access.allowed_hosts import LOCAL, address_of, name_of, place_of
from headwater.errors import HeadwaterError, UnavailableError, UsageError
from headwater.host.space_facade import SpaceFacade, opening_of
from headwater.machine import Future, machine
from headwater.runtime.workflows.run_host import RunHost
from headwater.server.handshakes import Handshakes
from headwater.server.topic_intake import TopicIntake, answer, refused, told

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

CONNECTIONS_MAX: Final = 2000
"""Simultaneous connections: one file descriptor each. Further ones are asked to try again later."""

STOP_S: Final = 5.0
"""How long the end waits for posts in progress."""

PORT_MAX: Final = 65_535
"""The highest port."""


def ingress_app(space: SpaceFacade, *, token: str | None = None, hosts: Collection[str] = LOCAL) -> Starlette:
    """The topics of an open space as an ASGI app, for a server of your own.

    Args:
        space: The open space.
        token: The bearer token that posts carry, except signed posts of a webhook.
        hosts: The allowed host names.

    Returns:
        The ASGI app.
    """
    door = TopicIntake(opening_of(space))
    door.check_secrets()
    guard = Middleware(_Guard, token=_checked_token(token), hosts=frozenset(map(str.lower, hosts)), door=door)
    app = Starlette(
        routes=[Route("/topics/{workflow}/{topic}", door.post, methods=["POST"])],
        middleware=[guard],
        exception_handlers={HTTPException: told, HeadwaterError: refused},
    )
    # No redirects: a post is not sent twice.
    app.router.redirect_slashes = False
    return app


def serve_ingress(
    space: SpaceFacade, host: str = "127.0.0.1", port: int = 0, *, token: str | None = None, hosts: Collection[str] = ()
) -> Ingress:
    """Serve the topics of an open space over HTTP, in a thread, until `stop()` or until the space is closed.

    Without a token, only this machine may connect.

    Args:
        space: The open space.
        host: The address to listen at.
        port: The port; 0 is any free one, `.url` has it.
        token: The bearer token that posts carry, except signed posts of a webhook.
        hosts: Allowed host names besides `host`, such as that of a proxy.

    Returns:
        The running server.

    Raises:
        UsageError: HW100. The address is not a loopback address, and there is no token.
    """
    listener = _listen(host, port, has_token=token is not None)
    try:
        app = ingress_app(space, token=token, hosts=(*LOCAL, host.strip("[]"), *hosts))
        return Ingress(opening_of(space), app, listener, host)
    except BaseException:
        listener.close()
        raise


class Ingress:
    """A running HTTP endpoint for topics. Call `stop()`, or use it in a `with` statement."""

    def __init__(self, space: RunHost, app: ASGIApp, listener: socket.socket, host: str) -> None:
        self.port: int = listener.getsockname()[1]
        shown = f"[{host.strip('[]')}]" if ":" in host else host
        self.url: str = f"http://{shown}:{self.port}"
        self._space = space
        self._server = _Server(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=Handshakes.bound(CONNECTIONS_MAX),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=CONNECTIONS_MAX,
                timeout_graceful_shutdown=int(STOP_S),
            )
        )
        self._thread = machine().thread(self._run, args=(listener,), name="headwater-ingress")
        self._thread.start()
        space.on_close(self.stop)

    def _run(self, listener: socket.socket) -> None:
        machine().run(self._server.serve([listener]))

    def stop(self) -> None:
        """Accept no more posts. Posts in progress are answered. A second call does nothing."""
        self._server.end()
        if self._thread is not machine().current_thread():
            self._thread.join(2 * STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "serving" if self._thread.is_alive() else "stopped"
        return f"<Ingress {self.url}: {state}, of space {self._space.name!r}>"


class _Server(uvicorn.Server):
    """Ends by an event, without polling ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._end: Future[None] = machine().future()
        self._ending = machine().lock()

    async def main_loop(self) -> None:
        await asyncio.wrap_future(self._end)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for listener in sockets or []:
            loop.remove_reader(listener)
        # Connections just accepted: asyncio would lose them at a closed server.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            # Timed out.
            connection.transport.abort()
        await asyncio.sleep(0)

    def end(self) -> None:
        with self._ending:
            if not self._end.done():
                self._end.set_result(None)


def _listen(host: str, port: int, *, has_token: bool) -> socket.socket:
    """Bind a socket. Raises UsageError, UnavailableError."""
    if not 0 <= port <= PORT_MAX:
        # Checked here: the system would truncate the number.
        raise UsageError(f"port={port!r}: a number from 0 to {PORT_MAX} is expected", port=port)
    try:
        address, family = machine().address_of(host.strip("[]"), port)
        if not has_token and not ip_address(address).is_loopback:
            message = (
                f"ingress at {host}:{port} can be reached from other machines, and every machine could post: give it a "
                "token, or serve it at 127.0.0.1"
            )
            raise UsageError(message, host=host, port=port)
        return machine().listen(address, port, family=family, backlog=CONNECTIONS_MAX)
    except (OSError, UnicodeError) as error:
        raise UnavailableError(f"ingress cannot listen at {host}:{port}: {error}", host=host, port=port) from error


def _checked_token(token: object) -> bytes | None:
    if token is None:
        return None
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("token=...: printable ASCII without spaces is expected, such as secrets.token_urlsafe() makes")
    return token.encode()


# --- who may come in ------------------------------------------------------------------------------------------


class _Guard:
    """Checks Host, Origin and token before a post is read."""

    def __init__(self, app: ASGIApp, token: bytes | None, hosts: frozenset[str], door: TopicIntake) -> None:
        self._app = app
        self._door = door
        self._token = token
        self._hosts = hosts
        # Bound to every address of the machine: every IP address is allowed, but no foreign host name.
        self._any_address = any(address is not None and address.is_unspecified for address in map(address_of, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(headers, scope["path"])
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, headers: Mapping[str, str], path: str) -> Response | None:
        given = headers.get("host", "")
        host = name_of(f"//{given}")
        if not host:
            return answer(400, f"Host: {given!r} is no name of a host")
        if host not in self._hosts and not (self._any_address and address_of(host)):
            # A foreign web page may reach this address under a host name of its own.
            return answer(421, f"this is not {host}; ask for it by the address it is served at")
        origin = headers.get("origin")
        if origin is not None and place_of(origin) != given.lower():
            return answer(403, f"a page of {origin} may not post here")
        if self._token is not None and not self._is_known(headers.get("authorization", "")) and not self._signs(path):
            message = "the token is missing or wrong: send `Authorization: Bearer ...`"
            return answer(401, message, headers={"www-authenticate": "Bearer"})
        return None

    def _signs(self, path: str) -> bool:
        """Whether posts to this topic are signed, which is verified when the body has arrived."""
        match path.split("/"):
            case ["", "topics", workflow, topic]:
                webhook = self._door.webhook(workflow, topic)
                return webhook is not None and webhook.is_signed
            case _:
                return False

    def _is_known(self, given: str) -> bool:
        scheme, _, token = given.partition(" ")
        assert self._token is not None
        return scheme.lower() == "bearer" and compare_digest(token.strip().encode(), self._token)


__all__ = ["Ingress", "ingress_app", "serve_ingress"]
