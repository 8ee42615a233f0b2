"""Which errors a client may be told: those that the documents name for the faults of the plan (T)."""

from __future__ import annotations

from headwater.errors import (
    AccessError,
    OfflineError,
    RejectedError,
    SessionLostError,
    StoreFullError,
    UnavailableError,
    UnconfirmedError,
    UsageError,
    UserCodeError,
)
from sim.plan import Plan
from sim.shared.shared_app import StepError
from sim.shared.workload import ClientNode


def is_expected(plan: Plan, client: ClientNode, error: BaseException, *, is_revoked: bool) -> bool:
    """Whether the error is a documented one here."""
    if isinstance(error, RejectedError):
        # Clients conflict.
        return True
    if isinstance(error, UserCodeError):
        return isinstance(error.__cause__, StepError | UsageError)
    if isinstance(error, OfflineError):
        return bool(plan.faults)
    if isinstance(error, AccessError):
        return is_revoked or client.can == "read"
    if isinstance(error, SessionLostError | UnconfirmedError):
        return is_revoked
    kinds = {type(fault).__name__ for fault in plan.faults}
    if isinstance(error, StoreFullError):
        return client.local and "Full" in kinds
    if isinstance(error, UnavailableError):
        return client.local and bool(kinds & {"Full", "IoError"})
    return False
