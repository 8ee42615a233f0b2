"""Rebuilding a space from an exported log: check the rows, compare them with existing ones, append the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from headwater.errors import HistoryError, UsageError
from headwater.store.backend import LogRow
from headwater.store.engine import Engine
from headwater.store.portable import parse_log
from headwater.values.ids import Seq
from headwater.values.seams import Clock

_ROWS_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 8 * 1024 * 1024
"""The size of a batch between two folds: unfolded rows are in memory."""


def check_log(lines: Iterable[str], last: Seq) -> Iterator[LogRow]:
    """The rows, which must be complete and in order, up to `last`. The header line is not part of `lines`."""
    seq = 0
    for row in parse_log(lines):
        if row.seq != seq + 1:
            message = f"commit {row.seq} follows commit {seq}: lines are missing, twice there, or out of order"
            raise UsageError(message, line=seq + 2)
        seq = row.seq
        yield row
    if seq != last:
        raise UsageError(f"the export is cut off: it ends with commit {seq}, its first line announces {last}", seq=seq)


def first_difference(engine: Engine, rows: Iterable[LogRow], last: Seq) -> Seq | None:
    """The first commit that differs between this space and the log; None if one continues the other."""
    horizon = engine.documents.horizon
    if horizon.seq > last:
        message = f"the space has forgotten its past up to {horizon.seq}, the log ends at {last}"
        raise HistoryError(message, first=horizon.seq, last=last)
    for row in rows:
        if row.seq > engine.head:
            break
        mine = engine.backend.row(row.seq)
        chain = horizon.chain if row.seq == horizon.seq else mine.chain if mine is not None else row.chain
        if chain != row.chain:
            return row.seq
    return None


def append_rows(engine: Engine, rows: list[LogRow], clock: Clock) -> None:
    """Append rows to the log and fold them, with a new engine. This engine must not be used afterwards."""
    engine.backend.append(rows, None)
    Engine(engine.backend, clock).fold()


def row_batches(rows: Iterable[LogRow]) -> Iterator[list[LogRow]]:
    """Rows in groups that fit in memory."""
    batch: list[LogRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row.body)
        if len(batch) >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
