"""The server: listening, serving, graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

import uvicorn

from headwater.access.access_control import AccessControl
from headwater.access.allowed_hosts import AllowedHosts
from headwater.access.local_token import LocalToken, loopback
from headwater.errors import HeadwaterError, UnavailableError, UsageError
from headwater.host.system_clock import SystemClock
from headwater.machine import Future, Thread, machine
from headwater.server.authenticator import Authenticator
from headwater.server.folder_lock import FolderLock, check_free
from headwater.server.handshakes import Handshakes
from headwater.server.pages.backup_page import Backups
from headwater.server.pages.health_page import Health, write_trouble
from headwater.server.pages.routes import web_app
from headwater.server.server_limits import DRAIN_S, GREETING_S, PAGE_MESSAGE_MAX, SPACES_MAX
from headwater.server.spaces.served_spaces import ServedSpaces
from headwater.server.spaces.server_socket import ServerSocket
from headwater.store.backends.sqlite_file import check_library
from headwater.store.retention import Retention

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from starlette.routing import BaseRoute

log: Final = logging.getLogger("headwater.server")

PORT: Final = 8400
"""The default port."""

PORT_MAX: Final = 65_535
"""The highest port."""

STARTED_S: Final = 30.0
"""How long to wait for the start in a thread."""


class MorePages(Protocol):
    """Makes further pages of a server, behind the same checks of Host and Origin."""

    def __call__(self, authenticator: Authenticator, backups: Backups, url: str, /) -> Sequence[BaseRoute]:
        """The routes. Called in the event loop of the server, when it starts."""
        ...


@dataclass(slots=True, kw_only=True)
class Serving:
    """Options of a server."""

    store: Path
    host: str = "127.0.0.1"
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    # Reachable from other machines without TLS.
    insecure: bool = False
    # Further allowed host names, as behind a proxy; and allowed origins.
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    # Create missing spaces for clients with the right `own`.
    create: bool = True
    # Spaces open at the same time.
    spaces_max: int = SPACES_MAX
    # How long receipts are kept.
    kept: Retention | None = None
    # Further pages, and the paths of their WebSockets.
    more_pages: MorePages | None = None
    page_sockets: tuple[str, ...] = ()


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that ends by `end`, not by its own signal handlers."""

    def __init__(self, config: uvicorn.Config, spaces: ServedSpaces) -> None:
        super().__init__(config)
        self._spaces = spaces
        self._ended: Future[None] = machine().future()
        self._ending = machine().lock()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As in uvicorn, but without waiting for TLS handshakes that do not finish."""
        config, loop = self.config, asyncio.get_running_loop()

        def make() -> asyncio.Protocol:
            made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn calls it
                config=config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return made

        patience = None if config.ssl is None else GREETING_S
        self.servers = [
            await loop.create_server(
                make, sock=each, ssl=config.ssl, ssl_handshake_timeout=patience, backlog=config.backlog
            )
            for each in sockets or []
        ]
        self.started = True

    async def main_loop(self) -> None:
        await asyncio.wrap_future(self._ended)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Decide received commits and send their verdicts while pages still answer; then close every connection."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + DRAIN_S
        log.info("server ends", extra={"connections": len(self.server_state.connections)})
        for connection in list(self.server_state.connections):
            if isinstance(connection, ServerSocket):
                connection.hold()
        await self._spaces.drain(DRAIN_S)
        for listener in sockets or []:
            loop.remove_reader(listener)
        # Connections just accepted: asyncio would lose them at a closed server.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.config.timeout_graceful_shutdown = max(int(ends_at - loop.time()), 1)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            # Timed out.
            connection.transport.abort()
        await asyncio.sleep(0)

    def end(self) -> None:
        """Request the end. Thread-safe and signal-safe."""
        with self._ending:
            if not self._ended.done():
                self._ended.set_result(None)


class Server:
    """One server. `run()` it, or `start()` it in a thread and `stop()` it."""

    def __init__(self, options: Serving) -> None:
        # Checked now, not when the first space is opened: until then the server would report itself ready.
        check_library()
        self.options = options
        self._context = _tls(options)
        try:
            self._listener = _listen(options, is_secret=self._context is not None)
        except UnavailableError:
            check_free(options.store)
            raise
        self.port: int = self._listener.getsockname()[1]
        shown = f"[{options.host.strip('[]')}]" if ":" in options.host else options.host
        self.url: str = f"{'wss' if self._context is not None else 'ws'}://{shown}:{self.port}"
        try:
            _make_usable(options.store)
            self._folder_lock = FolderLock(options.store, self.url)
        except BaseException:
            self._listener.close()
            raise
        try:
            self.access = AccessControl(options.store, SystemClock())
            self.access.audit.check()
        except BaseException:
            self._listener.close()
            self._folder_lock.release()
            raise
        self.spaces: ServedSpaces | None = None
        self.authenticator: Authenticator | None = None
        self._uvicorn: _Uvicorn | None = None
        self._thread: Thread | None = None
        self._ready: Future[None] = machine().future()

    # -- running -------------------------------------------------------------------------------------------

    async def serve(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until `end`. Acknowledged commits are on disk then, and every client was asked to reconnect.

        `started` is called when clients are accepted; the local token exists by then.
        """
        loop = asyncio.get_running_loop()
        # Every name of the server: clients that sign check the name against these.
        audience = " ".join((self.url, *(f"wss://{name}" for name in self.options.hosts)))
        try:
            spaces = self.spaces = ServedSpaces(
                self.options.store,
                self.access,
                loop,
                audience=audience,
                create=self.options.create,
                spaces_max=self.options.spaces_max,
                kept=self.options.kept,
            )
        except BaseException:
            self._listener.close()
            self._folder_lock.release()
            raise
        names = AllowedHosts((self.options.host, *self.options.hosts))
        authenticator = self.authenticator = Authenticator(spaces, names, origins=self.options.origins)
        health = Health(spaces)
        token = self._leave_token()
        server = self._uvicorn = _Uvicorn(self._config(authenticator, health), spaces)
        try:
            serving = loop.create_task(server.serve(sockets=[self._listener]))
            while not server.started and not serving.done():  # noqa: ASYNC110  # uvicorn has no event for it
                await asyncio.sleep(0.005)
            if not serving.done():
                health.started = True
                started()
            if not self._ready.done():
                self._ready.set_result(None)
            await serving
        finally:
            if token is not None:
                token.remove()
            await spaces.close()
            self._folder_lock.release()

    def _config(self, authenticator: Authenticator, health: Health) -> uvicorn.Config:
        # A proxy on this machine may forward foreign requests.
        proxied = self.options.insecure or bool(self.options.hosts)
        backups, make = Backups(authenticator), self.options.more_pages
        more = () if make is None else make(authenticator, backups, self.url)
        sockets = frozenset(path.encode() for path in self.options.page_sockets)
        config = uvicorn.Config(
            web_app(authenticator, health, backups, proxied=proxied, more=more),
            loop="asyncio",
            http=Handshakes.bound(page_sockets=sockets),
            ws=ServerSocket.bound(authenticator),
            lifespan="off",
            log_config=None,
            # Errors of pages are logged by the pages.
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=None,
            backlog=1024,
            timeout_graceful_shutdown=int(DRAIN_S),
            # Of the sockets of pages: a message is a question or a typed value.
            ws_max_size=PAGE_MESSAGE_MAX,
            ws_per_message_deflate=False,
        )
        config.load()
        config.ssl = self._context
        return config

    def _leave_token(self) -> LocalToken | None:
        address = loopback(self.options.host if self.options.host != "localhost" else "127.0.0.1")
        if address is None:
            return None
        try:
            token = LocalToken.leave(address, self.port, self.url)
        except HeadwaterError as error:
            log.warning("programs of this user need a token: %s", error)
            return None
        self.access.admit_local(token.token)
        return token

    def end(self) -> None:
        """Accept no more connections and finish. Thread-safe."""
        if self.spaces is not None:
            self.spaces.closing = True
        if self._uvicorn is not None:
            self._uvicorn.end()

    # -- in a thread ---------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Run in a thread; returns when clients can connect."""
        self._thread = machine().thread(self._run, name="headwater-server")
        self._thread.start()
        self._ready.result(STARTED_S)
        return self

    def _run(self) -> None:
        try:
            machine().run(self.serve())
        except BaseException as error:
            if not self._ready.done():
                # Raised by `start`.
                self._ready.set_exception(error)
                return
            log.exception("the server has ended")
            raise

    def stop(self) -> None:
        """End the server and wait for it."""
        self.end()
        if self._thread is not None and self._thread is not machine().current_thread():
            self._thread.join(2 * DRAIN_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()


def _make_usable(folder: Path) -> None:
    """Check the folder at the start, not with the first client. Raises UnavailableError."""
    try:
        machine().files.make_folders(folder, 0o700)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"{folder} is a file, or in one; --store names a folder", path=str(folder)) from None
    except OSError as error:
        message = f"the folder {folder} cannot be made: {error.strerror}"
        raise UnavailableError(message, path=str(folder)) from error
    trouble = write_trouble(folder)
    if trouble:
        raise UnavailableError(f"{folder}: {trouble}", path=str(folder))


def _tls(options: Serving) -> ssl.SSLContext | None:
    if options.certificate is None:
        if options.key is not None:
            raise UsageError("a private key needs a certificate: give both, or none")
        return None
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(options.certificate, options.key)
    except (OSError, ssl.SSLError) as error:
        message = f"the certificate {options.certificate} cannot be used: {error}"
        raise UsageError(message, certificate=str(options.certificate)) from None
    return context


def _listen(options: Serving, *, is_secret: bool) -> socket.socket:
    """Bind a socket. Raises UsageError, UnavailableError."""
    host, port = options.host, options.port
    if not 0 <= port <= PORT_MAX:
        # Checked here: the system would truncate the number.
        raise UsageError(f"port {port!r}: a number from 0 to {PORT_MAX} is expected", port=port)
    try:
        address, family = machine().address_of(host.strip("[]"), port)
        if not (is_secret or options.insecure or ip_address(address).is_loopback):
            message = (
                f"{host}:{port} can be reached from other machines, and the traffic could be read on the way: give a "
                "certificate (--tls-cert, --tls-key), listen at 127.0.0.1, or say --insecure if a proxy does it"
            )
            raise UsageError(message, host=host, port=port)
        listener = machine().listen(address, port, family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        raise UnavailableError(f"the server cannot listen at {host}:{port}: {error}", host=host, port=port) from error
    with suppress(OSError):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def end_on(loop: AbstractEventLoop, server: Server, signals: tuple[int, ...]) -> None:
    """Handle signals in the main thread: the first ends the server, the second the process."""

    def end() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        server.end()

    for number in signals:
        loop.add_signal_handler(number, end)
