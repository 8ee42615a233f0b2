"""Inspection of a space in the process that has it open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from headwater.errors import ClosedError, UsageError
from headwater.host.system_clock import SystemClock
from headwater.inspect import (
    documents,
    live_declared,
    live_delivery,
    live_events,
    live_functions,
    workflow_commands,
    workflow_queries,
)
from headwater.inspect import function_records as records
from headwater.inspect.declared_records import DeclaredQuestion, RefetchResource
from headwater.inspect.document_records import DocumentQuestion, SetValue
from headwater.inspect.envelope import WAIT_MS, TraceLine
from headwater.inspect.event_records import EventCommand, EventReport, ListEvents, ListPieces, ShowEvent
from headwater.inspect.function_records import NODES_MAX, FunctionQuestion, OpeningView
from headwater.inspect.incoming import AnyCommand, AnyQuestion
from headwater.inspect.inspector import AnsweringInspector
from headwater.inspect.names import InspectScope, check_space, labelled
from headwater.inspect.opening_port import OpeningPort
from headwater.inspect.request import Question
from headwater.inspect.space_reading import change_branch
from headwater.inspect.space_records import ChangeBranch, GetPulse, Pulse, SpaceQuestion
from headwater.inspect.workflow_records import WorkflowQuestion
from headwater.machine import machine
from headwater.runtime.workflows.hub import Hub, hub_of
from headwater.scheduler.inspect.smaller_snapshots import fewer
from headwater.values.ids import BranchId

A = TypeVar("A")

_WAIT_MAX_MS: Final = 5000
"""Milliseconds that a question may wait for the lock. Other questions wait meanwhile."""


class LiveInspector(AnsweringInspector):
    """The inspector of all openings of one file in this process."""

    is_live = True

    def __init__(
        self,
        openings: Sequence[OpeningPort],
        scope: InspectScope | None = None,
        *,
        wait_ms: int = WAIT_MS,
        apart: bool = False,
    ) -> None:
        """`apart`: events are handled in another thread, so that the report is in time."""
        self._openings = openings
        self._scope = scope or InspectScope()
        self._wait_s = min(max(wait_ms, 0), _WAIT_MAX_MS) / 1000
        self._apart = apart

    def changes(self, question: Callable[[A | None], Question[A]]) -> Iterator[A | None]:  # noqa: ARG002  # as `Inspector` has it
        """Raises UsageError: a program observes its own space by functions."""
        raise UsageError("a program observes its own space with its functions; ask from another process")

    def follow(self, kind: str = "") -> Iterator[TraceLine]:  # noqa: ARG002  # as `Inspector` has it
        """Raises UsageError, likewise."""
        raise UsageError("a program observes its own space with its functions; follow it from another process")

    def mark(self, question: AnyQuestion) -> str:
        """A mark that differs after each change that may change the answer."""
        if isinstance(question, WorkflowQuestion):
            return workflow_queries.mark_of(self._hub())
        return ";".join(map(live_functions.mark_of, self._openings))

    # -- questions -----------------------------------------------------------------------------------------

    def answer(self, question: AnyQuestion) -> object:  # noqa: PLR0911  # one for each kind of questions
        """Answer within a bounded time."""
        if isinstance(question, FunctionQuestion):
            return self._functions(question)
        self._check_open()
        if isinstance(question, DocumentQuestion | SpaceQuestion):
            live_events.settle_disk(self._openings[0])
            return documents.answer(self._openings[0].storage, self._scope.branch, question)
        if isinstance(question, DeclaredQuestion):
            return live_declared.answer(self._openings, question, self._wait_s)
        match question:
            case GetPulse():
                return self._pulse()
            case ListEvents():
                return self._events(question)
            case ShowEvent():
                return live_events.show_event(self._openings, self._scope, question.event, self._wait_s)
            case ListPieces():
                return live_events.pieces(self._openings, self._scope.branch, question.pattern)
            case _:
                apps = tuple(opening.app for opening in self._openings if opening.space.is_main)
                return workflow_queries.answer(self._hub(), question, apps)

    def _pulse(self) -> Pulse:
        head = self._openings[0].storage.call(lambda engine: engine.head)
        marks = [*map(live_functions.mark_of, self._openings), workflow_queries.mark_of(self._hub())]
        running = [name for opening in self._openings for name in live_functions.running_now(opening)]
        return Pulse(
            space=self._openings[0].space.name,
            mark=f"{head};{';'.join(marks)}",
            seq=head,
            at_ms=int(machine().time() * 1000),
            running=tuple(running),
        )

    def _functions(self, question: FunctionQuestion) -> tuple[OpeningView, ...]:
        """One view for each opening, or for that of one app."""
        end = machine().monotonic() + self._wait_s
        self._check_open()
        chosen = labelled(self._openings, [opening.app for opening in self._openings], self._scope.app)
        views = [_view(opening, label, question, max(end - machine().monotonic(), 0.0)) for label, opening in chosen]
        found = tuple(view for view in views if view is not None)
        if not found:
            raise ClosedError("it was closed")
        return found

    def _events(self, question: ListEvents) -> tuple[EventReport, ...]:
        if question.outgoing:
            return live_events.leaving_events(self._openings, self._scope.branch)
        events: dict[str, EventReport] = {}
        for opening in self._openings:
            if opening.branch != self._scope.branch:
                continue
            if not question.waiting:
                # Failed events are in the file: the same for every opening.
                return live_events.failed_events(opening)
            with opening.locked(self._wait_s):
                found = live_functions.seen(lambda opening=opening: live_events.waiting_events(opening)) or ()  # type: ignore[misc]
            events |= {event.event: event for event in found}
        return tuple(events.values())

    def _hub(self) -> Hub:
        self._check_open()
        for opening in self._openings:
            if opening.space.is_main:
                opening.space.check_open()
                return hub_of(opening.storage, opening.wall, BranchId(opening.branch))
        # Only branches are open here. Workflows are on the main branch of the file.
        return hub_of(self._openings[0].storage, SystemClock().now_ms)

    def _check_open(self) -> None:
        if not self._openings:
            raise ClosedError("it was closed")
        check_space(self._openings[0].space.name, self._scope.space)

    # -- commands ------------------------------------------------------------------------------------------

    def carry_out(self, command: AnyCommand) -> object:
        """Carry out in this process, as the program does."""
        if isinstance(command, EventCommand):
            return live_delivery.deliver(self._openings, self._scope, command, apart=self._apart)
        self._check_open()
        if isinstance(command, SetValue):
            return documents.write(self._openings[0].storage, self._scope.branch, command)
        if isinstance(command, RefetchResource):
            return live_declared.refetch(self._openings, command, self._wait_s)
        if isinstance(command, ChangeBranch):
            live_events.settle_disk(self._openings[0])
            return change_branch(self._openings[0].storage, self._scope.branch, command)
        return workflow_commands.carry_out(self._hub(), command)


def _view(opening: OpeningPort, label: str, question: FunctionQuestion, wait_s: float) -> OpeningView | None:  # noqa: PLR0911  # one for each question
    """The view of one opening; None if it is closed."""
    with opening.locked(wait_s) as has_lock:
        if opening.space.closed:
            return None
        pid = machine().process_id()
        fields = {"label": label, "pid": pid, **live_functions.opening_fields(opening, busy=not has_lock)}
        match question:
            case records.GetGraph():
                return _graph(opening, fields, question.limit)
            case records.GetChanges():
                return live_functions.changes_of(opening, fields, question.look)
            case records.ExplainNode():
                return live_functions.explain(opening, fields, question.node)
            case records.GetActivity():
                activities = live_functions.seen(lambda: live_functions.activities_of(opening)) or ()
                return records.ActivityView(**fields, activities=activities)
            case records.GetCounts():
                # Counting gated nodes also drops stale ones: only between passes.
                return records.CountsView(**fields, counts=live_functions.counts_of(opening) if has_lock else {})
            case records.GetTrace():
                return records.TraceView(**fields, trace=live_functions.trace_of(opening, question.kind or None))
            case records.GetResume():
                pass
        taken = live_functions.seen(lambda: live_functions.taken_over(opening)) or records.TakenOver()
    # Wait for the disk without the lock.
    try:
        return records.ResumeView(**fields, taken=live_functions.with_size(opening, taken))
    except ClosedError:
        return None


def _graph(opening: OpeningPort, fields: dict[str, Any], limit: int) -> records.GraphView:
    snapshot = live_functions.seen(lambda: live_functions.snapshot_of(opening))
    if snapshot is None:
        return records.GraphView(**fields)
    shown = fewer(snapshot, min(limit, NODES_MAX))
    return records.GraphView(**fields, snapshot=shown, left_out=len(snapshot.nodes) - len(shown.nodes))
