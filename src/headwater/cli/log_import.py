"""Import of an export with its past: the space is built in a new file, verified, then put in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from headwater.cli.copy_actions import replace_space
from headwater.cli.exits import RefusalError
from headwater.cli.output import progress
from headwater.cli.target import Target
from headwater.cli.whole_files import unfinished
from headwater.errors import HeadwaterError, HistoryError, NotFoundError, UsageError
from headwater.host.space_files import open_space as open_file
from headwater.host.system_clock import SystemClock
from headwater.store.backend import LogRow
from headwater.store.engine import Engine
from headwater.store.features import parse
from headwater.store.log_rebuild import append_rows, first_difference, row_batches
from headwater.store.portable import Header
from headwater.store.verification import verify
from headwater.values.ids import NEVER, Seq

Rows: TypeAlias = Callable[[], Iterator[LogRow]]
"""Reads the log from its start, as often as it is called."""


def rebuild_space(header: Header, rows: Rows, target: Target, *, create: bool) -> tuple[Seq, int]:
    """The head of the space afterwards, and how many commits of the log it did not have before."""
    found = target.file_for(header.space)
    path = found.path
    head = NEVER
    if path.exists():
        head = _compare(path, rows, header.seq)
    elif not create:
        raise NotFoundError(f"there is no space at {path}, and --no-create says not to make one", path=str(path))
    if head < header.seq or not path.exists():
        with unfinished(target.make_folder()) as part:
            _build(part, found.space, rows, header)
            replace_space(part, path)
    return max(header.seq, head), max(header.seq - head, 0)


def _compare(path: Path, rows: Rows, last: Seq) -> Seq:
    """The head of a space that has the same past. A space with another past is never overwritten."""

    def compare(engine: Engine) -> Seq:
        try:
            differs = first_difference(engine, rows(), last)
        except HistoryError as error:
            first = error.facts["first"]
            raise RefusalError(f"{path} has forgotten its past up to {first}; import into a new file") from None
        if differs is not None:
            raise RefusalError(f"{path} has another past: its commit {differs} differs; import into a new file")
        return engine.head

    with open_file(str(path), create=False) as storage:
        return storage.call(compare)


def _build(part: Path, name: str, rows: Rows, header: Header) -> None:
    clock = SystemClock()
    try:
        # Nothing is lost by a power cut before it is put in place: no need to wait for the disk at every step.
        with open_file(str(part), name, durability="normal") as storage, progress("importing") as advance:
            for feature in parse(" ".join(header.features)):
                storage.call(lambda engine, feature=feature: engine.require(feature))  # type: ignore[misc]
            for batch in row_batches(rows()):
                storage.call(lambda engine, batch=batch: append_rows(engine, batch, clock))  # type: ignore[misc]
                advance(batch[-1].seq, header.seq)
        with open_file(str(part), create=False) as storage, progress("verifying") as advance:
            findings = storage.call(lambda engine: verify(engine, advance)).findings
    except HeadwaterError as error:
        raise UsageError(f"this log does not make a space: {error.message}", **error.facts) from error
    if findings:
        raise UsageError(f"this log does not make a space: {findings[0]}", findings=tuple(findings))
