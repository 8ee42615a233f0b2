"""The lineage of a space: one unbroken log. A space that is restored from a backup gets another.

Numbers of the log say nothing then: what a client has seen as 17 may have been written again, and differently. So a
session goes on only in the lineage that it began in. Every space has one from the time when it was made.

Must never know: clients.
"""

from __future__ import annotations

from typing import Final

from headwater.machine import machine
from headwater.store.engine import Engine

KEY: Final = "lineage"
_BYTES: Final = 8


def lineage_of(engine: Engine) -> bytes:
    """That of a space."""
    return bytes.fromhex(engine.backend.meta(KEY) or "")


def renew(engine: Engine) -> bytes:
    """From here on it is another log: no session goes on with what it has seen."""
    made = machine().token_bytes(_BYTES)
    engine.backend.set_meta(KEY, made.hex())
    return made
