"""Which life of a space this is: another one after it was put back to an earlier state.

Numbers of the log say nothing then: what a client has seen as 17 may have been written again, and differently. So a
session goes on only in the life it has begun in.

Must never know: clients.
"""

from __future__ import annotations

import secrets
from typing import Final

from headwater.store.engine import Engine

KEY: Final = "lineage"
_BYTES: Final = 8


def lineage_of(engine: Engine) -> bytes:
    """That of a space; it is given one if it has none."""
    found = engine.backend.meta(KEY)
    return renew(engine) if found is None else bytes.fromhex(found)


def renew(engine: Engine) -> bytes:
    """A new life begins: nobody goes on with what they have seen."""
    made = secrets.token_bytes(_BYTES)
    engine.backend.set_meta(KEY, made.hex())
    return made
