"""What the server allows one client, and all of them, each with its reason."""

from __future__ import annotations

from typing import Final

CONNECTIONS_MAX: Final = 5000
"""At the same time. Each is a file descriptor and some 20 KiB; the next is told to come again."""

PER_GRANT_MAX: Final = 2000
"""Connections with one token or key: one client that goes wrong does not keep out the others."""

OUT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes that wait to be sent to one client, besides answers to what it has asked. Who reads slower than that is closed,
and comes back for the newest state instead of everything in between."""

OUT_MARK: Final = 256 * 1024
"""Bytes that wait to be sent to one client while its next question is answered. With more, it reads those first."""

BEHIND: Final = 5000
"""Commits of a space that wait for the disk. While there are more, nothing is heard of those who write there."""

FRAMES_PER_S: Final = 20_000
"""From one client, on average; FRAMES_BURST at once. Ten times what one program commits."""

FRAMES_BURST: Final = 40_000
"""See FRAMES_PER_S."""

BEHIND_S: Final = 0.005
"""How long that is, until it is looked at again: about as long as a group takes to be written."""

GREETING_S: Final = 5.0
"""Until a connection has said what it wants: until the end of a request's headers, and then until a space is open. Who
takes longer is no client."""

BODY_S: Final = 30.0
"""For the body of a request over HTTP: an event of a megabyte over a telephone."""

HALF_OPEN_MAX: Final = 512
"""Connections in the middle of a request. If there are more, the oldest goes: who is no attacker is done by then."""

STRANGERS_MAX: Final = 100
"""Connections of one address that are going to show a key, and have not yet."""

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
