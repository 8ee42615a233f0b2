"""Limits of the server, per client and in total, each with its reason."""

from __future__ import annotations

from typing import Final

CONNECTIONS_MAX: Final = 5000
"""Simultaneous connections: a file descriptor and some 20 KiB each. Further ones are asked to try again later."""

PER_GRANT_MAX: Final = 2000
"""Connections per token or key: a faulty client does not lock out the others."""

OUT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Unsent bytes for one client, answers to its questions excluded. A client that reads more slowly is disconnected, and
reconnects for the newest state instead of every change in between."""

OUT_MARK: Final = 256 * 1024
"""Unsent bytes for one client up to which its next question is answered."""

BEHIND: Final = 5000
"""Commits of a space that wait for the disk. Above it, the server stops reading from clients that write there."""

FRAMES_PER_S: Final = 20_000
"""Frames per second from one client on average, FRAMES_BURST at once: ten times the rate of one program."""

FRAMES_BURST: Final = 40_000
"""See FRAMES_PER_S."""

FRAMES_TURN: Final = 16
"""Frames of one client in one turn of the loop, about a millisecond. Then the other clients are served."""

SLICE_DOCS: Final = 32
"""Documents of an answer that are read in one piece, about a millisecond. Then other spaces may go first."""

PAUSE_S: Final = 0.001
"""Pause of a large answer if another space is in use: so the answer takes at most half of the processor."""

BEHIND_S: Final = 0.005
"""Pause before reading again: about the time to write one group."""

GREETING_S: Final = 5.0
"""Time for the headers of a request, and then until a space is open. A client that takes longer is disconnected."""

BODY_S: Final = 30.0
"""Time for the body of an HTTP request: a megabyte over a slow line."""

HALF_OPEN_MAX: Final = 512
"""Connections with an incomplete request. Above it, the oldest is closed: a normal client has finished by then."""

STRANGERS_MAX: Final = 100
"""Connections of one address that have not signed their challenge yet."""

PING_S: Final = 20.0
"""Interval of pings on a silent connection, and time for the pong."""

EMPTY_S: Final = 60.0
"""How long an unused space stays open."""

SPACES_MAX: Final = 2_000
"""Spaces open at the same time, unless `--spaces-max` is given: two file descriptors each, and some 150 KiB while no
client uses them. At the limit, the space that was unused for longest is closed."""

SPARE_S: Final = 1.0
"""How long a space without clients is unused before it is closed for another one: its client may be about to enter."""

IDLE_S: Final = 3.0
"""Time without commits and questions after which a space releases memory: its documents, pages and schema."""

SHRINKS_MAX: Final = 50
"""Spaces that release memory at a time, a millisecond each."""

GUESSES_PER_S: Final = 5.0
"""Wrong tokens per second from one address on average, GUESSES_BURST at once. Further ones are not checked."""

GUESSES_BURST: Final = 20
"""See GUESSES_PER_S: enough for a mistyped token in a program that retries."""

DRAIN_S: Final = 10.0
"""How long the end of the server waits for verdicts of received commits."""

LOOK_S: Final = 2.0
"""How long a program has to answer a question about its functions. It waits for the end of a pass at most 300 ms."""

LOOKS_MAX: Final = 4
"""Questions to one program without an answer. It answers one at a time."""

PAGE_MESSAGE_MAX: Final = 1024 * 1024
"""Bytes of one message of a page of the server: a question, or a value that a person typed."""
