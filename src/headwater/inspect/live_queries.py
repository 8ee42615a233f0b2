"""Looking at an open space without touching it: what its door answers, and what is kept of it when it is closed.

The scheduler is asked when it is the asker's turn. While a pass goes on it is looked at in passing: a function that
takes long is seen at work, and what could only be read by changing something is left out.

Must never know: sockets, and who asks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from headwater.errors import ClosedError, HeadwaterError, UsageError
from headwater.inspect.commands import trouble_of
from headwater.inspect.live_events import failed_events, handler_activities, show_event, waiting_events
from headwater.inspect.live_pieces import with_pieces
from headwater.inspect.records import (
    FLOW_QUESTIONS,
    MISSED_MAX,
    NODES_MAX,
    VERSION,
    Activity,
    Ask,
    Missed,
    Opening,
    Reply,
    TakenOver,
    Why,
    fewer,
    function_of,
    is_called,
    kind_of,
)
from headwater.machine import machine
from headwater.scheduler.graph.node import NodeStatus, titled
from headwater.scheduler.inspect.graph_snapshot import NodeKindName, Snapshot
from headwater.scheduler.inspect.trace import EventParked, NodeGated, RunStarted, TraceRecord
from headwater.store.resumption import observations_size
from headwater.values.address import doc_key
from headwater.values.ids import BranchId

if TYPE_CHECKING:
    from headwater.inspect.view import Window
    from headwater.scheduler.events.event import HandlerRecord
    from headwater.scheduler.graph.node import Node

T = TypeVar("T")

log: Final = logging.getLogger("headwater")

WHYS_MAX: Final = 1000
"""Nodes whose words are in one answer."""

NAMES_MAX: Final = 5000
"""Names to find a close one among."""

KEPT_NODES_MAX: Final = 2000
"""Nodes that are told of a space that is closed: a program does not want to wait for more at its end."""

KEPT_RECORDS_MAX: Final = 500
"""Records of the trace likewise."""

KEPT_MISSED_MAX: Final = 100
"""Functions that were not restored likewise."""

_INSTANCE: Final = re.compile(r"[^\s,]+:instance:[a-z0-9]+")
"""The address of a result that is one of several of a function."""

_WAIT_MAX_MS: Final = 5000
"""However long somebody wants to wait: others want to be answered, too."""

_TRIES: Final = 3
"""Looks at what changes meanwhile. Python notices that it does, and a second look nearly always succeeds."""


def answer(windows: list[Window], ask: Ask, pid: int) -> Reply:
    """What is told of these, within a bounded time."""
    if ask.ask in FLOW_QUESTIONS:
        return _of_workflows(windows, ask, pid)
    mark = ";".join(map(mark_of, windows))
    if ask.ask == "ping" or (ask.unless and ask.unless == mark):
        return Reply(v=VERSION, pid=pid, mark=mark)
    end = machine().monotonic() + min(max(ask.wait_ms, 0), _WAIT_MAX_MS) / 1000
    if ask.ask == "event":
        try:
            return Reply(v=VERSION, pid=pid, mark=mark, event=show_event(windows, ask, end - machine().monotonic()))
        except HeadwaterError as error:
            return Reply(v=VERSION, pid=pid, mark=mark, trouble=trouble_of(error))
    openings = [look(window, ask, max(end - machine().monotonic(), 0.0)) for window in windows]
    return Reply(v=VERSION, pid=pid, mark=mark, openings=tuple(one for one in openings if one is not None))


def _of_workflows(windows: list[Window], ask: Ask, pid: int) -> Reply:
    """They are the file's: whoever has it open can tell. Nobody's turn is waited for."""
    from headwater.inspect import live_workflows  # noqa: PLC0415  # most programs have no workflows

    try:
        mark, told = live_workflows.answer(windows, ask)
    except HeadwaterError as error:
        return Reply(v=VERSION, pid=pid, trouble=trouble_of(error))
    return Reply(v=VERSION, pid=pid, mark=mark, told=told)


def mark_of(window: Window) -> str:
    """Changes when something happens: cheap, and asked without a turn."""
    scheduler, replica = window.space.scheduler, window.space.replica
    runner, nodes = scheduler.runner, scheduler.registry.nodes
    at_work = runner.stack[-1:]
    counts = (replica.seq, replica.version, runner.runs, runner.pass_number, len(nodes), len(runner.in_flight))
    events = (len(scheduler.outcomes.live), *scheduler.outcomes.counts.values(), *_handled_now(window))
    return f"{id(window):x}:{'.'.join(map(str, (*counts, *events)))}{'.'.join(node.id for node in at_work)}"


def look(window: Window, ask: Ask, wait_s: float) -> Opening | None:
    """What is told of one opening; None if it is closed by now."""
    with window.in_turn(wait_s) as has_turn:
        if window.space.closed:
            return None
        opening = _opening(window, busy=not has_turn)
        match ask.ask:
            case "snapshot":
                opening = _with_snapshot(window, opening, ask.limit)
            case "stats":
                # Counting those that wait for their time also forgets some that do not: not for who only passes by.
                counts = _counts(window) if has_turn else {}
                activities = _seen(lambda: _activities(window)) or ()
                taken = _seen(lambda: _taken(window)) if ask.resume else None
                opening = msgspec.structs.replace(opening, activities=activities, counts=counts, taken=taken)
            case "why":
                opening = _explain(window, opening, ask.node)
            case "trace":
                opening = msgspec.structs.replace(opening, trace=_kept_trace(window, ask.kind or None))
            case "events" if ask.waiting:
                opening = msgspec.structs.replace(opening, events=_seen(lambda: waiting_events(window)) or ())
            case _:
                pass
    # What is in the file: the disk is waited for without a turn.
    try:
        return _with_file(window, opening, ask)
    except ClosedError:
        return None


def last_look(window: Window) -> Opening | None:
    """Everything, for when it is closed: the caller has the turn. None if there is nothing to be told."""
    try:
        scheduler = window.space.scheduler
        return _everything(window) if scheduler.registry.nodes or scheduler.streams.handlers else None
    except Exception:  # nothing that goes wrong here may keep a space from being closed
        log.debug("what the functions of space %r did cannot be told", window.space.name, exc_info=True)
        return None


def _everything(window: Window) -> Opening:
    every = _snapshot(window)
    snapshot = fewer(every, KEPT_NODES_MAX)
    chosen = {node.id for node in snapshot.nodes}
    return msgspec.structs.replace(
        _opening(window, busy=False),
        snapshot=snapshot,
        left_out=len(every.nodes) - len(snapshot.nodes),
        activities=_activities(window),
        counts=_counts(window),
        whys=tuple(_why(window, node) for node in _functions(window) if node.id in chosen),
        trace=_kept_trace(window, None)[-KEPT_RECORDS_MAX:],
        taken=_taken(window, KEPT_MISSED_MAX),
    )


def since_1970(window: Window, record: TraceRecord) -> dict[str, object]:
    """A record of the trace, at times that mean something elsewhere."""
    behind = machine().time() * 1000 - window.now()
    moved = msgspec.structs.replace(record, at_ms=round(record.at_ms + behind, 3))
    if isinstance(moved, NodeGated | EventParked) and moved.until_ms is not None:
        moved = msgspec.structs.replace(moved, until_ms=round(moved.until_ms + behind, 3))
    told: dict[str, object] = msgspec.to_builtins(moved)
    if "cause" in told:
        told["cause"] = _named(window, str(told["cause"]))
    if isinstance(record, RunStarted):
        told["causes"] = [_named(window, cause) for cause in record.causes]
    return told


# --- parts of an answer ---------------------------------------------------------------------------------------


def _seen(ask: Callable[[], T]) -> T | None:
    """What was found, unless it changed under the hands each time."""
    for _ in range(_TRIES):
        try:
            return ask()
        except (RuntimeError, LookupError):
            continue
    return None


def _opening(window: Window, *, busy: bool) -> Opening:
    return Opening(
        app=window.app,
        space=window.space.name,
        branch=window.branch,
        actor=window.space.actor or "",
        at_ms=int(machine().time() * 1000),
        busy=busy,
        running=(*_handled_now(window), *(node.name for node in list(window.space.scheduler.runner.stack))),
    )


def _nodes(window: Window) -> list[Node]:
    return list(window.space.scheduler.registry.nodes)


def _functions(window: Window) -> list[Node | HandlerRecord]:
    return [*_nodes(window), *window.space.scheduler.inquiry.handlers()]


def _handled_now(window: Window) -> list[str]:
    """Handlers at work."""
    at_work = [lane.running for lane in window.space.scheduler.lanes]
    return [handling.event.handler.name for handling in at_work if handling is not None]


def _snapshot(window: Window) -> Snapshot:
    """With the time of day, and with functions that are at work this very moment."""
    at_work = {node.id for node in list(window.space.scheduler.runner.stack)}
    snapshot = window.space.scheduler.get_graph_snapshot()
    nodes = snapshot.nodes
    if at_work:
        nodes = tuple(
            msgspec.structs.replace(node, in_flight=True) if node.id in at_work else node for node in snapshot.nodes
        )
    return msgspec.structs.replace(snapshot, at_ms=int(machine().time() * 1000), nodes=nodes)


def drawn(window: Window, form: str) -> str:
    """The graph of one opening, as it is now."""
    from headwater.draw import mermaid, svg, text_tree  # noqa: PLC0415  # most programs draw nothing

    snapshot = _snapshot(window)
    match form:
        case "text":
            return text_tree.text(snapshot)
        case "svg":
            return svg.svg(snapshot)
        case "mermaid":
            return mermaid.mermaid(snapshot)
        case "json":
            return snapshot.to_json().decode()
        case _:
            raise UsageError(f"{form!r} is no form of a graph; text, svg, mermaid or json is expected", form=form)


def _with_snapshot(window: Window, opening: Opening, limit: int) -> Opening:
    snapshot = _seen(lambda: _snapshot(window))
    if snapshot is None:
        return opening
    shown = fewer(snapshot, min(limit, NODES_MAX))
    return msgspec.structs.replace(opening, snapshot=shown, left_out=len(snapshot.nodes) - len(shown.nodes))


def _activities(window: Window) -> tuple[Activity, ...]:
    runner = window.space.scheduler.runner
    at_work = {*runner.in_flight, *runner.stack}
    groups: dict[tuple[str, NodeKindName], list[Node]] = {}
    for node in _nodes(window):
        groups.setdefault((kind_of(node.name, node.spec.piece), node.kind.value), []).append(node)
    of_nodes = tuple(
        Activity(
            name=name,
            kind=kind,
            nodes=len(nodes),
            has_arguments=any(node.name != function_of(node.name) for node in nodes),
            live=sum(node.is_live for node in nodes),
            clean=sum(node.is_clean for node in nodes),
            invalid=sum(node.status is NodeStatus.INVALID for node in nodes),
            never_ran=sum(node.status is NodeStatus.NEVER_RAN for node in nodes),
            failed=sum(node.error is not None for node in nodes),
            running=sum(node in at_work for node in nodes),
            restored=sum(node.restored and not node.runs for node in nodes),
            runs=sum(_times(window, node) for node in nodes),
            invalidated=sum(node.invalidated for node in nodes),
            total_ms=round(sum(node.total_ms for node in nodes), 3),
            last_ms=round(max(node.last_ms for node in nodes), 3),
        )
        for (name, kind), nodes in groups.items()
    )
    return of_nodes + handler_activities(window)


def _times(window: Window, node: Node) -> int:
    """How often it ran; of a resource, how many requests have left."""
    source = window.space.source_of(node)
    return node.runs if source is None else source.requests


def _counts(window: Window) -> dict[str, int]:
    """All that is counted, by name."""
    scheduler = window.space.scheduler
    counts: dict[str, int] = msgspec.structs.asdict(scheduler.get_stats())
    counts |= msgspec.structs.asdict(scheduler.get_filter_stats())
    events = msgspec.structs.asdict(scheduler.get_event_counts())
    counts |= {"handlers": len(scheduler.streams.handlers), **{f"events_{end}": events[end] for end in events}}
    stats = msgspec.structs.asdict(window.space.stats)
    return counts | {name: stats[name] for name in ("seq", "commits", "pending", "rejected", "groups", "documents")}


def _taken(window: Window, limit: int = MISSED_MAX) -> TakenOver:
    """What was taken over from the opening before."""
    found = window.space.explain_resume()
    shown = found.missed[:limit]
    missed = (Missed(each.node.rpartition("#")[0], each.outcome, _named(window, each.reason)) for each in shown)
    return TakenOver(
        restored=found.restored,
        dirty=found.dirty,
        fresh=found.fresh,
        missed=tuple(missed),
        left_out=len(found.missed) - len(shown),
    )


def _with_file(window: Window, opening: Opening, ask: Ask) -> Opening:
    match ask.ask:
        case "events" if not ask.waiting:
            return msgspec.structs.replace(opening, events=failed_events(window))
        case "pieces":
            return with_pieces(window, opening, ask)
        case "stats" if ask.resume:
            return msgspec.structs.replace(opening, taken=_with_size(window, opening.taken))
        case _:
            return opening


def _with_size(window: Window, taken: TakenOver | None) -> TakenOver:
    branch, prefix = BranchId(window.branch), doc_key(f"{window.app}.")
    rows, size = window.storage.call(lambda engine: observations_size(engine, branch, prefix))
    return msgspec.structs.replace(taken or TakenOver(), rows=rows, size=size)


def _why(window: Window, node: Node | HandlerRecord) -> Why:
    source = window.space.source_of(node)
    if source is not None:
        # Of what it was asked for the scheduler knows nothing.
        from headwater.declare.resources.resource_captions import why_requested  # noqa: PLC0415  # most programs have none

        return Why(node.id, node.name, window.space.told(why_requested(window.space, source)), node.spec.piece)
    return Why(node.id, node.name, _named(window, window.space.scheduler.why(node)), node.spec.piece)


def _named(window: Window, words: str) -> str:
    """With `row(3)` for the document that it writes, whose name nobody has chosen."""
    if ":instance:" in words:
        words = _INSTANCE.sub(lambda found: window.name_of(found[0]), words)
    return window.space.told(words)


def _explain(window: Window, opening: Opening, text: str) -> Opening:
    nodes = _functions(window)
    meant = [node for node in nodes if is_called(node.id, node.name, text, opening.app, node.spec.piece)]
    if not meant:
        names = dict.fromkeys(titled(node.name, node.spec.piece) for node in nodes)
        return msgspec.structs.replace(opening, names=tuple(names)[:NAMES_MAX])
    whys = (_seen(lambda node=node: _why(window, node)) for node in meant[:WHYS_MAX])  # type: ignore[misc]
    found = tuple(why for why in whys if why is not None)
    return msgspec.structs.replace(opening, whys=found, left_out=len(meant) - len(found))


def _kept_trace(window: Window, kind: str | None) -> tuple[dict[str, object], ...]:
    return tuple(since_1970(window, record) for record in window.space.scheduler.get_trace(kind))
