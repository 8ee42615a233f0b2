"""The records that answer the questions of a page.

A value travels as JSON text: 1 and 1.0 differ, and 2**63 is not rounded by a browser. Times are milliseconds since
1970. Sentences are made here and by the engine; a page only shows them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from headwater.inspect.event_records import EventReport, PieceReport
from headwater.workflow.wording.views import DecisionView, FlowView, InputView, RunView

Tone: TypeAlias = Literal["failed", "running", "waiting", "invalid", "clean", "never-ran", "dormant", "document"]
"""The state of a box: the first that one of its members has, in this order."""


class _View(msgspec.Struct, frozen=True, kw_only=True):
    """All fields are always sent."""


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """Sent as an array, in the order of the fields."""


class ValueText(_View, frozen=True, kw_only=True):
    """A value as JSON text."""

    text: str
    size: int
    """Bytes of the whole text."""
    cut: bool = False
    """`text` is only the beginning, and no JSON."""
    hidden: str = ""
    """Why it is not shown; then `text` is empty."""


class Part(_View, frozen=True, kw_only=True):
    """A piece of a sentence; with `kind`, a link to the thing."""

    text: str
    kind: Literal["", "document", "function", "run", "event", "workflow"] = ""
    target: str = ""


# --- Overview -------------------------------------------------------------------------------------------------


class Attention(_View, frozen=True, kw_only=True):
    """Something that waits for a person."""

    kind: Literal["approval", "reconcile", "blocked", "event", "function", "aside"]
    title: str
    sentence: str
    at_ms: int
    screen: Literal["workflows", "events", "graph"]
    target: str
    """The number of the run, the id of the event or node, the name of the workflow."""
    count: int = 1


class Counter(_View, frozen=True, kw_only=True):
    """A counter with its curve."""

    name: Literal["commits", "runs", "events", "failures"]
    total: int
    per_second: float
    series: tuple[float, ...]
    """Per second, oldest first, one for each `step_ms`."""
    step_ms: int


class Busy(_View, frozen=True, kw_only=True):
    """One of the busiest functions."""

    name: str
    node: str
    kind: str
    runs: int
    total_ms: float
    mean_ms: float
    last_ms: float


class OpeningLine(_View, frozen=True, kw_only=True):
    """One app that has the space open, or had."""

    label: str
    app: str
    pid: int
    origin: Literal["live", "file", "server"]
    headline: str


class WorkflowLine(_View, frozen=True, kw_only=True):
    """One workflow in the overview."""

    name: str
    state: str
    sentence: str
    waiting: int
    due_at: int | None


class RecentLine(_View, frozen=True, kw_only=True):
    """Something that was done recently."""

    at: int
    workflow: str
    text: str


class OverviewView(_View, frozen=True, kw_only=True):
    """The overview of one space."""

    space: str
    branch: str
    documents: int
    openings: tuple[OpeningLine, ...]
    waits: tuple[Attention, ...]
    """At most one page; `waits_count` has their number."""
    waits_count: int
    counters: tuple[Counter, ...]
    tones: dict[str, int]
    """Functions by state."""
    busiest: tuple[Busy, ...]
    workflows: tuple[WorkflowLine, ...]
    recent: tuple[RecentLine, ...]
    counts: dict[str, int]
    """For the rail: what needs attention on each screen, by its name."""


class SpaceRow(_View, frozen=True, kw_only=True):
    """One space of a folder or a server."""

    name: str
    live: Literal["live", "closed", "server"]
    seq: int
    documents: int
    size: int
    waits: int
    sentence: str


class SpacesView(_View, frozen=True, kw_only=True):
    """One page of spaces."""

    spaces: tuple[SpaceRow, ...]
    next: str = ""


# --- Functions ------------------------------------------------------------------------------------------------


class Box(_Row, frozen=True, array_like=True):
    """A box: position and size in pixels. Routes and states name it by its place in the list."""

    id: str
    name: str
    kind: Literal["computation", "effect", "handler", "document"]
    count: int
    x: int
    y: int
    width: int
    height: int
    node: str
    """Of a box with one member: the id of the node, or the address of the document."""


class Route(_Row, frozen=True, array_like=True):
    """An arrow. Two points x, y each; the course is as in `draw.layout`."""

    source: int
    target: int
    kind: Literal["data", "envelope", "parent"]
    points: tuple[int, ...]
    course: Literal["along", "against", "loop"]


class State(_Row, frozen=True, array_like=True):
    """The state of a box."""

    box: int
    tone: Tone
    runs: int
    mean_ms: float
    note: str = ""
    """The first line of the error, or why it waits."""


class Graph(_View, frozen=True, kw_only=True):
    """The picture. `structure` changes with the boxes or routes, and only then positions change."""

    structure: str
    seq: int
    boxes: tuple[Box, ...]
    routes: tuple[Route, ...]
    states: tuple[State, ...]
    width: int
    height: int
    nodes: int
    """Functions in all."""
    folded: int
    """Functions that share a box."""
    left_out: int
    """Functions that were not counted."""
    note: str
    """What was folded, in a sentence."""
    tones: dict[str, int]
    """Functions by state."""
    apps: tuple[OpeningLine, ...]


class GraphDelta(_View, frozen=True, kw_only=True):
    """The states that changed, while the structure stays."""

    structure: str
    seq: int
    states: tuple[State, ...]
    tones: dict[str, int]


class FunctionRow(_View, frozen=True, kw_only=True):
    """A function in the table."""

    id: str
    box: str
    """The id of the box that it is in; empty: in none."""
    name: str
    piece: str
    app: str
    kind: str
    tone: Tone
    runs: int
    mean_ms: float
    error: str
    gate: str
    file: str
    line: int


class FunctionsPage(_View, frozen=True, kw_only=True):
    """One page of functions."""

    functions: tuple[FunctionRow, ...]
    total: int
    next: int
    """0: this is the last page."""


class FunctionDetail(_View, frozen=True, kw_only=True):
    """Everything about one function."""

    id: str
    box: str
    name: str
    piece: str
    app: str
    kind: str
    tone: Tone
    state: str
    """In words."""
    live: bool
    why_live: str
    why: tuple[tuple[Part, ...], ...]
    """The sentences of `headwater why`, each in parts."""
    runs: int
    mean_ms: float
    invalidated: int
    error: str
    gate: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    envelopes: tuple[str, ...]
    readers: tuple[Part, ...]
    parent: str
    waiting: int
    file: str
    line: int
    result: ValueText | None
    """Of a computed: the value that it wrote last."""


class Step(_View, frozen=True, kw_only=True):
    """One step of a recorded pass."""

    kind: Literal["write", "invalidated", "started", "finished", "failed", "gated", "rejected", "event"]
    at_ms: float
    node: str
    box: str
    name: str
    sentence: tuple[Part, ...]
    causes: tuple[str, ...] = ()
    """Addresses."""
    took_ms: float = 0.0
    changed: bool | None = None
    """Whether the run changed its result; False: the change stops here."""


class PassLine(_View, frozen=True, kw_only=True):
    """A recorded pass in the list."""

    number: int
    at_ms: float
    took_ms: float
    runs: int
    causes: tuple[str, ...]
    sentence: str


class PassesPage(_View, frozen=True, kw_only=True):
    """Recorded passes, newest first."""

    recording: bool
    until_ms: int
    """When the recording ends by itself; 0: none."""
    passes: tuple[PassLine, ...]
    next: int


class PassView(_View, frozen=True, kw_only=True):
    """One pass, step by step."""

    line: PassLine
    steps: tuple[Step, ...]
    left_out: int


# --- Documents ------------------------------------------------------------------------------------------------


class Kind(_View, frozen=True, kw_only=True):
    """A class, or a prefix that documents share."""

    prefix: str
    label: str
    count: int
    is_class: bool
    """A collection has been declared for it."""
    exact: bool
    """False: there are at least so many."""
    fields: tuple[str, ...] = ()


class KindsView(_View, frozen=True, kw_only=True):
    """Classes and prefixes."""

    kinds: tuple[Kind, ...]
    total: int
    hidden: int
    """Documents of events and of declared types, which are left out."""


class DocumentRow(_View, frozen=True, kw_only=True):
    """A document in a list."""

    address: str
    title: str
    seq: int
    deleted: bool
    value: ValueText | None


class DocumentsPage(_View, frozen=True, kw_only=True):
    """One page of documents."""

    documents: tuple[DocumentRow, ...]
    columns: tuple[str, ...]
    """Fields that most of them have."""
    hidden: int
    next: str


class Field(_View, frozen=True, kw_only=True):
    """A field of a document with its declared type."""

    name: str
    type: str
    """In words, as `int` or `list[Line]`; empty: not declared."""
    value: ValueText | None
    link: str = ""
    """The address that it leads to."""


class DocumentView(_View, frozen=True, kw_only=True):
    """One document, or the value at a path in it."""

    address: str
    title: str
    exists: bool
    seq: int
    """The commit that wrote it last."""
    at_ms: int
    value: ValueText | None
    fields: tuple[Field, ...]
    """Of an object, in order; at most one page."""
    type: str
    """Its declared type in words; empty: none."""
    writer: str
    """The id of the node that writes it; empty: it may be edited."""
    writer_name: str
    readers: tuple[Part, ...]
    may_edit: bool
    why_not: str


class Change(_View, frozen=True, kw_only=True):
    """A commit that changed a document."""

    seq: int
    at_ms: int
    branch: str
    session: str
    change: str
    """In words."""
    value: ValueText | None
    """Of a path: the new value."""


class HistoryPage(_View, frozen=True, kw_only=True):
    """Changes, newest first."""

    changes: tuple[Change, ...]
    next: int
    """0: this is the last page."""


class DifferenceLine(_View, frozen=True, kw_only=True):
    """One difference."""

    address: str
    path: str
    op: Literal["added", "removed", "changed"]
    older: ValueText | None
    newer: ValueText | None


class DifferenceView(_View, frozen=True, kw_only=True):
    """Differences, at most 500."""

    lines: tuple[DifferenceLine, ...]
    cut: bool
    older: int
    newer: int


class BranchRow(_View, frozen=True, kw_only=True):
    """One branch."""

    name: str
    parent: str
    at: int
    """The commit of the parent that it starts from."""
    merged: tuple[str, ...]
    """Branches that were merged into it."""


class BranchesView(_View, frozen=True, kw_only=True):
    """All branches."""

    branches: tuple[BranchRow, ...]


class CommitRow(_View, frozen=True, kw_only=True):
    """One commit."""

    seq: int
    at_ms: int
    session: str
    documents: tuple[str, ...]
    more: int


class CommitsPage(_View, frozen=True, kw_only=True):
    """Commits, newest first."""

    commits: tuple[CommitRow, ...]
    head: int
    oldest: int
    """The oldest commit that can be read."""
    next: int


# --- Events ---------------------------------------------------------------------------------------------------


class EventGroup(_View, frozen=True, kw_only=True):
    """Events of one handler with the same reason."""

    handler: str
    reason: str
    count: int
    newest_ms: int


class EventsPage(_View, frozen=True, kw_only=True):
    """One page of events, and all groups."""

    groups: tuple[EventGroup, ...]
    events: tuple[EventReport, ...]
    total: int
    next: str
    counts: dict[str, int]
    """failed, waiting, outgoing."""


class EventView(_View, frozen=True, kw_only=True):
    """One event."""

    event: EventReport
    may_redeliver: bool
    may_drop: bool
    why_not: str


class Parameter(_View, frozen=True, kw_only=True):
    """A parameter of a handler."""

    name: str
    type: str
    default: str | None
    """As JSON; None: it must be given."""


class HandlerRow(_View, frozen=True, kw_only=True):
    """A handler."""

    name: str
    app: str
    parameters: tuple[Parameter, ...]
    known: bool
    """False: no program has it open, so its parameters are not known."""


class HandlersView(_View, frozen=True, kw_only=True):
    """The handlers."""

    handlers: tuple[HandlerRow, ...]


# --- Workflows ------------------------------------------------------------------------------------------------


class Action(_View, frozen=True, kw_only=True):
    """Something that can be done now: the button, and the deed that it sends."""

    label: str
    deed: dict[str, object]
    """As in `do`; a page adds what a person types (`reason`, `text`)."""
    asks: bool
    """A dialog repeats the sentence first."""
    enabled: bool = True
    why_not: str = ""


class WorkflowRow(_View, frozen=True, kw_only=True):
    """A workflow with what can be done."""

    flow: FlowView
    hosted: bool
    actions: tuple[Action, ...]


class WorkflowsView(_View, frozen=True, kw_only=True):
    """Workflows."""

    workflows: tuple[WorkflowRow, ...]


class RunsPage(_View, frozen=True, kw_only=True):
    """Runs, newest first."""

    runs: tuple[RunView, ...]
    next: int


class Phase(_View, frozen=True, kw_only=True):
    """One phase of a run."""

    name: str
    state: Literal["done", "current", "failed", "todo"]


class CallText(_View, frozen=True, kw_only=True):
    """A call to a service."""

    run: int
    operation: str
    key: str
    status: str
    sentence: str
    params: ValueText | None
    result: ValueText | None
    error: str | None
    tries: int
    next_at: int | None
    at: int
    resolved_by: str | None
    resolved_at: int | None


class RunDetail(_View, frozen=True, kw_only=True):
    """Everything about a run."""

    run: RunView
    phases: tuple[Phase, ...]
    plan: ValueText | None
    result: ValueText | None
    call: CallText | None
    calls: tuple[CallText, ...]
    chain: tuple[RunView, ...]
    inputs: tuple[str, ...]
    events: tuple[dict[str, object], ...]
    decisions: tuple[DecisionView, ...]
    details: str
    """The traceback."""
    block_kind: str
    actions: tuple[Action, ...]
    hosted: bool


class InputRow(_View, frozen=True, kw_only=True):
    """An input with what can be done."""

    input: InputView
    actions: tuple[Action, ...]


class InputsPage(_View, frozen=True, kw_only=True):
    """Inputs, newest first."""

    inputs: tuple[InputRow, ...]
    next: int


# --- Resources, Pieces, Query ---------------------------------------------------------------------------------


class ResourceRow(_View, frozen=True, kw_only=True):
    """A resource."""

    node: str
    name: str
    app: str
    state: str
    why: str
    requests: int
    error: str
    observed: bool
    at_ms: int
    """When the last answer came; 0: never."""
    value: ValueText | None


class ResourcesPage(_View, frozen=True, kw_only=True):
    """Resources."""

    resources: tuple[ResourceRow, ...]
    total: int
    next: int


class PiecesPage(_View, frozen=True, kw_only=True):
    """Pieces."""

    pieces: tuple[PieceReport, ...]
    patterns: dict[str, int]
    """Their numbers by pattern."""
    total: int
    next: int


class QueryRow(_View, frozen=True, kw_only=True):
    """A document that was found."""

    address: str
    seq: int
    cells: tuple[ValueText | None, ...]
    """In the order of the columns."""


class QueryPage(_View, frozen=True, kw_only=True):
    """One page of what was found."""

    columns: tuple[str, ...]
    rows: tuple[QueryRow, ...]
    found: int
    scanned: int
    complete: bool
    """False: the bound of time or rows was reached."""
    took_ms: float
    next: int
    command: str
    """A command that gives the documents."""


class IndexRow(_View, frozen=True, kw_only=True):
    """An index of a collection."""

    name: str
    fields: tuple[str, ...]
    unique: bool
    state: str


class CollectionRow(_View, frozen=True, kw_only=True):
    """A declared collection."""

    kind: str
    documents: int
    type: str
    indexes: tuple[IndexRow, ...]
    rights: tuple[str, ...]
    """Sentences."""
    state: str


class CollectionsView(_View, frozen=True, kw_only=True):
    """Declared collections."""

    collections: tuple[CollectionRow, ...]


class FoundRow(_View, frozen=True, kw_only=True):
    """Something that a search found."""

    kind: Literal["function", "document", "run", "event", "workflow", "input"]
    title: str
    note: str
    target: str
    """As `Report.opens`: `graph/NODE`, `documents/ADDRESS`."""


class SearchView(_View, frozen=True, kw_only=True):
    """What a search found: at most 50."""

    rows: tuple[FoundRow, ...]


# --- Server ---------------------------------------------------------------------------------------------------


class ClientRow(_View, frozen=True, kw_only=True):
    """A connected client of a space."""

    id: str
    """For the deed `session`."""
    actor: str
    space: str
    since_ms: int
    watches: int
    lag: int
    """Bytes that it has not read yet."""
    pending: int
    """Commits that wait for a verdict."""
    app: str = ""
    rights: str = ""
    token: str = ""
    """The id of its token or key."""
    peer: str = ""
    """The address it comes from."""


class SessionRow(_View, frozen=True, kw_only=True):
    """A person who has logged in to the Studio."""

    id: str
    """For the deed `session`."""
    actor: str
    rights: str
    since_ms: int
    until_ms: int
    token: str = ""
    """The id of the token."""
    peer: str = ""


class TokenRow(_View, frozen=True, kw_only=True):
    """A token or key: never its secret."""

    id: str
    actor: str
    """A name, `any`, or empty for none."""
    rights: str
    spaces: str
    """A name, or * for every space."""
    created_ms: int
    expires_ms: int
    """0: never."""
    state: str
    """live or expired."""
    kind: str = "token"
    """token or key."""
    roles: tuple[str, ...] = ()
    note: str = ""
    connections: int = 0


class ServedSpace(_View, frozen=True, kw_only=True):
    """A space of the server."""

    name: str
    is_open: bool
    clients: int
    watches: int
    seq: int
    """The newest commit; 0: it is not open."""
    trouble: str
    """Why nothing can be written."""


class ServerView(_View, frozen=True, kw_only=True):
    """What a server has, as far as the viewer may see it."""

    url: str
    version: str
    clients: tuple[ClientRow, ...]
    sessions: tuple[SessionRow, ...]
    tokens: tuple[TokenRow, ...]
    metrics: dict[str, float]
    audit: str
    """What the verification of the audit log says."""
    spaces: tuple[ServedSpace, ...] = ()
    hidden: str = ""
    """What the viewer may not see, and why, in a sentence; empty: everything is shown."""


class AuditLine(_View, frozen=True, kw_only=True):
    """One line of the audit log."""

    number: int
    at_ms: int
    actor: str
    """Who did it, as far as the line says it."""
    act: str
    """The event."""
    sentence: str
    """The facts, in one line."""


class AuditPage(_View, frozen=True, kw_only=True):
    """Lines, newest first."""

    lines: tuple[AuditLine, ...]
    verified: bool
    sentence: str
    next: int


# --- deeds ----------------------------------------------------------------------------------------------------


class IntentView(_View, frozen=True, kw_only=True):
    """What a deed is about to do."""

    sentence: str
    """As "Skip invoice 13: it will never be handled"."""
    command: str
    """The same deed on the command line."""
    button: str
    """The verb as its name."""
    asks: bool
    """A dialog shows the sentence first, with the focus on Cancel."""
    allowed: bool
    why_not: str


class Report(_View, frozen=True, kw_only=True):
    """What was done."""

    sentence: str
    command: str
    seq: int = 0
    """The commit; 0: none."""
    opens: str = ""
    """The address of what resulted, as `events/EVENT` or `documents/KEY`."""
    secret: str = ""
    """A new token, shown once."""
    download: str = ""
    """The path of a download that works once, for 30 s."""
