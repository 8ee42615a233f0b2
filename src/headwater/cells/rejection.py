"""The errors for commits that did not land: a verdict, or the error of a store, as what an author catches.

Must never know: who is told, and when.
"""

from __future__ import annotations

from headwater.errors import ConflictError, HeadwaterError, PreconditionError, RejectedError, class_of
from headwater.store.commit import Conflict, Refused, Verdict


def rejection(verdict: Verdict | None, error: HeadwaterError | None, space: str, name: str = "") -> HeadwaterError:
    """The error for a transaction that did not land, where no caller takes the verdict itself."""
    whose = f"transaction {name}" if name else "a transaction"
    if isinstance(verdict, Conflict):
        message = f"{whose} in space {space!r} was taken back: {verdict.reason}. Do it again on what is there now"
        return ConflictError(message, doc=verdict.doc, path=verdict.path, seq=verdict.seq)
    if isinstance(verdict, Refused):
        return refusal(verdict, f"{whose} in space {space!r} was refused: ")
    failed = RejectedError(f"{whose} in space {space!r} was not stored: {error}", error=error)
    failed.__cause__ = error
    return failed


def refusal(refused: Refused, prefix: str = "") -> HeadwaterError:
    """A refusal as an error of the class that its code names.

    A code that this version does not know, or none, comes from a program of another version: then it is a
    RejectedError, or PreconditionError if a precondition is named.
    """
    kind = class_of(refused.code)
    if kind is not None:
        return kind(prefix + refused.reason, doc=refused.doc)
    if refused.unmet is not None:
        return PreconditionError(prefix + refused.reason, doc=refused.doc)
    code = f" ({refused.code})" if refused.code else ""
    return RejectedError(prefix + refused.reason + code, doc=refused.doc, code=refused.code)
