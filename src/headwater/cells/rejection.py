"""The errors for commits that were rejected, or that the store could not decide."""

from __future__ import annotations

from headwater.errors import (
    ConflictError,
    HeadwaterError,
    PoisonedError,
    PreconditionError,
    RejectedError,
    UnconfirmedError,
)
from headwater.store.commit import Conflict, Refused, Verdict
from headwater.values.error_codes import class_of


def rejection(verdict: Verdict | None, error: HeadwaterError | None, space: str, name: str = "") -> HeadwaterError:
    """The error for a transaction that was not accepted, if no caller handles the verdict itself."""
    whose = f"transaction {name}" if name else "a transaction"
    if isinstance(verdict, Conflict):
        message = f"{whose} in space {space!r} was rejected: {verdict.reason}. Run it again on the current values"
        return ConflictError(message, doc=verdict.doc, path=verdict.path, seq=verdict.seq)
    if isinstance(verdict, Refused):
        return refusal(verdict, f"{whose} in space {space!r} was refused: ")
    if isinstance(error, UnconfirmedError | PoisonedError):
        message = f"it is not known whether {whose} in space {space!r} was stored: {error}"
        unknown = UnconfirmedError(
            f"{message}. Open the space again and read it before you repeat the write", error=error
        )
        unknown.__cause__ = error
        return unknown
    failed = RejectedError(f"{whose} in space {space!r} was not stored: {error}", error=error)
    failed.__cause__ = error
    return failed


def all_of(lost: list[HeadwaterError], space: str) -> HeadwaterError:
    """One error for several transactions, of the class of the first; an unknown outcome has precedence."""
    unknown = [each for each in lost if isinstance(each, UnconfirmedError)]
    first = (unknown or lost)[0]
    if len(lost) == 1:
        return first
    message = f"{len(lost)} transactions in space {space!r} were rejected"
    if unknown:
        message += f"; of {len(unknown)} of them it is not known whether they are stored"
    return type(first)(f"{message}. The first: {first.message}", **{**first.facts, "rejected": tuple(lost)})


def refusal(refused: Refused, prefix: str = "") -> HeadwaterError:
    """A refusal as an error of the class of its code.

    An unknown or missing code comes from a program of another version: then it is a RejectedError, or a
    PreconditionError if a precondition is named.
    """
    kind = class_of(refused.code)
    if kind is not None:
        return kind(prefix + refused.reason, doc=refused.doc)
    if refused.unmet is not None:
        return PreconditionError(prefix + refused.reason, doc=refused.doc)
    code = f" ({refused.code})" if refused.code else ""
    return RejectedError(prefix + refused.reason + code, doc=refused.doc, code=refused.code)
