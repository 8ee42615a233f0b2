"""The next run of a workflow.

Flags are in memory only: they change with every event, and are derived from the tables after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headwater.values.ids import Millis
from headwater.workflow.rates import begin_at
from headwater.workflow.rows import FlowRow, HandlerKind, HandlerRow, Intent, RunCause, TopicRow
from headwater.workflow.run_lanes import consumer_of, is_held_up, lane_of
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_spec import ConsumerSpec, FlowSpec


@dataclass(slots=True, eq=False)
class Flags:
    """Why a workflow may have something to do before a scheduled time."""

    # Consumers that run once even without events: after a deployment.
    fresh: set[str] = field(default_factory=set)
    # Consumers with events that they have not seen.
    dirty: set[str] = field(default_factory=set)
    # A person's action has released the unfinished chain: the cause of the next run.
    resumed: RunCause | None = None
    # Lanes whose consumer was called and has taken nothing since their events came.
    quiet: set[str] = field(default_factory=set)
    # Runs whose call is being found out, or whose handler is being repaired, in this process.
    pursued: set[int] = field(default_factory=set)
    # The consumer with lanes whose run began last; empty: a run of the shared lane.
    last: str | None = None

    def note_published(self, spec: FlowSpec, published: Iterable[tuple[int, str, str | None]]) -> None:
        """Events were published, as (workflow, topic, lane): their consumers have something new."""
        for _, topic, text in published:
            for consumer in spec.consumers:
                if topic in consumer.topics:
                    self.dirty.add(consumer.name)
                    if self.quiet:
                        self._wake_lanes(consumer, text)

    def _wake_lanes(self, consumer: ConsumerSpec, text: str | None) -> None:
        lanes = consumer.laned
        if lanes is None:
            return
        if text is not None and lanes.key is not None:
            self.quiet.discard(lane_of(consumer.name, lanes, 0, text))
        elif text is None:
            self.quiet -= {lane for lane in self.quiet if consumer_of(lane) == consumer.name}


class Due(msgspec.Struct, frozen=True):
    """A handler that can run now, and the cause."""

    handler: HandlerRow
    kind: HandlerKind
    why: RunCause


class IdleUntil(msgspec.Struct, frozen=True):
    """Nothing to do before this time, or, without a time, before something happens."""

    until: Millis | None = None


def choose(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec, flags: Flags) -> Due | IdleUntil:
    """The next run that starts a chain. The workflow is idle and has no open chain."""
    # W14: a pause, or a question to a person, comes first.
    if flow.intent != Intent.ACTIVE or flow.block is not None or flow.repairing:
        return IdleUntil()
    waiting, times = _consumers(tables, flow, spec, flags)
    if waiting:
        return _first(waiting)
    for producer in spec.producers:
        row = tables.handler(flow.id, "producer", producer.name)
        if row.next_run_at is None:
            continue
        times.append(row.next_run_at)
        if row.next_run_at <= tables.now:
            why = RunCause.MANUAL if row.asked else RunCause.SCHEDULE
            waiting.append((row.next_run_at, (len(waiting), 0), Due(row, "producer", why)))
    return _first(waiting) if waiting else IdleUntil(min(times, default=None))


def _consumers(
    tables: WorkflowTables, flow: FlowRow, spec: FlowSpec, flags: Flags
) -> tuple[list[tuple[int, tuple[int, int], Due]], list[Millis]]:
    """The consumers of the shared lane that can run now, each with its order; and when others can."""
    topics = tables.topics(flow.id)
    waiting: list[tuple[int, tuple[int, int], Due]] = []
    times: list[Millis] = []
    for consumer in spec.consumers:
        if consumer.lanes is not msgspec.UNSET:
            continue
        row = tables.handler(flow.id, "consumer", consumer.name)
        # A newer program without this handler may have been opened beside this one.
        due = None if row.gone else _consumer_due(tables, row, consumer, topics, flags)
        may_begin, at = True, None
        if due is not None and not (consumer.call_every_us is msgspec.UNSET and tables.has_shared_only(flow.id)):
            may_begin, at = _may_begin(tables, flow, row, consumer)
        if due is not None and may_begin:
            waiting.append(due)
        elif at is not None:
            times.append(at)
        elif due is None and row.wake_at is not None:
            times.append(row.wake_at)
    if len(waiting) > 1:
        # W13: the handler with the oldest event first; handlers without an event after it.
        waiting = [(rank, _oldest(tables, topics, spec, due), due) for rank, _, due in waiting]
    return waiting, times


def _may_begin(
    tables: WorkflowTables, flow: FlowRow, row: HandlerRow, consumer: ConsumerSpec
) -> tuple[bool, Millis | None]:
    """Whether a run that is due may begin, by its rate, and by what is unfinished in lanes it had before."""
    # The shared lane is free: what is at work is in another one.
    if (tables.lanes(flow.id) or tables.actives(flow.id)) and is_held_up(tables, flow.id, consumer):
        return False, None
    return begin_at(tables, row, consumer)


_ANY: Final = (0, 0)
"""The order of a handler while it is the only one."""


def _first(waiting: list[tuple[int, tuple[int, int], Due]]) -> Due:
    """The lowest rank, and of one rank the lowest order."""
    return waiting[0][2] if len(waiting) == 1 else min(waiting, key=lambda each: each[:2])[2]


def _consumer_due(
    tables: WorkflowTables, row: HandlerRow, consumer: ConsumerSpec, topics: dict[str, TopicRow], flags: Flags
) -> tuple[int, tuple[int, int], Due] | None:
    if row.name in flags.dirty:
        for name in consumer.topics:
            if topics[name].pending:
                return 0, _ANY, Due(row, "consumer", RunCause.EVENT)
    if row.wake_at is not None and row.wake_at <= tables.now:
        return 1, _ANY, Due(row, "consumer", RunCause.WAKE)
    if row.name in flags.fresh:
        return 2, _ANY, Due(row, "consumer", RunCause.DEPLOY)
    return None


def _oldest(tables: WorkflowTables, topics: dict[str, TopicRow], spec: FlowSpec, due: Due) -> tuple[int, int]:
    """The order of handlers that are due for the same cause. Queried only if there are several."""
    if due.why is RunCause.WAKE:
        return due.handler.wake_at or 0, 0
    consumed = [topics[name] for name in spec.consumer(due.handler.name).topics]
    return tables.first([topic.id for topic in consumed if topic.pending]) or _ANY


def flags_after_restart(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec) -> Flags:
    """The flags after a restart: the consumers with pending events."""
    topics = tables.topics(flow.id)
    return Flags(dirty={c.name for c in spec.consumers if any(topics[name].pending for name in c.topics)})
