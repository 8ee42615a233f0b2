"""Smaller snapshots of a graph: fewer nodes, or fewer reads of each."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from headwater.scheduler.inspect.graph_snapshot import NodeView, Snapshot, SourceView


def fewer(snapshot: Snapshot, limit: int) -> Snapshot:
    """At most this many nodes, functions before instances, and the sources that they read."""
    if len(snapshot.nodes) <= limit:
        return snapshot
    ordered = sorted(snapshot.nodes, key=lambda node: node.name.endswith(")"))
    chosen = {node.id for node in ordered[:limit]}
    return _of_nodes(snapshot, tuple(node for node in snapshot.nodes if node.id in chosen))


def shorter(snapshot: Snapshot, reads: int) -> Snapshot:
    """The snapshot with at most this many reads and edges of every node."""
    nodes = tuple(msgspec.structs.replace(node, reads=node.reads[:reads]) for node in snapshot.nodes)
    counts: dict[str, int] = {}
    edges = []
    for edge in snapshot.edges:
        counts[edge.target] = counts.get(edge.target, 0) + 1
        if counts[edge.target] <= reads:
            edges.append(edge)
    return _of_nodes(msgspec.structs.replace(snapshot, edges=tuple(edges)), nodes)


def part_of(snapshot: Snapshot, ids: Collection[str]) -> Snapshot:
    """These nodes. Results of others that they read are sources, as documents that no node writes."""
    others = {node.id: node.outputs[0] for node in snapshot.nodes if node.id not in ids and node.outputs}
    read = {edge.source for edge in snapshot.edges if edge.source in others and edge.target in ids}
    spaces = {node.id: node.space for node in snapshot.nodes}
    sources = tuple(SourceView(f"doc:{others[each]}", others[each], spaces[each]) for each in others if each in read)
    edges = tuple(
        msgspec.structs.replace(edge, source=f"doc:{others[edge.source]}") if edge.source in read else edge
        for edge in snapshot.edges
        if edge.target in ids
    )
    whole = msgspec.structs.replace(snapshot, sources=(*snapshot.sources, *sources), edges=edges)
    return _of_nodes(whole, tuple(node for node in snapshot.nodes if node.id in ids))


def _of_nodes(snapshot: Snapshot, nodes: tuple[NodeView, ...]) -> Snapshot:
    """The snapshot with these nodes, the edges between them, and the sources that they read."""
    chosen = {node.id for node in nodes}
    ends = chosen | {source.id for source in snapshot.sources}
    edges = tuple(edge for edge in snapshot.edges if edge.source in ends and edge.target in chosen)
    read = {edge.source for edge in edges}
    sources = tuple(source for source in snapshot.sources if source.id in read)
    return msgspec.structs.replace(snapshot, nodes=nodes, sources=sources, edges=edges)
