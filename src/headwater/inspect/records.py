"""What is told of a space, its functions and its events: the records that go through its door, or that stay behind.

A request is one line of JSON, and so is the answer to it. Whoever follows a trace is sent further lines until one of
the two goes.

Must never know: sockets, files, or how an answer is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from headwater.scheduler.inspect.graph_snapshot import NodeKindName, NodeView, Snapshot

VERSION: Final = 3
"""Of the requests and answers. A door refuses what it does not know, and says which version it speaks."""

NODES_MAX: Final = 20_000
"""Nodes in one answer: more than any picture shows, and a program is not held up for longer than half a second."""

MISSED_MAX: Final = 1000
"""Functions in one answer of which it is told why nothing could be taken over: more than anybody reads."""

WAIT_MS: Final = 300
"""How long a question waits for the end of a pass: a person hardly notices."""

FlowQuestion: TypeAlias = Literal["workflows", "runs", "run", "inputs"]
"""What is looked at of workflows: `workflows` of all of them, or of the one that is named."""

Question: TypeAlias = Literal["ping", "snapshot", "stats", "why", "trace", "events", "event", "pieces"] | FlowQuestion
"""What is looked at."""

Deed: TypeAlias = Literal["send", "redeliver", "drop", "workflow"]
"""What is done, in the process that has the space open and when it has its turn. `workflow` needs none."""

DEEDS: Final[tuple[Deed, ...]] = get_args(Deed)
FLOW_QUESTIONS: Final[tuple[FlowQuestion, ...]] = get_args(FlowQuestion)

FlowAct: TypeAlias = Literal[
    "pause",
    "resume",
    "now",
    "archive",
    "restore",
    "reprocess",
    "approve",
    "reject",
    "retry",
    "cancel",
    "abandon",
    "applied",
    "not_applied",
    "skip",
    "again",
    "skip_input",
    "retry_input",
    "publish",
]
"""What people do: to a workflow, to a run, to an input, and to a topic."""


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request."""

    v: int
    ask: Question | Deed
    node: str = ""
    """why, send: of whom, to whom. A function, `app.function`, or an instance."""
    kind: str = ""
    """trace: only records of this kind."""
    follow: bool = False
    """trace: go on with what happens from now on."""
    unless: str = ""
    """snapshot, stats: the mark of an earlier answer. If it is still the same, nothing else is answered."""
    resume: bool = False
    """stats: also what was taken over from the opening before."""
    limit: int = NODES_MAX
    wait_ms: int = WAIT_MS
    event: str = ""
    """event, redeliver, drop: its id, or what that begins with."""
    waiting: bool = False
    """events: those that wait, instead of those that failed. runs: those that wait for a person."""
    fields: str = "{}"
    """send: what the event carries, as JSON."""
    name: str = ""
    """send: what the sender calls it, if it may be sent more than once. publish: the id of the event.

    pieces: their pattern.
    """
    by: str = ""
    """send: whose name that is. workflow, of what is done to a run: who decides it;"""
    reason: str = ""
    """and why, in their own words."""
    app: str = ""
    """event and what is done: in which opening, as they are labelled; else in any that can."""
    space: str = ""
    """The same: what the space has to be called, if that matters."""
    branch: str = "main"
    timeout_ms: float | None = None
    """send, redeliver: how long the end of the event is waited for. None: not at all."""
    workflow: str = ""
    """Which one, by its name; none: all of them."""
    number: int = 0
    """run, and what is done to a run or an input: which one."""
    act: FlowAct | None = None
    """workflow: what is done."""
    value: str = "null"
    """workflow, if the act is `applied`: what came of the call, as JSON; if it is `publish`: what is published."""
    topic: str = ""
    """publish: to which topic;"""
    title: str = ""
    """and what people are told that came in."""
    status: str = ""
    """runs, inputs: only those of this status."""
    every: bool = False
    """workflows: archived ones, too. runs: also those that had nothing to do."""
    before: int = 0
    """runs, inputs: the last number of the page before; 0: from the newest on."""
    after: int = 0
    """runs: only those that came since this one;"""
    also: tuple[int, ...] = ()
    """and these, whatever they are."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What one function has done, all its instances together."""

    name: str
    """Of one that pieces have, with their pattern: `doubled of timer`."""
    kind: NodeKindName
    nodes: int = 1
    """How many there are: one, or one for each set of arguments, in each piece."""
    has_arguments: bool = False
    live: int = 0
    clean: int = 0
    invalid: int = 0
    never_ran: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0
    """Events that a handler has not begun with."""
    restored: int = 0
    """Of these, have not run here: what an opening before has kept of them was taken over."""
    runs: int = 0
    invalidated: int = 0
    total_ms: float = 0.0
    last_ms: float = 0.0


class Missed(msgspec.Struct, frozen=True):
    """A function that was not simply restored, and why."""

    name: str
    outcome: str
    """dirty or fresh."""
    reason: str


class TakenOver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an opening made of what those before it have kept."""

    restored: int = 0
    dirty: int = 0
    fresh: int = 0
    missed: tuple[Missed, ...] = ()
    left_out: int = 0
    """Those that are missing in this list."""
    rows: int = 0
    """What is kept for the next opening, and how many bytes that is; of a closed space, its file tells."""
    size: int = 0


class Why(msgspec.Struct, frozen=True):
    """In words: why a node last ran, why it does not run now, what would wake it. One sentence in each line."""

    id: str
    name: str
    words: str
    piece: str = ""
    """Which piece it is of, if it is of one."""


class EventTold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event: what is kept of it, what it waits for, or what became of it."""

    event: str
    stream: str
    state: str
    """As of a ticket; "waiting" if it stands in a file that nobody has open."""
    handler: str = ""
    """What its handler is called, if it is known."""
    app: str = ""
    at_ms: int = 0
    """When it failed, or was sent; 0 if that is not known."""
    attempts: int = 0
    reason: str = ""
    """Why it failed, was refused or rejected, or waits."""
    traceback: str = ""
    payload: str | None = None
    """As JSON; None: it is not told here."""
    result: str | None = None
    """What its handler returned, as JSON."""
    facts: str | None = None
    """What its handler said beside the reason when it rejected it, as JSON."""
    handled_before: bool = False


class PieceTold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece, as its document has it."""

    piece: str
    """Where that is."""
    app: str
    pattern: str
    key: str
    status: str
    generation: int
    inputs: str
    """As they are now, as JSON."""
    by: str = ""
    """The function that built it."""
    at_work: bool = False
    """In an opening that is asked. What a file says is running may wait for being started again."""


class Trouble(msgspec.Struct, frozen=True):
    """Why something was not done: a class of `headwater.errors`, and what it says."""

    kind: str
    message: str


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
    """Nodes that there are besides. pieces: pieces."""
    activities: tuple[Activity, ...] = ()
    counts: dict[str, int] = {}
    whys: tuple[Why, ...] = ()
    names: tuple[str, ...] = ()
    """why, if nobody is called so: who there is."""
    trace: tuple[dict[str, object], ...] = ()
    """The records that were kept, oldest first, at times since 1970."""
    events: tuple[EventTold, ...] = ()
    pieces: tuple[PieceTold, ...] = ()
    taken: TakenOver | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer: of every opening that the process has of this file."""

    v: int
    pid: int
    openings: tuple[Opening, ...] = ()
    mark: str = ""
    """Differs if anything has happened."""
    error: str = ""
    """Why there is no answer."""
    event: EventTold | None = None
    """event, and what is done: the one that it is about."""
    trouble: Trouble | None = None
    """The same, and of workflows: why not."""
    told: str | None = None
    """What was asked about workflows, and what was done with one: as JSON, of the kind that belongs to the request."""


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a trace that is followed."""

    app: str
    record: dict[str, object] | None = None
    missed: int = 0
    """Records that were not sent, because whoever follows was too slow."""


# --- names ----------------------------------------------------------------------------------------------------


def labels(apps: Sequence[str]) -> list[str]:
    """What openings are called, so that two of the same app can be told apart: `shop`, `shop#2`."""
    found: list[str] = []
    for number, app in enumerate(apps):
        same = apps[:number].count(app)
        found.append(f"{app}#{same + 1}" if same else app)
    return found


def function_of(name: str) -> str:
    """`row` of `row(3)`: what a node's function is called."""
    return name.partition("(")[0] if name.endswith(")") else name


def pattern_of(piece: str) -> str:
    """`timer` of `timer kitchen`: what the pattern of a piece is called."""
    return piece.partition(" ")[0]


def kind_of(name: str, piece: str) -> str:
    """`doubled of timer`: what those have in common that are counted together."""
    function = function_of(name)
    return f"{function} of {pattern_of(piece)}" if piece else function


def is_called(node_id: str, name: str, text: str, app: str, piece: str = "") -> bool:
    """Whether a node can be meant by this: its name, its function's, either with the app in front; `…` for anything.

    Of one that is of a piece, also with that, or with its pattern: `doubled of timer kitchen`, `doubled of timer`.
    """
    wanted = text.removeprefix(f"{app}.").replace("...", "…")
    if piece:
        of_piece, of_pattern = f" of {piece}", f" of {pattern_of(piece)}"
        wanted = wanted.removesuffix(of_piece if wanted.endswith(of_piece) else of_pattern)
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
