"""A group of commits that is written while the next one is decided, and the outcomes of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.host.disk_writer import DiskWrite
from headwater.runtime.attached_replica import Decided
from headwater.store.backend import Backend
from headwater.store.commit import Commit, CommitEntry, CommitOutcome, Committed, Submission
from headwater.store.document import read_entry
from headwater.values.ids import Seq


class WrittenGroup(NamedTuple):
    """A decided group whose rows are being written."""

    submissions: list[Submission]
    outcomes: Decided
    # The newest commit of it.
    head: Seq
    write: DiskWrite


class LostGroupError(Exception):
    """The disk did not accept a group after the next one was decided: both are decided again."""


def notify_table_transactions(group: Sequence[Submission], outcomes: Decided) -> None:
    """Pass the outcomes of a group to its table transactions."""
    for submission, decided in zip(group, outcomes, strict=True):
        if submission.table_transaction is None:
            continue
        if isinstance(decided, CommitOutcome):
            submission.table_transaction.decided(decided.verdict, None)
        else:
            submission.table_transaction.decided(None, decided.error)


def outcomes_in_log(backend: Backend, after: Seq, through: Seq) -> Decided:
    """The outcomes of commits, as the log alone has them."""
    found: Decided = []
    for row in backend.log(after, through):
        entry = read_entry(row)
        if isinstance(entry, CommitEntry):
            commit = Commit(entry.session, entry.local_seq, entry.operations, branch=entry.branch)
            found.append(CommitOutcome(commit, Committed(row.seq)))
    return found
