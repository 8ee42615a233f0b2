"""Pages of a server, for commands: a space as a file, and whether the server is ready.

Must never know: what is done with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from headwater.errors import AccessError, HeadwaterError, OfflineError, StoreError, UnavailableError, class_of

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.cli.output import Progress
    from headwater.cli.remote import Server

SILENT_S: Final = 600.0
"""How long a server may say nothing. Before the first byte of a backup it copies the space, which may be large."""

_CHUNK: Final = 256 * 1024
_BODY_MAX: Final = 64 * 1024
_OK: Final = 200
_LATER: Final = (429, 503)
_SERVER: Final = 500


def download(server: Server, file: Path, advance: Progress) -> int:
    """A whole space into a file, as of one moment. Which: the newest place of the log that is in it."""
    with _asked(server, f"/spaces/{quote(server.url.space, safe='')}/backup") as response:
        if response.status != _OK:
            raise _refusal(server, response)
        total, done = int(response.headers["content-length"]), 0
        with file.open("wb") as writing:
            while data := response.read(_CHUNK):
                writing.write(data)
                done += len(data)
                advance(done, total)
        if done != total:
            message = f"the backup of {server.url} was broken off after {done:,} of {total:,} bytes; try again"
            raise UnavailableError(message, url=str(server.url))
        return int(response.headers["headwater-seq"])


def readiness(server: Server) -> tuple[bool, str]:
    """Whether it takes anything now, and its words."""
    with _asked(server, "/readyz") as response:
        return response.status == _OK, response.read(_BODY_MAX).decode(errors="replace").strip()


@contextmanager
def _asked(server: Server, path: str) -> Iterator[HTTPResponse]:
    """Raises OfflineError if nobody is there."""
    from headwater.access.local_token import find_local

    url, token = server.url, server.token
    host = url.host
    local = find_local(url.host, url.port) if token is None else None
    if local is not None:
        # It is at this address, and nobody else gets its token.
        host, token = local.host, local.token
    # A host that is asked for by its address is called what it is in the URL, also in the certificate.
    connection = (
        _connection(host, url.port, url.host) if url.secure else HTTPConnection(host, url.port, timeout=SILENT_S)
    )
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    try:
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
        except (OSError, HTTPException) as error:
            message = f"{url.origin} is not reached: {error}; is `headwater serve` running, and is the address right?"
            raise OfflineError(message, url=str(url)) from error
        yield response
    except (OSError, HTTPException) as error:
        raise UnavailableError(f"the answer of {url.origin} was broken off: {error}", url=str(url)) from error
    finally:
        connection.close()


def _connection(host: str, port: int, name: str) -> HTTPConnection:
    import ssl

    context = ssl.create_default_context()
    if host == name:
        return HTTPSConnection(host, port, timeout=SILENT_S, context=context)

    class Named(HTTPSConnection):
        """Connects to an address, and expects the certificate of a name."""

        def connect(self) -> None:
            HTTPConnection.connect(self)
            self.sock = context.wrap_socket(self.sock, server_hostname=name)

    return Named(host, port, timeout=SILENT_S)


def _refusal(server: Server, response: HTTPResponse) -> HeadwaterError:
    body = response.read(_BODY_MAX)
    code = ""
    try:
        told = json.loads(body)
        words, code = str(told["error"]), str(told.get("code", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        words = body.decode(errors="replace").strip() or response.reason
    message = f"{server.url} gives no backup: {words}"
    # What is wrong with the server is no lack of a right.
    by_status = UnavailableError if response.status in _LATER or response.status >= _SERVER else AccessError
    found = class_of(code)
    kind = found if found is not None and issubclass(found, StoreError) else by_status
    return kind(message, url=str(server.url), status=response.status)
