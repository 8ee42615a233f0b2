"""The request of a run to be repeated in the same pass."""

from __future__ import annotations


class RetryImmediately(BaseException):  # no error: `except Exception` in authors' code must not catch it
    """Raised within a run: discard this attempt and repeat it in the same pass. Counts for the limit of runs."""
