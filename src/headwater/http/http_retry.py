"""Retries of HTTP requests: the author's policy, and the server's Retry-After."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from math import ceil
from typing import Final

from headwater.declare.resources.resource_options import RequestOptions
from headwater.errors import HttpStatusError, HttpUnreachableError
from headwater.http.http_limits import RETRIES, RETRY_AFTER_MAX_MS, RETRY_BACKOFF_S
from headwater.workflow.retry_policy import Retry

DEFAULT: Final = Retry(RETRIES, backoff=f"{RETRY_BACKOFF_S}s", jitter=0.5)
"""The default policy. With jitter: requests that failed together must not return together."""

PASSING: Final = frozenset({
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
})  # fmt: skip
"""Statuses of temporary errors. For others a retry gives nothing new."""


RESTING: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Statuses with a Retry-After header."""


class ServerRetry(Retry):
    """The retry policy of one resource with one set of arguments, extended by Retry-After."""

    __slots__ = ("asked_ms",)

    def __init__(self, like: Retry) -> None:
        super().__init__(
            like.tries,
            backoff=timedelta(milliseconds=like.backoff_ms),
            max=timedelta(milliseconds=like.max_ms),
            on=like.on,
            jitter=like.jitter,
        )
        # The server's pause; `HttpResourceOptions` sets it before each wait.
        self.asked_ms = 0.0

    def delay_ms(self, failures: int, chance: float = 0.0) -> int:
        """The longer of the author's wait and the server's."""
        return max(super().delay_ms(failures, chance), ceil(self.asked_ms))


@dataclass(slots=True, frozen=True, kw_only=True)
class HttpResourceOptions(RequestOptions):
    """The options of one resource with one set of arguments."""

    retry: ServerRetry

    def is_retried(self, error: BaseException, failures: int) -> bool:
        """Whether to retry: temporary errors, unless the author named errors; not if Retry-After is too long."""
        asked_ms = rest_ms(error)
        self.retry.asked_ms = asked_ms
        if failures > self.retry.tries or asked_ms > RETRY_AFTER_MAX_MS:
            return False
        return isinstance(error, self.retry.on) if self.retry.on else may_pass(error)


def may_pass(error: BaseException) -> bool:
    """Whether the error may be temporary."""
    if isinstance(error, HttpStatusError):
        return error.facts.get("status") in PASSING
    return isinstance(error, HttpUnreachableError)


def rest_ms(error: BaseException) -> float:
    """The pause that the server asks for; None if there is none."""
    if not isinstance(error, HttpStatusError) or error.facts.get("status") not in RESTING:
        return 0.0
    found = error.facts.get("retry_after_ms")
    return float(found) if isinstance(found, int | float) else 0.0
