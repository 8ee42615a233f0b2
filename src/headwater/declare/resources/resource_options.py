"""The options of a resource: how long a result is fresh, how often a request is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headwater.declare.functions.function_options import milliseconds
from headwater.errors import DeclarationError
from headwater.values.duration import Duration
from headwater.workflow.retry_policy import Retry

OPTIONS: Final = ("name", "fresh_for", "retry", "timeout")

NO_RETRY: Final = Retry(0)


@dataclass(slots=True, frozen=True, kw_only=True)
class RequestOptions:
    """The options of one resource, checked."""

    name: str
    # None: for ever.
    fresh_ms: float | None = None
    retry: Retry = NO_RETRY
    timeout_ms: float | None = None

    def is_retried(self, error: BaseException, failures: int) -> bool:
        """Whether the request is repeated after this failure, the last of so many in a row."""
        return failures <= self.retry.tries and (not self.retry.on or isinstance(error, self.retry.on))


def parse_request_options(
    where: str,
    name: str,
    *,
    fresh_for: Duration | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
) -> RequestOptions:
    """The options, checked. Raises DeclarationError."""
    given: object = retry
    if given is not None and not isinstance(given, Retry):
        raise DeclarationError(f"{where}: retry={retry!r}; hw.Retry(3, on=OSError) is expected")
    fresh_ms = milliseconds(fresh_for, f"{where}, fresh_for=")
    if fresh_ms is not None and fresh_ms <= 0:
        raise DeclarationError(f"{where}: fresh_for={fresh_for!r} would have it asked for without end")
    timeout_ms = milliseconds(timeout, f"{where}, timeout=")
    if timeout_ms is not None and timeout_ms <= 0:
        raise DeclarationError(f"{where}: timeout={timeout!r} leaves no time for an answer")
    return RequestOptions(name=name, fresh_ms=fresh_ms, retry=retry or NO_RETRY, timeout_ms=timeout_ms)
