"""How often and when to retry."""

from __future__ import annotations

from typing import Final

from headwater.errors import DeclarationError, UsageError
from headwater.values.duration import Duration, to_ms, written_ms
from headwater.workflow.workflow_limits import BACKOFF_MAX_MS, BACKOFF_MS, TRIES, WAKE_MAX_MS, WAKE_MIN_MS


class Retry:
    """How often, when, and for which errors a call is retried. The waits double.

    Args:
        tries: The number of retries.
        backoff: The wait before the first retry.
        max: The longest wait.
        on: The exceptions that are retried, besides those that Headwater knows to be temporary.
        jitter: The part of a wait that is random, from 0 to 1, so that many failures are not retried at the same
            moment.

    Raises:
        DeclarationError: HW110. An option is wrong.

    Example:
        ```python
        import headwater as hw

        retry = hw.Retry(5, backoff="30s", on=OSError)
        print(retry.tries)  # 5
        ```
    """

    __slots__ = ("backoff_ms", "jitter", "max_ms", "on", "tries")

    def __init__(
        self,
        tries: int = TRIES,
        *,
        backoff: Duration = f"{BACKOFF_MS}ms",
        max: Duration | None = None,  # noqa: A002  # as authors say it
        on: type[BaseException] | tuple[type[BaseException], ...] = (),
        jitter: float = 0.0,
    ) -> None:
        if type(tries) is not int or tries < 0:
            raise DeclarationError(f"hw.Retry({tries!r}): a number of retries, 0 or more, is expected")
        kinds: object = on if isinstance(on, tuple) else (on,)
        assert isinstance(kinds, tuple)
        if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
            raise DeclarationError(f"hw.Retry(on={on!r}): classes of exceptions are expected")
        part: object = jitter
        if not isinstance(part, int | float) or not 0 <= part <= 1:
            raise DeclarationError(f"hw.Retry(jitter={jitter!r}): a part from 0 to 1 is expected")
        try:
            self.backoff_ms: float = to_ms(backoff, "hw.Retry(backoff=...)")
            longest = self.backoff_ms if max is None else to_ms(max, "hw.Retry(max=...)")
        except UsageError as error:
            raise DeclarationError(error.message, **error.facts) from None
        if longest < self.backoff_ms:
            message = f"hw.Retry(backoff={backoff!r}, max={max!r}): the longest wait is shorter than the first one"
            raise DeclarationError(message)
        # An explicit first wait counts, also if it is longer than the default maximum.
        is_meant = max is not None or longest > BACKOFF_MAX_MS
        self.max_ms: float = longest if is_meant else float(BACKOFF_MAX_MS)
        self.tries: int = tries
        self.on: tuple[type[BaseException], ...] = kinds
        self.jitter: float = float(jitter)

    def __repr__(self) -> str:
        backoff, longest = written_ms(self.backoff_ms), written_ms(self.max_ms)
        return f"hw.Retry({self.tries}, backoff={backoff!r}, max={longest!r}, jitter={self.jitter})"

    def delay_ms(self, failures: int, chance: float = 0.0) -> int:
        """The wait before the next retry, after this many failures in a row. `chance` is between 0 and 1."""
        # The exponent is bounded, so that the result stays a small number.
        wait = min(self.backoff_ms * 2 ** min(max(failures - 1, 0), 64), self.max_ms)
        return int(wait * (1 - self.jitter * chance))


DEFAULT: Final = Retry()


def clamp_wake(wake_at: int, now: int) -> int:
    """W12: the time at which a consumer may be woken, bounded below and above."""
    return min(max(wake_at, now + WAKE_MIN_MS), now + WAKE_MAX_MS)
