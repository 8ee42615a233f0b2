"""The state of workflows that no host executes.

The tables do not contain the hosts. The caller passes the hosts that have the file open.
"""

from __future__ import annotations

import msgspec

from headwater.workflow.phases import Restart, restart_of
from headwater.workflow.rows import EffectOutcome, FlowRow, Intent, RunRow
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.captions import run_caption
from headwater.workflow.wording.status_document import IDLE, RUNNING, STOPPED, foremost, is_tried_later
from headwater.workflow.wording.story import HOST
from headwater.workflow.wording.views import FlowView


class Hosts(msgspec.Struct, frozen=True):
    """The hosts that have a file open."""

    running: tuple[str, ...] = ()
    """Workflows that a host executes."""
    apps: tuple[str, ...] = ()
    """Apps that have the file open."""
    declared: tuple[str, ...] = ()
    """Workflows of these apps."""


def as_seen(tables: WorkflowTables, row: FlowRow, view: FlowView, hosts: Hosts) -> FlowView:
    """The view of a workflow with these hosts: without a host, it is not shown as running."""
    if row.intent == Intent.ARCHIVED:
        return view
    # A workflow of an app that is not open is not gone: it is only not executed.
    if row.name not in hosts.declared and row.name.partition(".")[0] in hosts.apps:
        state = STOPPED if row.block is None else view.state
        text = _gone(tables, row, view)
        return msgspec.structs.replace(view, gone=True, state=state, sentence=text, next_at=None, due_at=None)
    row = foremost(tables, row).flow
    if row.intent != Intent.ACTIVE or row.block is not None or row.name in hosts.running:
        return view
    said = _unhosted(tables, row, view)
    return view if said is None else msgspec.structs.replace(view, state=STOPPED, sentence=f"{said}: {HOST}.")


def _unhosted(tables: WorkflowTables, row: FlowRow, view: FlowView) -> str | None:
    """What waits for a host. None if nothing waits, or if a program executes it without being its host."""
    head = None if row.head is None else tables.run(row.head)
    count = sum(view.pending.values())
    said = None
    if view.state == RUNNING and not tables.actives(row.id):
        said = _unfinished(row, head, view)
    elif view.state == IDLE and head is None and count:
        said = f"{_events(count)} for a host"
    return said


def _unfinished(row: FlowRow, head: RunRow | None, view: FlowView) -> str:
    if row.repairing or head is None:
        return "Something failed, and its repair waits for a host"
    if is_tried_later(row, head):
        return f"{view.sentence.rstrip('. ')}. It waits for a host"
    if restart_of(EffectOutcome(head.outcome)) is Restart.WAIT:
        return f"Whether {run_caption(head)} happened is found out as soon as there is a host"
    return f"{head.handler} waits for a host"


def _gone(tables: WorkflowTables, row: FlowRow, view: FlowView) -> str:
    """That the workflow is not in the program, what waits in it, and what to do."""
    count = sum(view.pending.values()) + view.parked
    waits = [f"{_events(count)} in it"] if count else []
    head = None if row.head is None else tables.run(row.head)
    if head is not None:
        waits.append(f"run {head.id} ({head.title or head.handler}) is not finished")
    left = " and ".join(waits) or "nothing waits in it"
    pause = "" if row.intent == Intent.PAUSED else f"headwater workflow pause {row.name}, then "
    return (
        f"It is in the file, but not in the program that has it open: {left}. Bring it back into the program, "
        f"or put it out of the way: {pause}headwater workflow archive {row.name}."
    )


def _events(count: int) -> str:
    return "1 event waits" if count == 1 else f"{count:,} events wait"
