"""Every limit of the protocol, with its reason."""

from __future__ import annotations

from typing import Final

from headwater.values.value_limits import COMMIT_BYTES_MAX

FRAME_BYTES_MAX: Final = COMMIT_BYTES_MAX + 1024 * 1024
"""A commit of the largest size, with what it has read. Before `opened`, GREETING_BYTES_MAX holds."""

GREETING_BYTES_MAX: Final = 64 * 1024
"""A stranger may send as much: hello and open need less than one."""

WATCHES_MAX: Final = 100_000
"""Documents that one session may watch. Each costs the server some 200 bytes."""

PREFIXES_MAX: Final = 256
"""Beginnings of keys that one session may watch. Each is compared with the key of every document that is written."""

PREFETCH_MAX: Final = 50_000
"""Documents that one question by prefix or link may bring: more are fetched when they are read."""

PREFETCH_BYTES_MAX: Final = 32 * 1024 * 1024
"""The same in bytes."""

PENDING_MAX: Final = 1024
"""Commits of one session that wait for the disk at the server. A client sends no more than WINDOW; more are refused."""

PENDING_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
"""The same in bytes: a thousand of the largest would be more than the machine has."""

PARTS_MAX: Final = 250_000
"""Operations, reads and conditions of one commit together. They are checked one by one, while others wait."""

WINDOW: Final = 256
"""Commits that a client has sent and knows no verdict of. Enough to fill groups while one is being written."""

QUESTIONS_MAX: Final = 256
"""Questions of one session that are being answered. Together they name as many documents as may be watched."""

ACK_EVERY: Final = 64
"""Frames of news after which a client says how far it has come."""

OFFLINE_MAX: Final = 10_000
"""Commits that a client keeps while it is not connected. The next write says so."""

NAME_BYTES_MAX: Final = 256
"""A session's name, or a branch's."""

ACTOR_MAX: Final = 200
"""Characters of an actor's name, as of a space's: it is a part of keys, of lines in logs, and of tables."""
