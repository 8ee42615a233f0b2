"""Request headers: which are allowed, which are sent to another origin, and their digest in the store.

Their values count as secrets: no message, name or key contains one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import pbkdf2_hmac
from typing import Final, TypeAlias

from headwater.errors import UsageError
from headwater.http.http_limits import DIGEST_ROUNDS, HEADER_MAX, TOLD_MAX

Given: TypeAlias = tuple[tuple[str, str], ...]
"""Lower-case names, sorted and unique, with their values."""

_OURS: Final = {
    **dict.fromkeys(("host", "content-length"), "it follows from the URL"),
    **dict.fromkeys(
        ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "http2-settings"),
        "it belongs to the connection, which Headwater manages",
    ),
    **dict.fromkeys(
        ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"),
        "it is set when a stored response is revalidated",
    ),
    "accept-encoding": "it names the encodings that Headwater can decode",
}

_HARMLESS: Final = frozenset({"accept", "accept-language", "user-agent"})
"""Headers sent to another origin. Secrets may be in any header, not only in Authorization and Cookie."""

_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_SHORT: Final = 6
"""Values of at least this length are redacted in messages. Shorter ones occur in every sentence."""


def check_headers(headers: Mapping[str, str] | None, where: str) -> Given:
    """Normalized headers. Raises UsageError, which never contains a value."""
    found: dict[str, str] = {}
    for name, value in (headers or {}).items():
        given: tuple[object, object] = (name, value)
        if not isinstance(given[0], str) or _NAME.fullmatch(name.lower()) is None:
            raise UsageError(f"{where}: {name!r} is no name of a header")
        lower = name.lower()
        reason = _OURS.get(lower) or ("it is for proxies, and none is asked" if lower.startswith("proxy-") else None)
        if reason is not None:
            raise UsageError(f"{where}: {name} may not be given: {reason}", header=name)
        if not isinstance(given[1], str) or len(value) > HEADER_MAX or _VALUE.fullmatch(value) is None:
            message = f"{where}: the value of {name} cannot be sent: printable ASCII is expected, without line ends"
            raise UsageError(f"{message}, up to {HEADER_MAX:,} characters", header=name)
        if lower in found:
            raise UsageError(f"{where}: {name} is given twice", header=name)
        found[lower] = value
    return tuple(sorted(found.items()))


def merged(base: Given, more: Given) -> Given:
    """Merge; the second wins."""
    return tuple(sorted((dict(base) | dict(more)).items()))


def for_other_origin(given: Given) -> Given:
    """The headers for another origin."""
    return tuple((name, value) for name, value in given if name in _HARMLESS)


@lru_cache(maxsize=256)
def digest(given: Given) -> str:
    """The digest of headers for names and stores; it does not reveal them."""
    if not given:
        return ""
    text = "\n".join(f"{name}:{value}" for name, value in given)
    return pbkdf2_hmac("sha256", text.encode(), b"headwater.http", DIGEST_ROUNDS, 12).hex()


def told(text: str, given: Given) -> str:
    """A server's message in one short line, with the request's secrets redacted."""
    shown = text
    for name, value in given:
        if name not in _HARMLESS:
            for part in sorted({value, *value.split()}, key=len, reverse=True):
                shown = shown.replace(part, "***") if len(part) >= _SHORT else shown
    return " ".join(shown.split())[:TOLD_MAX]
