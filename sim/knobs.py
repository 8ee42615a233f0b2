"""Makes limits of the product small, so that what happens at a limit happens in a short world."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Final
from unittest.mock import patch

from sim.plan import Knobs

DOCUMENT_BYTES: Final = 1_000
"""About what one small document takes in the cache of the store."""

PLACES: Final[dict[str, tuple[str, ...]]] = {
    "group_max": ("host.storage:GROUP_MAX",),
    "window": ("sync.client_session:WINDOW",),
    "fold_after": ("store.engine:FOLD_COMMITS",),
    "cache": ("store.state_cache:CACHE_BYTES",),
    "checkpoint_pages": ("store.backends.sqlite_file:CHECKPOINT_PAGES",),
    "out_bytes": ("server.spaces.server_socket:OUT_BYTES_MAX", "testing.simulation.wire:KERNEL_BYTES"),
}
"""For each knob, the constants it replaces, as `module:NAME`: each module that imports a name has its own."""

SCALES: Final = {"cache": DOCUMENT_BYTES}
"""What a knob counts, in units of the constant."""


@contextmanager
def applied(knobs: Knobs) -> Iterator[None]:
    """Inside, the product has these limits."""
    with ExitStack() as stack:
        for knob, places in PLACES.items():
            value = getattr(knobs, knob)
            for place in places if value is not None else ():
                module, _, name = place.partition(":")
                scaled = value * SCALES.get(knob, 1)
                stack.enter_context(patch.object(import_module(f"headwater.{module}"), name, scaled))
        yield
