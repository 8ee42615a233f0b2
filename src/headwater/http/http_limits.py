"""Every bound and default of requests over HTTP, each with its reason.

Must never know: what is bounded.
"""

from __future__ import annotations

from typing import Final

BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one answer, unpacked. Half of what a document may hold: decoded JSON can take more room than its text."""

TIMEOUT_MS: Final = 30_000
"""For one request with all its redirects, from the name to the last byte. Who looks at a page waits no longer."""

REDIRECTS_MAX: Final = 5
"""Real ones need two or three: to https, to the right name, to the right path. More are a circle."""

ADDRESSES_MAX: Final = 64
"""Of one name, all of which are checked. Names of large services have a dozen; more is no name to be trusted."""

CONNECT_MS: Final = 3_000
"""After so long without a connection the next address is tried, if there is one: a packet that was lost is sent again
after one second, and after two more."""

URL_MAX: Final = 8_000
"""Characters. What servers take at least, and many at most."""

NAME_MAX: Final = 253
"""Characters of a host's name, as the DNS has it."""

LABEL_MAX: Final = 63
"""Characters between two of its dots, likewise."""

PORT_MAX: Final = 65_535
"""The last one that there is."""

HEADER_MAX: Final = 8_000
"""Characters of one header. Servers refuse more."""

TOLD_MAX: Final = 300
"""Characters of an answer that went wrong which people are shown: a sentence or two of it."""

TOLD_BYTES_MAX: Final = 4 * TOLD_MAX
"""Bytes of such an answer that are read: each character may take four."""

REQUESTS_MAX: Final = 32
"""Of one client at the same time in one event loop; the next ones wait. A file descriptor each, and a courtesy."""

DIGEST_ROUNDS: Final = 100_000
"""Of the digest that stands for headers in a store: some 20 ms once, and as much for each guess at a password."""

PACKED_ROOM: Final = 1024
"""Bytes that an answer may take on the wire beyond its size: what cannot be packed grows a little by packing."""

FRESH_FOR_MS: Final = 60_000
"""How long an answer counts as current, unless its author says otherwise."""

RETRIES: Final = 2
"""After a request that had no answer, or one that says "not now". A third failure is no accident."""

RETRY_BACKOFF_S: Final = 1.0
"""Before the first of them; doubled for the second."""

RETRY_AFTER_MAX_MS: Final = 60_000
"""A server may ask to be left alone for so long before it is asked once more. Whoever is told to come back later than
that is told of the failure, and of when."""

REST_MAX_MS: Final = 3_600_000
"""However long a server wants to be left alone, it is asked again after an hour: "next year" is often a mistake."""
