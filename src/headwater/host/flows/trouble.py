"""Which class a failure is of: told by what was raised, where it was raised, and never by what it says.

Must never know: what follows from it.
"""

from __future__ import annotations

from headwater.errors import ApprovalError, InternalError, InvariantError, TransientError
from headwater.values.describe import message_of
from headwater.workflow.model import Trouble


class LateError(TransientError):
    """A phase took longer than it may."""


def kind_of(error: BaseException, on: tuple[type[BaseException], ...]) -> Trouble:
    """Which class an error is of."""
    match error:
        case LateError():
            return Trouble.TRANSIENT
        case _ if on and isinstance(error, on):
            return Trouble.TRANSIENT
        case TransientError():
            return Trouble.TRANSIENT
        case ApprovalError():
            return Trouble.AUTH
        case InternalError() | InvariantError():
            return Trouble.INTERNAL
        case _:
            return Trouble.LOGIC


def text_of(error: BaseException) -> str:
    """What went wrong, for people: also if the error cannot say it."""
    return message_of(error)
