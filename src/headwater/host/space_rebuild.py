"""A space built from an export with its past, in a new file that is verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

from headwater.errors import HeadwaterError, HistoryError, UsageError
from headwater.host.space_files import open_space
from headwater.host.system_clock import SystemClock
from headwater.host.whole_files import RefusalError
from headwater.store.backend import LogRow
from headwater.store.engine import Engine
from headwater.store.features import parse
from headwater.store.log_rebuild import append_rows, first_difference, row_batches
from headwater.store.portable import Header
from headwater.store.space_identity import ID_KEY
from headwater.store.verification import verify
from headwater.values.ids import Seq, SpaceId

Rows: TypeAlias = Callable[[], Iterator[LogRow]]
"""Reads the log from its start, as often as it is called."""

Progress: TypeAlias = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Shows the progress of the work with this title."""


def compare_past(path: Path, rows: Rows, last: Seq) -> tuple[Seq, SpaceId]:
    """The head and the id of a space that has the same past. A space with another past is never overwritten."""

    def compare(engine: Engine) -> Seq:
        try:
            differs = first_difference(engine, rows(), last)
        except HistoryError as error:
            first = error.facts["first"]
            raise RefusalError(f"{path} has forgotten its past up to {first}; import into a new file") from None
        if differs is not None:
            raise RefusalError(f"{path} has another past: its commit {differs} differs; import into a new file")
        return engine.head

    with open_space(str(path), create=False) as storage:
        return storage.call(compare), storage.identity.id


def build_space(part: Path, name: str, rows: Rows, header: Header, progress: Progress, *, space_id: str = "") -> None:
    """Write a new file with these commits, and verify it. Raises UsageError.

    It has this id, if given, and a lineage of its own: commits that followed in the earlier file may be missing.
    """
    clock = SystemClock()
    try:
        # The file is not in place yet: a power loss loses nothing, so no step waits for the disk.
        with open_space(str(part), name, durability="normal") as storage, progress("importing") as advance:
            if space_id:
                storage.call(lambda engine: engine.backend.set_meta(ID_KEY, space_id))
            for feature in parse(" ".join(header.features)):
                storage.call(lambda engine, feature=feature: engine.require(feature))  # type: ignore[misc]
            for batch in row_batches(rows()):
                storage.call(lambda engine, batch=batch: append_rows(engine, batch, clock))  # type: ignore[misc]
                advance(batch[-1].seq, header.seq)
        with open_space(str(part), create=False) as storage, progress("verifying") as advance:
            findings = storage.call(lambda engine: verify(engine, advance)).findings
    except HeadwaterError as error:
        raise UsageError(f"this log does not make a space: {error.message}", **error.facts) from error
    if findings:
        raise UsageError(f"this log does not make a space: {findings[0]}", findings=tuple(findings))
