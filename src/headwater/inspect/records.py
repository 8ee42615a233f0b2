"""Requests and replies of version 3 of the local socket, for commands that are not moved to `Inspector` yet."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from headwater.inspect.answers import Activity, EventReport, Explanation, Missed, PieceReport, TakenOver, TraceLine
from headwater.inspect.names import function_of, is_called, kind_of, labels, pattern_of
from headwater.inspect.snapshot import fewer, shorter
from headwater.scheduler.inspect.graph_snapshot import Snapshot

VERSION: Final = 3
NODES_MAX: Final = 20_000
WAIT_MS: Final = 300

FlowQuestion: TypeAlias = Literal["workflows", "runs", "run", "inputs"]
Question: TypeAlias = Literal["ping", "snapshot", "stats", "why", "trace", "events", "event", "pieces"] | FlowQuestion
Deed: TypeAlias = Literal["send", "redeliver", "drop", "workflow"]
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
Why = Explanation
EventTold = EventReport
PieceTold = PieceReport
Told = TraceLine


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request."""

    v: int
    ask: Question | Deed
    node: str = ""
    kind: str = ""
    follow: bool = False
    unless: str = ""
    resume: bool = False
    limit: int = NODES_MAX
    wait_ms: int = WAIT_MS
    event: str = ""
    waiting: bool = False
    fields: str = "{}"
    name: str = ""
    by: str = ""
    reason: str = ""
    app: str = ""
    space: str = ""
    branch: str = "main"
    timeout_ms: float | None = None
    workflow: str = ""
    number: int = 0
    act: FlowAct | None = None
    value: str = "null"
    topic: str = ""
    title: str = ""
    status: str = ""
    every: bool = False
    before: int = 0
    after: int = 0
    also: tuple[int, ...] = ()


class Trouble(msgspec.Struct, frozen=True):
    """A class of `headwater.errors`, and its message."""

    kind: str
    message: str


class Opening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One opening of a space."""

    app: str
    space: str
    branch: str = "main"
    actor: str = ""
    at_ms: int
    busy: bool = False
    running: tuple[str, ...] = ()
    snapshot: Snapshot | None = None
    left_out: int = 0
    activities: tuple[Activity, ...] = ()
    counts: dict[str, int] = {}
    whys: tuple[Explanation, ...] = ()
    names: tuple[str, ...] = ()
    trace: tuple[dict[str, object], ...] = ()
    events: tuple[EventReport, ...] = ()
    pieces: tuple[PieceReport, ...] = ()
    taken: TakenOver | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply."""

    v: int
    pid: int
    openings: tuple[Opening, ...] = ()
    mark: str = ""
    error: str = ""
    event: EventReport | None = None
    trouble: Trouble | None = None
    told: str | None = None


__all__ = [
    "Activity",
    "Missed",
    "TakenOver",
    "fewer",
    "function_of",
    "is_called",
    "kind_of",
    "labels",
    "pattern_of",
    "shorter",
]
