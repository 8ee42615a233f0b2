"""Requests to the HTTP pages of a server, with the token of the user."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import quote

from headwater.access.local_token import find_local
from headwater.client.server_url import ServerUrl
from headwater.errors import AccessError, HeadwaterError, OfflineError, StoreError, UnavailableError
from headwater.values.error_codes import class_of

SILENT_S: Final = 600.0
"""How long a server may send nothing. Before the first byte of a backup it copies the space, which may be large."""

REFUSAL_MAX: Final = 64 * 1024
"""Bytes of an error that are read."""

OK: Final = 200
_LATER: Final = (429, 503)
_SERVER: Final = 500


def space_path(url: ServerUrl, page: str) -> str:
    """The path of a page of a space."""
    return f"/spaces/{quote(url.space, safe='')}/{page}"


@contextmanager
def page(
    url: ServerUrl, token: str | None, path: str, body: bytes | None = None, *, silent_s: float = SILENT_S
) -> Iterator[HTTPResponse]:
    """The response of a page; with a body, to a POST of JSON. Raises OfflineError, UnavailableError."""
    host = url.host
    local = find_local(url.host, url.port) if token is None else None
    if local is not None:
        # The token of the local server goes to its address, and to no other.
        host, token = local.host, local.token
    connection = _connection(host, url, silent_s)
    headers = {} if body is None else {"Content-Type": "application/json"}
    headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        try:
            connection.request("GET" if body is None else "POST", path, body=body, headers=headers)
            response = connection.getresponse()
        except (OSError, HTTPException) as error:
            message = f"{url.origin} is not reached: {error}; is `headwater serve` running, and is the address right?"
            raise OfflineError(message, url=str(url)) from error
        yield response
    except (OSError, HTTPException) as error:
        raise UnavailableError(f"the answer of {url.origin} was broken off: {error}", url=str(url)) from error
    finally:
        connection.close()


def _connection(host: str, url: ServerUrl, silent_s: float) -> HTTPConnection:
    if not url.secure:
        return HTTPConnection(host, url.port, timeout=silent_s)
    context = ssl.create_default_context()
    if host == url.host:
        return HTTPSConnection(host, url.port, timeout=silent_s, context=context)

    class Named(HTTPSConnection):
        """Connects to an address, and expects the certificate of the host in the URL."""

        def connect(self) -> None:
            HTTPConnection.connect(self)
            self.sock = context.wrap_socket(self.sock, server_hostname=url.host)

    return Named(host, url.port, timeout=silent_s)


def refusal(url: ServerUrl, response: HTTPResponse, what: str) -> HeadwaterError:
    """The error of a page that refuses. `what`: the beginning of its message."""
    body = response.read(REFUSAL_MAX)
    code = ""
    try:
        told = json.loads(body)
        words, code = str(told["error"]), str(told.get("code", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        words = body.decode(errors="replace").strip() or response.reason
    # A fault of the server is no missing right.
    by_status = UnavailableError if response.status in _LATER or response.status >= _SERVER else AccessError
    found = class_of(code)
    kind = found if found is not None and issubclass(found, StoreError) else by_status
    return kind(f"{what}: {words}", url=str(url), status=response.status)
