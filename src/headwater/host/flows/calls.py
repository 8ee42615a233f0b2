"""Calls to the outside as they are kept: which operation one is of, and whether somebody can be asked about it.

Must never know: when they are made.
"""

from __future__ import annotations

from typing import Any

from headwater.host.flows.connector import Operation
from headwater.host.flows.declared import Declared, Producer
from headwater.values.codec import encode
from headwater.workflow.model import CallRow


def own_operation(handler: Declared) -> str:
    """What a class that acts itself calls."""
    return f"{handler.name}.mutate"


def operation_of(handler: Declared, name: str) -> Operation[..., Any] | None:
    """The operation of that name, of those that a handler uses."""
    return next((c.operations[name] for c in handler.uses if name in c.operations), None)


def can_reconcile(handler: Declared | Producer, call: CallRow | None) -> bool:
    """Somebody can be asked what became of a call."""
    if not isinstance(handler, Declared) or call is None:
        return False
    operation = operation_of(handler, call.operation)
    return handler.has_reconcile if operation is None else operation.reconciler is not None


def answered_bytes(handler: Declared | Producer, call: CallRow | None, result: object) -> bytes:
    """What a reconciliation found, as it is kept."""
    assert isinstance(handler, Declared)
    assert call is not None
    operation = operation_of(handler, call.operation)
    sealed = handler.types.result if operation is None else operation.result
    return encode(sealed.seal(result))
