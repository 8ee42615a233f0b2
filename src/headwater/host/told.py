"""What is told of the functions of a space: the records that go through its door, and that a closed one leaves behind.

A request is one line of JSON, and so is the answer to it. Whoever follows a trace is sent further lines until one of
the two goes.

Must never know: sockets, files, or how an answer is shown.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from headwater.scheduler.snapshot import NodeKind, NodeView, Snapshot

VERSION: Final = 1
"""Of the requests and answers. A door refuses what it does not know, and says which version it speaks."""

NODES_MAX: Final = 20_000
"""Nodes in one answer: more than any picture shows, and a program is not held up for longer than half a second."""

WAIT_MS: Final = 300
"""How long a question waits for the end of a pass: a person hardly notices."""

Question: TypeAlias = Literal["ping", "snapshot", "stats", "why", "trace"]


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request."""

    v: int
    ask: Question
    node: str = ""
    """why: of whom. A function, `app.function`, or an instance."""
    kind: str = ""
    """trace: only records of this kind."""
    follow: bool = False
    """trace: go on with what happens from now on."""
    unless: str = ""
    """snapshot, stats: the mark of an earlier answer. If it is still the same, nothing else is answered."""
    limit: int = NODES_MAX
    wait_ms: int = WAIT_MS


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What one function has done, all its instances together."""

    name: str
    kind: NodeKind
    nodes: int = 1
    """How many there are: one, or one for each set of arguments."""
    has_arguments: bool = False
    live: int = 0
    clean: int = 0
    invalid: int = 0
    never_ran: int = 0
    failed: int = 0
    running: int = 0
    runs: int = 0
    invalidated: int = 0
    total_ms: float = 0.0
    last_ms: float = 0.0


class Why(msgspec.Struct, frozen=True):
    """In words: why a node last ran, why it does not run now, what would wake it. One sentence in each line."""

    id: str
    name: str
    words: str


class Opening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is told of one opening of a space. What was not asked for is left out."""

    app: str
    space: str
    branch: str = "main"
    actor: str = ""
    at_ms: int
    """When that was, in milliseconds since 1970."""
    busy: bool = False
    """A pass was going on: what is told was seen in passing, and what cannot be seen so is left out."""
    running: tuple[str, ...] = ()
    """Whose functions are at work right now, outermost first."""
    snapshot: Snapshot | None = None
    left_out: int = 0
    """Nodes that there are besides."""
    activities: tuple[Activity, ...] = ()
    counts: dict[str, int] = {}
    whys: tuple[Why, ...] = ()
    names: tuple[str, ...] = ()
    """why, if nobody is called so: who there is."""
    trace: tuple[dict[str, object], ...] = ()
    """The records that were kept, oldest first, at times since 1970."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer: of every opening that the process has of this file."""

    v: int
    pid: int
    openings: tuple[Opening, ...] = ()
    mark: str = ""
    """Differs if anything has happened."""
    error: str = ""
    """Why there is no answer."""


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a trace that is followed."""

    app: str
    record: dict[str, object] | None = None
    missed: int = 0
    """Records that were not sent, because whoever follows was too slow."""


# --- names ----------------------------------------------------------------------------------------------------


def function_of(name: str) -> str:
    """`row` of `row(3)`: what a node's function is called."""
    return name.partition("(")[0] if name.endswith(")") else name


def is_called(node_id: str, name: str, text: str, app: str) -> bool:
    """Whether a node can be meant by this: its name, its function's, either with the app in front; `…` for anything."""
    wanted = text.removeprefix(f"{app}.").replace("...", "…")
    if wanted in (node_id, name, function_of(name), f"{name}()"):
        return True
    if "…" in wanted:
        head, _, tail = _bare(wanted).partition("…")
        bare = _bare(name)
        return len(bare) >= len(head) + len(tail) and bare.startswith(head) and bare.endswith(tail)
    return name.endswith(")") and _bare(wanted) == _bare(name)


def _bare(text: str) -> str:
    """Without what people write differently."""
    return text.replace(" ", "").replace("'", "").replace('"', "")


# --- fewer ----------------------------------------------------------------------------------------------------


def fewer(snapshot: Snapshot, limit: int) -> Snapshot:
    """At most so many nodes, functions before instances; of documents, those that these read."""
    if len(snapshot.nodes) <= limit:
        return snapshot
    ordered = sorted(snapshot.nodes, key=lambda node: node.name.endswith(")"))
    chosen = {node.id for node in ordered[:limit]}
    return _of_nodes(snapshot, tuple(node for node in snapshot.nodes if node.id in chosen))


def shorter(snapshot: Snapshot, places: int) -> Snapshot:
    """Of every node at most so many of the places it read and of its arrows."""
    nodes = tuple(msgspec.structs.replace(node, reads=node.reads[:places]) for node in snapshot.nodes)
    arrows: dict[str, int] = {}
    edges = []
    for edge in snapshot.edges:
        arrows[edge.target] = arrows.get(edge.target, 0) + 1
        if arrows[edge.target] <= places:
            edges.append(edge)
    return _of_nodes(msgspec.structs.replace(snapshot, edges=tuple(edges)), nodes)


def _of_nodes(snapshot: Snapshot, nodes: tuple[NodeView, ...]) -> Snapshot:
    """With these nodes, what is between them, and what they read."""
    chosen = {node.id for node in nodes}
    ends = chosen | {source.id for source in snapshot.sources}
    edges = tuple(edge for edge in snapshot.edges if edge.source in ends and edge.target in chosen)
    read = {edge.source for edge in edges}
    sources = tuple(source for source in snapshot.sources if source.id in read)
    return msgspec.structs.replace(snapshot, nodes=nodes, sources=sources, edges=edges)
