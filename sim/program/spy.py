"""Listens to the trace of one opening: delays of functions, retries after a failure of the store, adopted runs."""

from __future__ import annotations

from collections import Counter

from headwater.scheduler.runs.persistence import SINCE
from headwater.scheduler.runs.runner import REJECTED
from headwater.scheduler.scheduler import Scheduler
from headwater.scheduler.scheduler_limits import FAILURES_MAX
from headwater.scheduler.trace import (
    NodeGated,
    NodeInvalidated,
    RunDiscarded,
    RunFailed,
    RunFinished,
    RunStarted,
    TraceRecord,
)
from headwater.values.tree import ABSENT
from sim.apps import parts as p

SLACK_MS = 0.01
"""Times are rounded."""

LONG_AGO = -1e9
"""Before the opening."""

LONG_MS = 1000.0
"""No pass takes so long: a function that starts later has waited."""


class Spy:
    """What the trace says of the functions of one opening."""

    def __init__(self, scheduler: Scheduler, app: p.App) -> None:
        self.found: list[tuple[str, str]] = []
        """Rules that were broken."""
        self.rejected: Counter[str] = Counter()
        """By node, commits that were rejected in a row."""
        self._gates = {
            part.name: (part.debounce, part.throttle)
            for part in app.parts
            if isinstance(part, p.Computed | p.Sink) and (part.debounce or part.throttle)
        }
        self._changed: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        """Functions whose last run a caller has asked for, and when what they change has changed."""
        self._late: dict[str, float] = {}
        """Functions whose inputs had changed before the opening, and until when they wait."""
        self._ended: dict[str, float] = {}
        self._hurried: Counter[str] = Counter()
        """By node, runs without its debounce, because an event has waited for it too long (decision 53)."""
        self._scheduler = scheduler
        scheduler.trace.listen(self._heard)

    def loosened(self, name: str) -> None:
        """The delay of a function was set by hand."""
        self._gates.pop(name, None)

    def _heard(self, record: TraceRecord) -> None:
        node = record.node
        match record:
            case RunDiscarded(reason=reason):
                self.rejected[node] += reason == REJECTED
                if reason == REJECTED:
                    self._rejected(node)
            case NodeInvalidated(change=change, by=by):
                since = LONG_AGO if change == SINCE else self._asked.get(by, record.at_ms)
                self._changed[node] = max(self._changed.get(node, LONG_AGO), since)
                if change == SINCE:
                    self._late[node] = 0.0
                else:
                    self._late.pop(node, None)
            case NodeGated(until_ms=until) if node in self._late and until - record.at_ms > LONG_MS:
                self._late[node] = until
            case RunStarted():
                self._started(record)
                self._begins(record)
                if 0.0 < self._late.pop(node, 0.0) <= record.at_ms + SLACK_MS:
                    self.found.append(
                        ("I7", f"{node} was outdated when the space was opened, and waited for its delay")
                    )
            case RunFinished() | RunFailed():
                self._ended[node] = record.at_ms

    def _begins(self, record: RunStarted) -> None:
        """What a run changes that a caller asked for is as old as the causes of the run; or as the last opening."""
        node = record.node
        self._asked.pop(node, None)
        if record.demand != "live" and (node in self._changed or record.first):
            self._asked[node] = self._changed.get(node, LONG_AGO)

    def _rejected(self, name: str) -> None:
        # Repeated for the same causes, which have waited.
        self._changed.pop(name, None)
        for node in self._scheduler.registry.nodes:
            if node.id == name and node.recorded is not None:
                self.found.append(("I7", f"{name}: its next commit names an observation that was rolled back"))

    def _is_hurried(self, name: str) -> bool:
        """Whether the scheduler has hurried the node since its last run."""
        counts = [node.gate.hurried_count for node in self._scheduler.registry.nodes if node.id == name and node.gate]
        before, self._hurried[name] = self._hurried[name], sum(counts)
        return self._hurried[name] > before

    def _started(self, record: RunStarted) -> None:
        name = record.node.partition("#")[0]
        is_hurried = self._is_hurried(record.node)
        gate = self._gates.get(name)
        if gate is None or record.first or record.demand != "live":
            return
        debounce, throttle = gate
        since_change = record.at_ms - self._changed.get(record.node, LONG_AGO)
        since_run = record.at_ms - self._ended.get(record.node, LONG_AGO)
        if self._has_no_result(record.node):
            return
        if debounce and since_change < debounce - SLACK_MS and not is_hurried:
            self.found.append(
                ("I6", f"{name} runs {since_change:.3f} ms after a change, with a debounce of {debounce} ms")
            )
        if throttle and since_run < throttle - SLACK_MS:
            self.found.append(("I6", f"{name} runs {since_run:.3f} ms after a run, with a throttle of {throttle} ms"))

    def _has_no_result(self, name: str) -> bool:
        """The first result was rolled back: a caller has to get one, whatever the delay."""
        nodes = [node for node in self._scheduler.registry.nodes if node.id == name and node.outputs]
        return any(self._scheduler._replica.read(node.outputs[0]) is ABSENT for node in nodes)

    def unstored(self, title: str, text: str) -> None:
        """The store failed: a function is tried again some times at once, then ever less often."""
        if "It is tried again" not in text:
            self.found.append(("I1", f"{title} was given up: {text}"))
        name = title.partition("(")[0]
        tries = max((count for node, count in self.rejected.items() if node.startswith(name)), default=0)
        if tries < FAILURES_MAX:
            self.found.append(("I1", f"{title} waits after {tries} rejected commits"))
