"""The header Retry-After: how long a service asks to wait."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def retry_after_ms(value: str | None, now_ms: float) -> float | None:
    """Milliseconds to wait, from a number of seconds or an HTTP date. None if the header is absent or neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        # A number with a hundred digits means "never"; the caller bounds it.
        return float(text[:12]) * 1000
    try:
        date = parsedate_to_datetime(text)
        at_ms = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, TypeError, OverflowError):
        return None
    return max(at_ms - now_ms, 0.0)
