"""A group of commits that is written while the next one is decided, and the outcomes of a group."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.host.disk_writer import DiskWrite
from headwater.runtime.attached_replica import Decided
from headwater.store.commit import Commit, CommitEntry, CommitOutcome, Committed, Submission
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.values.ids import Seq

DURING_FOLD_MAX: Final = 16
"""Groups that may be decided while a fold is being written. It takes as long as deciding some tens of them: a caller
would wait for all of it."""


class WrittenGroup(NamedTuple):
    """A decided group whose rows are being written."""

    submissions: list[Submission]
    outcomes: Decided
    # The newest commit of it.
    head: Seq
    write: DiskWrite


class LostGroupError(Exception):
    """The disk did not accept a group after the next one was decided: both are decided again."""


def groups_to_leave(written: Sequence[WrittenGroup]) -> int:
    """The number of groups that need not have ended before the next one is decided.

    One; but more while a fold is being written, and after it fewer with each group.
    """
    oldest = written[0].write
    if oldest.is_long and not oldest.is_ended:
        return DURING_FOLD_MAX
    return max(1, len(written) - 2)


def queue_again(waiting: deque[Submission], group: list[Submission], written: Sequence[WrittenGroup]) -> None:
    """The oldest written group is lost, and what was decided since started from commits that do not exist.

    Its submissions wait again, in their order. None leaves a place before it is in the next.
    """
    for later in (group, *(each.submissions for each in reversed(written[1:]))):
        while later:
            waiting.appendleft(later[-1])
            later.pop()


def notify_table_transactions(group: Sequence[Submission], outcomes: Decided) -> None:
    """Pass the outcomes of a group to its table transactions."""
    for submission, decided in zip(group, outcomes, strict=True):
        if submission.table_transaction is None:
            continue
        if isinstance(decided, CommitOutcome):
            submission.table_transaction.decided(decided.verdict, None)
        else:
            submission.table_transaction.decided(None, decided.error)


def outcomes_in_log(engine: Engine, after: Seq) -> Decided:
    """The outcomes of later commits, as the log alone has them."""
    found: Decided = []
    shifts = engine.collections.shifts_in_log(after)
    for row in engine.backend.log(after, engine.head):
        entry = read_entry(row)
        if isinstance(entry, CommitEntry):
            commit = Commit(entry.session, entry.local_seq, entry.operations, branch=entry.branch)
            found.append(CommitOutcome(commit, Committed(row.seq), shifts=shifts.get(row.seq, ())))
    return found
