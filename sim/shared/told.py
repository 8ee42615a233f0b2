"""Which errors a client may be told: those that the documents name for the faults of the plan (T)."""

from __future__ import annotations

from headwater.errors import (
    AccessError,
    OfflineError,
    PoisonedError,
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


def is_expected(  # noqa: C901, PLR0911  # one kind of error each
    plan: Plan, client: ClientNode, error: BaseException, *, is_revoked: bool, is_put_back: bool = False
) -> bool:
    """Whether the error is a documented one here. `is_put_back`: a backup of the space was restored."""
    if isinstance(error, RejectedError):
        # Clients conflict.
        return True
    if isinstance(error, UserCodeError):
        cause = error.__cause__
        if cause is None:
            # Commits of an earlier opening, which are in its folder; an event that was in conflict for 30 s.
            return (client.local and "commits" in error.facts) or (bool(plan.faults) and "tried for" in str(error))
        if isinstance(cause, StepError | UsageError):
            return True
        return is_expected(plan, client, cause, is_revoked=is_revoked, is_put_back=is_put_back)
    if isinstance(error, OfflineError):
        return bool(plan.faults) or is_put_back
    if isinstance(error, AccessError):
        # A space that does not exist yet is made by a client that may own it.
        return is_revoked or client.can != "own" or bool(client.reads_after)
    kinds = {type(fault).__name__ for fault in plan.faults}
    if isinstance(error, SessionLostError | UnconfirmedError):
        # The folder of the client may have failed.
        return is_revoked or is_put_back or (isinstance(error, UnconfirmedError) and client.local and "Eio" in kinds)
    if isinstance(error, StoreFullError):
        return client.local and "Full" in kinds
    if isinstance(error, UnavailableError):
        return client.local and bool(kinds & {"Full", "Eio"})
    if isinstance(error, PoisonedError):
        return client.local and "Eio" in kinds
    return False
