"""The stored values of a run in the types of its author: events, state, data, and the outcome of the call."""

from __future__ import annotations

from typing import Any

from headwater.cells.detached_value import DetachedValue
from headwater.declare.workflows.consumer import Consumer
from headwater.declare.workflows.handler_specs import ConsumerDeclaration, operation_of
from headwater.declare.workflows.plan import Applied, Event, Nothing, Skipped, moment
from headwater.declare.workflows.run_handle import Run
from headwater.runtime.workflows.hub import Hub
from headwater.runtime.workflows.run_host import RunHost
from headwater.values.codec import decode, encode
from headwater.values.tree import ABSENT, Maybe
from headwater.workflow.rows import CallRow, EffectOutcome, EventRow, RunRow
from headwater.workflow.transitions import Begun


class Values:
    """The values of one run."""

    hub: Hub
    space: RunHost
    begun: Begun
    row: RunRow
    run: Run
    # The plan, as it was made here or was stored.
    plan: Maybe = ABSENT
    # The operation that was called: known if it was called here.
    operation: str = ""

    def _call_row(self) -> CallRow | None:
        return self.hub.look(lambda tables: tables.call_of(tables.run(self.row.id)))

    def _open(self, sealed: DetachedValue, kept: bytes) -> Any:  # noqa: ANN401  # of the author's type
        return sealed.from_tree(self.space, self.space.untracked, decode(kept))

    def _state(self, sealed: DetachedValue, default: bytes | None) -> Any:  # noqa: ANN401  # likewise
        kept = default if self.begun.state is None else self.begun.state
        return None if kept is None else self._open(sealed, kept)

    def _data(self, handler: ConsumerDeclaration) -> Any:  # noqa: ANN401  # likewise
        if self.plan is ABSENT:
            self.plan = decode(self.row.prepare_result or encode(None))
        # Loaded once for all phases, unless it follows links: then each phase reads what they refer to.
        return handler.types.data.from_tree(self.space, self.space.untracked, self.plan)

    def _outcome(self, handler: ConsumerDeclaration) -> Applied[Any] | Skipped | Nothing:
        match self.row.outcome:
            case EffectOutcome.APPLIED:
                operation = operation_of(handler, self._operation())
                sealed = handler.types.result if operation is None else operation.result
                return Applied(self._open(sealed, self.row.mutation_result or encode(None)))
            case EffectOutcome.SKIPPED:
                return Skipped()
            case _:
                return Nothing()

    def _operation(self) -> str:
        """The operation that was called: by this run, or by the run that it continues from."""
        if not self.operation:
            call = self._call_row()
            self.operation = call.operation if call is not None else ""
        return self.operation

    def _consumer(self, handler: ConsumerDeclaration) -> Consumer[Any, Any, Any]:
        """A new object of the author's class, for this run."""
        consumer = handler.kind()
        consumer.run = self.run
        consumer.state = self._state(handler.types.state, handler.types.default)
        return consumer

    def _event(self, handler: ConsumerDeclaration, row: EventRow) -> Event[Any]:
        topic = handler.topics[row.topic]
        space, payload = self.space, row.payload
        return Event(
            row.id,
            row.message,
            row.topic,
            row.attempt,
            moment(row.created_at),
            lambda: topic.load_payload(space, payload),
        )
