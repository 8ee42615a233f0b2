"""The records that queries return."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.values.ids import Millis


class RunLine(msgspec.Struct, frozen=True):
    """One thing that was done."""

    at: Millis
    text: str


class HandlerView(msgspec.Struct, frozen=True, kw_only=True):
    """A producer or consumer of a workflow, and when it runs."""

    name: str
    kind: str
    when: str
    """In words: its schedule, or what it waits for."""
    next_at: Millis | None
    """When it runs without anything else happening: by its schedule, or because it asked to be woken."""


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
    """Events that wait, by topic."""
    parked: int
    next_at: Millis | None
    """When a producer runs next."""
    retry_at: Millis | None
    due_at: Millis | None
    """When something happens by itself, if nothing stands in the way."""
    failures: int
    run: int | None
    """The run that is at work, or that has to be finished first."""
    can_ask: bool = False
    """There is a `reconcile`, which can be asked again what became of the call of this run."""
    has_effect: bool = False
    """The call of this run had its effect, or was skipped: only `next` is left."""
    waiting: int
    """Runs that wait for a person."""
    stale: int
    """Inputs that wait for too long."""
    gone: bool = False
    """It is in the file, and not in the program that has it open."""
    runs: int
    recent: list[RunLine] = []
    handlers: list[HandlerView] = []
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
    """What it was started for, in words."""
    reached: str
    """How far it came, in words."""
    sentence: str
    """What became of it."""
    state: str
    """Its status, as long as that holds; then what became of it: "approved, followed by run 7"."""
    waits_for: str | None
    """Why it waits for a person, if it does: as `FlowView.block_kind`."""
    can_ask: bool = False
    """There is a `reconcile`, which can be asked again what became of its call."""
    attempt: int
    retry_of: int | None
    followed_by: int | None
    """The next attempt of its chain."""
    chain: int
    version: int
    title: str
    text: str
    """In one line: what came in -> what was done."""
    offered: int
    taken: int
    cancelled: bool
    aside: str | None = None
    """Put aside after its effect, with its plan and result: `kept`; or `again`, if it is to be taken up."""
    error_kind: str | None
    error: str | None
    service: str | None = None
    """What has to be signed in to again, or granted, if the error names it."""
    retry_at: Millis | None
    """When its chain goes on, if it waits for that."""
    created_at: Millis
    updated_at: Millis

    @property
    def may_change(self) -> bool:
        """It is running, waits for an answer, or the outcome of its call is unknown."""
        waits = self.status in ("active", "paused:approval") or self.outcome == "unknown" or self.waits_for is not None
        return waits and self.followed_by is None


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """A call to the outside, as it was made: not what the script calls it."""

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
    """What a person decided about a run."""

    run: int
    at: Millis
    actor: str
    verb: str
    """approve, reject, cancel, retry, abandon, applied, not_applied, skip or again."""
    reason: str
    sentence: str
    """In words: "approved by ann"."""


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a run has taken, and what became of it there."""

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
    """Its own, or the one that it goes on from."""
    events: list[EventView]
    inputs: list[str]
    chain: list[RunView]
    """All attempts, oldest first."""
    calls: list[CallView]
    """Those of the chain, oldest first."""
    block_kind: str | None
    """Why the chain waits for a person, if it does."""
    decisions: list[DecisionView] = []
    """What people decided about the runs of the chain, oldest first."""


class InputView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that came in, and what became of it."""

    id: int
    workflow: str
    source: str
    external: str
    title: str
    status: str
    """pending, done, parked or skipped: of all events that are about it."""
    stale: bool
    outputs: list[str]
    """What was done because of it."""
    created_at: Millis
