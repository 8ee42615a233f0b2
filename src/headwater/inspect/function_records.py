"""The records about functions: questions and their answers.

The same records come from the process that has the space open, from its file, and from a server.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from headwater.inspect.request import Question
from headwater.machine import machine
from headwater.scheduler.inspect.graph_snapshot import NodeKindName, NodeView, Snapshot

NODES_MAX: Final = 20_000
"""Nodes in one answer. Reading them stops a program for half a second at most."""

Origin: TypeAlias = Literal["live", "file", "server"]
"""The source of an answer: an open space, the file of a closed space, the store of a server."""


# --- answers --------------------------------------------------------------------------------------------------


class OpeningState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One opening of a space by an app, at one time."""

    app: str
    space: str
    branch: str = "main"
    actor: str = ""
    at_ms: int
    """Milliseconds since 1970."""
    busy: bool = False
    """A pass was running. Values that can be read only between passes are left out."""
    running: tuple[str, ...] = ()
    """Functions that were running, outermost first."""
    left_out: int = 0
    """The number of nodes that are left out."""


class OpeningView(OpeningState, frozen=True, kw_only=True):
    """The answer about one opening."""

    label: str
    """The app; of further openings of the same app `shop#2`."""
    origin: Origin = "live"
    pid: int = 0
    """The process that has it open; 0: none."""
    observed: int = 0
    """The view follows from stored observations up to this commit; 0: it is the state of an opening."""

    @property
    def is_live(self) -> bool:
        """The process that has the space open has answered."""
        return self.origin == "live"

    @property
    def headline(self) -> str:
        """The source of the answer in one line."""
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
    """The functions, and the documents between them."""

    snapshot: Snapshot | None = None
    """None: it changed while it was read."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """The activity of one function, with all its instances."""

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
    """Events that wait for the handler."""
    restored: int = 0
    """Instances that did not run in this opening: their stored result is still valid."""
    runs: int = 0
    invalidated: int = 0
    total_ms: float = 0.0
    last_ms: float = 0.0


class ActivityView(OpeningView, frozen=True, kw_only=True):
    """The activity of all functions."""

    activities: tuple[Activity, ...] = ()


class CountsView(OpeningView, frozen=True, kw_only=True):
    """All counters, by name."""

    counts: dict[str, int] = {}


class Missed(msgspec.Struct, frozen=True):
    """A function that was not restored, and the reason."""

    name: str
    outcome: str
    """dirty or fresh."""
    reason: str


class TakenOver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The functions that an opening restored from earlier openings."""

    restored: int = 0
    dirty: int = 0
    fresh: int = 0
    missed: tuple[Missed, ...] = ()
    left_out: int = 0
    """The number of functions that are left out in `missed`."""
    rows: int = 0
    """The number of stored observations for the next opening."""
    size: int = 0
    """The bytes of these observations in the file."""


class ResumeView(OpeningView, frozen=True, kw_only=True):
    """The functions that the opening restored."""

    taken: TakenOver


class Explanation(msgspec.Struct, frozen=True):
    """Why a node last ran, why it does not run now, and what would make it run. One sentence per line."""

    id: str
    name: str
    words: str
    piece: str = ""
    """The piece that it is part of."""

    @property
    def title(self) -> str:
        """The name for questions."""
        return f"{self.name} of {self.piece}" if self.piece else self.name


class WhyView(OpeningView, frozen=True, kw_only=True):
    """Explanations of the nodes of a name."""

    whys: tuple[Explanation, ...] = ()
    names: tuple[str, ...] = ()
    """If no node has the name: the names that exist."""


class TraceView(OpeningView, frozen=True, kw_only=True):
    """Recorded steps, oldest first, with times since 1970."""

    trace: tuple[dict[str, object], ...] = ()


# --- questions: one answer for each opening -------------------------------------------------------------------


class GetGraph(Question[tuple[GraphView, ...]], frozen=True, kw_only=True, tag="graph"):
    """The functions, and the documents between them."""

    limit: int = NODES_MAX


class ExplainNode(Question[tuple[WhyView, ...]], frozen=True, kw_only=True, tag="why"):
    """Why a node ran, or does not run."""

    node: str
    """A function, `app.function`, an instance, `function of pattern key`."""


class GetActivity(Question[tuple[ActivityView, ...]], frozen=True, kw_only=True, tag="activity"):
    """The activity of each function."""


class GetCounts(Question[tuple[CountsView, ...]], frozen=True, kw_only=True, tag="counts"):
    """All counters."""


class GetResume(Question[tuple[ResumeView, ...]], frozen=True, kw_only=True, tag="resume"):
    """The functions that were restored, and why others were not."""


class GetTrace(Question[tuple[TraceView, ...]], frozen=True, kw_only=True, tag="trace"):
    """The recorded steps."""

    kind: str = ""
    """Only records of this kind."""


class ChangesView(OpeningView, frozen=True, kw_only=True):
    """The nodes that have changed since an earlier look, and all handlers."""

    seq: int = 0
    structure: int = 0
    """Grows when nodes come or go, or read something else: then the whole graph has to be asked for."""
    look: int = 0
    """For the next question."""
    nodes: tuple[NodeView, ...] = ()


class GetChanges(Question[tuple[ChangesView, ...]], frozen=True, kw_only=True, tag="changes"):
    """The nodes that have changed. Costs what has changed, and little for each other node."""

    look: int = 0
    """`look` of an earlier answer; 0: none, and no nodes are sent."""


FunctionQuestion: TypeAlias = GetChanges | GetGraph | ExplainNode | GetActivity | GetCounts | GetResume | GetTrace
