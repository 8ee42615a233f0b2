"""The Overview screen: what waits for a person, counters, functions by state, workflows, search."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

from headwater.draw.node_captions import titled
from headwater.errors import HeadwaterError
from headwater.inspect.document_records import ListDocuments
from headwater.inspect.event_records import ListEvents
from headwater.inspect.function_records import GetActivity, GetCounts
from headwater.inspect.inspector import Inspector
from headwater.inspect.space_records import ListKinds
from headwater.inspect.workflow_records import ListRuns, ListWorkflows, WorkflowsPage
from headwater.scheduler.inspect.graph_snapshot import NodeView
from headwater.studio import answers, questions
from headwater.studio.event_answers import groups
from headwater.studio.function_answers import Sight, tone_of, tones
from headwater.studio.limits import PAGE
from headwater.studio.value_texts import first_line
from headwater.workflow.wording.views import RunView

STEP_MS: Final = 5000
"""Milliseconds of one point of a curve."""

_POINTS: Final = 120
"""Points of a curve: ten minutes."""

_BUSIEST: Final = 8
_RECENT: Final = 12
_FOUND: Final = 50

CounterName = Literal["commits", "runs", "events", "failures"]

_NAMES: Final[tuple[CounterName, ...]] = ("commits", "runs", "events", "failures")


class Rates:
    """Curves of four counters, sampled while the overview is watched: 120 points each."""

    def __init__(self) -> None:
        self._points: dict[str, deque[float]] = {name: deque(maxlen=_POINTS) for name in _NAMES}
        self._last: dict[str, int] = {}
        self._at_ms = 0

    def sample(self, totals: dict[str, int], now_ms: int) -> None:
        """A point for each step that has passed."""
        if not self._last:
            self._last, self._at_ms = dict(totals), now_ms
            return
        steps = (now_ms - self._at_ms) // STEP_MS
        if steps <= 0:
            return
        for name in _NAMES:
            grown = max(totals.get(name, 0) - self._last.get(name, 0), 0)
            points = self._points[name]
            points.extend([0.0] * min(steps - 1, _POINTS))
            points.append(round(grown / (steps * STEP_MS / 1000), 3))
        self._last, self._at_ms = dict(totals), self._at_ms + steps * STEP_MS

    def counters(self, totals: dict[str, int]) -> tuple[answers.Counter, ...]:
        """The counters with their curves."""
        return tuple(
            answers.Counter(
                name=name,
                total=totals.get(name, 0),
                per_second=self._points[name][-1] if self._points[name] else 0.0,
                series=tuple(self._points[name]),
                step_ms=STEP_MS,
            )
            for name in _NAMES
        )


def overview(
    inspector: Inspector, sight: Sight, rates: Rates, question: questions.Overview, *, seq: int, now_ms: int
) -> answers.OverviewView:
    """The overview of one space."""
    found = sight.seen(inspector)
    nodes = found.snapshot.nodes
    flows = inspector.ask(ListWorkflows())
    waiting_runs = inspector.ask(ListRuns(waiting=True, limit=PAGE)).runs
    failed = inspector.ask(ListEvents())
    waits = [
        *_waiting_runs(waiting_runs),
        *_blocked(flows, waiting_runs),
        *_failed_events(failed),
        *_failed_functions(nodes),
    ]
    totals = _totals(inspector, nodes, seq)
    rates.sample(totals, now_ms)
    kinds = inspector.ask(ListKinds())
    of_workflows = [each for each in waits if each.screen == "workflows"]
    counts = {
        "overview": len(waits),
        "workflows": len(of_workflows),
        "events": len(failed),
        "graph": sum(tone_of(node) == "failed" for node in nodes),
    }
    recent = sorted(
        (
            answers.RecentLine(at=line.at, workflow=flow.name, text=line.text)
            for flow in flows.flows
            for line in flow.recent
        ),
        key=lambda line: -line.at,
    )
    return answers.OverviewView(
        space=found.snapshot.space or question.space,
        branch=question.branch,
        documents=sum(kind.count for kind in kinds.kinds),
        openings=found.openings,
        waits=tuple(waits[:PAGE]),
        waits_count=len(waits),
        counters=rates.counters(totals),
        tones=tones(nodes),
        busiest=_busiest(inspector, nodes, several=len(found.openings) > 1),
        workflows=tuple(
            answers.WorkflowLine(
                name=flow.name, state=flow.state, sentence=flow.sentence, waiting=flow.waiting, due_at=flow.due_at
            )
            for flow in flows.flows
        ),
        recent=tuple(recent[:_RECENT]),
        counts={screen: count for screen, count in counts.items() if count},
    )


def _waiting_runs(runs: Sequence[RunView]) -> list[answers.Attention]:
    return [
        answers.Attention(
            kind="approval"
            if run.waits_for == "ask"
            else "reconcile"
            if run.waits_for == "indeterminate"
            else "blocked",
            title=run.title or f"{run.workflow}, run {run.id}",
            sentence=run.sentence,
            at_ms=run.updated_at,
            screen="workflows",
            target=str(run.id),
        )
        for run in runs
    ]


def _blocked(page: WorkflowsPage, runs: Sequence[RunView]) -> list[answers.Attention]:
    """Workflows that wait for a person without such a run; and what was put aside."""
    named = {run.workflow for run in runs}
    found = [
        answers.Attention(
            kind="blocked",
            title=flow.name,
            sentence=flow.sentence,
            at_ms=flow.updated_at,
            screen="workflows",
            target=flow.name,
        )
        for flow in page.flows
        if flow.block_kind is not None and flow.name not in named
    ]
    return found + [
        answers.Attention(
            kind="aside",
            title=flow.name,
            sentence=f"{flow.parked:,} put aside because of failures",
            at_ms=flow.updated_at,
            screen="workflows",
            target=flow.name,
            count=flow.parked,
        )
        for flow in page.flows
        if flow.parked
    ]


def _failed_events(events: Sequence[object]) -> list[answers.Attention]:
    return [
        answers.Attention(
            kind="event",
            title=group.handler,
            sentence=group.reason,
            at_ms=group.newest_ms,
            screen="events",
            target=group.handler,
            count=group.count,
        )
        for group in groups(events)  # type: ignore[arg-type]  # reports of events
    ]


def _failed_functions(nodes: Sequence[NodeView]) -> list[answers.Attention]:
    return [
        answers.Attention(
            kind="function",
            title=titled(node),
            sentence=first_line(node.error),
            at_ms=0,
            screen="graph",
            target=node.id,
        )
        for node in nodes
        # Failed events of a handler are listed by themselves.
        if node.error and node.kind != "handler"
    ]


def _totals(inspector: Inspector, nodes: Sequence[NodeView], seq: int) -> dict[str, int]:
    """Commits of the space; runs, handled events and failures of the openings."""
    counts: dict[str, int] = {}
    try:
        for view in inspector.ask(GetCounts()):
            for name, count in view.counts.items():
                counts[name] = counts.get(name, 0) + count
    except HeadwaterError:
        counts = {}
    ended = ("events_confirmed", "events_refused", "events_failed", "events_rejected")
    events = sum(counts.get(name, 0) for name in ended)
    return {
        "commits": seq,
        "runs": counts.get("runs", sum(node.runs for node in nodes)),
        "events": events,
        "failures": counts.get("failed", 0) + counts.get("events_failed", 0),
    }


def _busiest(inspector: Inspector, nodes: Sequence[NodeView], *, several: bool) -> tuple[answers.Busy, ...]:
    try:
        views = inspector.ask(GetActivity())
    except HeadwaterError:
        return ()
    by_name = {(node.name.partition("(")[0], node.kind): node.id for node in nodes}
    rows = [
        answers.Busy(
            name=f"{view.label}.{each.name}" if several else each.name,
            node=by_name.get((each.name.partition(" of ")[0], each.kind), ""),
            kind=each.kind,
            runs=each.runs,
            total_ms=each.total_ms,
            mean_ms=round(each.total_ms / each.runs, 3) if each.runs else 0.0,
            last_ms=each.last_ms,
        )
        for view in views
        for each in view.activities
        if each.runs
    ]
    return tuple(sorted(rows, key=lambda row: -row.total_ms)[:_BUSIEST])


def search(inspector: Inspector, sight: Sight, question: questions.Search) -> answers.SearchView:
    """Functions, documents, workflows and runs with a text in their name: at most 50."""
    wanted = question.text.strip()
    lower = wanted.lower()
    if not lower:
        return answers.SearchView(rows=())
    rows = [
        answers.FoundRow(kind="function", title=titled(node), note=node.kind, target=f"graph/{node.id}")
        for node in sight.seen(inspector).snapshot.nodes
        if lower in titled(node).lower()
    ]
    rows += [
        answers.FoundRow(kind="document", title=row.address, note="document", target=f"documents/{row.address}")
        for row in inspector.ask(ListDocuments(prefix=wanted, limit=_FOUND)).documents
    ]
    rows += [
        answers.FoundRow(kind="workflow", title=flow.name, note=flow.state, target=f"workflows/{flow.name}")
        for flow in inspector.ask(ListWorkflows(every=True)).flows
        if lower in flow.name.lower()
    ]
    rows += [
        answers.FoundRow(
            kind="run", title=run.title or f"run {run.id}", note=run.workflow, target=f"workflows/{run.id}"
        )
        for run in inspector.ask(ListRuns(limit=PAGE)).runs
        if lower in run.title.lower() or lower == str(run.id)
    ]
    return answers.SearchView(rows=tuple(rows[:_FOUND]))
