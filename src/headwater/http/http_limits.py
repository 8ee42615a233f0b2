"""Limits and defaults of HTTP requests, each with its reason."""

from __future__ import annotations

from typing import Final

BYTES_MAX: Final = 8 * 1024 * 1024
"""Size of one decoded response. Half of a document's limit: parsed JSON can be larger than its text."""

TIMEOUT_MS: Final = 30_000
"""Time for one request with its redirects, from the name to the last byte. People wait no longer for a page."""

REDIRECTS_MAX: Final = 5
"""Redirects. Real ones need two or three: to https, to the right name, to the right path. More are a loop."""

ADDRESSES_MAX: Final = 64
"""Addresses of one name, all of which are checked. Large services have a dozen; more are suspicious."""

CONNECT_MS: Final = 3_000
"""After so long without a connection the next address is tried, if there is one: a packet that was lost is sent again
after one second, and after two more."""

URL_MAX: Final = 8_000
"""Characters of a URL. Servers accept at least this, many no more."""

NAME_MAX: Final = 253
"""Characters of a host name, the limit of the DNS."""

LABEL_MAX: Final = 63
"""Characters of one label of it, the limit of the DNS."""

PORT_MAX: Final = 65_535
"""The highest port."""

HEADER_MAX: Final = 8_000
"""Characters of one header. Servers refuse more."""

TOLD_MAX: Final = 300
"""Characters of an error response in a message: a sentence or two."""

TOLD_BYTES_MAX: Final = 4 * TOLD_MAX
"""Bytes of an error response that are read: up to four per character."""

REQUESTS_MAX: Final = 32
"""Simultaneous requests of one client in one event loop; further ones wait. One file descriptor each."""

DIGEST_ROUNDS: Final = 100_000
"""Iterations of the digest of headers: some 20 ms once, and as much for each guess of a password."""

PACKED_ROOM: Final = 1024
"""Bytes of a response on the wire beyond its limit: incompressible data grows a little."""

FRESH_FOR_MS: Final = 60_000
"""Default time for which a response is fresh."""

RETRIES: Final = 2
"""Retries after a temporary error. A third failure is no accident."""

RETRY_BACKOFF_S: Final = 1.0
"""Wait before the first retry; doubled for the second."""

RETRY_AFTER_MAX_MS: Final = 60_000
"""Longest Retry-After that a retry waits for. A longer one makes the request fail, with the time in the message."""

REST_MAX_MS: Final = 3_600_000
"""Longest Retry-After that is obeyed: "next year" is often a mistake."""
