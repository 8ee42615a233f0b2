"""Access to HTTP pages: tokens, rights, and error responses."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException

from headwater.access.grants import Grant
from headwater.access.local_token import loopback
from headwater.access.rights import Right
from headwater.errors import (
    AccessError,
    ClosedError,
    EventReusedError,
    HeadwaterError,
    NameRefusedError,
    NotFoundError,
    ServerLimitError,
    SpaceHeldError,
    StoreFullError,
    UnavailableError,
    UsageError,
)
from headwater.server.authenticator import Authenticator
from headwater.server.spaces.client_connection import UNKNOWN
from headwater.server.topic_intake import answer
from headwater.values.author_text import text_of
from headwater.values.space_names import check_space_name

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

log: Final = logging.getLogger("headwater.server")

_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers added by proxies: the request comes from another machine."""


def peer_of(request: Request) -> str:
    """The address of the client."""
    return "" if request.client is None else request.client.host


def is_this_machine(request: Request) -> bool:
    """Whether a program of this machine asks, not a proxy."""
    return loopback(peer_of(request)) is not None and not any(name in request.headers for name in _FORWARDED)


def grant_of(request: Request, authenticator: Authenticator) -> Grant:
    """The grant of a request. Raises HTTPException without a valid token."""
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        raise HTTPException(400, "a header that may be there once is there twice")
    found = authenticator.bearer(given[0] if given else "", peer_of(request))
    if isinstance(found, Grant):
        return found
    status, words, headers = found
    authenticator.write_down(peer_of(request), status, words, given[0] if given else "")
    raise HTTPException(status, words, headers)


def check_right(authenticator: Authenticator, grant: Grant, space: str, needed: Right) -> None:
    """Raise HTTPException without the right. A client without read access does not learn whether the space exists."""
    try:
        check_space_name(space)
    except NameRefusedError as refused:
        raise HTTPException(404, f"{UNKNOWN} ({refused.message})") from None
    right = authenticator.spaces.right(grant, space)
    if right < needed and not authenticator.spaces.access.is_known:
        raise HTTPException(503, "the grants cannot be read now; try again", {"retry-after": "1"})
    if right < Right.READ:
        raise HTTPException(404, UNKNOWN)
    if right < needed:
        raise HTTPException(403, f"the right to {needed.word} the space is missing")
    if authenticator.spaces.closing:
        raise HTTPException(503, "the server ends; try again", {"retry-after": "1"})


async def told(_request: Request, error: Exception) -> Response:
    """The response for an HTTPException."""
    assert isinstance(error, HTTPException)
    return answer(error.status_code, error.detail, headers=error.headers)


async def refused(_request: Request, error: Exception) -> Response:  # noqa: PLR0911  # one for each kind
    """The response for an error of Headwater."""
    assert isinstance(error, HeadwaterError)
    match error:
        case SpaceHeldError():
            # Without the path of the file: clients must not learn it.
            holder = error.facts.get("pid")
            message = (
                f"another process{f' ({holder})' if holder else ''} has this space open, as `headwater run` has one "
                "whose workflows it runs, so the server cannot; ask that process, or end it"
            )
            return answer(503, message, error.code, {"retry-after": "5"})
        case NotFoundError() | AccessError():
            return answer(404, error.message, error.code)
        case EventReusedError():
            return answer(422, error.message, error.code)
        case StoreFullError():
            return answer(507, "there is no room on the server's disk", error.code)
        case ClosedError() | ServerLimitError():
            return answer(503, error.message, error.code, {"retry-after": "1"})
        case UnavailableError():
            # Its message names files of the server.
            log.warning("a request could not be answered: %s", text_of(error))
            return answer(503, "the space cannot be used now; try again", error.code, {"retry-after": "1"})
        case UsageError():
            return answer(400, error.message, error.code)
        case _:
            log.error("a request could not be answered: %s", text_of(error))
            return answer(500, "it could not be done; the log of the server says why", error.code)
