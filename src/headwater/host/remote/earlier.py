"""Telling of what an earlier run of the program has written, and what was taken back when this one was opened.

Must never know: connections, files.
"""

from __future__ import annotations

from headwater.cells.home import rejection
from headwater.cells.pending import Pending
from headwater.errors import HeadwaterError, UserCodeError
from headwater.host.report import OnError, tell
from headwater.store.commit import Commit, Verdict


class Earlier:
    """Of one opening. Each commit is told of once: to `on_error`, for nobody is there who waits for it."""

    def __init__(self, space: str, on_error: OnError) -> None:
        self._space = space
        self._on_error = on_error
        self.refused = 0

    def rejected(self, pending: Pending, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """The server has decided against it."""
        self.tell(pending.commit, rejection(verdict, error, self._space))

    def tell(self, commit: Commit, error: HeadwaterError) -> None:
        """It is not kept any more, and not stored, as far as anybody knows."""
        self.refused += 1
        docs = ", ".join(dict.fromkeys(operation.doc for operation in commit.operations))
        message = (
            f"what an earlier run of this program has written to {docs or 'nothing'} in space {self._space!r} was "
            f"taken back: {error.message}"
        )
        told = UserCodeError(message, space=self._space, commit=commit.local_seq, event=None, triggers=())
        told.__cause__ = error
        tell(self._on_error, told)
