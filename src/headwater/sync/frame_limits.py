"""Every limit of the protocol, with its reason."""

from __future__ import annotations

from typing import Final

from headwater.values.value_limits import COMMIT_BYTES_MAX

FRAME_BYTES_MAX: Final = COMMIT_BYTES_MAX + 1024 * 1024
"""A commit of the largest size, with its reads. Before `opened`, GREETING_BYTES_MAX applies."""

GREETING_BYTES_MAX: Final = 64 * 1024
"""The limit for clients without a session: hello and open need less than 1 KiB."""

WATCHES_MAX: Final = 100_000
"""Documents that one session may watch. Each costs the server about 200 bytes."""

PREFIXES_MAX: Final = 256
"""Prefixes of keys that one session may watch. Each is compared with the key of every written document."""

PREFETCH_MAX: Final = 50_000
"""Documents that one request by prefix or link may return. More are fetched when they are read."""

PREFETCH_BYTES_MAX: Final = 32 * 1024 * 1024
"""The same in bytes."""

LEFT_MAX: Final = 1_000
"""Documents with a watched prefix that an answer names instead of sending them. With more, the prefix is not watched:
a list of keys is to be short beside the documents."""

SPANS_MAX: Final = 10_000
"""Spans of indexes that one session may watch: each costs the server about 1 KiB, and a session reads far fewer."""

KEYS_MAX: Final = 20_000
"""Keys of an index in one answer: about a megabyte, read while the space is locked. The rest is asked for next."""

SPAN_BOUND_MAX: Final = 16 * 1024
"""Bytes of the bounds of a span: a key has up to four fields of some 1 KiB each, a user, and the key of a document."""

INDEX_NAME_MAX: Final = 1024
"""Characters of the name of an index: a kind, four fields and a digest."""

PENDING_MAX: Final = 1024
"""Commits of one session that wait for the disk at the server. A client sends at most WINDOW; more are refused."""

PENDING_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
"""The same in bytes: a thousand commits of the largest size would exceed the memory."""

PARTS_MAX: Final = 250_000
"""Operations, reads and conditions of one commit together. They are checked one by one, while others wait."""

WINDOW: Final = 256
"""Sent commits without a verdict: enough to fill a group while another one is written."""

QUESTIONS_MAX: Final = 256
"""Requests of one session that are being answered. Together they name as many documents as may be watched."""

ACK_EVERY: Final = 64
"""Frames of news after which a client acknowledges."""

OFFLINE_MAX: Final = 10_000
"""Commits that a client keeps while it is not connected. The next write raises an error."""

NAME_BYTES_MAX: Final = 256
"""Characters of the name of a session or branch."""

ACTOR_MAX: Final = 200
"""Characters of an actor's name, as of a space's: it is part of keys, log lines and tables."""
