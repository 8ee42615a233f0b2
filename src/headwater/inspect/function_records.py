"""The records about functions: what can be asked, and what answers it.

The same records come from the process that has the space open, from its file, and from a server.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from headwater.inspect.request import Question
from headwater.machine import machine
from headwater.scheduler.inspect.graph_snapshot import NodeKindName, Snapshot

NODES_MAX: Final = 20_000
"""Nodes in one answer: more than a picture shows; a program is stopped for half a second at most."""

Origin: TypeAlias = Literal["live", "file", "server"]
"""Where an answer comes from: an open space, the file of a closed one, the store of a server."""


# --- answers --------------------------------------------------------------------------------------------------


class OpeningView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One opening of a space by an app, and when it was seen."""

    label: str
    """The app; of further openings of the same app `shop#2`."""
    app: str
    space: str
    branch: str = "main"
    actor: str = ""
    at_ms: int
    """Milliseconds since 1970."""
    origin: Origin = "live"
    pid: int = 0
    """The process that has it open; 0: none."""
    busy: bool = False
    """A pass was running: what can be read only between passes is left out."""
    running: tuple[str, ...] = ()
    """Functions that were running, outermost first."""
    left_out: int = 0
    """Nodes that exist besides those in the answer."""
    observed: int = 0
    """The number of the commit up to which it follows from stored observations; 0: it is the state of an opening."""

    @property
    def is_live(self) -> bool:
        """It comes from the process that has the space open."""
        return self.origin == "live"

    @property
    def headline(self) -> str:
        """Where the answer comes from, in one line."""
        label = self.label
        where = label if label == self.space else f"{label} in space {self.space}"
        if self.branch != "main":
            where += f" on branch {self.branch}"
        if self.origin == "live":
            line = f"{where}, live in process {self.pid}"
            if self.actor:
                line += f", for {self.actor}"
            if self.running:
                line += f", running {self.running[-1]}"
            if self.busy:
                line += " (busy: seen in passing)"
        elif self.observed:
            line = f"{where}, by what its functions read up to commit {self.observed}, as stored at the server"
        else:
            line = f"{where}, as of {local_time(self.at_ms)}, when {self.app} was last closed"
            if self.origin == "server":
                line += ", as stored at the server"
        return f"{line}; {self.left_out:,} nodes are left out" if self.left_out else line


def local_time(ms: float) -> str:
    """A time in the zone of this machine."""
    return machine().local_time(ms / 1000)


class GraphView(OpeningView, frozen=True, kw_only=True):
    """The functions and what lies between them."""

    snapshot: Snapshot | None = None
    """None: it changed while it was read."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What one function has done, all its instances together."""

    name: str
    """Of a function in pieces, with their pattern: `doubled of timer`."""
    kind: NodeKindName
    nodes: int = 1
    """Instances: one, or one for each set of arguments, in each piece."""
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
    """Instances that have not run in this opening, because the result of an earlier one is still valid."""
    runs: int = 0
    invalidated: int = 0
    total_ms: float = 0.0
    last_ms: float = 0.0


class ActivityView(OpeningView, frozen=True, kw_only=True):
    """What the functions have done."""

    activities: tuple[Activity, ...] = ()


class CountsView(OpeningView, frozen=True, kw_only=True):
    """Everything that is counted, by name."""

    counts: dict[str, int] = {}


class Missed(msgspec.Struct, frozen=True):
    """A function that was not simply restored, and why."""

    name: str
    outcome: str
    """dirty or fresh."""
    reason: str


class TakenOver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an opening restored from earlier ones."""

    restored: int = 0
    dirty: int = 0
    fresh: int = 0
    missed: tuple[Missed, ...] = ()
    left_out: int = 0
    """Functions that are missing in this list."""
    rows: int = 0
    """Functions whose results the next opening can restore;"""
    size: int = 0
    """and the bytes of these records in the file."""


class ResumeView(OpeningView, frozen=True, kw_only=True):
    """What the opening restored."""

    taken: TakenOver


class Explanation(msgspec.Struct, frozen=True):
    """Why a node last ran, why it does not run now, what would wake it: one sentence in each line."""

    id: str
    name: str
    words: str
    piece: str = ""
    """The piece that it is part of."""

    @property
    def title(self) -> str:
        """The name by which it is asked for."""
        return f"{self.name} of {self.piece}" if self.piece else self.name


class WhyView(OpeningView, frozen=True, kw_only=True):
    """Explanations of the nodes of a name."""

    whys: tuple[Explanation, ...] = ()
    names: tuple[str, ...] = ()
    """If no node has the name: the names that exist."""


class TraceView(OpeningView, frozen=True, kw_only=True):
    """Recorded steps, oldest first, at times since 1970."""

    trace: tuple[dict[str, object], ...] = ()


# --- questions: one answer for each opening -------------------------------------------------------------------


class GetGraph(Question[tuple[GraphView, ...]], frozen=True, kw_only=True, tag="graph"):
    """The functions, and what lies between them."""

    limit: int = NODES_MAX


class ExplainNode(Question[tuple[WhyView, ...]], frozen=True, kw_only=True, tag="why"):
    """Why a node ran, or does not run."""

    node: str
    """A function, `app.function`, an instance, `function of pattern key`."""


class GetActivity(Question[tuple[ActivityView, ...]], frozen=True, kw_only=True, tag="activity"):
    """What each function has done."""


class GetCounts(Question[tuple[CountsView, ...]], frozen=True, kw_only=True, tag="counts"):
    """All counters."""


class GetResume(Question[tuple[ResumeView, ...]], frozen=True, kw_only=True, tag="resume"):
    """What was restored from earlier openings, and what not, and why."""


class GetTrace(Question[tuple[TraceView, ...]], frozen=True, kw_only=True, tag="trace"):
    """The recorded steps."""

    kind: str = ""
    """Only records of this kind."""


FunctionQuestion: TypeAlias = GetGraph | ExplainNode | GetActivity | GetCounts | GetResume | GetTrace
