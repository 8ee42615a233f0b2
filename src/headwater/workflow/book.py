"""One transaction on the tables of workflows: what it can look up, and what it has touched.

Must never know: what a transition is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from headwater.errors import NotFoundError
from headwater.store.commit import Tables
from headwater.values.ids import DocKey, Millis
from headwater.values.tree import ABSENT, Maybe
from headwater.workflow.model import (
    CALL,
    EVENT,
    FLOW,
    FROM_EVENT,
    HANDLER,
    RUN,
    TOPIC,
    CallRow,
    EventRow,
    FlowRow,
    HandlerKind,
    HandlerRow,
    RunRow,
    TopicRow,
)

NUMBER_MAX: Final = 2**63 - 1
"""The largest that a database can be asked for."""


def _nothing(_doc: DocKey) -> Maybe:
    return ABSENT


class Book:
    """The tables, at one moment."""

    def __init__(self, tables: Tables, now: Millis, look: Callable[[DocKey], Maybe] = _nothing) -> None:
        self.tables = tables
        self.now = now
        self.look = look
        # Workflows whose status document has to follow.
        self.touched: dict[int, None] = {}
        # Topics that have something new, as (workflow, topic).
        self.published: dict[tuple[int, str], None] = {}
        # What is told of a run that has just been finished, by workflow.
        self.said: dict[int, str] = {}

    def execute(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """One statement."""
        return self.tables.execute(query, values)

    def change(self, query: str, *values: object) -> int:
        """One statement that writes; how many rows it changed."""
        self.tables.execute(query, values)
        return self.tables.changed

    def one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """The only row there can be."""
        found = self.tables.execute(query, values)
        return found[0] if found else None

    def touch(self, flow: int) -> None:
        """Its status has to follow."""
        self.touched[flow] = None

    # -- rows ----------------------------------------------------------------------------------------------

    def flow(self, flow_id: int) -> FlowRow:
        """A workflow that is known to be there."""
        return FlowRow(*self.execute(f"select {FLOW} from flow where id = ?", flow_id)[0])

    def flow_named(self, name: str) -> FlowRow | None:
        """A workflow, by its name in full."""
        row = self.one(f"select {FLOW} from flow where name = ?", name)
        return None if row is None else FlowRow(*row)

    def run(self, run_id: int) -> RunRow:
        """A run. Raises NotFoundError."""
        row = None if abs(run_id) > NUMBER_MAX else self.one(f"select {RUN} from flow_run where id = ?", run_id)
        if row is None:
            raise NotFoundError(f"there is no run {run_id}; `headwater runs ls` lists them", run=run_id)
        return RunRow(*row)

    def active(self, flow_id: int) -> RunRow | None:
        """The run of a workflow that is being executed."""
        row = self.one(f"select {RUN} from flow_run where flow = ? and status = 'active'", flow_id)
        return None if row is None else RunRow(*row)

    def call_of(self, run: RunRow) -> CallRow | None:
        """The call to the outside of a run, or of the one it goes on from."""
        row = self.one(f"select {CALL} from flow_call where run = ?", run.call)
        return None if row is None else CallRow(*row)

    def handler(self, flow_id: int, kind: HandlerKind, name: str) -> HandlerRow:
        """What is remembered of a handler."""
        query = f"select {HANDLER} from flow_handler where flow = ? and kind = ? and name = ?"
        return HandlerRow(*self.execute(query, flow_id, kind, name)[0])

    def handlers(self, flow_id: int) -> list[HandlerRow]:
        """Those of a workflow that are there."""
        query = f"select {HANDLER} from flow_handler where flow = ? and gone = 0"
        return [HandlerRow(*row) for row in self.execute(query, flow_id)]

    def topics(self, flow_id: int) -> dict[str, TopicRow]:
        """The topics of a workflow, by name."""
        rows = self.execute(f"select {TOPIC} from flow_topic where flow = ?", flow_id)
        return {row[2]: TopicRow(*row) for row in rows}

    def pending(self, topics: Sequence[int], limit: int) -> list[EventRow]:
        """The oldest events that wait, of several topics together."""
        if len(topics) == 1:
            # The index gives them in order.
            query = f"select {EVENT} from {FROM_EVENT} where topic = ? and status = 'pending' order by event.id limit ?"
            return [EventRow(*row) for row in self.execute(query, topics[0], limit)]
        found = [event for topic in topics for event in self.pending([topic], limit)]
        return sorted(found, key=lambda event: event.id)[:limit]

    def oldest(self, topics: Sequence[int]) -> int | None:
        """The oldest event that waits in any of these."""
        query = "select min(id) from flow_event where topic = ? and status = 'pending'"
        found = [self.execute(query, topic)[0][0] for topic in topics]
        return min((event for event in found if event is not None), default=None)

    def events_of(self, run: RunRow) -> list[EventRow]:
        """Those that a run holds."""
        query = f"select {EVENT} from {FROM_EVENT} where event.reserved_by = ? order by event.id"
        return [EventRow(*row) for row in self.execute(query, run.id)]
