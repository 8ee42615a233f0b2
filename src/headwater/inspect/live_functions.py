"""The functions of an open space: the parts of answers about them.

A question waits for the lock of the scheduler. If a pass takes too long, the scheduler is read during the pass. A long
function is then reported as running, and values that can be read only between passes are left out.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from headwater.declare.resources.resource_captions import why_requested
from headwater.errors import UsageError
from headwater.inspect.function_records import Activity, ChangesView, Explanation, Missed, TakenOver, WhyView
from headwater.inspect.live_events import handler_activities
from headwater.inspect.names import function_of, is_called, kind_of
from headwater.inspect.node_changes import NodeChanges
from headwater.inspect.opening_port import OpeningPort, is_of
from headwater.inspect.snapshot import StoredOpening
from headwater.machine import machine
from headwater.scheduler.events.event import HandlerRecord
from headwater.scheduler.graph.node import Node, NodeStatus, titled
from headwater.scheduler.inspect.graph_snapshot import NodeKindName, Snapshot
from headwater.scheduler.inspect.smaller_snapshots import fewer, part_of
from headwater.scheduler.trace import EventParked, NodeGated, RunStarted, TraceRecord
from headwater.store.resumption import observations_size
from headwater.values.address import doc_key
from headwater.values.ids import BranchId

T = TypeVar("T")

log: Final = logging.getLogger("headwater")

MISSED_MAX: Final = 1000
"""Functions in one answer that were not restored, with the reason."""

WHYS_MAX: Final = 1000
"""Nodes that are explained in one answer."""

NAMES_MAX: Final = 5000
"""Names that are compared with a mistyped name."""

STORED_NODES_MAX: Final = 2000
"""Nodes that are stored when a space is closed. More would delay the end of the program."""

STORED_RECORDS_MAX: Final = 500
"""Records of the trace that are stored."""

STORED_MISSED_MAX: Final = 100
"""Functions that were not restored, as stored."""

_INSTANCE: Final = re.compile(r"[^\s,]+:instance:[a-z0-9]+")
"""The address of the result of an instance of a function."""

_TRIES: Final = 3
"""Attempts to read state that changes meanwhile. The second one nearly always succeeds."""


def mark_of(opening: OpeningPort) -> str:
    """A mark that differs after each change. Cheap, and read without the lock."""
    scheduler, replica = opening.space.scheduler, opening.space.replica
    runner, nodes = scheduler.runner, scheduler.registry.nodes
    at_work = runner.stack[-1:]
    counts = (replica.seq, replica.version, runner.runs, runner.pass_number, len(nodes), len(runner.in_flight))
    events = (len(scheduler.outcomes.live), *scheduler.outcomes.counts.values(), *_handled_now(opening))
    return f"{id(opening):x}:{'.'.join(map(str, (*counts, *events)))}{'.'.join(node.id for node in at_work)}"


def last_state(opening: OpeningPort) -> StoredOpening | None:
    """The state to store at closing. The caller holds the lock. None if there are no functions."""
    try:
        return _everything(opening) if _functions(opening) else None
    except Exception:  # no error here may keep a space from being closed
        log.debug("the state of the functions of space %r cannot be read", opening.space.name, exc_info=True)
        return None


def _everything(opening: OpeningPort) -> StoredOpening:
    every = snapshot_of(opening)
    snapshot = fewer(every, STORED_NODES_MAX)
    chosen = {node.id for node in snapshot.nodes}
    return StoredOpening(
        **opening_fields(opening, busy=False),
        snapshot=snapshot,
        left_out=len(every.nodes) - len(snapshot.nodes),
        activities=activities_of(opening),
        counts=counts_of(opening),
        whys=tuple(_why(opening, node) for node in _functions(opening) if node.id in chosen),
        trace=trace_of(opening, None)[-STORED_RECORDS_MAX:],
        taken=taken_over(opening, STORED_MISSED_MAX),
    )


def since_1970(opening: OpeningPort, record: TraceRecord) -> dict[str, object]:
    """A record of the trace, with times since 1970."""
    behind = machine().time() * 1000 - opening.now()
    moved = msgspec.structs.replace(record, at_ms=round(record.at_ms + behind, 3))
    if isinstance(moved, NodeGated | EventParked) and moved.until_ms is not None:
        moved = msgspec.structs.replace(moved, until_ms=round(moved.until_ms + behind, 3))
    fields: dict[str, object] = msgspec.to_builtins(moved)
    if "cause" in fields:
        fields["cause"] = _named(opening, str(fields["cause"]))
    if isinstance(record, RunStarted):
        fields["causes"] = [_named(opening, cause) for cause in record.causes]
    return fields


# --- parts of an answer ---------------------------------------------------------------------------------------


def seen(ask: Callable[[], T]) -> T | None:
    """The result; None if the state changed during each attempt."""
    for _ in range(_TRIES):
        try:
            return ask()
        except (RuntimeError, LookupError):
            continue
    return None


def opening_fields(opening: OpeningPort, *, busy: bool) -> dict[str, Any]:
    """The fields that all views of an opening have."""
    return {
        "app": opening.app,
        "space": opening.space.name,
        "branch": opening.branch,
        "actor": opening.space.actor or "",
        "at_ms": int(machine().time() * 1000),
        "busy": busy,
        "running": running_now(opening),
    }


def running_now(opening: OpeningPort) -> tuple[str, ...]:
    """Functions that are running, outermost first."""
    return (*_handled_now(opening), *(node.name for node in list(opening.space.scheduler.runner.stack)))


def _nodes(opening: OpeningPort) -> list[Node]:
    return [node for node in list(opening.space.scheduler.registry.nodes) if is_of(opening, node)]


def _functions(opening: OpeningPort) -> list[Node | HandlerRecord]:
    handlers = opening.space.scheduler.event_queries.handlers()
    return [*_nodes(opening), *(handler for handler in handlers if is_of(opening, handler))]


def _handled_now(opening: OpeningPort) -> list[str]:
    """Handlers that are running."""
    at_work = [lane.running for lane in opening.space.scheduler.lanes]
    return [handling.event.handler.name for handling in at_work if handling is not None]


def snapshot_of(opening: OpeningPort) -> Snapshot:
    """The snapshot, with the wall time and the running functions."""
    at_work = {node.id for node in list(opening.space.scheduler.runner.stack)}
    snapshot = opening.space.scheduler.get_graph_snapshot()
    own = {function.id for function in _functions(opening)}
    if len(own) < len(snapshot.nodes):
        snapshot = part_of(snapshot, own)
    nodes = snapshot.nodes
    if at_work:
        nodes = tuple(
            msgspec.structs.replace(node, in_flight=True) if node.id in at_work else node for node in snapshot.nodes
        )
    return msgspec.structs.replace(snapshot, at_ms=int(machine().time() * 1000), nodes=nodes)


def changes_of(opening: OpeningPort, fields: dict[str, Any], look: int) -> ChangesView:
    """The nodes that have changed since an earlier look."""
    if opening.changes is None:
        opening.changes = NodeChanges()
    changes, scheduler = opening.changes, opening.space.scheduler
    seen(lambda: changes.look(opening.space))
    at_work = {node.id for node in list(scheduler.runner.stack)}
    chosen = changes.since(look) if look else []
    views = seen(lambda: scheduler.inspect.get_node_views(chosen)) or ()
    return ChangesView(
        **fields,
        seq=opening.space.replica.seq,
        structure=changes.structure,
        look=changes.looks,
        nodes=tuple(msgspec.structs.replace(view, in_flight=True) if view.id in at_work else view for view in views),
    )


def drawn(opening: OpeningPort, form: str) -> str:
    """The graph of one opening."""
    from headwater.draw import mermaid, svg, text_tree  # noqa: PLC0415  # most programs draw nothing

    snapshot = snapshot_of(opening)
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


def activities_of(opening: OpeningPort) -> tuple[Activity, ...]:
    """The activity of each function."""
    runner = opening.space.scheduler.runner
    at_work = {*runner.in_flight, *runner.stack}
    groups: dict[tuple[str, NodeKindName], list[Node]] = {}
    for node in _nodes(opening):
        groups.setdefault((kind_of(node.name, node.piece), node.kind.value), []).append(node)
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
            runs=sum(_times(opening, node) for node in nodes),
            invalidated=sum(node.invalidated for node in nodes),
            total_ms=round(sum(node.total_ms for node in nodes), 3),
            last_ms=round(max(node.last_ms for node in nodes), 3),
        )
        for (name, kind), nodes in groups.items()
    )
    return of_nodes + handler_activities(opening)


def _times(opening: OpeningPort, node: Node) -> int:
    """The runs of a node; of a resource, its requests."""
    source = opening.space.source_of(node)
    return node.runs if source is None else source.requests


def counts_of(opening: OpeningPort) -> dict[str, int]:
    """All counters, by name."""
    scheduler = opening.space.scheduler
    counts: dict[str, int] = msgspec.structs.asdict(scheduler.get_stats())
    counts |= msgspec.structs.asdict(scheduler.get_filter_stats())
    events = msgspec.structs.asdict(scheduler.get_event_counts())
    counts |= {"handlers": len(opening.space.events.handlers), **{f"events_{end}": events[end] for end in events}}
    stats = msgspec.structs.asdict(opening.space.stats)
    return counts | {name: stats[name] for name in ("seq", "commits", "pending", "rejected", "groups", "documents")}


def taken_over(opening: OpeningPort, limit: int = MISSED_MAX) -> TakenOver:
    """The functions that were restored from earlier openings."""
    found = opening.space.explain_resume()
    shown = found.missed[:limit]
    missed = (Missed(each.node.rpartition("#")[0], each.outcome, _named(opening, each.reason)) for each in shown)
    return TakenOver(
        restored=found.restored,
        dirty=found.dirty,
        fresh=found.fresh,
        missed=tuple(missed),
        left_out=len(found.missed) - len(shown),
    )


def with_size(opening: OpeningPort, taken: TakenOver) -> TakenOver:
    """The same, with the observations for the next opening. Waits for the disk."""
    branch, prefix = BranchId(opening.branch), doc_key(f"{opening.app}.")
    rows, size = opening.storage.call(lambda engine: observations_size(engine, branch, prefix))
    return msgspec.structs.replace(taken, rows=rows, size=size)


def _why(opening: OpeningPort, node: Node | HandlerRecord) -> Explanation:
    source = opening.space.source_of(node)
    if source is not None:
        # The scheduler does not know the requests of a resource.
        return Explanation(
            node.id, node.name, opening.space.captioned(why_requested(opening.space, source)), node.piece
        )
    return Explanation(node.id, node.name, _named(opening, opening.space.scheduler.why(node)), node.piece)


def _named(opening: OpeningPort, words: str) -> str:
    """The text, with `row(3)` in place of the generated name of a document."""
    if ":instance:" in words:
        words = _INSTANCE.sub(lambda found: opening.name_of(found[0]), words)
    return opening.space.captioned(words)


def explain(opening: OpeningPort, fields: dict[str, Any], text: str) -> WhyView:
    """Why the nodes of a name ran, or do not run. `fields`: the fields of the opening."""
    nodes = _functions(opening)
    meant = [node for node in nodes if is_called(node.id, node.name, text, opening.app, node.piece)]
    if not meant:
        names = dict.fromkeys(titled(node.name, node.piece) for node in nodes)
        return WhyView(**fields, names=tuple(names)[:NAMES_MAX])
    whys = (seen(lambda node=node: _why(opening, node)) for node in meant[:WHYS_MAX])  # type: ignore[misc]
    found = tuple(why for why in whys if why is not None)
    return WhyView(**fields, whys=found, left_out=len(meant) - len(found))


def trace_of(opening: OpeningPort, kind: str | None) -> tuple[dict[str, object], ...]:
    """The recorded steps, oldest first."""
    return tuple(since_1970(opening, record) for record in opening.space.scheduler.get_trace(kind))
