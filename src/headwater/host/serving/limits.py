"""What the server allows one client, and all of them, each with its reason."""

from __future__ import annotations

from typing import Final

CONNECTIONS_MAX: Final = 5000
"""At the same time. Each is a file descriptor and some 20 KiB; the next is told to come again."""

PER_GRANT_MAX: Final = 2000
"""Connections with one token or key: one client that goes wrong does not keep out the others."""

OUT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes that wait to be sent to one client. Who reads slower than that is closed, and comes back for the newest state
instead of everything in between. A larger answer is allowed while nothing else waits."""

FRAMES_PER_S: Final = 20_000
"""From one client, on average; FRAMES_BURST at once. Ten times what one program commits."""

FRAMES_BURST: Final = 40_000
"""See FRAMES_PER_S."""

GREETING_S: Final = 5.0
"""Until a connection has opened a space. Who takes longer is no client."""

PING_S: Final = 20.0
"""How often a silent connection is asked whether anybody is there, and how long it may take to answer."""

EMPTY_S: Final = 60.0
"""How long a space that nobody uses stays open."""

SPACES_MAX: Final = 256
"""Open at the same time: two threads' worth of memory and three files each."""

GUESSES_PER_S: Final = 5.0
"""Wrong tokens from one address, on average; GUESSES_BURST at once. More are not even looked at."""

GUESSES_BURST: Final = 20
"""See GUESSES_PER_S: a person who has mistyped one, with a program that tries again."""

DRAIN_S: Final = 10.0
"""How long the end of the server waits for what was sent to it to be decided and told."""
