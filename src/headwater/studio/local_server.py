"""The server of a local Studio: one thread on a free loopback port, for one user.

with app.open("shop.db") as space, Studio(space) as studio:
    print(studio.url)
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EADDRINUSE
from html import escape
from typing import Any, Final, Self

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from headwater.access.allowed_hosts import AllowedHosts
from headwater.errors import UnavailableError, UsageError
from headwater.host.space_facade import SpaceFacade
from headwater.inspect.opening_inspection import OpeningInspection
from headwater.machine import Future, Thread, machine
from headwater.studio.host import Login
from headwater.studio.limits import FRAME_BYTES
from headwater.studio.local_host import FileHost, LocalHost, ProgramHost
from headwater.studio.logins import Logins
from headwater.studio.site import StudioSite

PORT: Final = 8411
"""The first port that is tried."""

TRIED: Final = 20
"""Further ports that are tried if it is taken."""

_STARTED_S: Final = 30.0
_END_S: Final = 5.0
_ADDRESS: Final = "127.0.0.1"


class _Uvicorn(uvicorn.Server):
    """A server without signal handlers of its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: the program has its own."""
        yield


class LocalStudioServer:
    """Serves a host on loopback, in a thread, from `start` to `stop`."""

    def __init__(self, host: LocalHost, *, port: int | None = None) -> None:
        self.host = host
        self.logins = Logins(host)
        self._listener = _listen(port)
        self.port: int = self._listener.getsockname()[1]
        self.site = StudioSite(host, self.logins, AllowedHosts(()))
        self._ready: Future[None] = machine().future()
        self._server: _Uvicorn | None = None
        self._thread: Thread | None = None

    @property
    def address(self) -> str:
        """Without a code: only for tabs that have a session."""
        return f"http://{_ADDRESS}:{self.port}/studio/"

    def link(self) -> str:
        """A new link. It works once, for 60 s. The code is in the fragment, which a browser never sends."""
        return f"{self.address}#c={self.logins.link_code(Login())}"

    def start(self) -> Self:
        """Returns when pages can connect."""
        self._thread = machine().thread(self._run, name="headwater-studio")
        self._thread.start()
        self._ready.result(_STARTED_S)
        return self

    def stop(self) -> None:
        """End the server, and release the file. Idempotent."""
        if self._server is not None:
            self._server.should_exit = True
            self._server.force_exit = True
        if self._thread is not None and self._thread is not machine().current_thread():
            self._thread.join(_END_S)
        self._listener.close()
        self.site.close()

    def wait(self) -> None:
        """Return when the server has ended."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            machine().run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                # Raised by `start`.
                self._ready.set_exception(error)
                return
            raise

    async def _serve(self) -> None:
        app = Starlette(routes=self.site.routes())
        # No redirects to what a request names.
        app.router.redirect_slashes = False
        config = uvicorn.Config(
            app,
            loop="asyncio",
            ws=WebSocketsSansIOProtocol,
            ws_max_size=FRAME_BYTES,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        server = self._server = _Uvicorn(config)
        serving = asyncio.ensure_future(server.serve(sockets=[self._listener]))
        while not server.started and not serving.done():  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.005)
        if not self._ready.done():
            self._ready.set_result(None)
        await serving


def _listen(port: int | None) -> socket.socket:
    """A socket at the port, or at the next free one. Raises UnavailableError."""
    wanted = range(PORT, PORT + TRIED + 1) if port is None else (port,)
    for each in wanted:
        try:
            return machine().listen(_ADDRESS, each, family=socket.AF_INET, backlog=64)
        except OSError as error:
            if port is not None or error.errno != EADDRINUSE:
                message = f"the Studio cannot listen at {_ADDRESS}:{each}: {error.strerror or error}"
                raise UnavailableError(f"{message}; name another port with --port", port=each) from error
    try:
        return machine().listen(_ADDRESS, 0, family=socket.AF_INET, backlog=64)
    except OSError as error:
        raise UnavailableError(f"the Studio cannot listen at {_ADDRESS}: {error}") from error


@contextmanager
def local_studio(
    url: str | None,
    space: str | None = None,
    *,
    port: int | None = None,
    read_only: bool = False,
    token: str | None = None,
) -> Iterator[LocalStudioServer]:
    """Serve a file, a folder or a space of a server, in a thread of this process."""
    with LocalStudioServer(FileHost(url, space, token=token, read_only=read_only), port=port) as server:
        yield server


class Studio:
    """The Studio of a space that this program has open, on a loopback port. Close it before the space.

    Args:
        space: The open space. A space in memory can be shown, too.
        port: The port; by default a free one.
        read_only: Nothing can be changed from the page.

    Raises:
        UsageError: HW100. This is no open space.
        UnavailableError: HW201. The port is taken.

    Example:
        ```python
        import headwater as hw
        from headwater.studio import Studio

        app = hw.App("shop")
        count = app.cell("count", 0)

        with app.open("memory:") as space, Studio(space) as studio:
            print(studio.url.partition("#")[0])
            count.value += 1
        ```
    """

    def __init__(self, space: SpaceFacade, *, port: int = 0, read_only: bool = False) -> None:
        opening: Any = getattr(space, "_opening", None)
        inspection = getattr(opening, "inspection", None)
        if not isinstance(inspection, OpeningInspection):
            raise UsageError(f"Studio(space) takes an open space, as `app.open` gives it, not {type(space).__name__}")
        self._server = LocalStudioServer(ProgramHost(inspection, read_only=read_only), port=port).start()

    @property
    def url(self) -> str:
        """A new link. It works once, for 60 s."""
        return self._server.link()

    def close(self) -> None:
        """End the Studio. Idempotent."""
        self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """A link, for a notebook."""
        name = escape(self._server.host.title)
        return f'<a href="{escape(self.url)}" target="_blank" rel="noreferrer">Studio of {name}</a>'
