"""The graph at one moment, as plain records.

The scheduler fills them; tools that draw, compare or send them need nothing else. A snapshot contains only text and
numbers: it can be stored as JSON and read long after the space is closed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

NodeKindName = Literal["computation", "effect", "handler"]
NodeStatusName = Literal["never-ran", "clean", "invalid"]
EdgeKind = Literal["data", "envelope", "parent"]


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one function of the space."""

    id: str
    """Unique in the snapshot."""
    name: str
    """As the author knows it: `board`, or `row(3)` for one with arguments."""
    piece: str = ""
    """The piece that it belongs to, if any: `timer kitchen`."""
    kind: NodeKindName
    status: NodeStatusName
    live: bool
    """It runs when its inputs change. A node that is not live is dormant: it runs when it is called."""
    why_live: str = ""
    """"effect", "handler", "eager", "materializer", "read by live nodes", "provisional", or nothing."""
    rank: int = 0
    """Greater than that of every computation it read."""
    runs: int = 0
    restored: bool = False
    """Its last run in an earlier opening was restored: it can be clean without a run here."""
    invalidated: int = 0
    """How often a value that it had read changed."""
    mean_ms: float = 0.0
    error: str = ""
    """The error of its last run."""
    gate: str = ""
    """What delays it, in words: "debounce 250ms, eligible in 120ms"."""
    in_flight: bool = False
    waiting: int = 0
    """Events that wait for a handler. The gate says what delays the first of them."""
    parent: str | None = None
    """The id of the node whose run made it."""
    outputs: tuple[str, ...] = ()
    """Addresses it writes, such as "todo.board"."""
    envelopes: tuple[str, ...] = ()
    """Addresses below which it may write."""
    reads: tuple[str, ...] = ()
    """Addresses its last run read."""
    file: str = ""
    line: int = 0
    space: str = ""
    """Of a proxy node: the name of the other space, whose functions write its output."""


class Edge(msgspec.Struct, frozen=True):
    """An edge from a writer to a reader, or from a maker to what it made. Both are ids of nodes or of sources."""

    source: str
    target: str
    kind: EdgeKind


class SourceView(msgspec.Struct, frozen=True):
    """A document that nodes read and no node writes. Its id is "doc:" and the address."""

    id: str
    address: str
    space: str = ""
    """The name of its space, if that is another one."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes of one space at one moment."""

    space: str
    at_ms: int
    """When it was taken, in milliseconds of the space's clock."""
    seq: int
    """The seq it was taken at."""
    nodes: tuple[NodeView, ...] = ()
    sources: tuple[SourceView, ...] = ()
    edges: tuple[Edge, ...] = ()

    def to_json(self) -> bytes:
        """The snapshot as JSON, in a fixed order: equal snapshots give equal bytes."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Snapshot:
        """The inverse of `to_json`. Raises msgspec.DecodeError or ValidationError on anything else."""
        return msgspec.json.decode(data, type=cls)
