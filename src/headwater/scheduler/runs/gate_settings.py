"""The stored settings of gates.

A setting has a row of its own, so it is also kept for a node without a stored run: a sink, a function that has not run,
or a function whose code has changed. A setting that replaced a declared one is valid while the declaration stays the
same. A changed declaration replaces the setting.
"""

from __future__ import annotations

from typing import Final

from headwater.scheduler.graph.node import Node
from headwater.store.observations import Extra, GateSettings, decode_observation, encode_observation
from headwater.store.resumption import Listing
from headwater.values.ids import DocKey

SUFFIX: Final = ":gate"
"""The suffix of these rows after the name of the node's own row, so that both are listed and deleted together."""


class StoredGateSettings:
    """The settings of one scheduler, by the names of their rows."""

    def __init__(self) -> None:
        self._found: dict[DocKey, GateSettings] = {}
        self.is_empty = True

    def record(self, node: Node, debounce_ms: float | None, throttle_ms: float | None) -> tuple[DocKey, bytes] | None:
        """Record a setting. Returns the row to store; None for a node without a name in the store."""
        key, spec = _key(node), node.spec
        if key is None:
            return None
        settings = GateSettings(debounce_ms, throttle_ms, spec.debounce_ms, spec.throttle_ms)
        self._found[key] = settings
        self.is_empty = False
        return key, encode_observation(b"", (), Extra(gate=settings))

    def load(self, listing: Listing) -> bool:
        """Take the rows of settings out of a listing. Returns whether there were any."""
        rows = [listing.rows.pop(key) for key in [key for key in listing.rows if key.endswith(SUFFIX)]]
        for row in rows:
            observation = decode_observation(row.body)
            if observation is not None and observation.extra is not None and observation.extra.gate is not None:
                # A setting of this opening is newer.
                self._found.setdefault(row.doc, observation.extra.gate)
                self.is_empty = False
        return bool(rows)

    def of(self, node: Node) -> tuple[float | None, float | None]:
        """Debounce and throttle of a node: set at run time, or declared."""
        spec = node.spec
        debounce, throttle = spec.debounce_ms, spec.throttle_ms
        key = _key(node) if self._found else None
        kept = None if key is None else self._found.get(key)
        if kept is not None and kept.declared_debounce_ms == debounce:
            debounce = kept.debounce_ms
        if kept is not None and kept.declared_throttle_ms == throttle:
            throttle = kept.throttle_ms
        return debounce, throttle


def _key(node: Node) -> DocKey | None:
    name = node.stored_as or (node.outputs[0] if node.outputs else None)
    return None if name is None else DocKey(f"{name}{SUFFIX}")
