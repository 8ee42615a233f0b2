"""The records that answer a page: what waits, and the functions."""

from __future__ import annotations

from typing import Literal

from headwater.studio.answer_parts import AnswerArray, AnswerRecord, Part, Tone, ValueText

# --- Overview -------------------------------------------------------------------------------------------------


class Attention(AnswerRecord, frozen=True, kw_only=True):
    """Something that waits for a person."""

    kind: Literal["approval", "reconcile", "blocked", "event", "function", "aside"]
    title: str
    sentence: str
    at_ms: int
    screen: Literal["workflows", "events", "graph"]
    target: str
    """The number of the run, the id of the event or node, the name of the workflow."""
    count: int = 1


class Counter(AnswerRecord, frozen=True, kw_only=True):
    """A counter with its curve."""

    name: Literal["commits", "runs", "events", "failures"]
    total: int
    per_second: float
    series: tuple[float, ...]
    """Per second, oldest first, one for each `step_ms`."""
    step_ms: int


class Busy(AnswerRecord, frozen=True, kw_only=True):
    """One of the busiest functions."""

    name: str
    node: str
    kind: str
    runs: int
    total_ms: float
    mean_ms: float
    last_ms: float


class OpeningLine(AnswerRecord, frozen=True, kw_only=True):
    """One app that has the space open, or had."""

    label: str
    app: str
    pid: int
    origin: Literal["live", "file", "server"]
    headline: str


class WorkflowLine(AnswerRecord, frozen=True, kw_only=True):
    """One workflow in the overview."""

    name: str
    state: str
    sentence: str
    waiting: int
    due_at: int | None


class RecentLine(AnswerRecord, frozen=True, kw_only=True):
    """Something that was done recently."""

    at: int
    workflow: str
    text: str


class OverviewView(AnswerRecord, frozen=True, kw_only=True):
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


class SpaceRow(AnswerRecord, frozen=True, kw_only=True):
    """One space of a folder or a server."""

    name: str
    live: Literal["live", "closed", "server"]
    seq: int
    documents: int
    waits: int
    sentence: str


class SpacesView(AnswerRecord, frozen=True, kw_only=True):
    """One page of spaces."""

    spaces: tuple[SpaceRow, ...]
    next: str = ""


# --- Functions ------------------------------------------------------------------------------------------------


class GraphBox(AnswerArray, frozen=True, array_like=True):
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


class GraphRoute(AnswerArray, frozen=True, array_like=True):
    """An arrow. Two points x, y each; the course is as in `draw.layout`."""

    source: int
    target: int
    kind: Literal["data", "envelope", "parent"]
    points: tuple[int, ...]
    course: Literal["along", "against", "loop"]


class State(AnswerArray, frozen=True, array_like=True):
    """The state of a box."""

    box: int
    tone: Tone
    runs: int
    mean_ms: float
    note: str = ""
    """The first line of the error, or why it waits."""


class GraphAnswer(AnswerRecord, frozen=True, kw_only=True):
    """The picture. `structure` changes with the boxes or routes, and only then positions change."""

    structure: str
    seq: int
    boxes: tuple[GraphBox, ...]
    routes: tuple[GraphRoute, ...]
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


class GraphDelta(AnswerRecord, frozen=True, kw_only=True):
    """The states that changed, while the structure stays."""

    structure: str
    seq: int
    states: tuple[State, ...]
    tones: dict[str, int]


class FunctionRow(AnswerRecord, frozen=True, kw_only=True):
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


class FunctionsPage(AnswerRecord, frozen=True, kw_only=True):
    """One page of functions."""

    functions: tuple[FunctionRow, ...]
    total: int
    next: int
    """0: this is the last page."""


class FunctionDetail(AnswerRecord, frozen=True, kw_only=True):
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


class Step(AnswerRecord, frozen=True, kw_only=True):
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


class PassLine(AnswerRecord, frozen=True, kw_only=True):
    """A recorded pass in the list."""

    number: int
    at_ms: float
    took_ms: float
    runs: int
    causes: tuple[str, ...]
    sentence: str


class PassesPage(AnswerRecord, frozen=True, kw_only=True):
    """Recorded passes, newest first."""

    recording: bool
    until_ms: int
    """When the recording ends by itself; 0: none."""
    passes: tuple[PassLine, ...]
    next: int


class PassView(AnswerRecord, frozen=True, kw_only=True):
    """One pass, step by step."""

    line: PassLine
    steps: tuple[Step, ...]
    left_out: int
