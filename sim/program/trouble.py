"""Which errors may reach the workload of a program, by the faults of its plan."""

from __future__ import annotations

from types import ModuleType

from headwater.errors import (
    ClosedError,
    ConflictError,
    EventFailedError,
    EventRefusedError,
    EventRejectedError,
    EventReusedError,
    EventTimeoutError,
    MergeConflictError,
    NotFoundError,
    NotReadyError,
    PoisonedError,
    Reject,
    RejectedError,
    StoreError,
    UnavailableError,
    UnconfirmedError,
    UsageError,
    UserCodeError,
)
from sim.faults import Eio, Full, KillInIo, Pause, SlowDisk
from sim.plan import Plan
from sim.program.operations import RESULT_S

_OUTCOMES = (EventFailedError, EventRefusedError, EventRejectedError, EventReusedError)


def is_told(plan: Plan, error: BaseException, module: ModuleType) -> bool:  # noqa: PLR0911  # rule by rule
    """Whether the documents name this error for what the plan does."""
    if isinstance(error, UserCodeError) and "could not be stored" in error.message and error.__cause__ is not None:
        # A function without an earlier result: its callers are told what the store said.
        return is_told(plan, error.__cause__, module)
    odd = getattr(module, "Odd", ValueError)
    if isinstance(error, (ValueError, KeyError, Reject, odd, *_OUTCOMES, NotReadyError)) and type(error).__module__ in (
        "builtins",
        "headwater.errors",
        module.__name__,
    ):
        return True
    if isinstance(error, ConflictError | RejectedError | MergeConflictError):
        return True
    if isinstance(error, NotFoundError):
        # An event for a piece that another thread has stopped.
        return "stopped" in str(error) or "piece" in str(error)
    if isinstance(error, UsageError) and "async" in plan.features:
        # Its coroutine would have to be awaited inside of the transaction.
        return "is async and cannot be called in a transaction that has written" in str(error)
    kinds = {type(fault) for fault in plan.faults}
    if isinstance(error, EventTimeoutError):
        # Others may change the inputs of a function that waits for a pause, again and again. And the time of a caller
        # goes on while its process is stopped.
        paused = sum(fault.seconds for fault in plan.faults if isinstance(fault, Pause))
        return bool(kinds & {Full, Eio, SlowDisk}) or "gates" in plan.features or paused > RESULT_S / 2
    if isinstance(error, UnavailableError | UnconfirmedError | OSError):
        return bool(kinds & {Full, Eio, KillInIo})
    if isinstance(error, PoisonedError | ClosedError | StoreError):
        return Eio in kinds
    return False


def is_over(error: BaseException) -> bool:
    """Whether the opening has to be closed and opened again."""
    found = error.__cause__ if isinstance(error, UserCodeError) else error
    return isinstance(found, PoisonedError | ClosedError | UnconfirmedError)
