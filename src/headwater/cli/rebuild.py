"""A space made again from its exported log: built beside, verified, then put in place.

Must never know: where the lines come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.cli.exits import RefusalError
from headwater.cli.files import unfinished
from headwater.cli.output import progress
from headwater.errors import HeadwaterError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from headwater.store.backend import LogRow
    from headwater.store.engine import Engine
    from headwater.store.portable import Header
    from headwater.values.ids import Seq

    Rows = Callable[[], Iterator[LogRow]]
    """Reads the log from its start, as often as it is called."""

_ROWS_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 8 * 1024 * 1024
"""Of a log, between two folds: what is not folded is held in memory."""


def check_log(lines: Iterable[str], last: Seq) -> Iterator[LogRow]:
    """The rows, which must be all there, in order, up to `last`. The first line, the header, was taken off."""
    from headwater.store.portable import parse_log

    seq = 0
    for row in parse_log(lines):
        if row.seq != seq + 1:
            message = f"commit {row.seq} follows commit {seq}: lines are missing, twice there, or out of order"
            raise UsageError(message, line=seq + 2)
        seq = row.seq
        yield row
    if seq != last:
        raise UsageError(f"the export is cut off: it ends with commit {seq}, its first line announces {last}", seq=seq)


def rebuild_space(header: Header, rows: Rows, url: str | None, space: str | None, *, create: bool) -> tuple[Seq, int]:
    """Where the space is afterwards, and how many commits of the log it did not have before."""
    from headwater.cli.copies import folder_of, locate_space, replace_space
    from headwater.host.opening import default_url
    from headwater.values.ids import NEVER

    url = url if url is not None else default_url()
    target = locate_space(url, space, header.space)
    path = target.path
    head = NEVER
    if path.exists():
        head = _compare(path, rows, header.seq)
    elif not create:
        raise NotFoundError(f"there is no space at {path}, and --no-create says not to make one", path=str(path))
    if head < header.seq or not path.exists():
        with unfinished(folder_of(url, space)) as part:
            _build(part, target.space, rows, header.seq)
            replace_space(part, path)
    return max(header.seq, head), max(header.seq - head, 0)


def _compare(path: Path, rows: Rows, last: Seq) -> Seq:
    """How far a space is that has the same past. Another one is never overwritten."""
    from headwater.host.opening import open_space

    def compare(engine: Engine) -> Seq:
        horizon = engine.documents.horizon
        if horizon.seq > last:
            raise RefusalError(f"{path} has forgotten its past up to {horizon.seq}; import into a new file")
        for row in rows():
            if row.seq > engine.head:
                break
            mine = engine.backend.row(row.seq)
            chain = horizon.chain if row.seq == horizon.seq else mine.chain if mine is not None else row.chain
            if chain != row.chain:
                raise RefusalError(f"{path} has another past: its commit {row.seq} differs; import into a new file")
        return engine.head

    with open_space(str(path), create=False) as storage:
        return storage.call(compare)


def _build(part: Path, name: str, rows: Rows, total: Seq) -> None:
    from headwater.host.opening import open_space
    from headwater.store.verify import verify

    try:
        # Nothing is lost by a power cut before it is put in place: no need to wait for the disk at every step.
        with open_space(str(part), name, durability="normal") as storage, progress("importing") as advance:
            for batch in _batches(rows()):
                storage.call(lambda engine, batch=batch: _append(engine, batch))  # type: ignore[misc]
                advance(batch[-1].seq, total)
        with open_space(str(part), create=False) as storage, progress("verifying") as advance:
            findings = storage.call(lambda engine: verify(engine, advance)).findings
    except HeadwaterError as error:
        raise UsageError(f"this log does not make a space: {error.message}", **error.facts) from error
    if findings:
        raise UsageError(f"this log does not make a space: {findings[0]}", findings=tuple(findings))


def _append(engine: Engine, batch: list[LogRow]) -> None:
    """Rows into the log, and the caches after them: by an engine that has just read them."""
    from headwater.host.clock import SystemClock

    engine.backend.append(batch, None)
    type(engine)(engine.backend, SystemClock()).fold()


def _batches(rows: Iterable[LogRow]) -> Iterator[list[LogRow]]:
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
