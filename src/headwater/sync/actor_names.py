"""The form of actor names."""

from __future__ import annotations

from typing import Final

from headwater.errors import NameRefusedError
from headwater.sync.frame_limits import ACTOR_MAX

_SHOWN: Final = 40
"""Characters of a long name that a message shows."""


def check_actor(actor: str) -> None:
    """Raise NameRefusedError for an invalid name. The empty name means no actor."""
    if not actor or len(actor) > ACTOR_MAX or not actor.isprintable() or actor != actor.strip():
        shown = repr(actor) if len(actor) <= _SHOWN else f"{actor[:_SHOWN]!r}... ({len(actor):,} characters)"
        message = (
            f"{shown} is not a name for an actor: 1 to {ACTOR_MAX} printable characters are expected, without spaces "
            "at the ends"
        )
        raise NameRefusedError(message, actor=actor)
