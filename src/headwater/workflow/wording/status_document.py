"""The status document of a workflow."""

from __future__ import annotations

from typing import Final

import msgspec

from headwater.store.commit import Operation, PatchDoc, SetDoc
from headwater.values.address import doc_key
from headwater.values.ids import DocKey, Millis
from headwater.values.patch import Add, PatchOp, Remove, Replace
from headwater.values.tree import ABSENT, Map, Maybe, freeze, is_array, is_map, map_of
from headwater.workflow.phases import Restart, restart_of
from headwater.workflow.rows import EffectOutcome, FailureKind, FlowRow, Intent, RunRow, RunStatus
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.captions import run_caption
from headwater.workflow.workflow_limits import RECENT

RUNNING: Final = "Running"
IDLE: Final = "Idle"
ATTENTION: Final = "Needs attention"
STOPPED: Final = "Stopped"


def key_of(name: str) -> DocKey:
    """The key of a workflow's status document: its own name."""
    return doc_key(name)


def operations(tables: WorkflowTables, flow_id: int) -> list[Operation]:
    """The operations that bring the document up to date; none if it is."""
    flow = tables.flow(flow_id)
    key = key_of(flow.name)
    before = tables.look(key)
    after = _fields(tables, flow)
    said = tables.captions.get(flow.id)
    if not is_map(before):
        after["recent"] = [] if said is None else [_line(tables, said)]
        return [SetDoc(key, freeze(after, f"the status of {flow.name}"))]
    ops: list[PatchOp] = []
    for name, value in after.items():
        there: Maybe = before.get(name, ABSENT)
        # Texts, numbers and maps of numbers: Python's own comparison is enough.
        if there == value:
            continue
        if type(value) is dict and is_map(there):
            _patch_counts(name, there, value, ops)
        elif there is ABSENT:
            ops.append(Add((name,), freeze(value, name)))
        else:
            ops.append(Replace((name,), freeze(value, name)))
    lines = before.get("recent")
    if said is not None or not is_array(lines):
        _patch_recent(tables, lines, said, ops)
    return [PatchDoc(key, tuple(ops))] if ops else []


def _patch_recent(tables: WorkflowTables, lines: Maybe | None, said: str | None, ops: list[PatchOp]) -> None:
    """The recent activity, newest first: the new line before the others, up to the limit."""
    if not is_array(lines):
        # Only an author's own code can have written a different value there.
        ops.append(Add(("recent",), freeze([] if said is None else [_line(tables, said)], "recent")))
    elif said is not None:
        ops += [Remove(("recent", index)) for index in range(len(lines) - 1, RECENT - 2, -1)]
        ops.append(Add(("recent", 0), _line(tables, said)))


def _line(tables: WorkflowTables, said: str) -> Map:
    return map_of({"at": tables.now, "text": freeze(said, "recent")})


def _patch_counts(name: str, before: Map, after: dict[str, int], ops: list[PatchOp]) -> None:
    """The counts of each topic as separate values: a reader of one is not notified about the others."""
    if not before.keys() <= after.keys():
        ops += [Remove((name, key)) for key in before if key not in after]
    for key, value in after.items():
        if key not in before:
            ops.append(Add((name, key), value))
        elif before[key] != value:
            ops.append(Replace((name, key), value))


def _fields(tables: WorkflowTables, flow: FlowRow) -> dict[str, object]:
    if tables.has_shared_only(flow.id):
        # As `foremost`, for the most frequent case.
        active = tables.active(flow.id)
        head = None if flow.head is None else tables.run(flow.head)
        current, (state, sentence) = active or head, sentence_of(flow, active, head)
        retry_at = flow.retry_at
    else:
        shown = foremost(tables, flow)
        current = shown.active or shown.head
        state, sentence, retry_at = shown.state, shown.sentence, shown.flow.retry_at
    pending: dict[str, int] = {}
    parked = 0
    for name, topic in tables.topics(flow.id).items():
        pending[name] = topic.pending + topic.reserved
        parked += topic.parked
    next_at: Millis | None = None
    for row in tables.handlers(flow.id):
        if row.next_run_at is not None and (next_at is None or row.next_run_at < next_at):
            next_at = row.next_run_at
    return {
        "state": state,
        "sentence": sentence,
        "version": flow.version,
        "next_at": next_at,
        "retry_at": retry_at,
        "run": None if current is None else current.id,
        "pending": pending,
        "parked": parked,
    }


class Foremost(msgspec.Struct, frozen=True):
    """A workflow as the lane sees it that comes first for people: a lane that waits for them, then a lane at work."""

    flow: FlowRow
    active: RunRow | None
    head: RunRow | None
    state: str
    sentence: str
    lanes: list[FlowRow]
    """The shared lane, and each with an unfinished chain."""


def foremost(tables: WorkflowTables, flow: FlowRow) -> Foremost:
    """The state of a workflow over all of its lanes."""
    if tables.has_shared_only(flow.id):
        active = tables.active(flow.id)
        head = None if flow.head is None else tables.run(flow.head)
        return Foremost(flow, active, head, *sentence_of(flow, active, head), [flow])
    actives = tables.actives(flow.id)
    lanes = tables.every_lane(flow.id)
    views = lanes + [tables.flow(flow.id, lane) for lane in actives if lane and lane not in {v.lane for v in lanes}]
    first = min(views, key=lambda view: (view.block is None, view.lane not in actives, view.head is None, view.lane))
    shown = _seen(tables, first, lanes)
    others = sum(1 for view in lanes if view.block is not None) - 1
    if shown.state == ATTENTION:
        where = f"{first.lane}: " if first.lane else ""
        more = f" {others} more wait for a person." if others > 0 else ""
        return msgspec.structs.replace(shown, sentence=f"{where}{shown.sentence}{more}")
    if len(actives) > 1 and flow.intent == Intent.ACTIVE:
        return msgspec.structs.replace(shown, sentence=f"{len(actives)} runs are at work.")
    return shown


def _seen(tables: WorkflowTables, view: FlowRow, lanes: list[FlowRow]) -> Foremost:
    active = tables.active(view.id, view.lane)
    head = None if view.head is None else tables.run(view.head)
    state, sentence = sentence_of(view, active, head)
    return Foremost(view, active, head, state, sentence, lanes)


def sentence_of(  # noqa: PLR0911  # one for each way to be
    flow: FlowRow, active: RunRow | None, head: RunRow | None
) -> tuple[str, str]:
    """The state of a workflow as one word and one sentence, without phases, handlers and run ids."""
    if flow.intent == Intent.ARCHIVED:
        return STOPPED, "Archived."
    if flow.block is not None:
        # Both facts matter: an answer given now takes effect only after the pause.
        paused = "Paused. " if flow.intent == Intent.PAUSED else ""
        return ATTENTION, f"{paused}{_blocked(flow, head)}"
    if active is not None:
        paused = " It stops before it acts." if flow.intent == Intent.PAUSED else ""
        return RUNNING, f"{active.handler} is at work.{paused}"
    if flow.intent == Intent.PAUSED:
        return STOPPED, "Paused."
    if flow.repairing:
        return RUNNING, "Something failed, and a repair is under way."
    if head is not None:
        return _unfinished(flow, head)
    return IDLE, "Waiting for something to do."


def _unfinished(flow: FlowRow, head: RunRow) -> tuple[str, str]:
    if restart_of(head.outcome) is Restart.WAIT:
        return RUNNING, f"Finding out whether {run_caption(head)} happened."
    if not is_tried_later(flow, head):
        return RUNNING, f"{head.handler} goes on in a moment."
    if head.error_kind == FailureKind.TRANSIENT:
        return RUNNING, f"Trying again after a failure ({flow.failures} so far): {head.error}"
    return RUNNING, f"Trying again, for {run_caption(head)} did not happen ({flow.failures} so far)."


def is_tried_later(flow: FlowRow, head: RunRow) -> bool:
    """The run has failed and is retried later."""
    is_transient = head.status == RunStatus.TRANSIENT and head.error_kind == FailureKind.TRANSIENT
    return is_transient or (head.outcome == EffectOutcome.FAILED and bool(flow.failures))


_ADVICE: Final = {
    "ask": "Approve it or reject it.",
    "indeterminate": "Say whether it happened.",
    "hung": "It may still act. Restart the host, or say whether it happened.",
    "exhausted": "When the reason is gone, resume.",
    "logic": "It needs a new version of the code, or resume to try again.",
    "auth": "Sign in{service} again, then resume.",
    "permission": "Grant it, then resume.",
    "internal": "This is a fault of the host or of a connector. Report it; resume tries again.",
    "crashes": "Look for what ends the host, then resume.",
}


def _blocked(flow: FlowRow, head: RunRow | None) -> str:
    if flow.block_kind == "ask" and head is not None:
        return f"Waiting for you to approve: {head.title or head.handler}. {_ADVICE['ask']}"
    if flow.block_kind == "indeterminate" and head is not None:
        return f"It is not known whether {run_caption(head)} happened. {_ADVICE['indeterminate']}"
    text = (flow.block or "").rstrip(". \n")
    service = f" to {head.service}" if head is not None and head.service else ""
    advice = _ADVICE.get(flow.block_kind or "", "").replace("{service}", service)
    if head is not None and restart_of(head.outcome) is Restart.EMIT:
        advice += " Its effect is there: abandon puts it aside, and the others go on."
    return f"{text}. {advice}".strip()
