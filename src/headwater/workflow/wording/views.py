"""The records that queries return."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.values.ids import Millis


class RunLine(msgspec.Struct, frozen=True):
    """One line of recent activity."""

    at: Millis
    text: str


class HandlerView(msgspec.Struct, frozen=True, kw_only=True):
    """A producer or consumer of a workflow, and when it runs."""

    name: str
    kind: str
    when: str
    """Its schedule in words, or what it waits for."""
    next_at: Millis | None
    """When it runs by itself: by its schedule, or because it asked to be woken."""


class LaneView(msgspec.Struct, frozen=True, kw_only=True):
    """A lane of a consumer, and why its next event waits."""

    name: str
    handler: str
    state: str
    sentence: str
    run: int | None
    """The run at work, or the newest of its unfinished chain."""
    pending: int
    """Events that wait in it, or are reserved by its run."""
    retry_at: Millis | None
    """When its unfinished chain goes on, if it waits for a time."""
    block_kind: str | None
    """Why it waits for a person; see `FlowView.block_kind`."""


class FlowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow, as users see it."""

    name: str
    state: str
    sentence: str
    schedule: str
    """When it runs, in words."""
    version: int
    deployed_at: Millis
    intent: str
    block_kind: str | None
    """Why it waits for a person: ask, indeterminate, exhausted, logic, auth, permission, internal or crashes."""
    pending: dict[str, int]
    """Pending events by topic."""
    parked: int
    next_at: Millis | None
    """When a producer runs next."""
    retry_at: Millis | None
    due_at: Millis | None
    """When something happens by itself, unless the workflow is blocked."""
    failures: int
    run: int | None
    """The active run, or the head of the unfinished chain."""
    can_ask: bool = False
    """The program has a `reconcile` that can look up the outcome of this run's call."""
    has_effect: bool = False
    """The call of this run happened or was skipped: only `next` is left."""
    waiting: int
    """Runs that wait for a person."""
    stale: int
    """Inputs that have waited too long."""
    gone: bool = False
    """It is in the file, but not in the program that has the file open."""
    runs: int
    recent: list[RunLine] = []
    handlers: list[HandlerView] = []
    lanes: list[LaneView] = []
    """Lanes that are at work, or have an unfinished chain or waiting events: those that need a person first."""
    working: int = 0
    """Runs that are at work."""
    updated_at: Millis


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as users see it."""

    id: int
    workflow: str
    handler: str
    kind: str
    status: str
    phase: str
    outcome: str
    why: str
    because: str
    """Why it was started, in words."""
    reached: str
    """How far it came, in words."""
    sentence: str
    """Its result as a sentence."""
    state: str
    """Its status while it is current, then its result: "approved, followed by run 7"."""
    waits_for: str | None
    """Why it waits for a person, if it does; see `FlowView.block_kind`."""
    can_ask: bool = False
    """The program has a `reconcile` that can look up the outcome of its call."""
    attempt: int
    retry_of: int | None
    followed_by: int | None
    """The next attempt of its chain."""
    chain: int
    version: int
    lane: str = ""
    """The lane of its consumer; empty: the lane that the workflow shares."""
    title: str
    text: str
    """In one line: what came in -> what was done."""
    offered: int
    taken: int
    cancelled: bool
    aside: str | None = None
    """Set aside after its effect, with its plan and result: `kept`, or `again` if it is to continue."""
    error_kind: str | None
    error: str | None
    service: str | None = None
    """The service that needs a new sign-in or a grant, if the error names it."""
    retry_at: Millis | None
    """When its chain continues, if it waits for a time."""
    created_at: Millis
    updated_at: Millis

    @property
    def may_change(self) -> bool:
        """It is running, waits for an answer, or has a call with an unknown outcome."""
        waits = self.status in ("active", "paused:approval") or self.outcome == "unknown" or self.waits_for is not None
        return waits and self.followed_by is None


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """A call to a service, with the operation and arguments that were sent."""

    run: int
    operation: str
    key: str
    status: str
    sentence: str
    """What is known of it."""
    params: Any
    result: Any
    error: str | None
    tries: int
    next_at: Millis | None
    resolved_by: str | None
    at: Millis
    resolved_at: Millis | None


class DecisionView(msgspec.Struct, frozen=True, kw_only=True):
    """A person's decision about a run."""

    run: int
    at: Millis
    actor: str
    verb: str
    """approve, reject, cancel, retry, abandon, applied, not_applied, skip or again."""
    reason: str
    sentence: str
    """As a sentence: "approved by ann"."""


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a run took, and its disposition there."""

    topic: str
    id: str
    status: str
    disposition: str
    attempt: int


class RunDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a run."""

    run: RunView
    details: str | None
    """The traceback, if there is one."""
    plan: Any
    result: Any
    call: CallView | None
    """Its own call, or the call of the run it continues from."""
    events: list[EventView]
    inputs: list[str]
    chain: list[RunView]
    """All attempts of the chain, oldest first."""
    calls: list[CallView]
    """The events of the chain, oldest first."""
    block_kind: str | None
    """Why the chain waits for a person, if it does."""
    decisions: list[DecisionView] = []
    """People's decisions about the runs of the chain, oldest first."""


class InputView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that came in, and its result."""

    id: int
    workflow: str
    source: str
    external: str
    title: str
    status: str
    """pending, done, parked or skipped: derived from all events that follow from it."""
    stale: bool
    outputs: list[str]
    """What was done because of it."""
    created_at: Millis
