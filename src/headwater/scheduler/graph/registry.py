"""All nodes of a scheduler: adding, replacing and removing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from headwater.errors import UsageError
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import (
    NO_CAUSES,
    NOTHING_ABOVE,
    DocPath,
    Node,
    NodeKind,
    NodeSignal,
    NodeSpec,
    SharedSpec,
)
from headwater.scheduler.trace import NodeRegistered, NodeRemoved, Trace
from headwater.values.shrink import shrunk

COMPUTATION_TIER = 0
EFFECT_TIER = 1
IDLE_TIER = 2
"""After all other work: materializers, whose readers cannot be known."""

_SHARED_FIELDS: Final = tuple(each.name for each in fields(SharedSpec) if each.name != "tier")
_shared_values: Final = attrgetter(*_SHARED_FIELDS)
_own_values: Final = attrgetter("name", "outputs", "stored_as", "called_with", "on_unread", "piece")
"""The own part of a declaration that is compared. Functions are left out: they are created again each time."""


class Registry:
    """All nodes of one scheduler, as they were registered."""

    def __init__(
        self,
        graph: Graph,
        configure: Callable[[Node], None],
        trace: Trace,
        now: Callable[[], float],
        *,
        eager: bool = False,
    ) -> None:
        self._graph = graph
        # Sets the gates of a new node.
        self._configure = configure
        self._trace = trace
        self._now = now
        self._count = 0
        # The order of the next node, if it replaces another.
        self._position = 0
        # Every computation is live, read or not.
        self.eager = eager
        self.nodes: dict[Node, None] = {}
        # The shared parts of declarations, by their values: as many as there are combinations of options.
        self._shared: dict[tuple[object, ...], SharedSpec] = {}
        # Called with each removed node.
        self.on_remove: Callable[[Node], None] | None = None

    def add(self, spec: NodeSpec, parent: Node | None) -> Node:
        """Add a node. Nothing is read and nothing runs (I2)."""
        self._check(spec)
        self._count += 1
        position, self._position = self._position or self._count, 0
        effect = spec.kind is NodeKind.EFFECT
        name, outputs, envelope = spec.name, spec.outputs, spec.side_write_envelope
        values = _shared_values(spec)
        shared = self._shared.get(values)
        if shared is None:
            shared = self._share(spec, values)
        node = Node(
            spec=shared,
            name=name,
            fn=spec.fn,
            result_type=spec.result_type,
            fingerprint=spec.fingerprint,
            stored_as=spec.stored_as,
            called_with=spec.called_with,
            on_unread=spec.on_unread,
            piece=spec.piece,
            order=self._count,
            position=position,
            outputs=outputs,
            declared_parent=spec.parent,
            parent=spec.parent or parent,
            # Given here: a default that is a dict would be made by a call for each node.
            invalid_causes=NO_CAUSES,
            above=NOTHING_ABOVE,
        )
        if envelope or len(outputs) > 1:
            surface: tuple[DocPath, ...] = (*((doc, ()) for doc in outputs[1:]), *envelope)
            node.own_rare().surface = surface
        origin = spec.origin
        if origin is not None and origin is not getattr(spec.result_type, "__wrapped__", spec.fn):
            # As `Node.default_origin`.
            node.own_rare().origin = origin
        if spec.made_before:
            node.own_rare().made_before = spec.made_before
        if spec.on_live is not None or spec.on_dormant is not None:
            rare = node.own_rare()
            rare.on_live, rare.on_dormant = spec.on_live, spec.on_dormant
        self.nodes[node] = None
        self._configure(node)
        if spec.is_fed:
            node.signal(NodeSignal.FED)
        self._graph.insert(node)
        if self._trace.on:
            above = node.parent.id if node.parent is not None else None
            self._trace.emit(NodeRegistered(self._now(), node.id, spec.kind.value, above))
        home = spec.home
        is_eager = self.eager or (home is not None and home.is_eager)
        if effect or (is_eager and not spec.is_fed and not spec.is_proxy) or spec.eager or spec.side_write_envelope:
            self._graph.liveness.demand(node)
        return node

    def is_eager(self, spec: SharedSpec) -> bool:
        """Whether a computation is live without a reader."""
        home = spec.home
        is_function = not spec.is_fed and not spec.is_proxy
        return spec.eager or ((self.eager or (home is not None and home.is_eager)) and is_function)

    @contextmanager
    def in_place_of(self, former: Node | None) -> Iterator[None]:
        """The next node replaces a removed one, and takes its position."""
        self._position = 0 if former is None else former.position
        try:
            yield
        finally:
            self._position = 0

    def _share(self, spec: NodeSpec, values: tuple[object, ...]) -> SharedSpec:
        """The part of a declaration that nodes with these values have in common."""
        named: dict[str, Any] = dict(zip(_SHARED_FIELDS, values, strict=True))
        found = SharedSpec(**named)
        is_effect = spec.kind is NodeKind.EFFECT
        found.tier = EFFECT_TIER if is_effect else IDLE_TIER if spec.side_write_envelope else COMPUTATION_TIER
        if not spec.side_write_envelope and not spec.declared_reads:
            # Those would be as many as there are documents.
            self._shared[values] = found
        return found

    def remake(self, node: Node, spec: NodeSpec) -> bool:
        """Replace the function of a node, if its declaration is the same otherwise."""
        spec.no_auto_debounce, spec.home = node.spec.no_auto_debounce, node.spec.home
        if _shared_values(spec) != _shared_values(node.spec) or _own_values(spec) != _own_values(node):
            return False
        if spec.parent is not node.declared_parent or spec.made_before != node.rare.made_before:
            return False
        node.fn, node.result_type = spec.fn, spec.result_type
        node.fingerprint = spec.fingerprint
        if node.rare.origin is not None or (spec.origin is not None and spec.origin is not node.default_origin):
            node.own_rare().origin = spec.origin
        return True

    def remove(self, node: Node) -> None:
        """Remove a node. Idempotent."""
        if node.removed:
            return
        node.removed = True
        del self.nodes[node]
        self._graph.take_out(node)
        if node.attempt is not None:
            node.attempt.cancel()
        if self.on_remove is not None:
            self.on_remove(node)
        if self._trace.on:
            self._trace.emit(NodeRemoved(self._now(), node.id))

    def fit(self) -> None:
        """Release the memory of removed nodes."""
        self.nodes = shrunk(self.nodes)
        self._graph.writers = shrunk(self._graph.writers)

    @staticmethod
    def _check(spec: NodeSpec) -> None:
        """Raise UsageError for contradictory declarations."""
        if spec.kind is NodeKind.EFFECT and (spec.outputs or spec.side_write_envelope or spec.eager):
            message = f"effect {spec.name} has outputs, an envelope or eager=True; these are for computations"
            raise UsageError(message, node=spec.name)
        if spec.kind is NodeKind.COMPUTATION and not spec.outputs:
            message = (
                f"computation {spec.name} has no output; name the document that takes its result, or make it an effect"
            )
            raise UsageError(message, node=spec.name)
        if len(spec.outputs) > 1 and len(set(spec.outputs)) != len(spec.outputs):
            raise UsageError(f"computation {spec.name} names an output twice", node=spec.name)
