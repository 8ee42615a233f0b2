"""Reporting commits of an earlier run of the program that were rejected when this run opened the space."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headwater.client.rejected_commits import RejectedCommit, summary_of
from headwater.errors import UserCodeError
from headwater.runtime.error_report import OnError, tell

FIRST_MAX: Final = 3
"""Commits named in the message. The file has all of them."""


class EarlierCommits:
    """The report of one opening. Each commit is reported once, to `on_error`: no caller waits for it."""

    def __init__(self, space: str, on_error: OnError) -> None:
        self._space = space
        self._on_error = on_error
        self.refused = 0

    def tell(self, refusals: list[RejectedCommit], path: Path) -> None:
        """Report rejected commits in one call; their contents are in the file."""
        count = len(refusals)
        self.refused += count
        first = tuple(summary_of(each.commit) for each in refusals[:FIRST_MAX])
        named = "; ".join(first) + ("; ..." if count > FIRST_MAX else "")
        what = "1 commit" if count == 1 else f"{count:,} commits"
        cause = refusals[0].why
        message = (
            f"{what} of an earlier run of this program in space {self._space!r} {'was' if count == 1 else 'were'} "
            f"rejected ({named}): {cause.message}. What they were to write is in {path}"
        )
        told = UserCodeError(
            message,
            space=self._space,
            commits=count,
            commit=refusals[0].commit.local_seq,
            first=first,
            path=str(path),
            event=None,
            triggers=(),
        )
        told.__cause__ = cause
        tell(self._on_error, told)
