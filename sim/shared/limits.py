"""Small limits of the product, so that what happens at a limit happens in a short world."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Final
from unittest.mock import patch

PLACES: Final = (
    # More documents than one answer has: the rest is fetched when it is read.
    ("client.document_fetch:PREFETCH_MAX", 4),
    ("client.initial_fetch:PREFETCH_MAX", 4),
    ("sync.server_session:PREFETCH_MAX", 4),
    # Documents of the app that an opening leaves out, short lists, and few documents held that no function reads.
    ("client.remote_storage:OPENING_BYTES", 300),
    ("server.spaces.space_answers:LEFT_MAX", 6),
    ("client.read_ahead:LINKS_MIN", 2),
    ("client.read_ahead:FIRST", 2),
    ("client.unread_documents:WALKED_MAX", 2),
    ("client.unread_documents:WALKED_STEP", 2),
    # A slow client is disconnected.
    ("server.spaces.server_socket:OUT_BYTES_MAX", 4_000),
    ("server.spaces.server_socket:OUT_MARK", 300),
    # Spaces are closed when no client has them.
    ("server.spaces.served_spaces:EMPTY_S", 0.4),
    ("sync.client_session:ACK_EVERY", 3),
)


ROUNDS: Final = ("server.spaces.served_spaces:ROUND_PER_S", 1)
"""With few connections, the rounds that look for revoked ones are as rare as with many thousands."""


@contextmanager
def small_limits(features: tuple[str, ...]) -> Iterator[None]:
    """Inside, if the world has the feature, limits are small."""
    with ExitStack() as stack:
        places = PLACES if "limits" in features else ()
        for place, value in (*places, ROUNDS) if "slow rounds" in features else places:
            module, _, name = place.partition(":")
            stack.enter_context(patch.object(import_module(f"headwater.{module}"), name, value))
        yield
