"""The lineage of a space: one unbroken log. Restoring a backup starts a new one.

Sequence numbers are then not comparable: 17 may be another commit than a client has seen. So a session continues only
in the lineage in which it began. Every space has a lineage from its creation on.
"""

from __future__ import annotations

from typing import Final

from headwater.machine import machine
from headwater.store.engine import Engine

KEY: Final = "lineage"
_BYTES: Final = 8


def lineage_of(engine: Engine) -> bytes:
    """The lineage of a space."""
    return bytes.fromhex(engine.backend.meta(KEY) or "")


def renew(engine: Engine) -> bytes:
    """Start a new lineage: no earlier session continues."""
    made = machine().token_bytes(_BYTES)
    engine.backend.set_meta(KEY, made.hex())
    return made
