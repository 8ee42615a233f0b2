"""The log's tail at open: the commits that the caches do not know yet, each checked to be the one that was written.

Must never know: what becomes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from headwater.errors import CorruptError
from headwater.store.backend import Backend, Horizon, LogRow
from headwater.store.commit import Entry
from headwater.store.document import read_entry
from headwater.values.ids import Seq


def unfolded(backend: Backend, folded: Seq, head: Seq, start: Horizon) -> Iterator[tuple[LogRow, Entry]]:
    """Rows after the last fold, decoded. `start` is what the first row of the whole log is linked to."""
    if folded > head:
        message = f"the log ends with commit {head}, but commit {folded} was there: the newest commits are missing"
        raise CorruptError(message, seq=head, folded=folded)
    before = start
    if folded > start.seq:
        row = backend.row(folded)
        if row is None:
            raise CorruptError(f"commit {folded} is missing from the log", seq=folded)
        before = Horizon(row.seq, row.chain)
    seq, chain = before.seq, before.chain
    for row in backend.log(folded, head):
        if row.seq != seq + 1 or row.chain != sha256(chain + row.body).digest():
            message = f"commit {row.seq} does not follow commit {seq}: the log was changed, or lost commits between"
            raise CorruptError(message, seq=row.seq)
        seq, chain = row.seq, row.chain
        yield row, read_entry(row)
