"""The rows of the workflow tables, and the words in them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias

import msgspec

from headwater.values.ids import Millis

HandlerKind: TypeAlias = Literal["producer", "consumer"]


class RunPhase(StrEnum):
    """The phase of a run. Forward only; failures are in the status."""

    PREPARING = "preparing"
    PREPARED = "prepared"
    MUTATING = "mutating"
    MUTATED = "mutated"
    EMITTING = "emitting"
    COMMITTED = "committed"


class RunStatus(StrEnum):
    """What a run waits for, or how it ended."""

    ACTIVE = "active"
    TRANSIENT = "paused:transient"
    APPROVAL = "paused:approval"
    RECONCILIATION = "paused:reconciliation"
    LOGIC = "failed:logic"
    INTERNAL = "failed:internal"
    COMMITTED = "committed"
    CRASHED = "crashed"


class EffectOutcome(StrEnum):
    """What is known of the one effect of a run. Unknown from the moment the call leaves until its outcome is known."""

    NONE = "none"
    UNKNOWN = "unknown"
    APPLIED = "applied"
    FAILED = "failed"
    SKIPPED = "skipped"


class RunCause(StrEnum):
    """Why a run was started."""

    DEPLOY = "deploy"
    EVENT = "event"
    WAKE = "wake"
    SCHEDULE = "schedule"
    MANUAL = "manual"
    RETRY = "retry"
    RECOVERY = "recovery"
    APPROVED = "approved"
    RECONCILED = "reconciled"
    FIXED = "fixed"


class FailureKind(StrEnum):
    """Kinds of failure. Classified where they happen, never by the text of a message."""

    TRANSIENT = "transient"
    LOGIC = "logic"
    AUTH = "auth"
    PERMISSION = "permission"
    INDETERMINATE = "indeterminate"
    INTERNAL = "internal"
    ASK = "ask"
    """A person is asked before the mutation."""
    STOPPED = "stopped"
    """The workflow was paused, or the host ended. It is not a failure of the run and is not counted."""
    CRASHED = "crashed"


class Intent(StrEnum):
    """What the user wants of a workflow."""

    ACTIVE = "active"
    PAUSED = "paused"
    ARCHIVED = "archived"


class EventStatus(StrEnum):
    """Where an event is on its way through a topic."""

    PENDING = "pending"
    RESERVED = "reserved"
    CONSUMED = "consumed"
    SKIPPED = "skipped"
    PARKED = "parked"


class CallStatus(StrEnum):
    """What is known of a call to the outside."""

    IN_FLIGHT = "in_flight"
    APPLIED = "applied"
    FAILED = "failed"
    NEEDS_RECONCILE = "needs_reconcile"
    INDETERMINATE = "indeterminate"


ResolvedBy: TypeAlias = Literal["call", "reconciliation", "user_applied", "user_not_applied", "user_skip"]


class FlowRow(msgspec.Struct, frozen=True, gc=False):
    """One workflow: the user's intent, its block, and its unfinished chain."""

    id: int
    name: str
    salt: str
    version: int
    intent: Intent
    block: str | None
    block_kind: str | None
    repairs: int
    repairing: int
    head: int | None
    retry_at: Millis | None
    failures: int
    created_at: Millis
    updated_at: Millis
    lane: str = ""
    """Not a column: the lane whose block, head, retry time and counts these are. See `LaneRow`."""


class LaneRow(msgspec.Struct, frozen=True, gc=False):
    """What is stored of one lane of a consumer, as `FlowRow` and `HandlerRow` have it for the shared lane."""

    flow: int
    name: str
    handler: str
    block: str | None = None
    block_kind: str | None = None
    repairs: int = 0
    repairing: int = 0
    head: int | None = None
    retry_at: Millis | None = None
    failures: int = 0
    wake_at: Millis | None = None
    span: int | None = None


class RunRow(msgspec.Struct, frozen=True, gc=False):
    """One attempt. A retry is another row, which names this one."""

    id: int
    flow: int
    handler: str
    kind: HandlerKind
    retry_of: int | None
    chain: int
    attempt: int
    crashes: int
    why: RunCause
    version: int
    phase: RunPhase
    status: RunStatus
    outcome: EffectOutcome
    offered: int
    taken: int
    title: str
    ask: int
    approval: bytes | None
    cancelled: int
    prepare_result: bytes | None
    mutation_result: bytes | None
    effect_of: int | None
    error_kind: FailureKind | None
    error: str | None
    error_details: str | None
    created_at: Millis
    updated_at: Millis
    aside: Literal["kept", "again"] | None
    """Set aside after its effect: `kept`, or `again` if it is to continue. See `workflow.set_aside`."""
    service: str | None
    """The service that needs a new sign-in or a grant."""
    lane: str
    """The lane of its consumer; empty: the lane that the workflow shares. See `workflow.run_lanes`."""
    claim: int
    """Which grant of the run counts, once other processes execute runs."""

    @property
    def call(self) -> int:
        """The run of the chain that made the call: this one, or an earlier one."""
        return self.id if self.effect_of is None else self.effect_of


class EventRow(msgspec.Struct, frozen=True, gc=False):
    """One event of a topic, as a consumer is shown it."""

    id: int
    topic: str
    message: str
    payload: bytes
    status: EventStatus
    attempt: int
    created_at: Millis
    priority: int
    lane: str | None

    @property
    def rank(self) -> tuple[int, int]:
        """Its place among the waiting events of a lane: by priority, then in the order of publication."""
        return -self.priority, self.id


class CallRow(msgspec.Struct, frozen=True, gc=False):
    """A call to the outside: written before it leaves."""

    run: int
    operation: str
    params: bytes
    key: str
    status: CallStatus
    result: bytes | None
    error: str | None
    tries: int
    next_at: Millis | None
    resolved_by: ResolvedBy | None
    resolved_at: Millis | None
    at: Millis


class HandlerRow(msgspec.Struct, frozen=True, gc=False):
    """The stored state of a producer or consumer between its runs."""

    flow: int
    name: str
    kind: HandlerKind
    state: bytes | None
    next_run_at: Millis | None
    wake_at: Millis | None
    span: int | None
    gone: int
    asked: int
    call_at: int | None
    """The earliest time of its next call, in microseconds since 1970, if it has a rate."""
    lane: str = ""
    """Not a column: the lane whose wake-up time and number of events these are."""


class TopicRow(msgspec.Struct, frozen=True, gc=False):
    """A topic, and how many of its events wait."""

    id: int
    flow: int
    name: str
    pending: int
    reserved: int
    parked: int
    key: str | None
    """The field of the payload that names the lane of an event."""

    @property
    def unfinished(self) -> int:
        """Events that are pending or reserved by a run."""
        return self.pending + self.reserved


class InputRow(msgspec.Struct, frozen=True, gc=False):
    """Something that came from outside, as people know it."""

    id: int
    flow: int
    source: str
    message: str
    title: str
    created_by: int | None
    created_at: Millis
    skipped_at: Millis | None


def columns(kind: type[msgspec.Struct], table: str = "") -> str:
    """As a query names them."""
    prefix = f"{table}." if table else ""
    return ", ".join(f"{prefix}{name}" for name in kind.__struct_fields__)


RUN: Final = columns(RunRow)
OF_CHAIN: Final = "(id = ? or (chain = ? and retry_of is not null))"
"""The runs of a chain: its first, which it is named by, and those that were tried again."""
FLOW: Final = columns(FlowRow).removesuffix(", lane")
LANE: Final = columns(LaneRow)
CALL: Final = columns(CallRow)
HANDLER: Final = columns(HandlerRow).removesuffix(", lane")
TOPIC: Final = columns(TopicRow)
INPUT: Final = columns(InputRow)
EVENT: Final = (
    "event.id, topic.name, event.message, event.payload, event.status, event.attempt, event.created_at, "
    "event.priority, event.lane"
)
FROM_EVENT: Final = "flow_event as event join flow_topic as topic on topic.id = event.topic"
OPEN_HEADS: Final = (
    "(select id as flow, '' as lane, head, block_kind from flow where head is not null "
    "union all select flow, name, head, block_kind from flow_lane where head is not null)"
)
"""SQL: the unfinished chains of all workflows and lanes, by their newest run."""

HUNG_HEADS: Final = f"select flow, lane, head from {OPEN_HEADS} where block_kind = 'hung'"
"""Those whose call has not returned in time."""
