"""The class of a failure: decided by the type of the error and where it was raised, never by its message.

Failures between two machines are transient: a timeout, a broken connection, a name that was not found, a busy server.
That holds for the errors of the standard library, of Headwater, and of the usual clients, which are recognized without
being imported.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from headwater.errors import (
    ApprovalError,
    HeadwaterError,
    HttpStatusError,
    HttpUnreachableError,
    InternalError,
    InvariantError,
    OfflineError,
    Reject,
    TransientError,
)
from headwater.values.author_text import clean, message_of, traceback_text
from headwater.workflow.retry_after import retry_after_ms
from headwater.workflow.rows import FailureKind
from headwater.workflow.transitions import RunFailure
from headwater.workflow.workflow_limits import RETRY_AFTER_MAX_MS, SERVICE_MAX

T = TypeVar("T")

_NO_SENDER = (
    ". hw.Reject answers the sender of an event that a @app.handler handles, and a workflow has no sender: take the "
    "event and do nothing about it, or raise hw.LogicError"
)
"""The hint for a phase that raises hw.Reject."""


class LateError(TransientError):
    """A phase exceeded its timeout."""


_NETWORK: Final[tuple[type[BaseException], ...]] = (
    TimeoutError,
    ConnectionError,
    HttpUnreachableError,
    OfflineError,
)

_ERRNO: Final = frozenset(
    getattr(errno, name)
    for name in ("ENETUNREACH", "ENETDOWN", "ENETRESET", "EHOSTUNREACH", "EHOSTDOWN", "ETIMEDOUT", "ENOTCONN")
    if hasattr(errno, name)
)
"""For an OSError without a class of its own."""

_CLIENTS: Final[dict[str, tuple[str, ...]]] = {
    "socket": ("gaierror", "herror"),
    "http.client": ("IncompleteRead", "BadStatusLine"),
    "ssl": ("SSLEOFError", "SSLZeroReturnError", "SSLSyscallError"),
    "httpx": ("TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError"),
    "requests.exceptions": ("ConnectionError", "Timeout", "ChunkedEncodingError"),
    "aiohttp": ("ClientConnectionError", "ClientPayloadError"),
    "urllib3.exceptions": ("TimeoutError", "NewConnectionError", "ProtocolError", "MaxRetryError"),
}
"""By module, looked up only if it is loaded: an error of a module that is not loaded cannot have been raised."""

_BUSY: Final = (408, 425, 429)
"""Statuses below 500 that mean: later."""

_ORDER: Final = (FailureKind.INTERNAL, FailureKind.LOGIC, FailureKind.AUTH, FailureKind.TRANSIENT)
"""Of several errors at once, the first of these counts."""


def classify(error: BaseException, on: tuple[type[BaseException], ...], now: int) -> RunFailure:
    """All facts about a failure."""
    kind = failure_kind(error, on)
    return RunFailure(
        kind=kind,
        message=failure_text(error),
        details=traceback_text(error),
        service=_total(lambda: clean(error.service, SERVICE_MAX), "") if isinstance(error, ApprovalError) else "",
        after_ms=_total(lambda: _after_ms(error, now), 0) if kind is FailureKind.TRANSIENT else 0,
    )


def _total(work: Callable[[], T], otherwise: T) -> T:
    """A fact from an author's error. Its attributes are code: they may be missing, or raise anything."""
    try:
        return work()
    except BaseException:  # noqa: BLE001  # see above
        return otherwise


def failure_kind(  # noqa: PLR0911  # one for each class
    error: BaseException, on: tuple[type[BaseException], ...]
) -> FailureKind:
    """The class of an error."""
    match error:
        case LateError():
            return FailureKind.TRANSIENT
        case _ if on and isinstance(error, on):
            return FailureKind.TRANSIENT
        case TransientError():
            return FailureKind.TRANSIENT
        case ApprovalError():
            return FailureKind.AUTH
        case InternalError() | InvariantError():
            return FailureKind.INTERNAL
        case BaseExceptionGroup():
            kinds = {failure_kind(each, on) for each in error.exceptions}
            return next(kind for kind in _ORDER if kind in kinds)
        case _:
            return (
                FailureKind.TRANSIENT
                if _total(lambda: is_of_the_network(error), otherwise=False)
                else FailureKind.LOGIC
            )


# --- the network ----------------------------------------------------------------------------------------------


def is_of_the_network(error: BaseException) -> bool:
    """It happened between two machines, or the other one is busy: the same request may succeed later."""
    status = _status(error)
    if status is not None:
        return status >= 500 or status in _BUSY  # noqa: PLR2004  # as RFC 9110 has it
    reason = _reason(error)
    if reason is not None:
        return not isinstance(reason, BaseException) or is_of_the_network(reason)
    if isinstance(error, _NETWORK) or (type(error) is OSError and error.errno in _ERRNO):
        return True
    return any(isinstance(error, kind) for kind in _client_errors())


def _client_errors() -> Iterator[type]:
    for module, names in _CLIENTS.items():
        loaded = sys.modules.get(module)
        for name in names if loaded is not None else ():
            kind = getattr(loaded, name, None)
            if isinstance(kind, type):
                yield kind


def _reason(error: BaseException) -> object:
    """The reason of a URLError: the error of the socket, or a text."""
    urllib = sys.modules.get("urllib.error")
    if urllib is None or not isinstance(error, urllib.URLError):
        return None
    return error.reason


def _status(error: BaseException) -> int | None:
    """The status of an HTTP error: of Headwater, urllib, httpx, requests and aiohttp."""
    if isinstance(error, HttpStatusError):
        return _number(error.facts.get("status"))
    names = {each.__name__ for each in type(error).__mro__}
    if "HTTPError" in names and _is_from(error, "urllib.error"):
        return _number(getattr(error, "code", None))
    if names & {"HTTPStatusError", "HTTPError"} and _is_from(error, "httpx", "requests"):
        return _number(getattr(getattr(error, "response", None), "status_code", None))
    if "ClientResponseError" in names and _is_from(error, "aiohttp"):
        return _number(getattr(error, "status", None))
    return None


def _is_from(error: BaseException, *packages: str) -> bool:
    """Whether its class, or a base of it, is from one of these packages."""
    modules = [each.__module__ for each in type(error).__mro__]
    return any(module == name or module.startswith(f"{name}.") for module in modules for name in packages)


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def _after_ms(error: BaseException, now: int) -> int:
    """How long the service asks to wait: Retry-After, as a number of seconds or a date."""
    if isinstance(error, HeadwaterError):
        known = error.facts.get("retry_after_ms")
        return int(min(max(known, 0), RETRY_AFTER_MAX_MS)) if isinstance(known, int | float) else 0
    if _status(error) is None:
        return 0
    headers = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None)
    found = retry_after_ms(headers.get("Retry-After"), now) if headers is not None else None
    return int(min(max(found or 0, 0), RETRY_AFTER_MAX_MS))


# --- words ----------------------------------------------------------------------------------------------------


def failure_text(error: BaseException) -> str:
    """The message of an error, also if the error cannot be converted to text."""
    if isinstance(error, Reject):
        return f"{message_of(error)}{_NO_SENDER}"
    return message_of(error)
