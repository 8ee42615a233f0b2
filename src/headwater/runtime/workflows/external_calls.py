"""Stored external calls: the operation of each, and whether it can be reconciled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwater.cells.space_port import SpacePort
from headwater.declare.workflows.handler_specs import ConsumerDeclaration, Producer, answered_bytes, operation_of
from headwater.declare.workflows.plan import Applied, NotApplied
from headwater.declare.workflows.run_handle import Run
from headwater.errors import HeadwaterError, InvariantError, StoreError, TransitionError
from headwater.runtime.workflows.hub import Hub
from headwater.workflow import transitions
from headwater.workflow.rows import CallRow


def own_operation(handler: ConsumerDeclaration) -> str:
    """The operation of a consumer class that acts itself."""
    return f"{handler.name}.mutate"


def can_reconcile(handler: ConsumerDeclaration | Producer, call: CallRow | None) -> bool:
    """Whether a call can be reconciled."""
    return call is not None and reconciles(handler, call.operation)


def reconciles(handler: ConsumerDeclaration | Producer, name: str) -> bool:
    """Whether calls of an operation can be reconciled."""
    if not isinstance(handler, ConsumerDeclaration):
        return False
    if handler.lost != "reconcile":
        return handler.lost == "same_call"
    operation = operation_of(handler, name)
    return handler.has_reconcile if operation is None else operation.reconciler is not None


def is_sent_again(handler: ConsumerDeclaration | Producer) -> bool:
    """Whether a lost call of a handler is sent again, under its key."""
    return isinstance(handler, ConsumerDeclaration) and handler.lost == "same_call"


def stored_call(handler: ConsumerDeclaration, call: CallRow, space: SpacePort, run: Run) -> Callable[[], object] | None:
    """The stored call of a connector, to be sent again. None: the class acts itself."""
    operation = operation_of(handler, call.operation)
    if operation is None:
        return None
    named = operation.stored_arguments(space, call.params, call.key)
    run.mutation_call = (operation, (), named)
    return partial(operation.fn, **named)


def settle(hub: Hub, handler: ConsumerDeclaration | Producer, call: CallRow | None, answer: object) -> str | None:
    """Store the result of a reconciliation. Returns None if the outcome is known now, otherwise why not.

    Raises TransitionError if the outcome was known already: the first answer counts.
    """
    assert call is not None
    run_id = call.run
    match answer:
        case Applied():
            try:
                kept = answered_bytes(handler, call, answer.result)
            except (InvariantError, StoreError, TransitionError):
                raise
            except HeadwaterError as misfit:
                return misfit.message
            hub.do(lambda tables: transitions.applied(tables, run_id, kept, "reconciliation"))
            return None
        case NotApplied():
            error = answer.reason or "it was looked up, and did not happen"
            hub.do(lambda tables: transitions.not_applied(tables, run_id, error, "reconciliation"))
            return None
        case _:
            return getattr(answer, "reason", "") or "it cannot tell yet"
